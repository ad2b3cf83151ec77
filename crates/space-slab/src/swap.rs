//! Whole bufs: what lies with a record that a get had to read comes up with it, if it is worth that, too.
//!
//! ```text
//!   get --> NeedsRead --> the buf around the record is read --> the record went up? --> queue of bufs
//!                                                                                           |  a step
//!           of each record in it that the index refers to there: hot --> DRAM, warm --> PMem <--+
//! ```
//!
//! That is TaC's hybrid swapping (paper, 4.2 and 5.4). A buf is as good as a get's own read: it is of one use of one page, whose
//! bytes don't change, and each record proves itself. What its reverse pointers and three conditions are for there, two looks do
//! here, and neither takes a lock: the page is still in that use, and the index, asked for the record's hash and key, refers to
//! this very place. What comes up keeps its place in the page as its home, as everything does that comes up (rule R3).
//!
//! # Invariants
//! * Bufs are worked off under the steps' lock: no page is freed or written anew meanwhile, so that what was looked at holds until
//!   the index is changed, which compares once more.
//! * A buf that finds the queue full is dropped and counted: nothing waits for it.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{Around, Lower, State};
use terrace_engine::Progress;
use terrace_engine::space::Context;
use terrace_index::{AnyIndex, Index, Key};

use crate::location::Location;
use crate::placement::Placement;
use crate::read::{Climbed, Comes};
use crate::space::SlabSpace;
use crate::sync::Mutex;

/// Bufs that wait, at most.
const BUFS_MAX: usize = 32;

/// What a read of the SSD brings up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Swap {
    /// The record that was asked for, if it is worth it. No more than that is read.
    #[default]
    Tuple,
    /// What is worth it of all that lies in the same 16 KiB: TaC's hybrid swapping.
    Buf,
}

impl Swap {
    /// All, by name.
    pub const ALL: [(&'static str, Self); 2] = [("tuple", Self::Tuple), ("buf", Self::Buf)];
    /// As users name it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, swap)| *swap == self).map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Swap {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, swap)| *swap).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(" or ");
            format!("there is no swapping by {text:?}: expected {names}")
        })
    }
}

/// Bufs whose records may come up.
#[derive(Default)]
pub(crate) struct Bufs(Mutex<Vec<Around>>);

impl<L: Lower> SlabSpace<L> {
    /// Whether a record that must be read is read with its buf.
    pub(crate) fn swaps_bufs(&self) -> bool {
        // From media that are read in place no more is read than is asked for.
        let placement = self.options.placement;
        self.options.swap == Swap::Buf && placement != Placement::AntiTuple && !L::DIRECT
    }

    /// A record of this buf went up.
    pub(crate) fn offer_buf(&self, buf: Around) {
        let mut bufs = self.bufs.0.lock();
        if bufs.len() < BUFS_MAX {
            bufs.push(buf);
        } else {
            self.details.bufs_dropped.fetch_add(1, Relaxed);
        }
    }

    /// One step: what is worth it goes up, of the bufs that arrived.
    pub(crate) fn fetch_step(&self, index: &AnyIndex, context: &dyn Context) -> Progress {
        let bufs = std::mem::take(&mut *self.bufs.0.lock());
        for buf in &bufs {
            self.fetch_buf(buf, index, context);
        }
        if bufs.is_empty() { Progress::Idle } else { Progress::Worked }
    }

    fn fetch_buf(&self, buf: &Around, index: &AnyIndex, context: &dyn Context) {
        let Some(page) = self.blocks.slots.get(buf.slot() as usize) else { return };
        if page.state() != State::Sealed || page.seq.load(Acquire) != buf.seq() {
            return;
        }
        self.details.bufs_fetched.fetch_add(1, Relaxed);
        let hasher = context.hasher();
        buf.records(|place, view| {
            let (kind, db) = (view.head.meta.kind(), view.head.meta.db());
            let from = self.locations.page(place, kind, view.head.meta.used_words());
            let key = Key { bytes: view.key, ..hasher.key(db, view.key) };
            if view.head.version <= context.flush_version(db) || !index.contains(&key, from) {
                return;
            }
            let count = self.temperature.count_below(key.hash, &self.policy);
            let climbed =
                self.climb(index, &key, (from, Location::Page(place, None)), &view, count, Comes::Along);
            match climbed {
                Climbed::Dram(offset) => self.policy.note_filled(offset),
                Climbed::Offered => {}
                Climbed::No => return,
            }
            self.details.fetched_along.fetch_add(1, Relaxed);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_blocks::{ByteTier, Image, Place};
    use terrace_engine::record::{Kind, NewRecord};
    use terrace_index::{Address, Change, Clht, Verdict};
    use terrace_media::{AlignedBuf, HeapRegion};

    use super::*;
    use crate::calm::{Calm, entry_of};
    use crate::open::SlabOptions;
    use crate::stage::{Stage, What};

    type Tested = SlabSpace<ByteTier<HeapRegion>>;
    const BLOCK: usize = 64 << 10;
    const KEYS: [&[u8]; 3] = [b"one", b"two", b"three"];

    #[test]
    fn names_are_read_and_wrong_ones_told_with_those_there_are() {
        for (name, swap) in Swap::ALL {
            assert_eq!((name.parse(), swap.to_string()), (Ok(swap), name.to_owned()));
        }
        assert!("page".parse::<Swap>().unwrap_err().contains("tuple or buf"));
    }

    fn key(bytes: &[u8]) -> Key<'_> {
        Key { bytes, ..Calm.hasher().key(0, bytes) }
    }

    /// A page of three records to which the index refers, and the buf that they lie in.
    fn with_page() -> (Tested, Clht, Vec<Address>, Around) {
        let (region, bytes) = (Arc::new(HeapRegion::new(4 << 20).unwrap()), 4 << 20);
        let options = SlabOptions {
            block_bytes: BLOCK,
            dram_bytes: 1 << 20,
            dram_budget: None,
            store_id: 1,
            placement: Placement::Tac,
            eviction: Default::default(),
            swap: Swap::Buf,
            partitions: 1,
        };
        let space = SlabSpace::new(ByteTier::new(region, 0, bytes, String::new()), None, options).unwrap();
        let index = Clht::with_min_buckets(4);
        let mut stage = Stage::default();
        // They were somewhere else before, where nothing refers to.
        let old = space.locations.page(Place { slot: 9, offset: 64 }, Kind::Value, 4);
        for bytes in KEYS {
            let (kind, db) = (Kind::Value, 0);
            let record = NewRecord {
                version: 5,
                kind,
                db,
                flags: 0,
                state: 0,
                expire_at: 0,
                token: 0,
                key: bytes,
                value: bytes,
            };
            let entry = entry_of(key(bytes).hash, 1, 5);
            stage.push(What::Page { words: 4, seq: 1 }, old, entry, &record);
        }
        let (slot, seq) = space.begin_page(&stage, 0).unwrap();
        assert!(space.write_page(slot, &stage, &mut Image::default(), &Calm));
        space.land_page((slot, seq), &stage, AnyIndex::of(&index));
        let places = stage
            .moves
            .iter()
            .map(|of| space.locations.page(Place { slot, offset: of.entry.offset }, Kind::Value, of.words));
        let places: Vec<Address> = places.collect();
        for (bytes, at) in KEYS.into_iter().zip(&places) {
            index.update(&key(bytes), |_| Verdict::Differs, |_| (Change::Set(*at), ()));
        }
        let mut bytes = AlignedBuf::zeroed(BLOCK);
        space.blocks.lower.read(space.blocks.block_offset(slot), &mut bytes).unwrap();
        (space, index, places, Around::new(Place { slot, offset: 0 }, seq, bytes))
    }

    /// Of each key, whether it is in DRAM.
    fn up(space: &Tested, index: &Clht) -> Vec<bool> {
        let is_up = |bytes: &[u8]| {
            let mut up = false;
            index.candidates(&key(bytes), &mut |at| {
                up |= matches!(space.locations.location(at), Location::Dram(_))
            });
            up
        };
        KEYS.into_iter().map(is_up).collect()
    }

    #[test]
    fn what_the_index_refers_to_comes_up_and_keeps_its_home() {
        let (space, index, places, buf) = with_page();
        // The index has another record of this key.
        let elsewhere = space.locations.page(Place { slot: 8, offset: 64 }, Kind::Value, 4);
        assert!(index.replace(&key(KEYS[1]), places[1], elsewhere));
        space.offer_buf(buf);
        assert_eq!(space.fetch_step(AnyIndex::of(&index), &Calm), Progress::Worked);
        assert_eq!(up(&space, &index), [true, false, true]);
        assert!(index.contains(&key(KEYS[1]), elsewhere), "what is older stays where it is");
        index.candidates(&key(KEYS[0]), &mut |at| assert_eq!(space.home_of(at), Some(places[0])));
        assert_eq!(space.details.fetched_along.load(Relaxed), 2);
        assert_eq!(space.fetch_step(AnyIndex::of(&index), &Calm), Progress::Idle);
    }

    /// In another use of the slot other versions of the same keys may lie at the very same places.
    #[test]
    fn a_buf_of_another_use_of_the_page_brings_nothing() {
        let (space, index, _, buf) = with_page();
        space.blocks.slots[buf.slot() as usize].seq.fetch_add(1, SeqCst);
        space.offer_buf(buf);
        space.fetch_step(AnyIndex::of(&index), &Calm);
        assert_eq!(up(&space, &index), [false; 3]);
    }

    #[test]
    fn a_buf_too_many_is_dropped_and_counted() {
        let (space, ..) = with_page();
        let buf = || Around::new(Place { slot: 0, offset: 0 }, 1, AlignedBuf::zeroed(4096));
        (0..BUFS_MAX + 3).for_each(|_| space.offer_buf(buf()));
        assert_eq!(space.details.bufs_dropped.load(Relaxed), 3);
    }
}
