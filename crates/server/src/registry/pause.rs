//! `CLIENT PAUSE`: commands are held where they stand in their connections' input. No worker waits for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// See the module. Relaxed: a command that is read while another connection pauses may still run.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// In milliseconds since the Unix epoch; 0: not paused.
    until_ms: AtomicU64,
    writes_only: AtomicBool,
}

impl Pause {
    /// Holds commands, or only writes, until then. A longer or stricter pause that is on stays as it is.
    pub fn begin(&self, until_ms: u64, writes_only: bool, now_ms: u64) {
        let on = self.until_ms.load(Relaxed) > now_ms;
        if on {
            self.until_ms.fetch_max(until_ms, Relaxed);
            self.writes_only.fetch_and(writes_only, Relaxed);
        } else {
            self.writes_only.store(writes_only, Relaxed);
            self.until_ms.store(until_ms, Relaxed);
        }
    }

    /// Holds nothing any more.
    pub fn end(&self) {
        self.until_ms.store(0, Relaxed);
    }

    /// When it ends; 0 if it is over.
    pub fn until_ms(&self, now_ms: u64) -> u64 {
        let until_ms = self.until_ms.load(Relaxed);
        if until_ms > now_ms { until_ms } else { 0 }
    }

    /// Whether a command is held, that is a write or not.
    pub fn holds(&self, write: bool, now_ms: u64) -> bool {
        self.until_ms(now_ms) > 0 && (write || !self.writes_only.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_and_stricter_of_two_pauses_counts() {
        let pause = Pause::default();
        assert!(!pause.holds(true, 10));
        pause.begin(100, true, 10);
        assert!(pause.holds(true, 99) && !pause.holds(false, 99) && !pause.holds(true, 100));
        pause.begin(50, false, 20);
        assert!(pause.holds(false, 99), "neither its end nor its kind is weakened");
        pause.begin(60, true, 20);
        assert!(pause.holds(false, 99));
        pause.end();
        assert!(!pause.holds(true, 20));
        pause.begin(60, true, 20);
        assert!(!pause.holds(false, 30), "a new one is as it was asked for");
    }
}
