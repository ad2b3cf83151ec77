//! Rates since they were last asked for: `instantaneous_ops_per_sec` and its like.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Who asks again sooner gets the same answer.
const SHORTEST: Duration = Duration::from_millis(100);

/// Totals at some moment, and what they grew by per second before it.
#[derive(Debug)]
struct Sample {
    at: Instant,
    totals: [u64; 3],
    per_second: [f64; 3],
}

/// Rates of three totals. The lock is a leaf.
#[derive(Debug)]
pub(crate) struct Rates(Mutex<Sample>);

impl Default for Rates {
    fn default() -> Self {
        Self(Mutex::new(Sample { at: Instant::now(), totals: [0; 3], per_second: [0.0; 3] }))
    }
}

impl Rates {
    /// How much the totals, which are these now, grew per second since this was asked last.
    pub(super) fn per_second(&self, totals: [u64; 3], now: Instant) -> [f64; 3] {
        let mut sample = self.0.lock();
        let passed = now.saturating_duration_since(sample.at);
        if passed >= SHORTEST {
            let before = sample.totals;
            let rate = |i: usize| totals[i].saturating_sub(before[i]) as f64 / passed.as_secs_f64();
            *sample = Sample { at: now, totals, per_second: [rate(0), rate(1), rate(2)] };
        }
        sample.per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between_questions() {
        let rates = Rates::default();
        let start = rates.0.lock().at;
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(rates.per_second([1000, 2000, 0], at(500)), [2000.0, 4000.0, 0.0]);
        assert_eq!(rates.per_second([9000, 9000, 0], at(550)), [2000.0, 4000.0, 0.0], "too soon");
        assert_eq!(rates.per_second([2000, 2000, 10], at(2500)), [500.0, 0.0, 5.0]);
    }
}
