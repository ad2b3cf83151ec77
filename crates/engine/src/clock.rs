//! Time, injected: expiry needs wall time that never runs backwards.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sync::AtomicU64;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since the Unix epoch. May stand still, should not run backwards; the machine guards against both.
    fn now_us(&self) -> u64;
}

/// The system's wall clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
    }
}

/// A clock that tests set.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `us` microseconds.
    pub fn new(us: u64) -> Self {
        Self(AtomicU64::new(us))
    }
    /// Moves it on.
    pub fn advance_us(&self, us: u64) {
        self.0.fetch_add(us, Relaxed);
    }
    /// Sets it, backwards too.
    pub fn set_us(&self, us: u64) {
        self.0.store(us, Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Time that never runs backwards within a process and, through a floor taken from the manifest, across restarts.
#[derive(Debug)]
pub(crate) struct SteadyClock {
    last_us: AtomicU64,
}

impl SteadyClock {
    pub(crate) fn starting_at(us: u64) -> Self {
        Self { last_us: AtomicU64::new(us) }
    }
    /// The clock's time, or the latest ever returned if the clock went back.
    pub(crate) fn now_us(&self, clock: &dyn Clock) -> u64 {
        let now = clock.now_us();
        // Racing callers may store out of order; fetch_max keeps the latest. The load first keeps the line shared.
        let last = self.last_us.load(Relaxed);
        if now <= last {
            return last;
        }
        self.last_us.fetch_max(now, Relaxed).max(now)
    }
}
