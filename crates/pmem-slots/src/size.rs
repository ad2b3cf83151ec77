//! How many slabs there are: more and fewer while they are used.
//!
//! # Invariants
//! * No slot of a slab behind the end is taken. One that is taken when the end moves before it stays until its record has left.
//! * A slab behind the end that the medium is to lose has no taken slot: all are free, durably. Who calls has stored the size by
//!   then, and stores a larger one only when what is new is known on the medium, durably.
//! * Steps are not under way while the end moves.

use std::io;
use std::sync::atomic::Ordering::*;

use super::layout::SlabHeader;
use super::slab::{PmemSlab, PmemSlabs};

impl PmemSlabs {
    /// Bytes of so many slabs.
    pub fn bytes_of(&self, count: usize) -> u64 {
        (count * self.slab_bytes) as u64
    }
    /// Slabs that may be used: fewer than there are while the tier shrinks.
    pub fn end(&self) -> usize {
        self.alloc.lock().end as usize
    }
    /// The most that there can be while the store is open; `None` if the medium keeps its size.
    pub fn most(&self) -> Option<usize> {
        let bytes = usize::try_from(self.medium.len_max()? / self.slab_bytes as u64).unwrap_or(usize::MAX);
        Some(bytes.min(self.table.most()).min(u32::MAX as usize - 1))
    }
    /// Slabs behind the end that still have a taken slot.
    pub fn to_empty(&self) -> usize {
        let all = self.table.len();
        (self.end()..all).filter(|&slab| self.table[slab].used.load(Relaxed) > 0).count()
    }

    /// There are to be so many slabs, and no more than there are.
    pub fn set_end(&self, count: usize) {
        let mut guard = self.alloc.lock();
        let alloc = &mut *guard;
        let before = std::mem::replace(&mut alloc.end, count as u32) as usize;
        let is_in = |slab: &u32| (*slab as usize) < count;
        alloc.free.retain(is_in);
        alloc.open.iter_mut().for_each(|open| open.retain(is_in));
        // Those that nobody took while they were not to be used. Others go first.
        let mut back = Vec::new();
        for slab in (before..count).rev().map(|slab| slab as u32) {
            match self.class_of(slab) {
                Some(class) if self.used(slab) > 0 => {
                    if alloc.draining != Some(slab) {
                        alloc.open[class].push(slab);
                    }
                }
                _ => back.push(slab),
            }
        }
        alloc.free.splice(0..0, back);
    }

    /// Makes the medium longer, for so many slabs; they are free on it, durably, when it returns, and nobody takes them yet.
    ///
    /// # Errors
    /// The medium's; it has the length that it had then.
    pub fn lengthen(&self, count: usize) -> io::Result<()> {
        let have = self.table.len();
        // What a crash left behind the end.
        self.medium.resize(self.bytes_of(have))?;
        let new = have as u32..count as u32;
        let headers = new.map(|slab| SlabHeader { store_id: self.store_id, seq: 0, slab, granules: 0 });
        let longer = self.medium.grow(&headers.collect::<Vec<_>>(), self.slab_bytes);
        if longer.is_err() {
            let _ = self.medium.resize(self.bytes_of(have));
        }
        longer
    }

    /// From now on there are so many: more, for which there is room on the medium, or fewer, of which nothing is taken.
    pub fn set_count(&self, count: usize) {
        self.table.reserve_with(count, &|| PmemSlab::new(self.slab_bytes, self.lends));
        for slab in self.table.len()..count {
            // What an earlier slab in that place was is gone from the medium.
            self.table[slab].forget();
        }
        self.table.set_len(count);
        self.set_end(count);
    }

    /// Cuts the medium off behind the last slab.
    ///
    /// # Errors
    /// The medium's.
    pub fn cut(&self) -> io::Result<()> {
        self.medium.resize(self.bytes_of(self.table.len()))
    }
}
