//! What `--cfg shuttle` puts in their place.

pub use shuttle::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub use shuttle::thread::yield_now;

use shuttle::sync::Mutex as Inner;
pub use shuttle::sync::MutexGuard;
use std::sync::PoisonError;

/// Yields to the explorer, which would otherwise spin for ever.
pub fn spin_loop() {
    yield_now();
}

/// As `spin_loop`.
#[derive(Default)]
pub struct Backoff;

impl Backoff {
    /// One that has not waited yet.
    pub fn new() -> Self {
        Self
    }
    /// Waits once.
    pub fn wait(&self) {
        yield_now();
    }
}

/// A mutex without poisoning, as the other build has it.
#[derive(Default)]
pub struct Mutex<T>(Inner<T>);

impl<T> Mutex<T> {
    /// Unlocked.
    pub fn new(value: T) -> Self {
        Self(Inner::new(value))
    }
    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The lock, if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
    /// What it guards; nobody else can reach it any more.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
