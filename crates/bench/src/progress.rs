//! The progress bar of a phase, on standard error, drawn only where that is a terminal.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use indicatif::{ProgressBar, ProgressStyle};

/// Operations done, one counter a thread so that counting costs the threads nothing.
pub struct Done(Vec<CachePadded<AtomicU64>>);

impl Done {
    /// Counters for this many threads.
    pub fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| CachePadded::new(AtomicU64::new(0))).collect())
    }
    /// Counts for one thread.
    pub fn add(&self, thread: usize, operations: u64) {
        self.0[thread].fetch_add(operations, Relaxed);
    }
    fn sum(&self) -> u64 {
        self.0.iter().map(|count| count.load(Relaxed)).sum()
    }
}

/// How often the bar is drawn.
const REDRAW: Duration = Duration::from_millis(100);

/// Draws a phase's bar until `finished` says so; workers unpark this thread when they end.
pub fn watch(name: &str, total: u64, done: &Done, finished: impl Fn() -> bool) {
    let bar = ProgressBar::new(total);
    if let Ok(style) =
        ProgressStyle::with_template("{msg:8} {bar:40} {human_pos}/{human_len} {per_sec} eta {eta}")
    {
        bar.set_style(style);
    }
    bar.set_message(name.to_owned());
    while !finished() {
        std::thread::park_timeout(REDRAW);
        bar.set_position(done.sum());
    }
    bar.finish_and_clear();
}
