//! The synchronisation primitives of this crate, swappable so that tests can explore schedules.
//!
//! Built with `--cfg shuttle`, every atomic access and every wait is a scheduling point of shuttle's explorer. Otherwise
//! these are the primitives of the standard library, of crossbeam and of parking_lot.

pub(crate) use imp::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Backoff, Mutex};

#[cfg(not(shuttle))]
mod imp {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64};

    /// Waits longer from turn to turn: spins, doubling, then yields the processor.
    pub(crate) struct Backoff(crossbeam_utils::Backoff);

    impl Backoff {
        pub(crate) fn new() -> Self {
            Self(crossbeam_utils::Backoff::new())
        }
        #[cold]
        pub(crate) fn wait(&self) {
            self.0.snooze();
        }
    }
}

#[cfg(shuttle)]
mod imp {
    pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64};
    use shuttle::sync::{Mutex as Inner, MutexGuard};
    use std::sync::PoisonError;

    /// Yields to the explorer, which would otherwise spin for ever.
    pub(crate) struct Backoff;

    impl Backoff {
        pub(crate) fn new() -> Self {
            Self
        }
        pub(crate) fn wait(&self) {
            shuttle::thread::yield_now();
        }
    }

    /// A mutex without poisoning, as the other build has it.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(Inner<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Inner::new(value))
        }
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}
