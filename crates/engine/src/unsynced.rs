//! Since when is there a completed write that no sync has covered?
//!
//! # Thread safety
//! Sessions call [`Unsynced::note`]; whoever syncs, one at a time, calls [`begin`](Unsynced::begin) and
//! [`done`](Unsynced::done); anybody asks for [`since_us`](Unsynced::since_us).
//!
//! # Invariants
//! From the first `note` of a write until the sync that covers it is done, `since_us` is some time not later than that
//! note: on its way from one place to the other, the time is in both.

use std::sync::atomic::Ordering::*;

use crate::sync::AtomicU64;

pub(crate) struct Unsynced {
    /// When the oldest write that no sync has begun to cover completed, in microseconds; 0 for none.
    waiting_us: AtomicU64,
    /// The same for the sync that is running.
    syncing_us: AtomicU64,
}

impl Unsynced {
    pub(crate) fn new() -> Self {
        Self { waiting_us: AtomicU64::new(0), syncing_us: AtomicU64::new(0) }
    }
    /// A write has completed, and its position is in place.
    pub(crate) fn note(&self, now_us: u64) {
        if self.waiting_us.load(SeqCst) == 0 {
            let _ = self.waiting_us.compare_exchange(0, now_us.max(1), SeqCst, SeqCst);
        }
    }
    /// A sync begins, which covers all writes that are in place when this returns. `false` if nothing needs one.
    pub(crate) fn begin(&self) -> bool {
        // Nobody else takes the time away: the one that is read here is the one that is cleared below.
        let since = self.waiting_us.load(SeqCst);
        if since == 0 {
            return false;
        }
        // There first: pairs with the order of the loads in `since_us`.
        self.syncing_us.store(since, SeqCst);
        self.waiting_us.store(0, SeqCst);
        true
    }
    /// The sync succeeded, and its positions are in place.
    pub(crate) fn done(&self) {
        self.syncing_us.store(0, SeqCst);
    }
    /// When the oldest write completed that is not yet safe from power loss, in microseconds.
    pub(crate) fn since_us(&self) -> Option<u64> {
        let waiting = self.waiting_us.load(SeqCst);
        let syncing = self.syncing_us.load(SeqCst);
        [waiting, syncing].into_iter().filter(|&us| us != 0).min()
    }
}
