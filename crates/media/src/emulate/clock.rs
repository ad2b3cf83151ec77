//! The clock that emulated waits spin on.
//!
//! # Thread safety
//! Calibrated once for the process; reading it takes no lock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::arch;

/// Long enough for an error well below one in a thousand.
const CALIBRATION: Duration = Duration::from_millis(5);

/// Nanoseconds since some moment, cheap to read: the time-stamp counter where it is constant, else [`Instant`].
#[derive(Clone, Copy, Debug)]
struct CycleClock {
    base: u64,
    /// Nanoseconds a cycle, times 2^32.
    scale: u64,
}

/// What an emulation waits on.
#[derive(Debug)]
pub(crate) enum Clock {
    /// The machine's.
    Machine,
    /// One that a test moves: waiting sets it to the deadline.
    #[cfg(test)]
    Manual(std::sync::atomic::AtomicU64),
}

impl Clock {
    /// The machine's clock; calibrates it if nobody did.
    pub(crate) fn machine() -> Self {
        let _ = calibrated();
        Self::Machine
    }

    /// Now, in nanoseconds.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Self::Machine => machine_ns(),
            #[cfg(test)]
            Self::Manual(now) => now.load(std::sync::atomic::Ordering::SeqCst),
        }
    }

    /// Spins until `deadline_ns`.
    #[inline]
    pub(crate) fn wait_until(&self, deadline_ns: u64) {
        match self {
            Self::Machine => loop {
                let now = machine_ns();
                if now >= deadline_ns {
                    return;
                }
                // A pause takes up to 140 cycles: too coarse close to the end.
                if deadline_ns - now > 200 {
                    std::hint::spin_loop();
                }
            },
            #[cfg(test)]
            Self::Manual(now) => {
                now.fetch_max(deadline_ns, std::sync::atomic::Ordering::SeqCst);
            }
        }
    }
}

fn calibrated() -> &'static Result<CycleClock, Instant> {
    static CLOCK: OnceLock<Result<CycleClock, Instant>> = OnceLock::new();
    CLOCK.get_or_init(|| {
        let (start, base) = (Instant::now(), arch::cycles());
        if !arch::cycles_are_a_clock() {
            return Err(start);
        }
        while start.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let (nanoseconds, cycles) = (start.elapsed().as_nanos(), arch::cycles().wrapping_sub(base));
        match (nanoseconds << 32).checked_div(u128::from(cycles)).map(u64::try_from) {
            Some(Ok(scale)) if scale > 0 => Ok(CycleClock { base, scale }),
            _ => Err(start),
        }
    })
}

#[inline]
fn machine_ns() -> u64 {
    match calibrated() {
        Ok(clock) => {
            let cycles = arch::cycles().wrapping_sub(clock.base);
            ((u128::from(cycles) * u128::from(clock.scale)) >> 32) as u64
        }
        Err(base) => base.elapsed().as_nanos() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_reaches_the_deadline() {
        let clock = Clock::machine();
        let deadline = clock.now_ns() + 10_000;
        clock.wait_until(deadline);
        assert!(clock.now_ns() >= deadline);
        clock.wait_until(0);
    }
}
