//! How many entries there are, counted without a line that all threads write.
//!
//! # Thread safety
//! Each thread adds to a stripe of its own (shared only where there are more threads than stripes). The sum is exact when
//! no thread is between a change and its count.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

use crate::sync::AtomicU64;

/// Stripes of one counter. A stripe may lag behind the load check by one interval: see `grow`.
pub(crate) const STRIPES: usize = 16;

/// A striped counter.
pub(crate) struct Count {
    /// Each may wrap below 0 (a thread may remove what another inserted); the sum doesn't.
    stripes: [CachePadded<AtomicU64>; STRIPES],
}

impl Count {
    /// Zero.
    pub(crate) fn new() -> Self {
        Self { stripes: std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0))) }
    }
    /// Adds one, and returns what this stripe holds now.
    #[inline]
    pub(crate) fn increment(&self) -> u64 {
        self.stripes[stripe()].fetch_add(1, Relaxed).wrapping_add(1)
    }
    /// Adds entries that are counted elsewhere.
    pub(crate) fn add(&self, entries: u64) {
        self.stripes[stripe()].fetch_add(entries, Relaxed);
    }
    /// Subtracts one, and returns what this stripe holds now.
    #[inline]
    pub(crate) fn decrement(&self) -> u64 {
        self.stripes[stripe()].fetch_sub(1, Relaxed).wrapping_sub(1)
    }
    /// The sum.
    pub(crate) fn sum(&self) -> u64 {
        let sum = self.stripes.iter().fold(0u64, |sum, stripe| sum.wrapping_add(stripe.load(Relaxed)));
        // While others count, the stripes read may miss an insert whose removal they show.
        (sum as i64).max(0) as u64
    }
}

/// This thread's stripe, below [`STRIPES`].
pub(crate) fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) % STRIPES);
        }
        mine.get()
    })
}
