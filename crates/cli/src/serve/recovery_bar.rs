//! Opening a store and telling how far it is: a progress bar where standard error is a terminal, else lines of the log, and
//! numbers for whoever asks over the network.

use std::io::IsTerminal;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use terrace::engine::StoreError;
use terrace::{OpenStore, Options};
use terrace_server::Progress;

use crate::progress_lines::Lines;

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
