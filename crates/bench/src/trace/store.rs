//! The simulated store: where each record is, and what an access makes of it.
//!
//! ```text
//!   get --> DRAM: touch     PMem: touch, up?     SSD: count, up to DRAM? to PMem?
//!                                                whole bufs: the same is asked for all that lie with a warm record
//!   set --> DRAM, always; what was below is gone
//!   room in DRAM: the victim goes to PMem (behind a comparing gate: or to the SSD); room in PMem: to the SSD
//! ```

use terrace_policy::{Access, Histogram, Now, SlotId, Thresholds, Tier as Name};

use super::bufs::Bufs;
use super::cold::Cold;
use super::policy::AnyGate;
use super::run::Placement;
use super::tier::Tier;
use crate::rng::Rng;

/// Records whose counts make a histogram.
const SAMPLES: u32 = 4096;

/// Where a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Dram(SlotId),
    Pmem(SlotId),
    Ssd,
}

/// What was counted.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counts {
    pub(super) gets: u64,
    pub(super) dram_hits: u64,
    pub(super) pmem_hits: u64,
    pub(super) moves_up: u64,
    pub(super) moves_down: u64,
}

/// A store of the paper's placement (`tac`, `tac-buf` with whole bufs), or one pool of DRAM and PMem (`anti-2`).
pub(super) struct Store {
    dram: Tier,
    pmem: Tier,
    cold: Cold,
    gate: AnyGate,
    places: Vec<Place>,
    /// Who lies together, if a read brings in whole bufs.
    bufs: Option<Bufs>,
    /// Which of `dram`'s slots are in DRAM: all, unless it is a pool.
    in_dram: SlotId,
    thresholds: Thresholds,
    samples: Rng,
    histogram: Histogram,
    counts: Counts,
}

impl Store {
    pub(super) fn new(dram: Tier, pmem: Tier, cold: Cold, gate: AnyGate, records: u32) -> Self {
        Self {
            in_dram: dram.slots(),
            dram,
            pmem,
            cold,
            gate,
            places: vec![Place::Ssd; records as usize],
            bufs: None,
            thresholds: Thresholds::default(),
            samples: Rng::new(0, 3),
            histogram: Histogram::default(),
            counts: Counts::default(),
        }
    }
    /// Swaps whole bufs in.
    pub(super) fn with_bufs(mut self) -> Self {
        self.bufs = Some(Bufs::new(self.places.len() as u32));
        self
    }
    /// One pool, of which this many slots are in DRAM. Which record meets which is chance, so it follows from the seed.
    pub(super) fn pooled(mut self, in_dram: SlotId, seed: u64) -> Self {
        self.in_dram = in_dram;
        self.dram.shuffle_free(seed);
        self
    }

    fn admits(&mut self, name: Name, access: Access, now: Now) -> bool {
        let tier = if name == Name::Pmem && self.pmem.slots() > 0 { &mut self.pmem } else { &mut self.dram };
        let count = tier.policy.count(access, now);
        let rival =
            if self.gate.compares() { tier.rival(now).map(|slot| tier.count(slot, now)) } else { None };
        let admitted = self.gate.admits(name, count, rival, &self.thresholds);
        if self.gate.compares() && !admitted {
            tier.passed();
        }
        admitted
    }

    fn enter(&mut self, record: u32, access: Access, now: Now) {
        if let Some(slot) = self.dram.rival(now) {
            let (victim, word) = (self.dram.record(slot), self.dram.access(slot));
            self.dram.remove(slot, true);
            self.counts.moves_down += 1;
            if self.pmem.slots() > 0
                && (!self.gate.compares() || self.pmem.has_room() || self.admits(Name::Pmem, word, now))
            {
                self.enter_pmem(victim, word.with_seen(0), now);
            } else {
                self.go_down(victim, word, now);
            }
        }
        self.places[record as usize] = self.dram.insert(record, access).map_or(Place::Ssd, Place::Dram);
    }

    fn enter_pmem(&mut self, record: u32, access: Access, now: Now) {
        if let Some(slot) = self.pmem.rival(now) {
            let (victim, word) = (self.pmem.record(slot), self.pmem.access(slot));
            self.pmem.remove(slot, true);
            self.counts.moves_down += 1;
            self.go_down(victim, word, now);
        }
        self.places[record as usize] = self.pmem.insert(record, access).map_or(Place::Ssd, Place::Pmem);
    }

    fn go_down(&mut self, record: u32, access: Access, now: Now) {
        self.cold.arrived(&*self.dram.policy, record, access, now);
        self.places[record as usize] = Place::Ssd;
        if let Some(bufs) = &mut self.bufs {
            bufs.arrived(record);
        }
    }

    /// Brings a record of the SSD up, if a tier admits it.
    fn climb(&mut self, record: u32, access: Access, now: Now) -> bool {
        // A pool takes in all that is warm.
        let is_pool = self.pmem.slots() == 0 && self.in_dram < self.dram.slots();
        let upper = if is_pool { Name::Pmem } else { Name::Dram };
        let to_dram = self.admits(upper, access, now);
        if !to_dram && (self.pmem.slots() == 0 || !self.admits(Name::Pmem, access, now)) {
            return false;
        }
        self.counts.moves_up += 1;
        if let Some(bufs) = &mut self.bufs {
            bufs.left(record);
        }
        if to_dram {
            self.enter(record, access, now)
        } else {
            self.enter_pmem(record, access, now)
        }
        true
    }
}

impl Placement for Store {
    fn get(&mut self, record: u32, now: Now) {
        self.counts.gets += 1;
        match self.places[record as usize] {
            Place::Dram(slot) => {
                if slot < self.in_dram {
                    self.counts.dram_hits += 1;
                } else {
                    self.counts.pmem_hits += 1;
                }
                self.dram.touch(slot, now);
            }
            Place::Pmem(slot) => {
                self.counts.pmem_hits += 1;
                self.pmem.touch(slot, now);
                let access = self.pmem.access(slot);
                if self.admits(Name::Dram, access, now) {
                    self.counts.moves_up += 1;
                    self.pmem.remove(slot, false);
                    self.enter(record, access.with_seen(0), now);
                }
            }
            Place::Ssd => {
                let access = self.cold.touched(&*self.dram.policy, record, now);
                let along = self.bufs.as_ref().map(|bufs| bufs.neighbours(record)).unwrap_or_default();
                if self.climb(record, access, now) {
                    for other in along {
                        // Whoever has to go for those before it may be among them.
                        if self.places[other as usize] == Place::Ssd {
                            let access = self.cold.word(&*self.dram.policy, other, now);
                            self.climb(other, access, now);
                        }
                    }
                }
            }
        }
    }

    fn set(&mut self, record: u32, now: Now) {
        let access = match self.places[record as usize] {
            Place::Dram(slot) => return self.dram.touch(slot, now),
            Place::Pmem(slot) => {
                self.pmem.touch(slot, now);
                let access = self.pmem.access(slot);
                self.pmem.remove(slot, false);
                access
            }
            Place::Ssd => {
                if let Some(bufs) = &mut self.bufs {
                    bufs.left(record);
                }
                self.cold.touched(&*self.dram.policy, record, now)
            }
        };
        self.enter(record, access.with_seen(0), now);
    }

    fn sample(&mut self, now: Now) {
        let records = self.places.len() as f64;
        self.histogram.clear();
        for _ in 0..SAMPLES.min(self.places.len() as u32) {
            let record = self.samples.below(self.places.len() as u64) as u32;
            self.histogram.add(match self.places[record as usize] {
                Place::Dram(slot) => self.dram.count(slot, now),
                Place::Pmem(slot) => self.pmem.count(slot, now),
                Place::Ssd => self.cold.count(&*self.dram.policy, record, now),
            });
        }
        let (all, pmem) = (f64::from(self.dram.slots()), f64::from(self.pmem.slots()));
        let dram = f64::from(self.in_dram);
        self.thresholds = self.histogram.thresholds(dram / records, (all - dram + pmem) / records);
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
    use terrace_policy::{Clock, Count, Lru};

    use super::super::policy::of_slots;
    use super::*;

    const NOW: Now = Now { tick: 0, epoch: 0, fine: 0 };

    fn figures(store: &Store) -> [u64; 5] {
        let Counts { gets, dram_hits, pmem_hits, moves_up, moves_down } = store.counts;
        [gets, dram_hits, pmem_hits, moves_up, moves_down]
    }

    /// `tac` under LRU: one record in DRAM, one in PMem, two on the SSD. Everything starts on the SSD.
    #[test]
    fn a_record_is_in_one_tier_and_steps_down() {
        let tier = || Tier::new(of_slots(Lru, 1), 1, true);
        let mut store = Store::new(tier(), tier(), Cold::table(4), AnyGate::Everyone, 4);
        store.set(0, NOW); // DRAM 0
        store.set(1, NOW); // DRAM 1, PMem 0: a move
        store.set(2, NOW); // DRAM 2, PMem 1: two moves
        assert_eq!(store.places, [Place::Ssd, Place::Pmem(0), Place::Dram(0), Place::Ssd]);
        store.get(2, NOW); // hit in DRAM
        store.get(1, NOW); // hit in PMem, changes places with 2
        assert_eq!(store.places, [Place::Ssd, Place::Dram(0), Place::Pmem(0), Place::Ssd]);
        store.get(0, NOW); // miss: 0 up, 1 and 2 down
        store.get(3, NOW); // miss: 3 up, 0 and 1 down
        store.set(0, NOW); // changes places with 3; to come by a set is no move
        store.get(3, NOW); // hit in PMem, changes places with 0
        assert_eq!(store.places, [Place::Pmem(0), Place::Ssd, Place::Ssd, Place::Dram(0)]);
        assert_eq!(figures(&store), [5, 1, 2, 4, 1 + 2 + 1 + 2 + 2 + 1 + 1]);
    }

    /// Table 2 of the paper: warm goes to PMem, hot to DRAM.
    #[test]
    fn a_cold_record_climbs_as_it_is_read() {
        let tier = || Tier::new(of_slots(Clock, 1), 1, true);
        let mut store = Store::new(tier(), tier(), Cold::table(2), AnyGate::Hot, 2);
        store.thresholds = Thresholds { hot: Count::whole(2), warm: Count::ONE };
        let mut at = Vec::new();
        for _ in 0..4 {
            store.get(1, NOW);
            at.push(store.places[1]);
        }
        assert_eq!(at, [Place::Ssd, Place::Pmem(0), Place::Dram(0), Place::Dram(0)]);
        assert_eq!(figures(&store), [4, 1, 1, 2, 0]);
    }

    /// A warm record brings what lies with it and is hot or warm, and leaves what is cold.
    #[test]
    fn a_read_brings_in_a_whole_buf() {
        let tier = |slots| Tier::new(of_slots(Clock, slots), slots, true);
        let mut store = Store::new(tier(2), tier(2), Cold::table(5), AnyGate::Hot, 5).with_bufs();
        store.thresholds = Thresholds { hot: Count::whole(4), warm: Count::ONE };
        // 0 to 3 come down together with counts 1, 5, 3 and 1; 4 was never there.
        for (record, count) in [(0, 1), (1, 5), (2, 3), (3, 1)] {
            store.go_down(record, Access::new(0, Count::whole(count)), NOW);
        }
        store.get(4, NOW); // cold: nothing moves
        assert_eq!(figures(&store), [1, 0, 0, 0, 0]);
        store.get(0, NOW); // its second read: warm, and so is its buf's number 2; number 1 is hot
        assert_eq!(store.places[..2], [Place::Pmem(0), Place::Dram(0)]);
        assert_eq!(store.places[2..], [Place::Pmem(1), Place::Ssd, Place::Ssd]);
        assert_eq!(figures(&store), [2, 0, 0, 3, 0]);
        assert!(store.bufs.unwrap().neighbours(3).is_empty(), "3 lies alone");
    }

    /// `anti-2`: one of three slots is in DRAM, and who has it stays there until it goes to the SSD.
    #[test]
    fn a_pool_never_moves_a_record_within_memory() {
        let pool = Tier::new(of_slots(Lru, 3), 3, true);
        let mut store =
            Store::new(pool, Tier::new(of_slots(Lru, 0), 0, true), Cold::table(4), AnyGate::Everyone, 4)
                .pooled(1, 1);
        (0..3).for_each(|record| store.set(record, NOW));
        let in_dram = (0..3).find(|&record| store.places[record as usize] == Place::Dram(0)).unwrap();
        let others = [(in_dram + 1) % 3, (in_dram + 2) % 3];
        let before = store.places.clone();
        for _ in 0..5 {
            [in_dram, others[0], others[1]].into_iter().for_each(|record| store.get(record, NOW));
        }
        store.set(others[0], NOW);
        assert_eq!(store.places, before, "hot or not, each stays where it is");
        assert_eq!(figures(&store), [15, 5, 10, 0, 0]);
        store.get(3, NOW); // a miss: the one read longest ago goes to the SSD, and its slot is the free one
        assert_eq!(store.places[in_dram as usize], Place::Ssd);
        assert_eq!(store.places[3], Place::Dram(0));
        store.get(3, NOW);
        assert_eq!(figures(&store), [17, 6, 10, 1, 1]);
    }

    /// `anti-2` takes in all that is warm, hot or not.
    #[test]
    fn a_pool_asks_for_warm_alone() {
        let pool = Tier::new(of_slots(Clock, 2), 2, true);
        let mut store =
            Store::new(pool, Tier::new(of_slots(Clock, 0), 0, true), Cold::table(2), AnyGate::Hot, 2)
                .pooled(1, 1);
        store.thresholds = Thresholds { hot: Count::whole(9), warm: Count::ONE };
        store.get(1, NOW);
        assert_eq!(store.places[1], Place::Ssd);
        store.get(1, NOW);
        assert_ne!(store.places[1], Place::Ssd);
        assert_eq!(store.counts.moves_up, 1);
    }
}
