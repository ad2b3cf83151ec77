//! The read cache (HeterMM section 5.1): records that are read below DRAM are copied to pages in DRAM, which the cache and the
//! write region trade with each other.
//!
//! ```text
//!   address, use of its slot --> table: 8 entries a bucket --> a page of the cache: | address | use | record | address | ...
//!
//!   misses --admission--> page being filled --> pages, oldest first --> the oldest goes; of its records those that were read
//!                                ^------------------------------------------ since they came are copied again (CLOCK)
//! ```
//!
//! The paper has the index lead to the copy, and an update then makes the copy invalid. Here the index leads where it did, and the
//! table finds copies by address. A record below DRAM never changes, and one that replaces it lies elsewhere: an update costs
//! nothing, no copy can bring an older value back, and a copy that nobody finds any more leaves with its page.
//!
//! # Thread safety
//! Look-ups take no lock. Whoever changes the table or a page holds `Filling`; sessions only try to, for a copy that is not made
//! does no harm.
//!
//! # Invariants
//! * An entry leads to a record whose words are whole: they are stored before it is.
//! * A page's frame is given away only after its entries are gone and an epoch has passed since.

mod fill;
mod gate;
mod table;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use terrace_blocks::Frames;
use terrace_engine::ReadCache;
use terrace_index::Address;

use crate::open::FRAMES_MIN;
use crate::sync::{AtomicU64, Mutex};
use fill::Filling;
use table::Table;

/// No record is taken in.
const OFF: u64 = 0;
/// As [`ReadCache::Gated`]; smaller numbers are of [`ReadCache::Sampled`].
const GATED: u64 = u64::MAX;

/// A space that may never have so many frames has no cache: all are for writers.
pub(crate) const CACHED_FRAMES_MIN: usize = FRAMES_MIN + 1;

/// See the module.
pub(crate) struct Cache {
    table: Table,
    /// See [`Self::admission`].
    admission: AtomicU64,
    is_possible: bool,
    /// Whether pages have left, so that not all is taken in. A hint for sessions.
    is_full: AtomicBool,
    pub(super) filling: Mutex<Filling>,
    pub(super) counts: Counts,
}

/// Counts for people and tests.
#[derive(Default)]
pub(crate) struct Counts {
    pub admitted: AtomicU64,
    pub kept: AtomicU64,
    pub left: AtomicU64,
    pub pages: AtomicU64,
    pub records: AtomicU64,
}

impl Cache {
    /// Of nothing yet; `frames` of `frame_bytes` are the most it may ever fill.
    pub fn new(frames: usize, frame_bytes: usize, admission: ReadCache) -> Self {
        let table = if frames < CACHED_FRAMES_MIN { None } else { Table::new(frames * frame_bytes) };
        let is_possible = table.is_some();
        let cache = Self {
            table: table.unwrap_or_else(Table::none),
            admission: AtomicU64::new(OFF),
            is_possible,
            is_full: false.into(),
            filling: Mutex::new(Filling::new(frame_bytes)),
            counts: Counts::default(),
        };
        cache.set_admission(admission);
        cache
    }

    /// Whether there are frames enough for one.
    pub fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Whether pages have left, so that not all is taken in.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// Which records it takes in.
    #[inline]
    pub fn admission(&self) -> ReadCache {
        match self.admission.load(Relaxed) {
            OFF => ReadCache::Off,
            GATED => ReadCache::Gated,
            every => NonZeroU32::new(every as u32).map_or(ReadCache::Off, ReadCache::Sampled),
        }
    }

    /// Takes others in from now on.
    pub fn set_admission(&self, admission: ReadCache) {
        let value = match admission {
            _ if !self.is_possible => OFF,
            ReadCache::Off => OFF,
            ReadCache::Gated => GATED,
            ReadCache::Sampled(every) => u64::from(every.get()),
        };
        self.admission.store(value, Relaxed);
    }

    /// The copy of the record at an address in this use of its slot, if there is one: its words, and what follows them.
    #[inline]
    pub fn find<'a>(&self, frames: &'a Frames, address: Address, seq: u64) -> Option<&'a [AtomicU64]> {
        let (entry, words) = self.table.find(frames, address.raw(), seq)?;
        self.table.saw(entry);
        Some(words)
    }

    /// Whether there is a copy; it does not count as found.
    #[cfg(test)]
    pub fn has(&self, frames: &Frames, address: Address, seq: u64) -> bool {
        self.table.find(frames, address.raw(), seq).is_some()
    }

    /// Whether there are no copies.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.capacity() == 0
    }

    /// Starts loading what says where the copy of the record at an address is; `false` if there are no copies.
    #[inline]
    pub fn touch(&self, address: Address) -> bool {
        self.table.touch(address.raw())
    }

    /// Starts loading the copy of the record at an address; `false` if there seems to be none.
    #[inline]
    pub fn touch_copy(&self, frames: &Frames, address: Address) -> bool {
        self.table.touch_copy(frames, address.raw())
    }

    /// Bytes beside its pages.
    pub fn aside_bytes(&self) -> u64 {
        // A gate that has counted nothing is as small as can be: it would cost a page.
        if self.is_empty() { 0 } else { self.table.bytes() + self.filling.lock().gate_bytes() }
    }
}
