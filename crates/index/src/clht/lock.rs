//! The lock of a bucket and its chain, held in the bucket's header.
//!
//! # Thread safety
//! LOCK is taken with an acquiring compare-and-swap and given back with a releasing store, which also publishes the
//! sequence number. Only the holder writes the header.
//!
//! # Invariants
//! - A critical section that changed an entry leaves a sequence number that differs from the one it found.
//! - The sequence is odd exactly while entries may be between two places or slot 5 changes its meaning. No code of a
//!   caller runs then, so a reader that waits for an even number waits for a few stores only.
//! - A bucket beyond the first segment is LIVE from just before a split publishes it until a merge took its last entry away,
//!   and only a LIVE one can be locked. So nobody holds or takes a lock in memory that is given back to the system.
//! - EXCLUSIVE is set before the first change of an `update_many` and cleared with the lock.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::bucket::{Bucket, EXCLUSIVE, LINK, LIVE, LOCK, SEQUENCE};
use crate::sync::Backoff;

/// A locked bucket; dropping it unlocks, also when a panic unwinds.
pub(super) struct Locked<'a> {
    bucket: &'a Bucket,
    /// Sequence as found (even), LINK and LIVE as they are now; neither LOCK nor EXCLUSIVE.
    header: u32,
    exclusive: u32,
    moving: bool,
    changed: bool,
}

impl<'a> Locked<'a> {
    /// Waits for the lock of a main bucket; `None` if it must be LIVE and isn't, because the table has shrunk.
    #[inline]
    pub(super) fn new(bucket: &'a Bucket, must_live: bool) -> Option<Self> {
        let backoff = Backoff::new();
        loop {
            let header = bucket.header.load(Acquire);
            if must_live && header & LIVE == 0 {
                return None;
            }
            if header & LOCK == 0
                && bucket.header.compare_exchange_weak(header, header | LOCK, Acquire, Relaxed).is_ok()
            {
                debug_assert!(
                    header & (EXCLUSIVE | SEQUENCE) == 0,
                    "unlocked, exclusive or odd: {header:#x}"
                );
                return Some(Self { bucket, header, exclusive: 0, moving: false, changed: false });
            }
            backoff.wait();
        }
    }
    /// Takes a bucket into use, locked: nobody else can lock it before. `None` if it is in use.
    pub(super) fn revive(bucket: &'a Bucket) -> Option<Self> {
        let header = bucket.header.load(Acquire);
        let free = header & (LOCK | LIVE | LINK | EXCLUSIVE | SEQUENCE) == 0;
        let taken =
            free && bucket.header.compare_exchange(header, header | LIVE | LOCK, AcqRel, Relaxed).is_ok();
        taken.then_some(Self { bucket, header: header | LIVE, exclusive: 0, moving: false, changed: true })
    }
    /// Takes the bucket out of use: once unlocked it can't be locked any more.
    pub(super) fn retire(&mut self) {
        debug_assert!(self.moving && !self.linked());
        self.header &= !LIVE;
    }
    /// The bucket.
    #[inline]
    pub(super) fn bucket(&self) -> &'a Bucket {
        self.bucket
    }
    /// Whether slot 5 is a link.
    #[inline]
    pub(super) fn linked(&self) -> bool {
        self.header & LINK != 0
    }
    /// Makes readers wait from now on.
    pub(super) fn exclude_readers(&mut self) {
        self.exclusive = EXCLUSIVE;
        self.publish();
    }
    /// Notes that an entry changed in place.
    #[inline]
    pub(super) fn changed(&mut self) {
        self.changed = true;
    }
    /// Makes readers distrust a miss and slot 5 until the lock is given back.
    pub(super) fn begin_move(&mut self) {
        if !self.moving {
            self.moving = true;
            self.changed = true;
            self.publish();
        }
    }
    /// Says what slot 5 is. Needs [`begin_move`](Self::begin_move) before.
    pub(super) fn set_linked(&mut self, linked: bool) {
        debug_assert!(self.moving);
        self.header = if linked { self.header | LINK } else { self.header & !LINK };
        self.publish();
    }
    /// Shows the state to readers. Later stores to the bucket release, so whoever sees one of them sees this, too.
    fn publish(&self) {
        let sequence = if self.moving { SEQUENCE } else { 0 };
        self.bucket.header.store(self.header.wrapping_add(sequence) | LOCK | self.exclusive, Release);
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        let step = if self.changed { 2 * SEQUENCE } else { 0 };
        self.bucket.header.store(self.header.wrapping_add(step), Release);
    }
}
