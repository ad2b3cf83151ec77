//! The locks of the index, in DRAM: one for all buckets whose numbers end in the same bits, however often they split.
//!
//! ```text
//! word   .. sequence | 4: odd while entries move | 2: readers wait | 1: a writer is inside
//! ```
//!
//! # Thread safety
//! A writer takes `LOCK` by compare and swap and gives it back with a releasing store. A reader notes the word before it reads lines, and
//! a miss stands if the word is the same afterwards but for `LOCK`.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::line::Line;
use crate::sync::{AtomicU64, Backoff, fence};

const LOCK: u64 = 1;
const EXCLUSIVE: u64 = 2;
const SEQUENCE: u64 = 4;

/// See the module.
pub struct Stripes(Box<[AtomicU64]>);

impl Stripes {
    /// So many, a power of two.
    pub fn new(count: usize) -> Self {
        assert!(count.is_power_of_two(), "stripes are told apart by bits");
        Self((0..count).map(|_| AtomicU64::new(0)).collect())
    }
    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }
    /// Of a bucket, or of a hash.
    #[inline]
    pub fn of(&self, bucket: u64) -> usize {
        bucket as usize & (self.0.len() - 1)
    }
    /// What a reader notes, once it may read.
    #[inline]
    pub fn begin_read(&self, stripe: usize) -> u64 {
        let backoff = Backoff::new();
        loop {
            let word = self.0[stripe].load(Acquire);
            if word & (EXCLUSIVE | SEQUENCE) == 0 {
                return word & !LOCK;
            }
            backoff.wait();
        }
    }
    /// Whether nothing has moved since a reader noted this.
    #[inline]
    pub fn stands(&self, stripe: usize, noted: u64) -> bool {
        fence(Acquire);
        self.0[stripe].load(Acquire) & !LOCK == noted
    }
    /// Waits for the lock.
    #[inline]
    pub fn lock(&self, stripe: usize) -> Held<'_> {
        let (word, backoff) = (&self.0[stripe], Backoff::new());
        loop {
            let seen = word.load(Relaxed);
            if seen & LOCK == 0 && word.compare_exchange_weak(seen, seen | LOCK, Acquire, Relaxed).is_ok() {
                return Held { word, seen, stripe, line: None };
            }
            backoff.wait();
        }
    }
    /// Bytes of DRAM.
    pub fn bytes(&self) -> u64 {
        (self.0.len() * size_of::<AtomicU64>()) as u64
    }
}

/// A stripe that this thread has locked; dropping it unlocks.
pub struct Held<'a> {
    word: &'a AtomicU64,
    /// With what it says now, but for `LOCK`.
    seen: u64,
    /// Which.
    pub stripe: usize,
    /// A line of the stripe as it is: what this thread read of it last.
    pub line: Option<(u64, Line)>,
}

impl Held<'_> {
    /// Readers wait from now on.
    pub fn exclude_readers(&mut self) {
        self.seen |= EXCLUSIVE;
        self.word.store(self.seen | LOCK, Release);
        fence(Release);
    }
    /// Entries move from now on.
    #[inline]
    pub fn begin_move(&mut self) {
        if self.seen & SEQUENCE == 0 {
            self.seen += SEQUENCE;
            self.word.store(self.seen | LOCK, Release);
            fence(Release);
        }
    }
    /// They have: readers need not wait for what makes it durable.
    #[inline]
    pub fn end_move(&mut self) {
        if self.seen & SEQUENCE != 0 {
            self.seen += SEQUENCE;
            self.word.store(self.seen | LOCK, Release);
        }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.end_move();
        self.word.store(self.seen & !EXCLUSIVE, Release);
    }
}
