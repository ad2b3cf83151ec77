//! Opening a store with a progress bar, which shows only where standard error is a terminal.

use std::sync::OnceLock;

use indicatif::{ProgressBar, ProgressStyle};
use terrace::engine::StoreError;
use terrace::{OpenStore, Options};

/// The store reports through a plain function, so that the bar it moves is the process's.
static BAR: OnceLock<ProgressBar> = OnceLock::new();

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
