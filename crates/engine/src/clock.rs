//! Time, injected. A store has a time of its own, which deadlines and versions are made of (`docs/time.md`).
//!
//! ```text
//! store time = what has elapsed since the machine started (nobody sets that) + base_us     fixed while a store is open
//! wall clock = store time + wall_ahead_ms                                                  changes when somebody sets the clock
//! ```

use std::fmt;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sync::{AtomicI64, AtomicU64};

/// A source of time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The wall clock, in microseconds since the Unix epoch. It may be set in either direction.
    fn now_us(&self) -> u64;
    /// Microseconds that have passed since some moment: the same one as long as [`boot`](Self::boot) says the same. Whoever sets
    /// the wall clock doesn't change them. Without such a source it is the wall clock.
    fn elapsed_us(&self) -> u64 {
        self.now_us()
    }
    /// Which start of the machine [`elapsed_us`](Self::elapsed_us) counts from; 0: not known.
    fn boot(&self) -> u64 {
        0
    }
    /// What was kept last of this store's time, `None` if nothing was.
    fn kept(&self) -> Option<Anchor> {
        None
    }
    /// Keeps how the store's time lies, for the next opening. It should be durable afterwards.
    ///
    /// # Errors
    /// Those of where it is kept.
    fn keep(&self, _anchor: Anchor) -> io::Result<()> {
        Ok(())
    }
}

/// How a store's time lies to the clocks of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// The start of the machine that `base_us` holds for; 0: for none.
    pub boot: u64,
    /// What the store's time is ahead of the machine's elapsed time.
    pub base_us: i64,
    /// What the wall clock is ahead of the store's time.
    pub wall_ahead_ms: i64,
}

/// A store's time, and the wall's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// The store's time, in milliseconds: what deadlines of records are measured in.
    pub now_ms: u64,
    /// What the wall clock is ahead of it.
    pub wall_ahead_ms: i64,
}

impl Time {
    /// What the wall clock shows.
    pub fn wall_now_ms(&self) -> u64 {
        self.to_wall(self.now_ms)
    }
    /// A moment of the store's time as the wall clock gives it.
    pub fn to_wall(&self, ms: u64) -> u64 {
        ms.saturating_add_signed(self.wall_ahead_ms)
    }
    /// A moment of the wall clock as the store's time gives it; at least 1, for 0 means never.
    pub fn from_wall(&self, ms: u64) -> u64 {
        ms.saturating_add_signed(self.wall_ahead_ms.saturating_neg()).max(1)
    }
}

/// The system's clocks. They keep nothing.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
    }
    fn elapsed_us(&self) -> u64 {
        // It goes on while the machine sleeps.
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        (time.tv_sec as u64).saturating_mul(1_000_000).saturating_add(time.tv_nsec as u64 / 1000)
    }
    fn boot(&self) -> u64 {
        let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        if id.is_empty() { 0 } else { xxhash_rust::xxh3::xxh3_64(&id).max(1) }
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

/// A store's time: it never runs backwards, neither while the store is open nor over openings.
#[derive(Debug)]
pub(crate) struct SteadyClock {
    base_us: i64,
    last_us: AtomicU64,
    wall_ahead_ms: AtomicI64,
    /// What is kept of it.
    kept_ahead_ms: AtomicI64,
}

/// A wall clock that differs by less from what is known was read at another moment, or is slewed: it was not set.
const SET_MS: u64 = 100;
/// What was used last may lie so far ahead of the machine's elapsed time: versions are made of time, and can run ahead of it.
const BEHIND_MAX_US: u64 = 1_000_000;
/// Nobody leaves a store for longer: a clock that says so is wrong.
const AWAY_MAX_US: u64 = 10 * 366 * 86_400 * 1_000_000;
/// How far a mark of programs that kept no anchor may lie ahead of use.
const OLD_AHEAD_US: u64 = 10_000_000;
/// New stores begin no later than this, whatever the clock shows, so that versions last: the year 2112.
const BEGIN_MAX_US: u64 = 1 << 52;
/// Where they begin instead: in 2023.
const BEGIN_US: u64 = 1_700_000_000_000_000;

/// What the media say of a store's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// No later time was used. 0: the store is new.
    pub us: u64,
    /// So far before the mark the last time that surely was used lies.
    pub ahead_us: u64,
}

impl SteadyClock {
    /// Goes on with a store's time: by what has elapsed if the machine has not been started since, else by the wall clock.
    pub fn resume(clock: &dyn Clock, mark: Mark) -> Self {
        let (elapsed, wall, boot) = (clock.elapsed_us(), clock.now_us(), clock.boot());
        // What lies there is of another store if this one is new.
        let kept = clock.kept().filter(|_| mark.us != 0);
        let Anchor { base_us, wall_ahead_ms: known, boot: kept_boot } = kept.unwrap_or_default();
        let used = mark.us.saturating_sub(if kept.is_some() { mark.ahead_us } else { OLD_AHEAD_US });
        let by_elapsed = elapsed.saturating_add_signed(base_us);
        let by_wall = wall.saturating_add_signed(known.saturating_neg().saturating_mul(1000));
        let now = if mark.us == 0 {
            if wall > BEGIN_MAX_US {
                tracing::warn!(
                    "the clock shows the year {}: the store's time begins in 2023, absolute times mean the clock's",
                    year(wall)
                );
                BEGIN_US
            } else {
                wall
            }
        } else if boot != 0 && kept_boot == boot && by_elapsed.saturating_add(BEHIND_MAX_US) >= used {
            by_elapsed.max(used)
        } else if by_wall < used {
            tracing::warn!(
                "the clock is {} s behind the store's time: keys live on as if no time had passed while the store was closed",
                mark.us.saturating_sub(by_wall) / 1_000_000
            );
            mark.us
        } else if by_wall.saturating_sub(used) > AWAY_MAX_US {
            tracing::warn!(
                "the clock is {} years ahead of when the store was used last: keys live on as if no time had passed",
                by_wall.saturating_sub(used) / (AWAY_MAX_US / 10)
            );
            mark.us
        } else {
            by_wall
        };
        let ahead = (i128::from(wall / 1000) - i128::from(now / 1000)) as i64;
        let set = if mark.us == 0 { ahead.unsigned_abs() > SET_MS } else { ahead.abs_diff(known) > SET_MS };
        let wall_ahead_ms = if set { ahead } else { known };
        if mark.us != 0 && set {
            tracing::info!("the wall clock was set: it is {wall_ahead_ms} ms ahead of the store's time");
        }
        let steady = Self {
            base_us: (i128::from(now) - i128::from(elapsed)) as i64,
            last_us: now.into(),
            wall_ahead_ms: wall_ahead_ms.into(),
            kept_ahead_ms: known.into(),
        };
        let anchor = steady.anchor(boot);
        if kept != Some(anchor) {
            steady.keep(clock, anchor);
        }
        steady
    }
    fn anchor(&self, boot: u64) -> Anchor {
        Anchor { boot, base_us: self.base_us, wall_ahead_ms: self.wall_ahead_ms.load(Relaxed) }
    }
    fn keep(&self, clock: &dyn Clock, anchor: Anchor) {
        self.kept_ahead_ms.store(anchor.wall_ahead_ms, Relaxed);
        if let Err(error) = clock.keep(anchor) {
            tracing::warn!(
                "how the store's time lies could not be kept, a restart goes by the wall clock: {error}"
            );
        }
    }
    /// The store's time.
    #[inline]
    pub fn now_us(&self, clock: &dyn Clock) -> u64 {
        let now = clock.elapsed_us().saturating_add_signed(self.base_us);
        // Racing callers may store out of order; fetch_max keeps the latest. The load first keeps the line shared.
        let last = self.last_us.load(Relaxed);
        if now <= last {
            return last;
        }
        self.last_us.fetch_max(now, Relaxed).max(now)
    }
    /// The same with the wall's, which may have been set.
    pub fn time(&self, clock: &dyn Clock) -> Time {
        let now_ms = self.now_us(clock) / 1000;
        let ahead = (i128::from(clock.now_us() / 1000) - i128::from(now_ms)) as i64;
        let mut wall_ahead_ms = self.wall_ahead_ms.load(Relaxed);
        if ahead.abs_diff(wall_ahead_ms) > SET_MS {
            self.wall_ahead_ms.store(ahead, Relaxed);
            wall_ahead_ms = ahead;
        }
        Time { now_ms, wall_ahead_ms }
    }
    /// Keeps what is known of the wall clock, if that has changed.
    pub fn note_wall(&self, clock: &dyn Clock) {
        let (now, before) = (self.wall_ahead_ms.load(Relaxed), self.kept_ahead_ms.load(Relaxed));
        if now != before && self.kept_ahead_ms.compare_exchange(before, now, Relaxed, Relaxed).is_ok() {
            tracing::warn!(
                "the wall clock was set {} by {} ms: keys live as long as they were to, absolute times mean the new one",
                if now > before { "forward" } else { "back" },
                now.abs_diff(before)
            );
            self.keep(clock, self.anchor(clock.boot()));
        }
    }
}

/// The year of a time, roughly.
fn year(us: u64) -> u64 {
    1970 + us / 1_000_000 / 31_556_952
}
