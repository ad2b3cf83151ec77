//! A small share of the checked histories in each `cargo test`; `cargo xtask histories record` runs as much as one likes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::path::Path;

use terrace_proof::histories::{Kill, Launcher, Recording, Tiers, record};
use terrace_testkit::linearize::Summary;
use terrace_testkit::settings::variable;
use terrace_testkit::sweep::MediaKind;

/// `TERRACE_HISTORIES_OPERATIONS`, `_CRASHES` and `_SEED` say otherwise.
fn share(media: MediaKind, durability: &str) -> Summary {
    let tiers = Tiers {
        engine: "hetermm".into(),
        media,
        durability: durability.parse().unwrap(),
        dram: "6MiB".into(),
        lower: "48MiB".into(),
        threads: 2,
    };
    let recording = Recording {
        operations: variable("TERRACE_HISTORIES_OPERATIONS", 50_000),
        crashes: variable("TERRACE_HISTORIES_CRASHES", 4),
        clients: 8,
        keys: 4096,
        depth: 48,
        seed: variable("TERRACE_HISTORIES_SEED", 1),
    };
    let launcher = Launcher::child(Path::new(env!("CARGO_BIN_EXE_terrace-proof")), &tiers).unwrap();
    let mut recorded = record(&recording, &Kill(&launcher)).unwrap_or_else(|error| panic!("{error:?}"));
    let summary = recorded.history.check(2, |_| None).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{tiers}: {summary}, {recorded}");
    assert!(summary.calls as u64 >= recording.operations && summary.crashes as u64 == recording.crashes);
    assert!(summary.lost > 0 && summary.open_max > 1, "nothing was cut off, nothing contended: {summary}");
    summary
}

#[test]
fn block_batch() {
    share(MediaKind::Block, "batch:100");
}

#[test]
fn block_sync() {
    share(MediaKind::Block, "sync");
}

#[test]
fn byte_sync() {
    share(MediaKind::Byte, "sync");
}
