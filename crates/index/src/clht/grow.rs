//! Growing and shrinking by linear hashing: one bucket splits or merges at a time, in order, and no look-up waits for it.
//!
//! ```text
//!   split:  lock b --> copy what moves to its buddy n --> publish n + 1 --> take it out of b --> unlock (new sequence)
//!   merge:  lock b and its buddy n --> odd sequence of b --> copy all of n to b --> publish n --> empty n, out of use --> unlock b
//!           n began a page? --> count the release --> give the page back to the system: it reads as zeroes
//! ```
//!
//! Inserts and removals do it themselves, a few buckets each at most. Nothing has to be started, stopped or kept up with,
//! the bound holds for whatever threads come, and a table that nobody changes has no reason to change its size.
//!
//! # Thread safety
//! One thread splits or merges at a time (the `splitter` mutex; in the lock order it comes before every bucket). The buddy can't be
//! reached before the number of buckets says so; a merged one may still be reached by readers who know an older number: they
//! find nothing there, nor that number any more, and start over.
//!
//! # Invariants
//! - Whoever holds b's lock sees the number of buckets that b's last split or merge published.
//! - The mean load stays near [`TARGET`]: every insert that brings its stripe of the count to a multiple of the interval
//!   compares, and a stripe hides at most an interval of entries.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::Clht;
use super::bucket::{Entry, LINK_SLOT, SLOTS};
use super::chain::Chain;
use crate::linear::next_split;

/// Entries per ten buckets above which a table grows. With 4.6, six slots and overflow buckets, an entry costs 17 bytes.
const TARGET: u64 = 46;
/// Entries per ten buckets above which an insert waits for its turn to split instead of leaving it to others.
const LIMIT: u64 = 50;
/// Entries per ten buckets below which a table shrinks: half the target, so that no few operations make it turn round.
const FLOOR: u64 = 23;
/// Buckets that one insert splits, or one removal merges, at most.
const STEPS_MAX: u64 = 4;
/// Tables below this many buckets compare at every insert.
const SMALL: u64 = 1 << 10;
/// Inserts or removals of one stripe between two comparisons in larger tables. Between them 8 / 4.6 splits or 8 / 2.3
/// merges fall due, less than [`STEPS_MAX`]; 16 stripes hide 128 entries, 0.13 a bucket of the smallest such table.
const INTERVAL: u64 = 8;

/// What a split or merge needs while it runs; kept so that it allocates nothing.
#[derive(Default)]
pub(super) struct Splitter {
    stay: Vec<Entry>,
    go: Vec<Entry>,
    /// Overflow buckets, taken beforehand so that nothing fails half-way.
    spare: Vec<u32>,
}

impl Clht {
    /// Counts an entry just inserted; `true` if [`resize`](Self::resize) should be called once no bucket is locked.
    #[inline]
    pub(super) fn count_insert(&self) -> bool {
        self.count.increment().is_multiple_of(INTERVAL) || self.buckets.load(Acquire) < SMALL
    }

    /// Counts an entry just removed, likewise.
    #[inline]
    pub(super) fn count_remove(&self) -> bool {
        self.count.decrement().is_multiple_of(INTERVAL) || self.buckets.load(Acquire) < SMALL
    }

    /// Splits a few buckets if the load is above the target, merges a few if it is below the floor.
    pub(super) fn resize(&self) {
        let entries = self.count.sum();
        let buckets = self.buckets.load(Acquire);
        let (fewest, most) =
            ((entries * 10).div_ceil(TARGET), (entries * 10 / FLOOR).max(self.buckets_min()));
        if buckets < fewest {
            self.grow(entries, buckets, fewest);
        } else if buckets > most {
            self.shrink(buckets, most);
        }
    }

    fn grow(&self, entries: u64, buckets: u64, wanted: u64) {
        for _ in buckets..wanted.min(buckets + STEPS_MAX) {
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

    fn shrink(&self, buckets: u64, wanted: u64) {
        for _ in wanted.max(buckets.saturating_sub(STEPS_MAX))..buckets {
            // Whoever holds it does the work, and what is left over later removals do.
            let Some(mut splitter) = self.splitter.try_lock() else { return };
            if self.buckets.load(Acquire) <= wanted || !self.merge(&mut splitter) {
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
        let Splitter { stay, go, spare } = splitter;
        stay.clear();
        go.clear();

        let Some(mut chain) = Chain::lock(&self.segments, next_split(buckets), &self.pool) else {
            return false;
        };
        for entry in chain.entries() {
            if entry.hash_bit(bit) { go.push(entry) } else { stay.push(entry) }
        }
        // An empty bucket has room for six, or for five and a link.
        let needed = if go.len() > SLOTS { (go.len() - LINK_SLOT).div_ceil(SLOTS) } else { 0 };
        if !self.pool.reserve(needed, spare) {
            return false;
        }
        let Some(mut buddy) = Chain::revive(self.segments.get(buckets), &self.pool) else {
            unreachable!("bucket {buckets} is beyond the last one, and in use")
        };
        go.iter()
            .for_each(|&entry| buddy.insert_with(entry, |pool| spare.pop().unwrap_or_else(|| pool.take())));
        drop(buddy);
        self.buckets.store(buckets + 1, Release);
        // Even where no entry moves, the sequence changes: a reader that finds it knows of the split.
        chain.retain(stay);
        true
    }

    /// Merges the last bucket into the one that it was split from; `false` if it is of the first segment, or if there is no
    /// memory for an overflow bucket.
    fn merge(&self, splitter: &mut Splitter) -> bool {
        let buckets = self.buckets.load(Acquire);
        if buckets <= self.buckets_min() {
            return false;
        }
        let last = buckets - 1;
        let Splitter { go, spare, .. } = splitter;
        let lock = |number| Chain::lock(&self.segments, number, &self.pool);
        // In ascending order. Both are in use, for only this thread could have changed that.
        let (Some(mut chain), Some(buddy)) = (lock(next_split(last)), lock(last)) else { return false };
        go.clear();
        go.extend(buddy.entries());
        if !self.pool.reserve(chain.overflow_for(go.len()), spare) {
            return false;
        }
        // A reader that began when the buddy was split off, and looked here in vain since, must not take the new number for the
        // one that it began with.
        chain.begin_merge();
        go.iter()
            .for_each(|&entry| chain.insert_with(entry, |pool| spare.pop().unwrap_or_else(|| pool.take())));
        self.buckets.store(last, Release);
        // Before the other is unlocked: while a key's entry is in both, neither changes.
        buddy.retire();
        drop(chain);
        if let Some(count) = self.segments.releasable(last) {
            self.releases.fetch_add(1, Release);
            self.segments.release(last, count);
        }
        true
    }
}

#[cfg(all(test, not(shuttle), not(miri)))]
mod tests {
    use super::*;
    use crate::{Address, Change, Index, Key, Lookup, Verdict};

    fn key(hash: u64) -> Key<'static> {
        Key { hash, db: 0, bytes: b"" }
    }
    /// An entry whose address is its hash.
    fn insert(table: &Clht, hash: u64) {
        let decide = |_| (Change::Insert(Address::new(hash)), ());
        table.update(&key(hash), |_| Verdict::Differs, decide);
    }

    /// A bucket whose memory was given back and that was split again looks as it did before, to its header: only the count
    /// of releases tells a probe that was under way all that time that it may have read zeroes.
    #[test]
    fn a_probe_notices_that_its_bucket_was_gone_meanwhile() {
        const BUCKETS: u64 = 1024;
        let table = Clht::with_min_buckets(BUCKETS);
        // Alone in the first bucket that a split adds, which is the first of a page.
        let lone = BUCKETS;
        insert(&table, lone);
        // The others stay out of it, and out of the bucket that it is split from.
        let others = (1..).filter(|hash| hash % BUCKETS != 0);
        let mut inserted = Vec::new();
        for hash in others {
            if table.buckets() > BUCKETS {
                break;
            }
            insert(&table, hash);
            inserted.push(hash);
        }
        let start = table.start(lone);
        assert!(table.stands(&start));
        let mut removed = Vec::new();
        while table.buckets() > BUCKETS {
            let hash: u64 = inserted.pop().unwrap();
            assert!(table.remove(&key(hash), Address::new(hash)));
            removed.push(hash);
        }
        while table.buckets() == BUCKETS {
            insert(&table, removed.pop().unwrap());
        }
        let again = table.start(lone);
        assert_eq!(again.header(), start.header(), "the headers are alike");
        assert!(!table.stands(&start) && table.stands(&again));
        assert_eq!(table.get(&key(lone), |_| Verdict::Match), Lookup::Found(Address::new(lone)));
    }
}
