//! A small share of the checked histories in each `cargo test`; `cargo xtask histories record` runs as much as one likes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use terrace_proof::histories::{Kill, Launch, Launcher, PowerCuts, Recording, Running, Tiers, record};
use terrace_proof::subjects::{SUBJECTS, takers};
use terrace_testkit::linearize::{Failure, Summary};
use terrace_testkit::settings::variable;
use terrace_testkit::sweep::MediaKind;

fn tiers(engine: &str, media: MediaKind, durability: &str) -> Tiers {
    Tiers {
        engine: engine.into(),
        media,
        durability: durability.parse().unwrap(),
        dram: "3MiB".into(),
        lower: "48MiB".into(),
        middle: "16MiB".into(),
        threads: 2,
    }
}

fn launcher(tiers: &Tiers) -> Launcher {
    Launcher::child(Path::new(env!("CARGO_BIN_EXE_terrace-proof")), tiers).unwrap()
}

/// `TERRACE_HISTORIES_OPERATIONS`, `_CRASHES` and `_SEED` say otherwise.
fn recording() -> Recording {
    Recording {
        operations: variable("TERRACE_HISTORIES_OPERATIONS", 25_000),
        crashes: variable("TERRACE_HISTORIES_CRASHES", 2),
        clients: 8,
        keys: 4096,
        depth: 48,
        seed: variable("TERRACE_HISTORIES_SEED", 1),
    }
}

/// On each engine.
fn share(media: MediaKind, durability: &str) {
    for (engine, _) in takers(media) {
        share_of(engine, media, durability);
    }
}

fn share_of(engine: &str, media: MediaKind, durability: &str) {
    let (tiers, recording) = (tiers(engine, media, durability), recording());
    let launcher = launcher(&tiers);
    let mut recorded = record(&recording, &Kill(launcher)).unwrap_or_else(|error| panic!("{error:?}"));
    let summary = recorded.history.check(2, |_| None).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{tiers}: {summary}, {recorded}");
    assert!(summary.calls as u64 >= recording.operations && summary.crashes as u64 == recording.crashes);
    // How many depends on what was flushed by the time of each crash, and so on the machine; thousands are usual.
    assert!(recorded.cold > 100, "there is more than DRAM holds: {}", recorded.cold);
    assert!(summary.lost > 0 && summary.open_max > 1, "nothing was cut off, nothing contended: {summary}");
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
    share_of("heap-object", MediaKind::Byte, "sync");
}

/// Power cuts of servers that keep 2 MiB of records in DRAM.
fn cuts(engine: &str, media: MediaKind, durability: &str) -> Summary {
    let tiers = Tiers { dram: "2MiB".into(), ..tiers(engine, media, durability) };
    let recording = Recording { operations: 15_000, crashes: 2, ..recording() };
    let program = Path::new(env!("CARGO_BIN_EXE_terrace-proof"));
    let launch = PowerCuts::new(program, &tiers, recording.seed).unwrap();
    let mut recorded = record(&recording, &launch).unwrap_or_else(|error| panic!("{error:?}"));
    let summary = recorded.history.check(2, |_| None).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{tiers}, power cuts: {summary}, {recorded}");
    summary
}

#[test]
fn power_cuts_under_sync() {
    for engine in takers(MediaKind::Byte).map(|(engine, _)| *engine).chain(["heap-object"]) {
        assert_eq!(cuts(engine, MediaKind::Byte, "sync").undoable, 0, "{engine}");
    }
}

#[test]
fn power_cuts_under_batch() {
    for (engine, _) in takers(MediaKind::Block) {
        assert!(cuts(engine, MediaKind::Block, "batch:20").undoable > 0, "{engine}");
    }
}

/// Takes the store back to what it was at the first crash, at every later one: as if what came since had never been flushed.
struct Forgetful<'a> {
    launcher: &'a Launcher,
    crashes: AtomicU32,
    window: Option<Duration>,
}

impl Launch for Forgetful<'_> {
    fn start(&self) -> anyhow::Result<Running> {
        self.launcher.start()
    }
    fn start_and_crash(&self, wait: Duration) -> anyhow::Result<()> {
        self.launcher.start_and_kill(wait)
    }
    fn crashed(&self) -> anyhow::Result<()> {
        let store = self.launcher.directory();
        let kept = store.with_extension("kept");
        let (from, to) =
            if self.crashes.fetch_add(1, Relaxed) == 0 { (&store, &kept) } else { (&kept, &store) };
        std::fs::remove_dir_all(to).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        anyhow::ensure!(Command::new("cp").arg("-r").args([from, to]).status()?.success(), "cp failed");
        Ok(())
    }
    fn window(&self) -> Option<Duration> {
        self.window
    }
    fn keep(&self) -> PathBuf {
        self.launcher.keep()
    }
}

fn forgetful(window: Option<Duration>) -> Result<Summary, Failure> {
    let launcher = launcher(&tiers(SUBJECTS[0].0, MediaKind::Block, "batch:100"));
    let recording = Recording { operations: 10_000, crashes: 2, ..recording() };
    let launch = Forgetful { launcher: &launcher, crashes: AtomicU32::new(0), window };
    let mut recorded = record(&recording, &launch).unwrap_or_else(|error| panic!("{error:?}"));
    recorded.history.check(2, |_| None)
}

#[test]
fn a_store_that_forgets_is_caught() {
    let Err(Failure::Violation(violation)) = forgetful(None) else { panic!("it was not caught") };
    println!("{violation}");
    // Where all that was lost was answered within the window, nothing is wrong.
    let summary = forgetful(Some(Duration::from_secs(600))).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(summary.undoable > 1000, "{summary}");
}
