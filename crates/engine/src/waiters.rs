//! Who waits for a position, and is to be woken when one moves.
//!
//! # Thread safety
//! A session registers itself, then looks once more at what it waits for. Whoever moves a position calls [`Waiters::wake`]
//! afterwards. One of the two sees the other: both store, then load, sequentially consistent.
//!
//! # Invariants
//! `count` is at least the number of sessions whose flag is set, at any time: it grows before a flag is set and shrinks after
//! one was cleared. The other way round, a waker that clears a flag whose registration has not been counted yet would
//! take another session's count, and whoever looks at the count then wakes nobody.

use std::sync::atomic::Ordering::*;

use crate::sync::{AtomicBool, AtomicUsize, fence};

pub(crate) struct Waiters {
    flags: Box<[AtomicBool]>,
    /// So that who moves a position need not look at every flag.
    count: AtomicUsize,
}

impl Waiters {
    /// Nobody waits; for `sessions` sessions.
    pub(crate) fn new(sessions: usize) -> Self {
        Self { flags: (0..sessions).map(|_| AtomicBool::new(false)).collect(), count: AtomicUsize::new(0) }
    }
    /// Session `slot`, which calls this itself, is to be woken. It must look again before it waits.
    pub(crate) fn register(&self, slot: usize) {
        // Nobody else sets the flag: if it is set, whoever clears it wakes this session.
        if !self.flags[slot].load(SeqCst) {
            self.count.fetch_add(1, SeqCst);
            self.flags[slot].store(true, SeqCst);
        }
        // Before the look that follows, which is an acquire load only: pairs with the position's store and the load in `any`.
        fence(SeqCst);
    }
    /// Whether anybody may wait. Call after the position has moved by a sequentially consistent store.
    pub(crate) fn any(&self) -> bool {
        self.count.load(SeqCst) != 0
    }
    /// Calls `wake` for every session that waits, once each: they must register again.
    pub(crate) fn wake(&self, mut wake: impl FnMut(usize)) {
        if !self.any() {
            return;
        }
        for (slot, waiting) in self.flags.iter().enumerate() {
            // Most don't wait: the look spares them the exchange, which would take the line away from everybody.
            if waiting.load(SeqCst) && waiting.swap(false, SeqCst) {
                self.count.fetch_sub(1, SeqCst);
                wake(slot);
            }
        }
    }
}
