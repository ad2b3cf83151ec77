//! Overflow buckets, for buckets with more entries than fit a line.
//!
//! # Thread safety
//! Taking and giving back happens under a small mutex (a leaf in the lock order: nothing is locked inside). Reading a
//! bucket needs none.
//!
//! # Invariants
//! - Numbers start at 1; 0 means none.
//! - The memory of an overflow bucket stays an overflow bucket until the pool is dropped. A free one is empty.

use super::bucket::{Bucket, SLOTS};
use crate::segments::Segments;
use crate::sync::Mutex;

/// log2 of the buckets in the first chunk.
const BASE_BITS: u32 = 4;

/// All overflow buckets of a table.
pub(super) struct Pool {
    buckets: Segments<Bucket>,
    state: Mutex<State>,
}

struct State {
    /// Numbers given back.
    free: Vec<u32>,
    /// Numbers ever taken are 1 ..= this.
    taken: u32,
}

impl Pool {
    /// An empty pool.
    pub(super) fn new() -> Self {
        Self { buckets: Segments::new(BASE_BITS), state: Mutex::new(State { free: Vec::new(), taken: 0 }) }
    }
    /// An overflow bucket in use.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Bucket {
        self.buckets.get(u64::from(number) - 1)
    }
    /// Starts loading an overflow bucket in use.
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        self.buckets.prefetch(u64::from(number) - 1);
    }
    /// Takes an empty overflow bucket.
    ///
    /// # Panics
    /// If all 2^32 - 1 are in use or there is no memory. Nothing has changed then.
    pub(super) fn take(&self) -> u32 {
        let mut state = self.state.lock();
        if let Some(number) = state.free.pop() {
            return number;
        }
        assert!(state.taken < u32::MAX, "all overflow buckets are in use");
        assert!(self.buckets.ensure(u64::from(state.taken)), "out of memory for overflow buckets");
        state.taken += 1;
        state.taken
    }
    /// Takes overflow buckets until `spare` has as many as needed; `false` if there is no memory for them.
    pub(super) fn reserve(&self, needed: usize, spare: &mut Vec<u32>) -> bool {
        let mut state = self.state.lock();
        while spare.len() < needed {
            if let Some(number) = state.free.pop() {
                spare.push(number);
            } else if state.taken < u32::MAX && self.buckets.ensure(u64::from(state.taken)) {
                state.taken += 1;
                spare.push(state.taken);
            } else {
                return false;
            }
        }
        true
    }
    /// Empties a bucket that is in no chain any more and gives it back.
    pub(super) fn give_back(&self, number: u32) {
        let bucket = self.get(number);
        (0..SLOTS).for_each(|slot| bucket.clear(slot));
        bucket.set_next(0);
        self.state.lock().free.push(number);
    }
    /// Overflow buckets in chains.
    pub(super) fn in_use(&self) -> u64 {
        let state = self.state.lock();
        u64::from(state.taken) - state.free.len() as u64
    }
    /// Bytes of DRAM held.
    pub(super) fn bytes(&self) -> u64 {
        let state = self.state.lock();
        self.buckets.bytes(u64::from(state.taken)) + (state.free.capacity() * size_of::<u32>()) as u64
    }
}
