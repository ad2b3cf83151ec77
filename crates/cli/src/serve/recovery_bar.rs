//! Opening a store and telling how far it is: a progress bar where standard error is a terminal, else lines of the log, and
//! numbers for whoever asks over the network.

use std::io::IsTerminal;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use terrace::engine::StoreError;
use terrace::{OpenStore, Options};
use terrace_server::Progress;

/// The store reports through a plain function, so that the bar it moves is the process's.
static BAR: OnceLock<ProgressBar> = OnceLock::new();
static PROGRESS: Progress = Progress::new();
static LINES: Mutex<Option<Lines>> = Mutex::new(None);

/// How far a recovery is.
pub fn progress() -> &'static Progress {
    &PROGRESS
}

/// Opens a store and shows how far its recovery is.
///
/// # Errors
/// As [`terrace::open`].
pub fn open(mut options: Options) -> Result<OpenStore, StoreError> {
    options.on_recovery = Some(advance);
    let opened = terrace::open(options);
    if let Some(bar) = BAR.get() {
        bar.finish_and_clear();
    }
    opened
}

fn advance(done: u64, total: u64) {
    PROGRESS.set(done, total);
    if !std::io::stderr().is_terminal() {
        let now = Instant::now();
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        let due = lines.get_or_insert_with(|| Lines::new(now)).due(done, total, now);
        if let Some(percent) = due {
            tracing::info!(done, total, "recovering: {percent}%");
        }
        return;
    }
    let bar = BAR.get_or_init(|| {
        let bar = ProgressBar::new(total).with_message("recovering");
        match ProgressStyle::with_template("{msg} {bar:40} {binary_bytes}/{binary_total_bytes} eta {eta}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    });
    bar.set_length(total);
    bar.set_position(done);
}

/// Between two lines, however far it came.
const EVERY: Duration = Duration::from_secs(10);
/// Before the first line: a short recovery needs none. And between lines for tenths.
const SHORT: Duration = Duration::from_secs(1);

/// When a line was written last, and of which tenth.
struct Lines {
    last: Instant,
    tenth: u64,
}

impl Lines {
    fn new(now: Instant) -> Self {
        Self { last: now, tenth: 0 }
    }

    /// The percentage, if a line is due: for each tenth, and now and then where tenths take long.
    fn due(&mut self, done: u64, total: u64, now: Instant) -> Option<u64> {
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
