//! A clock that trials set, with a fuse.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use terrace_engine::clock::Clock;

/// So many looks at the clock without anything done mean that a store waits for ever: everything that waits looks at it.
const LOOKS_MAX: u64 = 20_000;

/// When trials begin, in microseconds since the Unix epoch.
pub(super) const START_US: u64 = 1_800_000_000_000_000;

/// See the module's text.
#[derive(Debug)]
pub(super) struct FuseClock {
    us: AtomicU64,
    looks: AtomicU64,
}

impl FuseClock {
    pub fn new(us: u64) -> Self {
        Self { us: us.into(), looks: 0.into() }
    }
    pub fn advance_us(&self, us: u64) {
        self.us.fetch_add(us, Relaxed);
    }
    pub fn us(&self) -> u64 {
        self.us.load(Relaxed)
    }
    /// Something was done.
    pub fn progress(&self) {
        self.looks.store(0, Relaxed);
    }
}

impl Clock for FuseClock {
    fn now_us(&self) -> u64 {
        let looks = self.looks.fetch_add(1, Relaxed);
        assert!(
            looks < LOOKS_MAX || std::thread::panicking(),
            "the store hangs: it waits, and nothing changes"
        );
        self.us()
    }
}
