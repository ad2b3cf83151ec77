//! Records of slots that lie in pages, too: what comes up keeps its place below as its *home*, and leaves for nothing.
//!
//! ```text
//!   page --> DRAM, home kept --> slot, home kept --> page: the index is swung, nothing is written
//!     '-------------------------------^
//! ```
//!
//! So reads alone write no page, however often they move a record. A slot's home is let go with the slot: when a newer version was
//! issued, as that of a record in DRAM is (rule R3), or when its record leaves for it.
//!
//! # Invariants
//! * A home is of the very version that the slot holds. Both are set under the key's lock.
//! * It counts as live in its page, once, for as long as the slot has it.

use std::sync::atomic::Ordering::*;

use terrace_blocks::Lower;
use terrace_engine::space::{Context, Records};
use terrace_index::{Address, AnyIndex, Change, Index, Key, Lookup, Verdict};

use super::Middle;
use crate::location::Location;
use crate::space::SlabSpace;

impl<L: Lower> SlabSpace<L> {
    /// A record is found at `to` from now on, and no more in its home or where that was: if `to` is a slot it is the home of that.
    pub(crate) fn keep_home(&self, to: Address, home: Address, words: usize) {
        match (&self.middle, self.locations.location(to), self.locations.location(home)) {
            (Some(middle), Location::Pmem(at), Location::Page(..)) => middle.slabs.set_home(at, home),
            _ => self.release_copy(home, words),
        }
    }

    /// The slot of the middle tier at an address, and the home of its record.
    pub(crate) fn slot_and_home(&self, address: Address) -> Option<(&Middle, u64, Address)> {
        let (Some(middle), Location::Pmem(at)) = (&self.middle, self.locations.location(address)) else {
            return None;
        };
        Some((middle, at, middle.slabs.home(at)?))
    }

    /// Under the key's lock: a copy of a page's record, of this version, lies at `to`. If the page was the home of the slot at an
    /// address, that is there now.
    pub(crate) fn move_home_below(
        &self,
        address: Address,
        version: u64,
        (from, to): (Address, Address),
    ) -> bool {
        self.slot_and_home(address).is_some_and(|(middle, at, home)| {
            let is_page = home == from && !self.is_in_middle(to);
            is_page && middle.slabs.version(at) == version && middle.slabs.move_home(at, from, Some(to))
        })
    }

    /// Whether a slot of the middle tier holds a record of this version.
    pub(crate) fn middle_holds(&self, at: u64, version: u64) -> bool {
        self.middle.as_ref().is_some_and(|middle| middle.slabs.version(at) == version)
    }

    /// A page's copy can't be read: if a slot has it for a home, it has none any more, and will be written when it leaves. Whether
    /// one had.
    pub(crate) fn drop_home_below(&self, (from, words): (Address, usize)) -> bool {
        let Some(middle) = &self.middle else { return false };
        let dropped = middle.slabs.with_home(from).is_some_and(|at| middle.slabs.move_home(at, from, None));
        if dropped {
            self.release_copy(from, words);
        }
        dropped
    }

    /// A slot's record is found in its home again, if it has one: whatever refers to the slot refers to that. Whether it does.
    pub(super) fn leave_for_home(
        &self,
        middle: &Middle,
        (at, key): (u64, &Key<'_>),
        (version, expire_at): (u64, u64),
        index: &AnyIndex,
        context: &dyn Context,
    ) -> bool {
        if middle.slabs.home(at).is_none() {
            return false;
        }
        let from = self.locations.pmem(at);
        let verify = |other| if self.is_or_has_home(other, from) { Verdict::Match } else { Verdict::Differs };
        index.update(key, verify, |found| {
            let Lookup::Found(other) = found else { return (Change::Keep, false) };
            let slot = match self.locations.location(other) {
                Location::Dram(offset) => Some(self.slabs.slot(offset)),
                Location::Pmem(_) | Location::Page(..) => None,
            };
            if slot.is_some_and(|slot| !slot.is_live() || slot.version() != version)
                || middle.slabs.version(at) != version
            {
                return (Change::Keep, false);
            }
            let Some(home) = middle.slabs.take_home(at) else { return (Change::Keep, false) };
            self.note_deadline(home, expire_at, context);
            // Before the slot is let go: whoever clears it waits for trust in this page.
            middle.moved_seq.fetch_max(self.generation(home), SeqCst);
            self.details.from_middle_down.fetch_add(1, Relaxed);
            self.details.from_middle_home.fetch_add(1, Relaxed);
            let change = match slot {
                // It stays in DRAM, clean.
                Some(slot) => {
                    slot.settle(home);
                    Change::Keep
                }
                None => Change::Set(home),
            };
            middle.release(at);
            (change, true)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_blocks::{ByteTier, Image, Place};
    use terrace_engine::Progress;
    use terrace_engine::record::{Kind, NewRecord, RecordView};
    use terrace_index::Clht;
    use terrace_media::HeapRegion;

    use super::*;
    use crate::calm::{Calm, entry_of};
    use crate::middle::MiddleSteps;
    use crate::middle::leave::Left;
    use crate::open::{MiddleTier, SlabOptions};
    use crate::read::{Climbed, Comes};
    use crate::stage::{Stage, What};
    use terrace_policy::Count;

    const SLAB: u64 = 64 << 10;
    const VERSION: u64 = 5;

    /// A record that came up from a page to a slot.
    struct Tested {
        space: SlabSpace<ByteTier<HeapRegion>>,
        index: Clht,
        page: Address,
        at: u64,
    }

    fn record(version: u64) -> NewRecord<'static> {
        let (kind, value) = (Kind::Value, &[7; 400]);
        NewRecord { version, kind, db: 0, flags: 0, state: 0, expire_at: 0, token: 0, key: b"key", value }
    }
    fn key() -> Key<'static> {
        Calm.hasher().key(0, b"key")
    }

    impl Tested {
        fn new() -> Self {
            let region = |bytes| Arc::new(HeapRegion::new(bytes).unwrap());
            let middle = MiddleTier::new(region(4 * SLAB), (0, 4 * SLAB), String::new(), true);
            let lower = ByteTier::new(region(64 * SLAB), 0, 64 * SLAB, String::new());
            let space = SlabSpace::new(lower, Some(middle), SlabOptions::of_tests()).unwrap();
            let index = Clht::with_min_buckets(64);
            // As if from another page, which is in no use.
            let other = space.locations.page(Place { slot: 60, offset: 64 }, Kind::Value, 60);
            index.update(&key(), |_| Verdict::Differs, |_| (Change::Set(other), ()));
            let mut tested = Self { space, index, page: other, at: 0 };
            tested.page = tested.copy_to_page(VERSION);
            assert_eq!(tested.live(tested.page), record(VERSION).words() as i64 * 8);
            tested.at = tested.come_up();
            tested
        }
        /// Writes a page with a copy of what lies in one. Where it lies there.
        fn copy_to_page(&self, version: u64) -> Address {
            let mut stage = Stage::default();
            let (words, seq) = (record(version).words(), self.space.generation(self.page));
            let what = What::Page { words: words as u32, seq };
            stage.push(what, self.page, entry_of(key().hash, 1, version), &record(version));
            let offset = stage.moves[0].entry.offset;
            let sealed =
                self.space.seal(&mut stage, &mut Image::default(), 0, AnyIndex::of(&self.index), &Calm);
            assert_eq!(sealed, Progress::Worked);
            let slots = &self.space.blocks.slots;
            let newest = (0..slots.len()).max_by_key(|&slot| slots[slot].seq.load(SeqCst)).unwrap();
            self.space.locations.page(Place { slot: newest as u32, offset }, Kind::Value, words)
        }
        /// Read from its page, it comes up. Its slot.
        fn come_up(&self) -> u64 {
            let mut bytes = Vec::new();
            record(VERSION).encode(&mut bytes);
            let head = RecordView::decode(&bytes).unwrap().head;
            let of = (&head, &record(VERSION));
            assert!(self.space.offer_to_middle(&key(), self.page, of, Count::whole(3), Comes::Asked));
            self.space.middle_step(
                &mut MiddleSteps::default(),
                &mut Stage::default(),
                AnyIndex::of(&self.index),
                &Calm,
            );
            let mut at = None;
            self.index.candidates(&key(), &mut |address| at = Some(self.space.locations.location(address)));
            let Some(Location::Pmem(at)) = at else { panic!("it is at {at:?}") };
            at
        }
        /// And goes up further. Its slot of DRAM.
        fn climb(&self) -> u64 {
            let mut bytes = Vec::new();
            record(VERSION).encode(&mut bytes);
            let view = RecordView::decode(&bytes).unwrap();
            let from = (self.space.locations.pmem(self.at), Location::Pmem(self.at));
            match self.space.climb(
                AnyIndex::of(&self.index),
                &key(),
                from,
                &view,
                Count::whole(9),
                Comes::Asked,
            ) {
                Climbed::Dram(offset) => offset,
                other => panic!("{other:?}"),
            }
        }
        fn live(&self, page: Address) -> i64 {
            self.space.blocks.slots[self.space.locations.place(page).slot as usize].live_bytes.load(SeqCst)
        }
        fn home(&self) -> Option<Address> {
            self.middle().slabs.home(self.at)
        }
        fn middle(&self) -> &Middle {
            self.space.middle.as_ref().unwrap()
        }
        /// Its slot is to be empty. Whether it left without a copy.
        fn leaves_for_nothing(&self) -> bool {
            let mut stage = Stage::default();
            let left =
                self.space.leave_middle(self.middle(), self.at, &mut stage, AnyIndex::of(&self.index), &Calm);
            assert_eq!(left, Left::Yes);
            stage.is_empty()
        }
    }

    #[test]
    fn a_record_that_came_up_leaves_for_where_it_was() {
        let tested = Tested::new();
        assert_eq!(tested.home(), Some(tested.page));
        assert!(tested.live(tested.page) > 0, "it lives there, too");
        assert!(tested.leaves_for_nothing());
        assert!(tested.index.contains(&key(), tested.page));
        assert!(tested.home().is_none() && tested.live(tested.page) > 0);
        assert_eq!(tested.middle().slabs.table[0].live.load(SeqCst), 0, "its slot was let go");
        assert_eq!(tested.middle().moved_seq.load(SeqCst), tested.space.generation(tested.page));
    }

    #[test]
    fn who_has_the_slot_for_a_home_has_the_page_then() {
        let tested = Tested::new();
        let up = tested.climb();
        let slot = tested.space.slabs.slot(up);
        assert_eq!(slot.home(), Some(tested.space.locations.pmem(tested.at)));
        assert!(tested.leaves_for_nothing());
        assert_eq!(slot.home(), Some(tested.page));
        assert!(tested.live(tested.page) > 0);
        assert!(tested.index.contains(&key(), tested.space.locations.dram(up)));
    }

    #[test]
    fn what_leaves_dram_for_a_slot_keeps_its_home() {
        let tested = Tested::new();
        let up = tested.climb();
        assert!(tested.leaves_for_nothing());
        let mut stage = Stage::default();
        let (from, to) = (tested.space.locations.dram(up), tested.middle().slabs.take(0));
        let to = tested.space.locations.pmem(to.unwrap());
        stage.push(What::Evict, from, entry_of(key().hash, 1, VERSION), &record(VERSION));
        assert!(tested.space.swing(&stage, &stage.moves[0], to, AnyIndex::of(&tested.index)));
        let home = tested.space.slot_and_home(to).map(|(_, _, home)| home);
        assert_eq!((home, tested.live(tested.page) > 0), (Some(tested.page), true));
    }

    #[test]
    fn a_newer_version_lets_go_of_both() {
        let tested = Tested::new();
        tested.space.release_copy(tested.space.locations.pmem(tested.at), record(VERSION).words());
        assert!(tested.home().is_none());
        assert_eq!(tested.live(tested.page), 0);
    }

    #[test]
    fn a_page_that_moves_takes_homes_with_it() {
        for in_dram in [false, true] {
            let tested = Tested::new();
            if in_dram {
                tested.climb();
            }
            let moved = tested.copy_to_page(VERSION);
            assert_ne!(moved, tested.page);
            assert_eq!((tested.home(), tested.live(tested.page)), (Some(moved), 0), "in DRAM: {in_dram}");
            assert_eq!(tested.live(moved), record(VERSION).words() as i64 * 8);
        }
    }

    /// The page and the slot were used again since the copy was made.
    #[test]
    fn a_copy_of_another_version_is_nobodys_home() {
        let tested = Tested::new();
        let moved = tested.copy_to_page(VERSION - 1);
        assert_eq!(tested.home(), Some(tested.page));
        assert!(tested.live(tested.page) > 0 && tested.live(moved) == 0);
    }

    #[test]
    fn a_home_that_can_not_be_read_is_none() {
        let tested = Tested::new();
        assert!(tested.space.drop_home_below((tested.page, record(VERSION).words())));
        assert!(tested.home().is_none() && tested.live(tested.page) == 0);
        assert!(!tested.leaves_for_nothing(), "it is written again");
    }

    #[test]
    fn homes_are_counted_as_long_as_a_slab_has_any() {
        let tested = Tested::new();
        let slabs = &tested.middle().slabs;
        assert!(slabs.homes_bytes() > 0 && slabs.homes_of(slabs.slab_of(tested.at)) == 1);
        assert!(tested.leaves_for_nothing());
        let mut steps = MiddleSteps::default();
        tested.space.middle_step(&mut steps, &mut Stage::default(), AnyIndex::of(&tested.index), &Calm);
        tested.space.middle_step(&mut steps, &mut Stage::default(), AnyIndex::of(&tested.index), &Calm);
        assert_eq!(slabs.homes_bytes(), 0);
    }
}
