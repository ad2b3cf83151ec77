//! What the product is built with.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub use std::thread::yield_now;

pub use parking_lot::{Mutex, MutexGuard};

/// Waits longer from turn to turn: spins, doubling, then yields the processor.
#[derive(Default)]
pub struct Backoff(crossbeam_utils::Backoff);

impl Backoff {
    /// One that has not waited yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Waits once.
    #[cold]
    pub fn wait(&self) {
        self.0.snooze();
    }
}
