//! The clocks of a machine that is not ours to set: of one whose wall clock somebody sets all the time, or that starts anew.

use terrace_engine::clock::{Clock, SystemClock};
use terrace_testkit::clocks::wild;
use terrace_testkit::rng::Rng;

/// The wall clock stands for so long, in microseconds, before it is set again.
const STANDS_US: u64 = 100_000;
/// A machine is up for so long when the server starts.
const UP_US: u64 = 1_000_000;

/// What becomes of a machine's clocks over a store's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// They are the system's.
    System,
    /// It stays up, and its wall clock is set to anything: time is what elapses.
    Set,
    /// It starts anew each time, and its wall clock goes on: that is all that tells how much time passed.
    Restarted,
}

impl Clocks {
    pub fn any(rng: &mut Rng) -> Self {
        *rng.pick(&[Self::System, Self::Set, Self::Restarted])
    }
}

/// Such a machine's.
#[derive(Debug)]
pub struct MachineClock {
    /// The start of the machine; 0: the system's.
    boot: u64,
    began_us: u64,
    /// From which it follows what the wall clock shows; 0: the right time.
    wall_seed: u64,
}

impl MachineClock {
    pub fn new(boot: u64, wall_seed: u64) -> Self {
        Self { boot, began_us: SystemClock.elapsed_us(), wall_seed }
    }
}

impl Clock for MachineClock {
    fn now_us(&self) -> u64 {
        let right = SystemClock.now_us();
        if self.wall_seed == 0 {
            return right;
        }
        let stands = (SystemClock.elapsed_us() - self.began_us) / STANDS_US;
        right.saturating_add_signed(wild(&mut Rng::new(self.wall_seed.wrapping_add(stands))))
    }
    fn elapsed_us(&self) -> u64 {
        let elapsed = SystemClock.elapsed_us();
        if self.boot == 0 { elapsed } else { elapsed - self.began_us + UP_US }
    }
    fn boot(&self) -> u64 {
        if self.boot == 0 { SystemClock.boot() } else { self.boot }
    }
}
