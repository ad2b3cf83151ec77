//! Buckets: an anchor in the list for each, put there when the bucket is first used; and growth.
//!
//! ```text
//!   anchors  [0] [1] [2] [3]                   list: 0 ... 2 ... 1 ... 3 ... end   (reversed bits: 00 01 10 11)
//! ```
//!
//! # Thread safety
//! Lock-free. Several threads may put the same anchor in at the same time: each first looks for the place and writes the
//! anchor's link, then swings the link before it; exactly one of those swings succeeds.
//!
//! # Why the anchor's link is right when it comes into the list
//! A thread reads the anchor's link (not LINKED), then finds the place, then changes the anchor's link from what it read, then
//! swings the place. Let X's swing succeed, so that X's place did not change from when X found it. Whoever changed the anchor's
//! link after X did had read it after X's change, found the place after that, and so found the same place with the same
//! successor, or found the anchor in the list. Whoever changed it before X did was overwritten. And once LINKED is there (every
//! thread that comes to an anchor in the list sees to it first), such changes fail.
//!
//! # Invariants
//! - An anchor of bucket b comes before every entry whose hash ends with b's bits, and never moves.
//! - The number of buckets is a power of two; the segments for them were there before it was published.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::LockFree;
use super::walk::{Element, Place, Walk, anchor_position, linked};
use super::word::Word;
use crate::sync::AtomicU64;

/// Buckets at most: what a link can number.
const BUCKETS_MAX: u64 = 1 << 31;
/// Entries per bucket above which a table grows.
const LOAD: u64 = 1;
/// Tables below this many buckets compare at every insert.
const SMALL: u64 = 1 << 10;
/// Inserts of one group of threads between two comparisons in larger tables.
const INTERVAL: u64 = 8;

impl LockFree {
    /// The link of a bucket's anchor, which is in the list afterwards.
    #[inline]
    pub(super) fn anchor(&self, bucket: u64) -> &AtomicU64 {
        let link = self.anchors.get(bucket);
        if !Word(link.load(Acquire)).is_linked() {
            self.put_anchor(bucket, link);
        }
        link
    }

    #[cold]
    fn put_anchor(&self, bucket: u64, link: &AtomicU64) {
        // Bucket 0 was in the list from the start, so this ends.
        let parent = self.anchor(bucket & !(1 << bucket.ilog2()));
        loop {
            let before = Word(link.load(Acquire));
            if before.is_linked() {
                return;
            }
            match self.place_of_anchor(bucket, parent) {
                None => {}
                Some(None) => {
                    linked(link);
                    return;
                }
                Some(Some(place)) => {
                    let anchor = Place { link, word: before };
                    if anchor.swing(before.to_target_of(place.word))
                        && place.swing(place.word.to_anchor(bucket))
                    {
                        linked(link);
                        return;
                    }
                }
            }
        }
    }

    /// Where an anchor belongs; `Some(None)` if it is there already, `None` if others changed the list meanwhile.
    fn place_of_anchor<'a>(&'a self, bucket: u64, parent: &'a AtomicU64) -> Option<Option<Place<'a>>> {
        let position = anchor_position(bucket);
        let mut walk = Walk::new(self, parent);
        loop {
            match walk.peek()? {
                Element::Anchor(other) if other == bucket => return Some(None),
                Element::Anchor(other) if anchor_position(other) < position => walk.pass_anchor(other),
                Element::Node(hit) if hit.position < position => walk.pass_node(&hit),
                Element::Anchor(_) | Element::Node(_) | Element::End => return Some(Some(walk.place)),
            }
        }
    }

    /// Counts an entry just inserted, and doubles the number of buckets if there are too few. No entry moves.
    #[inline]
    pub(super) fn count_insert(&self) {
        let counted = self.count.increment();
        let buckets = self.buckets.load(Acquire);
        if (counted.is_multiple_of(INTERVAL) || buckets < SMALL)
            && self.count.sum() > buckets * LOAD
            && buckets < BUCKETS_MAX
            && self.anchors.ensure(buckets)
        {
            // If another thread did it, so much the better. Where there is no memory, more entries share a bucket.
            let _ = self.buckets.compare_exchange(buckets, 2 * buckets, AcqRel, Acquire);
        }
    }
}
