//! `clht`, the cache-line hash table: buckets of one cache line, no keys inside, readers without locks, growing and
//! shrinking without a pause and without reading a record.
//!
//! ```text
//!            hash   63 ..            base+32 | base+31 .. base+16 | base+15 .. base | base-1 .. 0
//!                   not used                   extra bits             tag in the word   bucket
//!                                              \___ 32 stored bits, which split buckets ___/
//!
//!   buckets (count = whole state) --> directory --> segments of 64-byte buckets --> overflow buckets
//! ```
//!
//! | file | what |
//! |---|---|
//! | `bucket`, `lock`, `chain` | the line, its lock, what a writer does to a chain |
//! | `probe` | look-ups without locks |
//! | `update` | changes of one key and of several |
//! | `batch` | look-ups of several keys, each waiting for memory beside the others |
//! | `grow` | when and how a bucket splits or merges |
//! | `snapshot` | all entries, saved and loaded |
//! | `pool`; `segments`, `memory`, `count` of the crate | where buckets come from; how many entries |
//!
//! Lock order: `splitter`, then buckets in ascending order of their numbers, then the pool's mutex.

mod batch;
mod bucket;
mod chain;
mod grow;
mod lock;
mod pool;
mod probe;
mod snapshot;
mod update;

use std::sync::atomic::Ordering::Acquire;

use crate::count::Count;
use crate::linear::{depth_of, next_cursor};
use crate::segments::Segments;
use crate::sync::{AtomicU64, Mutex};
use crate::{Address, Change, Index, Key, Lookup, Snapshot, Verdict};
use bucket::{Bucket, Entry, Tag};
use grow::Splitter;
use pool::Pool;

/// The most buckets a table may start with.
const MIN_BUCKETS_MAX: u64 = 1 << 28;

/// The cache-line hash table. About 17 bytes an entry; it grows from any size and shrinks back, never below the size that it began
/// with. Memory that a shrinking table no longer needs goes back to the system page by page; overflow buckets stay its own.
///
/// Beyond what [`Index`] promises:
/// - `Set` and `Remove` on an unread candidate replace and remove that candidate. In `update_many`, where two keys share
///   one unread candidate and the first takes it away, the second's `Set` inserts and its `Remove` does nothing.
/// - A get takes a few dozen instructions and waits for nobody on a hit, `update_many` excepted.
/// - Readers wait for an `update_many` from its `decide` on, not while it collects its locks and verifies.
/// - A scan locks the bucket it returns. Its cursor may be any number; hash bits that no bucket uses are ignored.
///
/// # Panics
/// An insert panics if there is no memory for an overflow bucket; locks are released, and that insert and what follows it
/// in the same `update_many` have not happened. If there is no memory for more buckets, chains grow longer instead.
pub struct Clht {
    /// How many buckets are published: the whole state of linear hashing. Only `splitter`'s holder stores.
    buckets: AtomicU64,
    /// How often memory of buckets was given back to the system.
    releases: AtomicU64,
    segments: Segments<Bucket>,
    pool: Pool,
    splitter: Mutex<Splitter>,
    count: Count,
}

impl Clht {
    /// An empty table that starts with `buckets`, rounded up to a power of two, of 64 bytes each. More at the start spare
    /// splits and leave more hash bits to tell entries apart (32 less one for each later doubling).
    ///
    /// # Panics
    /// If there is no memory for them, or more than 2^28 are asked for.
    pub fn with_min_buckets(buckets: u64) -> Self {
        assert!(buckets <= MIN_BUCKETS_MAX, "{buckets} buckets are more than a table may start with");
        let buckets = buckets.max(1).next_power_of_two();
        let segments = Segments::new(buckets.ilog2());
        assert!(segments.ensure(0), "out of memory for {buckets} buckets");
        Self {
            buckets: AtomicU64::new(buckets),
            releases: AtomicU64::new(0),
            segments,
            pool: Pool::new(),
            splitter: Mutex::new(Splitter::default()),
            count: Count::new(),
        }
    }
    /// Buckets now, overflow buckets not counted.
    pub fn buckets(&self) -> u64 {
        self.buckets.load(Acquire)
    }
    /// Buckets that the table began with and keeps.
    fn buckets_min(&self) -> u64 {
        1 << self.segments.base_bits()
    }
    /// Overflow buckets in use now.
    pub fn overflow_buckets(&self) -> u64 {
        self.pool.in_use()
    }
    #[inline]
    fn tag(&self, hash: u64) -> Tag {
        Tag::new(hash, self.segments.base_bits())
    }
}

impl Index for Clht {
    const NEEDS_KEY: bool = false;

    #[inline]
    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup {
        self.probe(key, verify)
    }

    #[inline]
    fn prefetch(&self, key: &Key<'_>) {
        self.prefetch_bucket(key.hash);
    }

    #[inline]
    fn candidates(&self, key: &Key<'_>, visit: impl FnMut(Address)) {
        self.visit_candidates(key.hash, visit);
    }

    #[inline]
    fn touch_batch<'k>(&self, count: usize, key: impl Fn(usize) -> Key<'k>, mut touch: impl FnMut(Address)) {
        self.touch_keys(count, |i| key(i).hash, &mut touch);
    }

    fn get_batch(
        &self,
        keys: &[Key<'_>],
        mut touch: impl FnMut(Address),
        mut verify: impl FnMut(usize, Address) -> Verdict,
        out: &mut [Lookup],
    ) {
        self.probe_batch(keys, &mut touch, &mut verify, out);
    }

    fn update<R>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R {
        self.change(key, verify, decide)
    }

    fn update_many<R>(
        &self,
        keys: &[Key<'_>],
        verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R {
        self.change_many(keys, verify, decide)
    }

    fn contains(&self, key: &Key<'_>, address: Address) -> bool {
        self.probe_exact(key.hash, address)
    }

    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        let (_, mut chain) = self.lock_bucket_of(key.hash);
        let Some(slot) = chain.find(self.tag(key.hash), from) else { return false };
        chain.replace(slot, Entry::new(self.tag(key.hash), to));
        true
    }

    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        let (_, mut chain) = self.lock_bucket_of(key.hash);
        let Some(slot) = chain.find(self.tag(key.hash), address) else { return false };
        chain.remove(slot);
        let resize = self.count_remove();
        drop(chain);
        if resize {
            self.resize();
        }
        true
    }

    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        let (number, chain) = self.lock_bucket_of(cursor);
        out.extend(chain.entries().filter_map(Entry::address));
        // Only a split or merge of this bucket changes its depth, and we hold its lock.
        Some(next_cursor(cursor, depth_of(number, self.buckets.load(Acquire))))
    }

    fn len(&self) -> u64 {
        self.count.sum()
    }

    fn memory_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.segments.bytes(self.buckets()) + self.pool.bytes()
    }

    fn name(&self) -> &'static str {
        "clht"
    }

    fn as_snapshot(&self) -> Option<&dyn Snapshot> {
        Some(self)
    }

    fn as_snapshot_mut(&mut self) -> Option<&mut dyn Snapshot> {
        Some(self)
    }
}

impl std::fmt::Debug for Clht {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clht({} entries, {} buckets)", self.len(), self.buckets())
    }
}
