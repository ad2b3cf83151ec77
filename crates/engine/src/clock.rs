//! Time, injected: expiry needs wall time that never runs backwards.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

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
///
/// While it is ahead (a crash leaves a mark ahead of use; somebody set the clock back) it goes on at half the clock's speed until
/// the clock has caught up. It must not stand still: versions are made of it, and the log is freed behind them, so that
/// writers would wait for as long.
#[derive(Debug)]
pub(crate) struct SteadyClock {
    last_us: AtomicU64,
    /// What the clock showed when time was last moved while it was ahead; `NEVER` while it is not.
    seen_us: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl SteadyClock {
    pub(crate) fn starting_at(us: u64) -> Self {
        Self { last_us: AtomicU64::new(us), seen_us: AtomicU64::new(NEVER) }
    }
    /// The clock's time, or later if it was ever later.
    pub(crate) fn now_us(&self, clock: &dyn Clock) -> u64 {
        let now = clock.now_us();
        // Racing callers may store out of order; fetch_max keeps the latest. The load first keeps the line shared.
        let last = self.last_us.load(Relaxed);
        if now <= last {
            return self.ahead_us(now, last);
        }
        if self.seen_us.load(Relaxed) != NEVER {
            self.seen_us.store(NEVER, Relaxed);
        }
        self.last_us.fetch_max(now, Relaxed).max(now)
    }

    #[cold]
    fn ahead_us(&self, now: u64, last: u64) -> u64 {
        let seen = self.seen_us.load(Relaxed);
        // The first look, or the clock was set back again: from here on.
        let passed = now.checked_sub(seen).unwrap_or(u64::MAX);
        if passed < 2 {
            return last;
        }
        // Whoever wins moves the time for all.
        if self.seen_us.compare_exchange(seen, now, Relaxed, Relaxed).is_err() || passed == u64::MAX {
            return last;
        }
        self.last_us.fetch_add(passed / 2, Relaxed) + passed / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_ahead_of_the_clock_is_caught_up_with_without_standing_still() {
        let clock = ManualClock::new(1_000);
        let steady = SteadyClock::starting_at(2_000);
        assert_eq!(steady.now_us(&clock), 2_000);
        for (clock_us, expected) in [(1_100, 2_050), (1_101, 2_050), (1_300, 2_150), (2_100, 2_550)] {
            clock.set_us(clock_us);
            assert_eq!(steady.now_us(&clock), expected, "at {clock_us}");
        }
        clock.set_us(3_000);
        assert_eq!(steady.now_us(&clock), 3_000);
    }

    #[test]
    fn a_clock_that_is_set_back_slows_time_and_does_not_turn_it() {
        let clock = ManualClock::new(5_000);
        let steady = SteadyClock::starting_at(0);
        assert_eq!(steady.now_us(&clock), 5_000);
        for (clock_us, expected) in
            [(1_000, 5_000), (2_000, 5_500), (500, 5_500), (700, 5_600), (9_000, 9_000), (8_000, 9_000)]
        {
            clock.set_us(clock_us);
            assert_eq!(steady.now_us(&clock), expected, "at {clock_us}");
        }
    }
}
