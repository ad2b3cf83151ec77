//! Locks for writers of one key, striped by hash; readers never take one.
//!
//! # Thread safety
//! A writer holds the stripe of its key's hash, so updates of one key exclude each other and `decide` is asked once. Several
//! stripes are locked in ascending order. Readers look at two words only, and only to wait for an `update_many`.
//!
//! # Invariants
//! A stripe is `exclusive` only while its lock is held, and `exclusions` counts the `update_many`s that have set any: both are
//! set before the first change, and cleared after the last.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU32, Backoff, Mutex, MutexGuard};

/// Stripes of a table: a power of two.
const STRIPES: usize = 128;

struct Stripe {
    lock: Mutex<()>,
    exclusive: AtomicU32,
}

/// All stripes of a table.
pub(super) struct Stripes {
    stripes: Box<[CachePadded<Stripe>]>,
    exclusions: CachePadded<AtomicU32>,
}

impl Stripes {
    pub(super) fn new() -> Self {
        let stripe = || CachePadded::new(Stripe { lock: Mutex::new(()), exclusive: AtomicU32::new(0) });
        Self {
            stripes: std::iter::repeat_with(stripe).take(STRIPES).collect(),
            exclusions: CachePadded::new(AtomicU32::new(0)),
        }
    }
    #[inline]
    fn stripe_of(hash: u64) -> usize {
        hash as usize % STRIPES
    }
    /// Waits for the stripe of a hash.
    #[inline]
    pub(super) fn lock(&self, hash: u64) -> MutexGuard<'_, ()> {
        self.stripes[Self::stripe_of(hash)].lock.lock()
    }
    /// Waits for the stripes of several hashes.
    pub(super) fn lock_many(&self, hashes: impl Iterator<Item = u64>) -> LockedMany<'_> {
        let mut numbers: Vec<usize> = hashes.map(Self::stripe_of).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let guards = numbers.iter().map(|&number| self.stripes[number].lock.lock()).collect();
        LockedMany { stripes: self, numbers, exclusive: false, _guards: guards }
    }
    /// Waits until no `update_many` is changing keys of this stripe.
    #[inline]
    pub(super) fn wait_for_many(&self, hash: u64) {
        if self.any_exclusive() {
            let backoff = Backoff::new();
            while self.stripes[Self::stripe_of(hash)].exclusive.load(Acquire) != 0 {
                backoff.wait();
            }
        }
    }
    /// Whether an `update_many` may be changing keys.
    #[inline]
    pub(super) fn any_exclusive(&self) -> bool {
        self.exclusions.load(Acquire) != 0
    }
    /// Bytes of DRAM held.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.stripes) as u64
    }
}

/// Several locked stripes; dropping it lets readers in and unlocks, also when a panic unwinds.
pub(super) struct LockedMany<'a> {
    stripes: &'a Stripes,
    numbers: Vec<usize>,
    exclusive: bool,
    /// Dropped after the readers were let in.
    _guards: Vec<MutexGuard<'a, ()>>,
}

impl LockedMany<'_> {
    /// Makes readers wait from now on.
    pub(super) fn exclude_readers(&mut self) {
        self.exclusive = true;
        self.stripes.exclusions.fetch_add(1, AcqRel);
        self.set(1);
    }
    fn set(&self, exclusive: u32) {
        for &number in &self.numbers {
            self.stripes.stripes[number].exclusive.store(exclusive, Release);
        }
    }
}

impl Drop for LockedMany<'_> {
    fn drop(&mut self) {
        if self.exclusive {
            self.set(0);
            self.stripes.exclusions.fetch_sub(1, AcqRel);
        }
    }
}
