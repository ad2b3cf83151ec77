//! Epochs: when has every session passed a moment?
//!
//! # Thread safety
//! A session announces the epoch it is in before it touches shared bytes and leaves when its batch is done. Whoever
//! retires something (turns a page read-only, frees a frame) first makes the change visible, then takes
//! [`Epochs::advance`], then waits until [`Epochs::passed`].
//!
//! # Invariants
//! `passed(e)` is true only if no session is inside an epoch before `e`, and every session that enters later sees
//! everything written before the `advance` that returned `e`: `enter`'s fence pairs with `passed`'s.

use std::sync::atomic::Ordering::*;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, fence};
use crate::version::SLOTS_MAX;

/// The epochs of one store.
pub struct Epochs {
    global: CachePadded<AtomicU64>,
    /// 0 while outside, else the epoch entered in.
    sessions: Box<[CachePadded<AtomicU64>]>,
}

impl Epochs {
    /// For up to `sessions` sessions.
    pub fn new(sessions: usize) -> Self {
        assert!(sessions <= SLOTS_MAX, "at most {SLOTS_MAX} sessions");
        Self {
            global: AtomicU64::new(1).into(),
            sessions: (0..sessions).map(|_| AtomicU64::new(0).into()).collect(),
        }
    }
    /// Session `slot` is about to touch shared bytes.
    #[inline]
    pub fn enter(&self, slot: usize) {
        // Release: whoever reads this epoch instead of the 0 that `leave` stored must see what was written before that.
        self.sessions[slot].store(self.global.load(Relaxed), Release);
        // Store before any later load: pairs with the fence in `passed`.
        fence(SeqCst);
    }
    /// Session `slot` no longer touches any.
    #[inline]
    pub fn leave(&self, slot: usize) {
        self.sessions[slot].store(0, Release);
    }
    /// Begins a new epoch: what was changed before is seen by all that enter it.
    pub fn advance(&self) -> u64 {
        self.global.fetch_add(1, SeqCst) + 1
    }
    /// Whether every session has left the epochs before `epoch`.
    pub fn passed(&self, epoch: u64) -> bool {
        fence(SeqCst);
        self.sessions.iter().all(|session| {
            let entered = session.load(Acquire);
            entered == 0 || entered >= epoch
        })
    }
}
