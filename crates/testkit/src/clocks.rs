//! A machine's clocks: one that elapses, and one on the wall that somebody sets, through restarts of the machine.

use parking_lot::Mutex;
use std::io;

use terrace_engine::clock::{Anchor, Clock};

use crate::rng::Rng;

/// How far ahead of use a mark of time may lie, in milliseconds: so far a store's time may jump, where no clock tells better.
const MARK_AHEAD_MS: u64 = 10_000;

#[derive(Debug)]
struct State {
    wall_us: u64,
    elapsed_us: u64,
    boot: u64,
    kept: Option<Anchor>,
}

/// The clocks of one machine, and what a store keeps of its time.
#[derive(Debug)]
pub struct Clocks(Mutex<State>);

/// What happened to a machine between two openings of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// So much time went by, and the store can know it.
    Exactly(u64),
    /// So much at least counts for it, and no more than that and how far a mark lies ahead.
    AtLeast(u64),
    /// What the system's clocks say: nobody injected others.
    Really,
}

impl Passed {
    /// Whether a store's time may have gone on by so much, where closing and opening really took `real_ms`.
    pub fn allows(self, ms: u64, real_ms: u64) -> bool {
        match self {
            // Both are whole milliseconds, of two readings each.
            Passed::Really => ms <= real_ms + 2,
            Passed::Exactly(passed) => ms == passed,
            Passed::AtLeast(passed) => (passed..=passed + MARK_AHEAD_MS).contains(&ms),
        }
    }
}

impl Clocks {
    /// A machine whose clock on the wall shows `us`, and which has run for a minute.
    pub fn new(us: u64) -> Self {
        Self(Mutex::new(State { wall_us: us, elapsed_us: 60_000_000, boot: 1, kept: None }))
    }
    /// Time goes by.
    pub fn advance_us(&self, us: u64) {
        let mut state = self.0.lock();
        state.wall_us += us;
        state.elapsed_us += us;
    }
    /// Somebody sets the clock on the wall.
    pub fn set_wall(&self, by_us: i64) {
        let mut state = self.0.lock();
        state.wall_us = state.wall_us.saturating_add_signed(by_us);
    }
    /// The machine is started again after `us`.
    pub fn reboot(&self, us: u64) {
        self.advance_us(us);
        let mut state = self.0.lock();
        state.elapsed_us = 1_000_000;
        state.boot += 1;
    }
    /// What may happen while a store is closed; its clock keeps whole steps of `tick_ms`.
    pub fn disturb(&self, rng: &mut Rng, tick_ms: u64) -> Passed {
        let away_ms = rng.below(500) * tick_ms;
        match rng.below(8) {
            0..3 => Passed::Exactly(0),
            3 | 4 => {
                self.advance_us(away_ms * 1000);
                self.set_wall(wild(rng));
                Passed::Exactly(away_ms)
            }
            5 | 6 => {
                self.reboot(away_ms * 1000);
                Passed::Exactly(away_ms)
            }
            _ => {
                self.reboot(away_ms * 1000);
                self.set_wall(-(rng.between(3_600, 40_000_000) as i64) * 1_000_000);
                Passed::AtLeast(0)
            }
        }
    }
}

/// Minutes to years in either direction.
pub fn wild(rng: &mut Rng) -> i64 {
    let most_s = 1 << rng.between(7, 28);
    let us = rng.between(60, most_s) as i64 * 1_000_000;
    if rng.percent(50) { us } else { -us }
}

impl Clock for Clocks {
    fn now_us(&self) -> u64 {
        self.0.lock().wall_us
    }
    fn elapsed_us(&self) -> u64 {
        self.0.lock().elapsed_us
    }
    fn boot(&self) -> u64 {
        self.0.lock().boot
    }
    fn kept(&self) -> Option<Anchor> {
        self.0.lock().kept
    }
    fn keep(&self, anchor: Anchor) -> io::Result<()> {
        self.0.lock().kept = Some(anchor);
        Ok(())
    }
}
