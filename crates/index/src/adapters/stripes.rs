//! What keys share by their hash: a lock for updates, a sequence number for steps of several keys, a count.
//!
//! # Thread safety
//! Whoever changes a key holds its stripe's lock. Steps of several keys take their locks in ascending order. Readers take no
//! lock: they read, and read again if the sequence number moved.
//!
//! # Invariants
//! A sequence number is odd exactly while a step of several keys changes the map, and only the lock's holder moves it. All
//! numbers of a step are odd before its first change and until after its last, so nobody sees a part of it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Backoff, Mutex};

const STRIPES: usize = 256;

/// One stripe.
pub(super) struct Stripe {
    pub(super) lock: Mutex<()>,
    sequence: AtomicU64,
    entries: AtomicU64,
    name_bytes: AtomicU64,
}

/// All of them.
pub(super) struct Stripes(Box<[CachePadded<Stripe>]>);

impl Stripes {
    pub(super) fn new() -> Self {
        let stripe = || Stripe {
            lock: Mutex::new(()),
            sequence: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            name_bytes: AtomicU64::new(0),
        };
        Self((0..STRIPES).map(|_| CachePadded::new(stripe())).collect())
    }
    /// Which stripe a hash belongs to.
    #[inline]
    pub(super) fn number(hash: u64) -> usize {
        hash as usize % STRIPES
    }
    #[inline]
    pub(super) fn get(&self, number: usize) -> &Stripe {
        &self.0[number]
    }
    /// Entries and the bytes of their names.
    pub(super) fn sums(&self) -> (u64, u64) {
        self.0.iter().fold((0, 0), |(entries, bytes), stripe| {
            (entries + stripe.entries.load(Relaxed), bytes + stripe.name_bytes.load(Relaxed))
        })
    }
    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }
}

impl Stripe {
    /// What `look` sees between steps of several keys.
    #[inline]
    pub(super) fn read<R>(&self, look: impl Fn() -> R) -> R {
        let backoff = Backoff::new();
        loop {
            let before = self.sequence.load(Acquire);
            if before.is_multiple_of(2) {
                let seen = look();
                // Pairs with the fence in `Odd::new`: whoever saw a change of a step sees its odd number here.
                fence(Acquire);
                if self.sequence.load(Relaxed) == before {
                    return seen;
                }
            }
            backoff.wait();
        }
    }
    /// Counts an entry that came. The caller holds the lock.
    #[inline]
    pub(super) fn came(&self, name: &[u8]) {
        self.entries.store(self.entries.load(Relaxed) + 1, Relaxed);
        self.name_bytes.store(self.name_bytes.load(Relaxed) + name.len() as u64, Relaxed);
    }
    /// Counts an entry that went. The caller holds the lock.
    #[inline]
    pub(super) fn went(&self, name: &[u8]) {
        self.entries.store(self.entries.load(Relaxed) - 1, Relaxed);
        self.name_bytes.store(self.name_bytes.load(Relaxed) - name.len() as u64, Relaxed);
    }
}

/// Keeps a stripe's readers out while it lives.
pub(super) struct Odd<'a>(&'a Stripe);

impl<'a> Odd<'a> {
    /// The caller holds the stripe's lock.
    pub(super) fn new(stripe: &'a Stripe) -> Self {
        stripe.sequence.store(stripe.sequence.load(Relaxed) + 1, Relaxed);
        fence(Release);
        Self(stripe)
    }
}

impl Drop for Odd<'_> {
    fn drop(&mut self) {
        self.0.sequence.store(self.0.sequence.load(Relaxed) + 1, Release);
    }
}
