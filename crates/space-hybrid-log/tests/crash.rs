//! A small share of the crash sweep in each `cargo test`; `cargo xtask crash-sweep` runs as much as one likes.

#[path = "crash/subject.rs"]
mod subject;

use std::time::Duration;

use subject::Hetermm;
use terrace_engine::Durability;
use terrace_testkit::settings::variable;
use terrace_testkit::sweep::{MediaKind, Summary, SweepOptions, sweep};

const BATCH: Durability = Durability::Batch(Duration::from_millis(100));

/// `TERRACE_SWEEP_SEED`, `_HISTORIES` and `_IMAGES` say otherwise.
fn share(media: MediaKind, durability: Durability) -> Summary {
    let options = SweepOptions {
        media,
        durability,
        histories: variable("TERRACE_SWEEP_HISTORIES", 40),
        images: variable("TERRACE_SWEEP_IMAGES", 3000),
        seed: variable("TERRACE_SWEEP_SEED", 1),
        threads: 1,
        reduce: true,
        failures_max: 1,
    };
    let summary = sweep(&Hetermm, &options, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    println!("{media}, {durability}: {summary}");
    if let Some(failure) = summary.failures.first() {
        panic!("{media}, {durability}: {failure}");
    }
    summary
}

#[test]
fn byte_sync() {
    share(MediaKind::Byte, Durability::Sync);
}

#[test]
fn byte_batch() {
    share(MediaKind::Byte, BATCH);
}

#[test]
fn byte_none() {
    share(MediaKind::Byte, Durability::None);
}

#[test]
fn block_sync() {
    share(MediaKind::Block, Durability::Sync);
}

#[test]
fn block_batch() {
    share(MediaKind::Block, BATCH);
}

#[test]
fn block_none() {
    share(MediaKind::Block, Durability::None);
}
