//! The memory ordering of epochs, explored exhaustively within small bounds: the product's own `epoch.rs`, with loom's
//! primitives in the place of its `sync` module.
//!
//! Invariant: once an epoch has passed, nobody touches what was taken away before it began, and what its last user did to it
//! happened before. Loom's `UnsafeCell` finds both: an access at the same time, and one without an order.
//!
//! Loom follows the C11 model, so that a fence that x86-64 does not need counts. It treats sequentially consistent
//! *accesses* as acquire and release (fences it knows): what rests on them, the commit positions, is left to shuttle.
#![cfg(not(shuttle))]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

#[path = "../src/epoch.rs"]
mod epoch;

/// What `epoch.rs` finds under `crate::sync`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, fence};
}

/// What it finds under `crate::version`.
mod version {
    pub(crate) const SLOTS_MAX: usize = 2;
}

use std::sync::atomic::Ordering::*;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::epoch::Epochs;
use crate::sync::{AtomicU64, fence};

trait Kernel: Send + Sync + 'static {
    fn new() -> Self;
    fn enter(&self);
    fn leave(&self);
    fn advance(&self) -> u64;
    fn passed(&self, epoch: u64) -> bool;
}

impl Kernel for Epochs {
    fn new() -> Self {
        Epochs::new(1)
    }
    fn enter(&self) {
        Epochs::enter(self, 0);
    }
    fn leave(&self) {
        Epochs::leave(self, 0);
    }
    fn advance(&self) -> u64 {
        Epochs::advance(self)
    }
    fn passed(&self, epoch: u64) -> bool {
        Epochs::passed(self, epoch)
    }
}

const NO_FENCE_IN_ENTER: u8 = 1;
const NO_FENCE_IN_PASSED: u8 = 2;
const LEAVE_RELAXED: u8 = 3;
const ENTER_RELAXED: u8 = 4;
const PASSED_RELAXED: u8 = 5;

/// Epochs of one session with one of the orderings left out.
struct Broken<const BUG: u8> {
    global: AtomicU64,
    session: AtomicU64,
}

impl<const BUG: u8> Kernel for Broken<BUG> {
    fn new() -> Self {
        Self { global: AtomicU64::new(1), session: AtomicU64::new(0) }
    }
    fn enter(&self) {
        let order = if BUG == ENTER_RELAXED { Relaxed } else { Release };
        self.session.store(self.global.load(Relaxed), order);
        if BUG != NO_FENCE_IN_ENTER {
            fence(SeqCst);
        }
    }
    fn leave(&self) {
        self.session.store(0, if BUG == LEAVE_RELAXED { Relaxed } else { Release });
    }
    fn advance(&self) -> u64 {
        self.global.fetch_add(1, SeqCst) + 1
    }
    fn passed(&self, epoch: u64) -> bool {
        if BUG != NO_FENCE_IN_PASSED {
            fence(SeqCst);
        }
        let entered = self.session.load(if BUG == PASSED_RELAXED { Relaxed } else { Acquire });
        entered == 0 || entered >= epoch
    }
}

/// A session looks `rounds` times for a frame and reads in it; another thread takes the frame away and, once the epoch has
/// passed, reuses it.
fn a_frame_changes_hands<K: Kernel>(rounds: usize) {
    loom::model(move || {
        let kernel = Arc::new(K::new());
        let found = Arc::new(AtomicU64::new(1));
        let frame = Arc::new(UnsafeCell::new(42));
        let reader = {
            let (kernel, found, frame) = (kernel.clone(), found.clone(), frame.clone());
            thread::spawn(move || {
                for _ in 0..rounds {
                    kernel.enter();
                    if found.load(Acquire) == 1 {
                        frame.with(|_| {});
                    }
                    kernel.leave();
                }
            })
        };
        found.store(0, Release);
        let epoch = kernel.advance();
        // Not a loop: that it passes in the end is no question of ordering.
        if kernel.passed(epoch) {
            frame.with_mut(|_| {});
        }
        reader.join().unwrap();
    });
}

#[test]
fn a_frame_that_was_taken_away_is_reused_after_its_last_use() {
    a_frame_changes_hands::<Epochs>(1);
    a_frame_changes_hands::<Epochs>(2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn planted_no_fence_in_enter() {
    a_frame_changes_hands::<Broken<NO_FENCE_IN_ENTER>>(1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn planted_no_fence_in_passed() {
    a_frame_changes_hands::<Broken<NO_FENCE_IN_PASSED>>(1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn planted_leave_relaxed() {
    a_frame_changes_hands::<Broken<LEAVE_RELAXED>>(1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn planted_passed_relaxed() {
    a_frame_changes_hands::<Broken<PASSED_RELAXED>>(1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn planted_enter_relaxed() {
    a_frame_changes_hands::<Broken<ENTER_RELAXED>>(2);
}

#[test]
fn the_copy_without_a_bug_is_sound() {
    a_frame_changes_hands::<Broken<0>>(2);
}
