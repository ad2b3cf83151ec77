//! `anti-nvm`: DRAM is a cache of PMem. What is in DRAM has its slot in PMem, too.

use terrace_policy::{Access, Histogram, Now, SlotId, Thresholds, Tier as Name};

use super::cold::Cold;
use super::policy::AnyGate;
use super::run::Placement;
use super::store::Counts;
use super::tier::Tier;
use crate::rng::Rng;

const SAMPLES: u32 = 4096;

/// Where a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// In PMem, and maybe a copy in DRAM.
    Pmem(SlotId, Option<SlotId>),
    Ssd,
}

/// See the module.
pub(super) struct Inclusive {
    dram: Tier,
    pmem: Tier,
    cold: Cold,
    gate: AnyGate,
    places: Vec<Place>,
    thresholds: Thresholds,
    samples: Rng,
    counts: Counts,
}

impl Inclusive {
    pub(super) fn new(dram: Tier, pmem: Tier, cold: Cold, gate: AnyGate, records: u32) -> Self {
        Self {
            dram,
            pmem,
            cold,
            gate,
            places: vec![Place::Ssd; records as usize],
            thresholds: Thresholds::default(),
            samples: Rng::new(0, 3),
            counts: Counts::default(),
        }
    }
    fn admits(&mut self, name: Name, access: Access, now: Now) -> bool {
        let tier = if name == Name::Dram { &mut self.dram } else { &mut self.pmem };
        let count = tier.policy.count(access, now);
        let rival =
            if self.gate.compares() { tier.rival(now).map(|slot| tier.count(slot, now)) } else { None };
        let admitted = self.gate.admits(name, count, rival, &self.thresholds);
        if self.gate.compares() && !admitted {
            tier.passed();
        }
        admitted
    }
    /// Copies a record of PMem to DRAM; the copy that has to go for it is simply dropped.
    fn copy_up(&mut self, record: u32, slot: SlotId, access: Access, now: Now) {
        if let Some(victim) = self.dram.rival(now) {
            let old = self.dram.record(victim) as usize;
            self.dram.remove(victim, true);
            if let Place::Pmem(home, _) = self.places[old] {
                self.places[old] = Place::Pmem(home, None);
            }
            self.counts.moves_down += 1;
        }
        self.places[record as usize] = Place::Pmem(slot, self.dram.insert(record, access));
    }
    fn enter_pmem(&mut self, record: u32, access: Access, now: Now) -> Option<SlotId> {
        if let Some(victim) = self.pmem.rival(now) {
            let (old, word) = (self.pmem.record(victim), self.pmem.access(victim));
            if let Place::Pmem(_, Some(copy)) = self.places[old as usize] {
                self.dram.remove(copy, false);
            }
            self.pmem.remove(victim, true);
            self.cold.arrived(&*self.pmem.policy, old, word, now);
            self.places[old as usize] = Place::Ssd;
            self.counts.moves_down += 1;
        }
        let slot = self.pmem.insert(record, access)?;
        self.places[record as usize] = Place::Pmem(slot, None);
        Some(slot)
    }
}

impl Placement for Inclusive {
    fn get(&mut self, record: u32, now: Now) {
        self.counts.gets += 1;
        match self.places[record as usize] {
            Place::Pmem(home, Some(copy)) => {
                self.counts.dram_hits += 1;
                self.dram.touch(copy, now);
                self.pmem.touch(home, now);
            }
            Place::Pmem(home, None) => {
                self.counts.pmem_hits += 1;
                self.pmem.touch(home, now);
                let access = self.pmem.access(home).with_seen(0);
                if self.admits(Name::Dram, access, now) {
                    self.counts.moves_up += 1;
                    self.copy_up(record, home, access, now);
                }
            }
            Place::Ssd => {
                let access = self.cold.touched(&*self.pmem.policy, record, now);
                if self.admits(Name::Pmem, access, now) {
                    self.counts.moves_up += 1;
                    self.enter_pmem(record, access, now);
                }
            }
        }
    }
    fn set(&mut self, record: u32, now: Now) {
        let (home, access) = match self.places[record as usize] {
            Place::Pmem(home, Some(copy)) => {
                self.dram.touch(copy, now);
                return self.pmem.touch(home, now);
            }
            Place::Pmem(home, None) => {
                self.pmem.touch(home, now);
                (Some(home), self.pmem.access(home).with_seen(0))
            }
            Place::Ssd => {
                let access = self.cold.touched(&*self.pmem.policy, record, now);
                (self.enter_pmem(record, access, now), access)
            }
        };
        if let Some(home) = home {
            self.copy_up(record, home, access, now);
        }
    }
    fn sample(&mut self, now: Now) {
        let records = self.places.len() as f64;
        let mut histogram = Histogram::default();
        for _ in 0..SAMPLES.min(self.places.len() as u32) {
            let record = self.samples.below(self.places.len() as u64) as u32;
            histogram.add(match self.places[record as usize] {
                Place::Pmem(home, _) => self.pmem.count(home, now),
                Place::Ssd => self.cold.count(&*self.pmem.policy, record, now),
            });
        }
        let (dram, pmem) = (f64::from(self.dram.slots()), f64::from(self.pmem.slots()));
        // PMem holds DRAM's records, too: both together hold no more than PMem.
        self.thresholds = histogram.thresholds(dram / records, (pmem - dram).max(0.0) / records);
        self.dram.policy.set_thresholds(self.thresholds);
        self.pmem.policy.set_thresholds(self.thresholds);
    }
    fn halve(&mut self) {
        self.cold.halve();
    }
    fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }
}

#[cfg(test)]
mod tests {
    use terrace_policy::Lru;

    use super::super::policy::of_slots;
    use super::*;

    /// One copy in DRAM, two slots in PMem, LRU. What is in DRAM has its slot in PMem, and goes with it.
    #[test]
    fn dram_is_a_cache_of_pmem() {
        const NOW: Now = Now { tick: 0, epoch: 0, fine: 0 };
        let tier = |slots| Tier::new(of_slots(Lru, slots), slots, true);
        let mut store = Inclusive::new(tier(1), tier(2), Cold::table(4), AnyGate::Everyone, 4);
        let copied = |store: &Inclusive| {
            let is_copied = |&record: &usize| matches!(store.places[record], Place::Pmem(_, Some(_)));
            (0..4).filter(is_copied).collect::<Vec<_>>()
        };
        let in_pmem = |store: &Inclusive| {
            (0..4).filter(|&record| store.places[record] != Place::Ssd).collect::<Vec<_>>()
        };
        store.set(0, NOW); // a slot in PMem is taken, too
        store.get(0, NOW); // hit in DRAM
        store.set(1, NOW); // 0's copy goes
        assert_eq!((copied(&store), in_pmem(&store)), (vec![1], vec![0, 1]));
        store.get(0, NOW); // hit in PMem: copied up, 1's copy goes
        store.get(2, NOW); // miss: to PMem, and 1, read longest ago, to the SSD
        assert_eq!((copied(&store), in_pmem(&store)), (vec![0], vec![0, 2]));
        store.get(2, NOW); // hit in PMem: copied up, 0's copy goes
        store.get(1, NOW); // miss: to PMem, and 0 to the SSD
        store.get(3, NOW); // miss: to PMem, and 2 to the SSD with its copy
        assert_eq!((copied(&store), in_pmem(&store)), (vec![], vec![1, 3]));
        store.get(1, NOW); // hit in PMem: copied up where there is room
        store.get(1, NOW); // hit in DRAM
        let Counts { gets, dram_hits, pmem_hits, moves_up, moves_down } = store.counts;
        assert_eq!([gets, dram_hits, pmem_hits, moves_up, moves_down], [8, 2, 3, 6, 6]);
    }
}
