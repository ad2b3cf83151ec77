//! `lockfree`, a lock-free hash table: split-ordered lists (Shalev and Shavit, Journal of the ACM, 2006) over Michael's list
//! (SPAA 2002), with nodes that stay nodes and tags in every link in place of hazard pointers or epochs.
//!
//! ```text
//!   hash & (buckets - 1) --> anchors  [0]        [1]        [2]        [3]
//!                                      |          |          |          |
//!                 one list:            0 -> n ->  2 -> n n -> 1 -> n -> 3 -> end      n: reversed hash, address, link
//! ```
//!
//! All entries are in one list, in the order of their hashes read backwards. Bucket b of 2^d is then one stretch of that list,
//! and doubling the buckets cuts each stretch in two by putting an anchor in its middle: no entry ever moves. Unlike in the
//! paper an anchor is not a node but a word in the array of buckets: a look-up touches one line less.
//!
//! | file | what |
//! |---|---|
//! | `word` | a link's content |
//! | `nodes` | where nodes come from and go |
//! | `walk` | a step along the list that believes nothing unconfirmed |
//! | `anchors` | buckets, and their growth |
//! | `probe`, `batch` | look-ups of one key and of several, scans |
//! | `stripes`, `update` | changes of one key and of several |
//!
//! Lock order: stripes in ascending order. Nothing else is locked.

mod anchors;
mod batch;
mod nodes;
mod probe;
mod stripes;
mod update;
mod walk;
mod word;

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::count::Count;
use crate::linear::next_cursor;
use crate::segments::Segments;
use crate::sync::AtomicU64;
use crate::{Address, Change, Index, Key, Lookup, Verdict};
use nodes::Nodes;
use stripes::Stripes;
use word::Word;

/// The most buckets a table may start with.
const MIN_BUCKETS_MAX: u64 = 1 << 28;

/// The lock-free hash table. 32 to 40 bytes an entry: a node of 24 and 8 for each of one to two buckets.
///
/// What is lock-free, that is, some thread always gets on, wherever others are stopped: look-ups and scans, growth, and all
/// that happens to the list itself. What is not: [`Index::update`] asks `decide` exactly once, inside a critical section, which
/// no algorithm without waiting can do; so writers of one key exclude each other by a lock, striped by hash. A writer that is
/// stopped holds up writers of its stripe (one in 128), and no reader. [`Index::update_many`] shows all its changes in one step
/// by making readers of the same stripes wait for it.
///
/// - `Set` and `Remove` on an unread candidate replace and remove that candidate. In `update_many`, where two keys share
///   one unread candidate and the first takes it away, the second's `Set` inserts and its `Remove` does nothing.
/// - The table never shrinks; nodes of removed entries serve the next inserts.
/// - A scan's cursor may be any number; hash bits that no bucket uses are ignored.
///
/// # Panics
/// An insert panics if there is no memory for a node; locks are released, and that insert and what follows it in the same
/// `update_many` have not happened. If there is no memory for more buckets, they grow longer instead.
pub struct LockFree {
    /// How many buckets there are: a power of two, which only doubles.
    buckets: AtomicU64,
    /// The links of the buckets' anchors; 0 before a bucket is first used.
    anchors: Segments<AtomicU64>,
    nodes: Nodes,
    stripes: Stripes,
    count: Count,
}

impl LockFree {
    /// An empty table that starts with `buckets`, rounded up to a power of two, of 8 bytes each.
    ///
    /// # Panics
    /// If there is no memory for them, or more than 2^28 are asked for.
    pub fn with_min_buckets(buckets: u64) -> Self {
        assert!(buckets <= MIN_BUCKETS_MAX, "{buckets} buckets are more than a table may start with");
        let buckets = buckets.max(1).next_power_of_two();
        let anchors = Segments::<AtomicU64>::new(buckets.ilog2());
        assert!(anchors.ensure(0), "out of memory for {buckets} buckets");
        anchors.get(0).store(Word::EMPTY_LIST.0, Release);
        Self {
            buckets: AtomicU64::new(buckets),
            anchors,
            nodes: Nodes::new(),
            stripes: Stripes::new(),
            count: Count::new(),
        }
    }
    /// Buckets now.
    pub fn buckets(&self) -> u64 {
        self.buckets.load(Acquire)
    }
    #[inline]
    fn bucket_of(&self, hash: u64) -> u64 {
        hash & (self.buckets.load(Acquire) - 1)
    }
}

impl Index for LockFree {
    const NEEDS_KEY: bool = false;

    #[inline]
    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup {
        self.probe(key.hash, verify)
    }

    #[inline]
    fn prefetch(&self, key: &Key<'_>) {
        self.anchors.prefetch(self.bucket_of(key.hash));
    }

    #[inline]
    fn candidates(&self, key: &Key<'_>, visit: impl FnMut(Address)) {
        self.visit_candidates(key.hash, visit);
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
        self.stripes.wait_for_many(key.hash);
        self.find(key.hash, address).is_some()
    }

    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        let _locked = self.stripes.lock(key.hash);
        let Some(hit) = self.find(key.hash, from) else { return false };
        hit.node.address.store(to.raw(), Release);
        true
    }

    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        let _locked = self.stripes.lock(key.hash);
        let Some(hit) = self.find(key.hash, address) else { return false };
        self.delete(key.hash, &hit);
        true
    }

    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        // A bucket is one stretch of the list, and its cursor the reversed place where it begins: growth only cuts it.
        let buckets = self.buckets.load(Acquire);
        let depth = buckets.ilog2();
        self.collect(cursor & (buckets - 1), depth, out);
        Some(next_cursor(cursor, depth))
    }

    fn len(&self) -> u64 {
        self.count.sum()
    }

    fn memory_bytes(&self) -> u64 {
        size_of::<Self>() as u64
            + self.anchors.bytes(self.buckets())
            + self.nodes.bytes()
            + self.stripes.bytes()
    }

    fn name(&self) -> &'static str {
        "lockfree"
    }
}

impl std::fmt::Debug for LockFree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockFree({} entries, {} buckets)", self.len(), self.buckets())
    }
}
