//! Pages that go before they are full: what would have to be written later comes along.
//!
//! A page takes a block of the lower tier and writes all of it, however little it holds. So none goes for one record that somebody
//! waits for: the rest of it is filled with others that are dirty. They stay in DRAM, the page is their home, and they leave
//! for nothing when their turn comes.
//!
//! | who needs room | when a page goes that is not full |
//! |---|---|
//! | a write, or a slab that is being emptied | at once, with all that is dirty and settled |
//! | a read, for what it brings up | never: what is clean makes the room, or the record stays below |
//! | a round | where its walk begins, and where it ends |
//!
//! # Invariants
//! * As anything staged: only what is settled (rule R1), found there once it is durable (rule R2).
//! * Nothing comes along while a round's walk is under way, but at its end: it would be staged twice.

use std::sync::atomic::Ordering::*;

use terrace_blocks::Lower;
use terrace_engine::Progress;
use terrace_engine::space::Context;

use crate::location::Location;
use crate::slab::NONE;
use crate::space::SlabSpace;
use crate::stage::{Stage, Staged, What};
use crate::sync::AtomicU32;

/// Slots that are looked at for one page, at most.
const SLOTS_A_PAGE: u32 = 16_384;
/// From so much on a page counts as full. Of long records it may have no room for one more.
const FULL_PERCENT: usize = 75;

/// Who needs room at once, and what pages that go early are filled with.
pub(crate) struct Early {
    /// The class that a write found no slot of before the last step of the first partition, or `NONE`.
    pub pressing: AtomicU32,
    /// The same, or, if there is none, one of a read.
    pub wanted: AtomicU32,
    /// The slab that the next page is topped up from.
    from: AtomicU32,
}

impl Default for Early {
    fn default() -> Self {
        Self { pressing: NONE.into(), wanted: NONE.into(), from: 0.into() }
    }
}

impl<L: Lower> SlabSpace<L> {
    /// Launches a page that may not be full. `must`: whoever needs it waits; else it goes only if it can be filled. `None`: it stays.
    pub(crate) fn launch_early(
        &self,
        (partition, stage): (usize, &mut Stage),
        must: bool,
        walking: bool,
        context: &dyn Context,
    ) -> Option<Progress> {
        if !must && (walking || !self.has_dirty_page()) {
            return None;
        }
        let full = !walking && self.top_up(stage, Some(partition), context);
        let fullish = stage.bytes() >= self.blocks.block_bytes / 100 * FULL_PERCENT;
        (must || full || fullish).then(|| self.launch(partition, stage))
    }

    /// Whether what is dirty would fill a page.
    pub(crate) fn has_dirty_page(&self) -> bool {
        self.dirty_bytes() >= self.blocks.block_bytes as u64
    }

    /// Adds to a stage that something is in what is dirty besides, of this partition or of any. Whether it is full.
    pub(crate) fn top_up(&self, stage: &mut Stage, partition: Option<usize>, context: &dyn Context) -> bool {
        if stage.is_empty() || self.dram_is_in_middle() {
            return false;
        }
        let count = self.slabs.count() as u32;
        let from = self.early.from.load(Relaxed);
        let mut looked = 0;
        for number in (0..count).map(|on| (from + on) % count) {
            if partition.is_some_and(|partition| self.slabs.partition_of(number) != partition) {
                continue;
            }
            let Some(class) = self.slabs.class_of(number) else { continue };
            // What is being emptied is the first partition's, whose step stages it.
            if self.slabs.table[number as usize].dirty.load(Relaxed) <= 0 || self.slabs.is_draining(number) {
                continue;
            }
            if looked >= SLOTS_A_PAGE {
                self.early.from.store(number, Relaxed);
                return false;
            }
            looked += self.slabs.used_slots(number);
            for i in 0..self.slabs.used_slots(number) {
                let offset = self.slabs.offset(number, class, i);
                let slot = self.slabs.slot(offset);
                if slot.stamp() == 0 || !slot.is_live() || slot.is_staged() || slot.debt().is_owed() {
                    continue;
                }
                if self.stage_slot(stage, offset, What::Home, context) == Staged::Full {
                    self.early.from.store(number, Relaxed);
                    return true;
                }
            }
        }
        false
    }

    /// Whether slots of a slab that is being emptied wait for this page.
    pub(crate) fn is_emptied_by(&self, stage: &Stage) -> bool {
        stage.moves.iter().any(|of| match self.locations.location(of.from) {
            Location::Dram(offset) => self.slabs.is_draining(self.slabs.slab_of(offset)),
            Location::Pmem(_) | Location::Page(..) => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_blocks::ByteTier;
    use terrace_engine::record::{Kind, NewRecord};
    use terrace_index::{AnyIndex, Change, Clht, Index, Key, Verdict};
    use terrace_media::HeapRegion;

    use super::*;
    use crate::calm::Calm;
    use crate::evict::{Begun, Evicting};
    use crate::open::SlabOptions;
    use crate::retired::Cooling;
    use terrace_policy::Count;

    const RECORDS: usize = 40;

    struct Tested {
        space: SlabSpace<ByteTier<HeapRegion>>,
        index: Clht,
        slots: Vec<u64>,
        stage: Stage,
    }

    impl Tested {
        /// Dirty records of several lengths, of which the first is staged.
        fn new(records: usize) -> Self {
            let mut tested = Self::empty();
            for number in 0..records {
                let slot = tested.put(number, 100 * (1 + number % 9)).unwrap();
                tested.slots.push(slot);
            }
            let staged = tested.space.stage_slot(&mut tested.stage, tested.slots[0], What::Evict, &Calm);
            assert_eq!(staged, Staged::Yes);
            tested
        }
        fn empty() -> Self {
            let (region, bytes) = (Arc::new(HeapRegion::new(4 << 20).unwrap()), 4 << 20);
            let tier = ByteTier::new(region, 0, bytes, String::new());
            let space = SlabSpace::new(tier, None, SlabOptions::of_tests()).unwrap();
            let (index, stage) = (Clht::with_min_buckets(64), Stage::default());
            Self { space, index, slots: Vec::new(), stage }
        }
        /// A dirty record's slot, if there is one.
        fn put(&self, number: usize, bytes: usize) -> Option<u64> {
            let (space, name, value) = (&self.space, number.to_be_bytes(), vec![7; bytes]);
            let record = NewRecord {
                version: 5,
                kind: Kind::Value,
                db: 0,
                flags: 0,
                state: 0,
                expire_at: 0,
                token: 0,
                key: &name,
                value: &value,
            };
            let offset = space.slabs.take(space.slabs.classes.of(record.words()).unwrap(), 0)?;
            let slot = space.slabs.slot(offset);
            slot.record().write(&record);
            let slab = &space.slabs.table[space.slabs.slab_of(offset) as usize];
            slab.live.fetch_add(1, Relaxed);
            slab.dirty.fetch_add(1, Relaxed);
            slot.publish(None, 1, space.policy.entering(Count::ONE, space.temperature.now()));
            slab.stamped(1);
            let key = Key { bytes: &name, ..Calm.hasher().key(0, &name) };
            self.index.update(
                &key,
                |_| Verdict::Differs,
                |_| (Change::Set(space.locations.dram(offset)), ()),
            );
            Some(offset)
        }
        fn launch_early(&mut self, must: bool, walking: bool) -> Option<Progress> {
            self.space.launch_early((0, &mut self.stage), must, walking, &Calm)
        }
        /// Lands what was launched. How many records still have no home.
        fn dirty_once_landed(&self) -> usize {
            let departures = self.space.flights.lock().depart(0);
            departures
                .into_iter()
                .for_each(|departure| self.space.land(departure, AnyIndex::of(&self.index)));
            let slots = self.slots.iter().map(|&offset| self.space.slabs.slot(offset));
            slots.filter(|slot| slot.is_live() && slot.stamp() != 0).count()
        }
    }

    #[test]
    fn who_waits_has_all_that_is_dirty_written_with_it() {
        let mut tested = Tested::new(RECORDS);
        assert_eq!(tested.launch_early(true, false), Some(Progress::Worked));
        assert!(tested.stage.is_empty());
        assert_eq!(tested.dirty_once_landed(), 0);
        assert_eq!(tested.space.details.pages_written.load(Relaxed), 1);
        let first = tested.space.slabs.slot(tested.slots[0]);
        assert!(!first.is_live(), "it has left");
        assert!(tested.slots[1..].iter().all(|&o| tested.space.slabs.slot(o).home().is_some()), "they stay");
    }

    #[test]
    fn for_reads_no_page_goes_that_is_not_full() {
        let mut tested = Tested::new(RECORDS);
        assert_eq!(tested.launch_early(false, false), None);
        assert_eq!(tested.stage.moves.len(), 1, "nor is anything copied in vain");
        let mut tested = Tested::new(RECORDS * 5);
        assert_eq!(tested.launch_early(false, false), Some(Progress::Worked));
        let left = tested.dirty_once_landed();
        assert!(left > 0 && left < RECORDS * 3, "{left} are left of what fills more than a page");
    }

    #[test]
    fn nothing_comes_along_while_a_walk_copies_it() {
        let mut tested = Tested::new(RECORDS);
        assert_eq!(tested.launch_early(true, true), Some(Progress::Worked));
        assert_eq!(tested.dirty_once_landed(), RECORDS - 1);
    }
    /// A write waits for a slot, and those that are to leave next are dirty: others leave at once, and no page goes for it.
    #[test]
    fn a_class_that_is_out_lets_clean_records_go_before_a_page_that_is_not_full() {
        let (mut tested, bytes) = (Tested::empty(), 900);
        tested.slots = (0..60).map(|number| tested.put(number, bytes).unwrap()).collect();
        let (mut number, mut others) = (1000, Vec::new());
        while let Some(offset) = tested.put(number, 10_000) {
            others.push(offset);
            number += 1;
        }
        // The class has one slab, which is full.
        while let Some(offset) = tested.put(number, bytes) {
            tested.slots.push(offset);
            number += 1;
        }
        let few = tested.slots.split_off(tested.slots.len() - 3);
        let dirty = tested.slots.clone();
        for offset in few.into_iter().chain(others) {
            if tested.space.stage_slot(&mut tested.stage, offset, What::Home, &Calm) == Staged::Full {
                assert_eq!(tested.space.launch(0, &mut tested.stage), Progress::Worked);
                tested.dirty_once_landed();
                tested.space.stage_slot(&mut tested.stage, offset, What::Home, &Calm);
            }
        }
        assert_eq!(tested.space.launch(0, &mut tested.stage), Progress::Worked);
        assert_eq!(tested.dirty_once_landed(), dirty.len());
        let space = &tested.space;
        let class = space.slabs.class_of(space.slabs.slab_of(dirty[0])).unwrap();
        assert!(space.slabs.demand(class).0 == 0 && space.slabs.free_slabs() == 0, "it is out");
        space.early.pressing.store(class as u32, SeqCst);
        space.early.wanted.store(class as u32, SeqCst);
        let mut evicting = Evicting::new(&space.policy, space.slabs.classes.count());
        space.evict_of(
            (0, &mut evicting),
            &mut tested.stage,
            Begun::default(),
            AnyIndex::of(&tested.index),
            &Calm,
        );
        assert!(!tested.stage.is_empty(), "dirty ones were to leave first");
        assert!(space.flights.lock().is_empty());
        space.retired.collect(&mut Cooling::default(), false, &space.slabs, &Calm);
        assert!(space.slabs.demand(class).0 > 0, "a write finds a slot");
    }
}
