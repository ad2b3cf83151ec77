//! Growth by linear hashing: one bucket splits at a time, in order, and no look-up ever waits for it.
//!
//! ```text
//!   lock b --> copy what moves to its buddy n --> publish n + 1 --> take it out of b --> unlock (new sequence)
//! ```
//!
//! # Thread safety
//! One thread splits at a time (the `splitter` mutex; in the lock order it comes before every bucket). The buddy can't be
//! reached before the number of buckets says so.
//!
//! # Invariants
//! - Whoever holds b's lock sees the number of buckets that b's last split published.
//! - The mean load stays near [`TARGET`]: every insert that brings its stripe of the count to a multiple of the interval
//!   compares, and a stripe hides at most an interval of entries.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::Clht;
use super::bucket::Entry;
use super::chain::Chain;
use super::mapping::next_split;

/// Entries per ten buckets above which a table grows. With 4.6, six slots and overflow buckets, an entry costs 17 bytes.
const TARGET: u64 = 46;
/// Entries per ten buckets above which an insert waits for its turn to split instead of leaving it to others.
const LIMIT: u64 = 50;
/// Buckets that one insert splits at most.
const SPLITS_MAX: u64 = 4;
/// Tables below this many buckets compare at every insert.
const SMALL: u64 = 1 << 10;
/// Inserts of one stripe between two comparisons in larger tables. Between them 8 / 4.6 buckets fall due, less than
/// [`SPLITS_MAX`]; 16 stripes hide 128 entries, 0.13 a bucket of the smallest such table.
const INTERVAL: u64 = 8;

/// What a split needs while it runs; kept so that it allocates nothing.
#[derive(Default)]
pub(super) struct Splitter {
    stay: Vec<Entry>,
    go: Vec<Entry>,
}

impl Clht {
    /// Counts an entry just inserted; `true` if [`grow`](Self::grow) should be called once no bucket is locked.
    #[inline]
    pub(super) fn count_insert(&self) -> bool {
        self.count.increment().is_multiple_of(INTERVAL) || self.buckets.load(Acquire) < SMALL
    }

    /// Splits a few buckets if the load is above the target.
    pub(super) fn grow(&self) {
        let entries = self.count.sum();
        let buckets = self.buckets.load(Acquire);
        let wanted = (entries * 10).div_ceil(TARGET);
        for _ in buckets..wanted.min(buckets + SPLITS_MAX) {
            let mut splitter = match self.splitter.try_lock() {
                Some(splitter) => splitter,
                None if entries * 10 > buckets * LIMIT => self.splitter.lock(),
                None => return,
            };
            // Others may have split meanwhile.
            if self.buckets.load(Acquire) >= wanted || !self.split(&mut splitter) {
                return;
            }
        }
    }

    /// Splits the next bucket; `false` if there is no memory for its buddy, or no hash bit left to tell them apart.
    fn split(&self, splitter: &mut Splitter) -> bool {
        let buckets = self.buckets.load(Acquire);
        if buckets == self.segments.limit() || !self.segments.ensure(buckets) {
            return false;
        }
        let bit = buckets.ilog2() - self.segments.base_bits();
        let Splitter { stay, go } = splitter;
        stay.clear();
        go.clear();

        let mut chain = Chain::lock(self.segments.get(next_split(buckets)), &self.pool);
        for entry in chain.entries() {
            if entry.hash_bit(bit) { go.push(entry) } else { stay.push(entry) }
        }
        let mut buddy = Chain::lock(self.segments.get(buckets), &self.pool);
        // Empty already, unless an earlier attempt panicked for want of an overflow bucket before it published.
        buddy.retain(&[]);
        go.iter().for_each(|&entry| buddy.insert(entry));
        drop(buddy);
        self.buckets.store(buckets + 1, Release);
        // Even where no entry moves, the sequence changes: a reader that finds it knows of the split.
        chain.retain(stay);
        true
    }
}
