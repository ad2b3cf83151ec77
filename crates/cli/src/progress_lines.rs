//! How far a long piece of work is, where no terminal shows a bar: lines of the log.

use std::time::{Duration, Instant};

/// Between two lines, however far it came.
const EVERY: Duration = Duration::from_secs(10);
/// Before the first line: a short recovery needs none. And between lines for tenths.
const SHORT: Duration = Duration::from_secs(1);

/// When a line was written last, and of which tenth.
pub struct Lines {
    last: Instant,
    tenth: u64,
}

impl Lines {
    /// None was written yet.
    pub fn new(now: Instant) -> Self {
        Self { last: now, tenth: 0 }
    }

    /// The percentage, if a line is due: for each tenth, and now and then where tenths take long.
    pub fn due(&mut self, done: u64, total: u64, now: Instant) -> Option<u64> {
        let percent = u128::from(done) * 100 / u128::from(total.max(1));
        let (percent, tenth) = (percent as u64, percent as u64 / 10);
        let since = now.saturating_duration_since(self.last);
        if since < SHORT || tenth == self.tenth && since < EVERY {
            return None;
        }
        (self.last, self.tenth) = (now, tenth);
        Some(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_tenth_and_now_and_then() {
        let start = Instant::now();
        let mut lines = Lines::new(start);
        let mut due = |ms, done| lines.due(done, 1000, start + Duration::from_millis(ms));
        assert_eq!(
            (due(500, 400), due(1500, 450), due(1600, 990)),
            (None, Some(45), None),
            "not every moment"
        );
        assert_eq!((due(2600, 460), due(2700, 520)), (None, Some(52)));
        assert_eq!((due(12_600, 530), due(12_800, 530)), (None, Some(53)));
    }
}
