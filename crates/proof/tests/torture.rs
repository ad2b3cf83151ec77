//! Power cuts on the real server in each `cargo test`; `cargo xtask torture` makes as many as one likes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::process::{Command, Output};

use terrace_proof::subjects::SUBJECTS;

/// Runs `terrace-proof torture` with these options.
fn torture(options: &[&str]) -> Output {
    let ran =
        Command::new(env!("CARGO_BIN_EXE_terrace-proof")).arg("torture").args(options).output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    ran
}

/// Media that break their promise; the torture must say so. `TMPDIR` takes what a failure leaves behind.
fn sabotaged(media: &str, sabotage: &str) {
    let kept = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let (disk, memory) = (kept.path().to_str().unwrap(), memory.path().to_str().unwrap());
    let ran = torture(&[
        "--media",
        media,
        "--durability",
        "sync",
        "--rounds",
        "60",
        "--seed",
        "1",
        "--sabotage",
        sabotage,
        "--dir",
        disk,
        "--memory",
        memory,
    ]);
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(!ran.status.success(), "{sabotage} on {media} media went unnoticed");
    assert!(told.contains("again: cargo xtask torture"), "a failure says how to repeat it");
}

#[test]
fn nothing_acknowledged_is_lost_in_twenty_power_cuts() {
    for engine in SUBJECTS.iter().map(|(engine, _)| *engine).chain(["heap-object"]) {
        let ran = torture(&["--engine", engine, "--rounds", "10", "--seed", "1", "--jobs", "2"]);
        let told = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{engine}");
        let last = told.lines().last().unwrap();
        assert!(last.contains(" 10 power cuts") && last.ends_with(" 0 lost or wrong"), "{last}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_on_both_kinds_of_media() {
    let options = ["--engine", "tac", "--media", "tiered", "--durability", "sync", "--rounds", "4"];
    let ran = torture(&options);
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success());
    let last = told.lines().last().unwrap();
    assert!(last.contains(" 4 power cuts") && last.ends_with(" 0 lost or wrong"), "{last}");
}

#[test]
fn a_last_line_that_is_not_flushed_is_noticed() {
    sabotaged("byte", "flush:10");
}

#[test]
fn a_fence_that_is_left_out_is_noticed() {
    sabotaged("byte", "fence:8");
}

#[test]
fn a_sync_that_is_left_out_is_noticed() {
    sabotaged("block", "sync:4");
}
