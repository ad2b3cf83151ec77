//! `tac-homes`: the paper's placement as the engine has it, where a record in DRAM has a durable copy below (its home).
//!
//! ```text
//!   get --> PMem: up?  the slot stays, as home      DRAM's victim --> its slot, if it has one: nothing is moved
//!   set --> DRAM; the slot is given up                            --> else as `tac`
//!   PMem's victim --> the SSD; if it is a home, the record stays in DRAM and has its home there
//! ```
//!
//! PMem's hand takes a home for a record that is never read: reads of the record find it in DRAM.

use terrace_policy::{Access, Count, Histogram, Now, SlotId, Thresholds, Tier as Name};

use super::cold::Cold;
use super::policy::AnyGate;
use super::run::Placement;
use super::store::Counts;
use super::tier::Tier;
use crate::rng::Rng;

/// Records whose counts make a histogram.
const SAMPLES: u32 = 4096;

/// Where a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// In DRAM, and its home in this slot of PMem, or else on the SSD or in the log.
    Dram(SlotId, Option<SlotId>),
    Pmem(SlotId),
    Ssd,
}

/// See the module.
pub(super) struct Homes {
    dram: Tier,
    pmem: Tier,
    cold: Cold,
    gate: AnyGate,
    places: Vec<Place>,
    thresholds: Thresholds,
    samples: Rng,
    counts: Counts,
}

impl Homes {
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
    /// DRAM has room for a record from here on.
    fn make_room(&mut self, now: Now) {
        let Some(slot) = self.dram.rival(now) else { return };
        let (victim, word) = (self.dram.record(slot), self.dram.access(slot));
        self.dram.remove(slot, true);
        self.counts.moves_down += 1;
        if let Place::Dram(_, Some(home)) = self.places[victim as usize] {
            self.pmem.renew(home, word);
            self.places[victim as usize] = Place::Pmem(home);
        } else if !self.gate.compares() || self.pmem.has_room() || self.admits(Name::Pmem, word, now) {
            self.enter_pmem(victim, word.with_seen(0), now);
        } else {
            self.go_down(victim, word, now);
        }
    }
    fn enter_dram(&mut self, record: u32, home: Option<SlotId>, access: Access) {
        let slot = self.dram.insert(record, access.with_seen(0));
        self.places[record as usize] = slot.map_or(Place::Ssd, |slot| Place::Dram(slot, home));
    }
    fn enter_pmem(&mut self, record: u32, access: Access, now: Now) {
        if let Some(slot) = self.pmem.rival(now) {
            let (victim, word) = (self.pmem.record(slot), self.pmem.access(slot));
            self.pmem.remove(slot, true);
            self.counts.moves_down += 1;
            match self.places[victim as usize] {
                Place::Dram(copy, _) => self.places[victim as usize] = Place::Dram(copy, None),
                Place::Pmem(_) | Place::Ssd => self.go_down(victim, word, now),
            }
        }
        self.places[record as usize] = self.pmem.insert(record, access).map_or(Place::Ssd, Place::Pmem);
    }
    fn go_down(&mut self, record: u32, access: Access, now: Now) {
        self.cold.arrived(&*self.dram.policy, record, access, now);
        self.places[record as usize] = Place::Ssd;
    }
}

impl Placement for Homes {
    fn get(&mut self, record: u32, now: Now) {
        self.counts.gets += 1;
        match self.places[record as usize] {
            Place::Dram(slot, _) => {
                self.counts.dram_hits += 1;
                self.dram.touch(slot, now);
            }
            Place::Pmem(slot) => {
                self.counts.pmem_hits += 1;
                self.pmem.touch(slot, now);
                let access = self.pmem.access(slot);
                if self.admits(Name::Dram, access, now) {
                    self.counts.moves_up += 1;
                    self.make_room(now);
                    // The one that left for it may have taken this very slot.
                    let home = (self.places[record as usize] == Place::Pmem(slot)).then_some(slot);
                    if let Some(home) = home {
                        self.pmem.renew(home, self.pmem.policy.entering(Count::default(), now));
                    }
                    self.enter_dram(record, home, access);
                }
            }
            Place::Ssd => {
                let access = self.cold.touched(&*self.dram.policy, record, now);
                if self.admits(Name::Dram, access, now) {
                    self.counts.moves_up += 1;
                    self.make_room(now);
                    self.enter_dram(record, None, access);
                } else if self.admits(Name::Pmem, access, now) {
                    self.counts.moves_up += 1;
                    self.enter_pmem(record, access, now);
                }
            }
        }
    }
    fn set(&mut self, record: u32, now: Now) {
        let access = match self.places[record as usize] {
            Place::Dram(slot, home) => {
                if let Some(home) = home {
                    self.pmem.remove(home, false);
                    self.places[record as usize] = Place::Dram(slot, None);
                }
                return self.dram.touch(slot, now);
            }
            Place::Pmem(slot) => {
                self.pmem.touch(slot, now);
                let access = self.pmem.access(slot);
                self.pmem.remove(slot, false);
                access
            }
            Place::Ssd => self.cold.touched(&*self.dram.policy, record, now),
        };
        self.make_room(now);
        self.enter_dram(record, None, access);
    }
    fn sample(&mut self, now: Now) {
        let records = self.places.len() as f64;
        let mut histogram = Histogram::default();
        for _ in 0..SAMPLES.min(self.places.len() as u32) {
            let record = self.samples.below(self.places.len() as u64) as u32;
            histogram.add(match self.places[record as usize] {
                Place::Dram(slot, _) => self.dram.count(slot, now),
                Place::Pmem(slot) => self.pmem.count(slot, now),
                Place::Ssd => self.cold.count(&*self.dram.policy, record, now),
            });
        }
        let homes = self.places.iter().filter(|place| matches!(place, Place::Dram(_, Some(_)))).count();
        let (dram, pmem) = (f64::from(self.dram.slots()), f64::from(self.pmem.slots()) - homes as f64);
        self.thresholds = histogram.thresholds(dram / records, pmem / records);
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
    use terrace_policy::{Clock, Lru};

    use super::super::policy::of_slots;
    use super::*;

    const NOW: Now = Now { tick: 0, epoch: 0, fine: 0 };

    fn figures(store: &Homes) -> [u64; 5] {
        let Counts { gets, dram_hits, pmem_hits, moves_up, moves_down } = store.counts;
        [gets, dram_hits, pmem_hits, moves_up, moves_down]
    }

    /// One slot in DRAM, two in PMem, LRU.
    #[test]
    fn a_record_that_comes_up_keeps_its_slot() {
        let tier = |slots| Tier::new(of_slots(Lru, slots), slots, true);
        let mut store = Homes::new(tier(1), tier(2), Cold::table(4), AnyGate::Everyone, 4);
        store.set(0, NOW); // DRAM 0
        store.set(1, NOW); // DRAM 1, PMem 0: a move
        store.get(0, NOW); // hit in PMem: up, 1 down, and 0's slot is its home
        assert_eq!(store.places[..2], [Place::Dram(0, Some(0)), Place::Pmem(1)]);
        store.get(1, NOW); // hit in PMem: up; 0 is in its slot already
        assert_eq!(store.places[..2], [Place::Pmem(0), Place::Dram(0, Some(1))]);
        assert_eq!(figures(&store), [2, 0, 2, 2, 3]);
        store.set(1, NOW); // its home is an old version
        assert_eq!(store.places[1], Place::Dram(0, None));
        assert!(store.pmem.has_room());
        store.set(2, NOW); // 1 goes to the slot that is free
        assert_eq!(store.places[..3], [Place::Pmem(0), Place::Pmem(1), Place::Dram(0, None)]);
        store.get(0, NOW); // up; 2 down, which takes the slot read longest ago: 1's
        assert_eq!(store.places[..3], [Place::Dram(0, Some(0)), Place::Ssd, Place::Pmem(1)]);
        store.get(2, NOW); // up; 0 is in its slot already
        store.get(3, NOW); // a miss: 2 is, too
        assert_eq!(store.places[2..], [Place::Pmem(1), Place::Dram(0, None)]);
        assert_eq!(figures(&store), [5, 0, 4, 5, 4 + 2 + 2]);
    }

    /// PMem's hand takes the home of a record in DRAM for what is never read; the record stays in DRAM.
    #[test]
    fn a_home_goes_before_what_is_read() {
        let tier = |slots| Tier::new(of_slots(Clock, slots), slots, true);
        let mut store = Homes::new(tier(1), tier(2), Cold::table(4), AnyGate::Everyone, 4);
        (0..3).for_each(|record| store.set(record, NOW));
        assert_eq!(store.places[..3], [Place::Pmem(0), Place::Pmem(1), Place::Dram(0, None)]);
        store.get(0, NOW); // up, and 2 down: 1's slot, for 0's was touched
        assert_eq!(store.places[..3], [Place::Dram(0, Some(0)), Place::Ssd, Place::Pmem(1)]);
        store.enter_pmem(3, Access::default(), NOW);
        assert_eq!(store.places[0], Place::Dram(0, None), "0 was read more often than 2");
        assert_eq!(store.places[2..], [Place::Pmem(1), Place::Pmem(0)]);
    }
}
