//! `cargo xtask schedules`: builds the crates with lock-free parts on shuttle's primitives and explores their schedules.
//!
//! The build has a directory of its own under the target directory: its flags would throw out everything else that is there.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

/// Package, and the tests that explore schedules.
const SUITES: [(&str, &[&str]); 5] = [
    ("terrace-index", &["--test", "shuttle", "--test", "shuttle_lockfree", "--test", "btree_shuttle"]),
    ("terrace-log", &["--lib", "schedules"]),
    ("terrace-engine", &["--lib", "schedules"]),
    ("terrace-space-hybrid-log", &["--lib", "schedules"]),
    ("terrace-space-slab", &["--lib", "schedules"]),
];

/// Options of the chore.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Schedules for each test, half of them random and half by priorities. Planted bugs have a bound of their own.
    #[arg(long, default_value_t = 400)]
    schedules: usize,
    /// Which schedules. A failing test prints its own.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs every suite, and says in its last line how many tests explored how much.
///
/// # Errors
/// If cargo can't be run.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let progress = ProgressBar::new(SUITES.len() as u64);
    progress.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {elapsed}")?);
    let (mut tests, mut failed) = (0, Vec::new());
    for (package, filter) in SUITES {
        progress.set_message(package);
        let (passed, success) = suite(arguments, package, filter)?;
        println!("{package}: {passed} tests passed");
        tests += passed;
        if !success || passed == 0 {
            failed.push(package);
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    let failures = if failed.is_empty() { "none".to_owned() } else { failed.join(", ") };
    println!(
        "schedules: {} for each of {tests} tests (planted bugs among them), {} s, failures: {failures}",
        arguments.schedules,
        started.elapsed().as_secs()
    );
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Tests that passed, and whether all did.
fn suite(arguments: &Arguments, package: &str, filter: &[&str]) -> anyhow::Result<(usize, bool)> {
    let target: PathBuf = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["test", "--quiet", "--package", package])
        .args(filter)
        .env("RUSTFLAGS", flags())
        .env("CARGO_TARGET_DIR", target.join("schedules"))
        .env("SHUTTLE_ITERATIONS", arguments.schedules.to_string())
        // Every planted bug panics: its trace is the expected outcome, and costs more than finding it.
        .env("RUST_BACKTRACE", "0")
        .stderr(std::process::Stdio::inherit());
    if let Some(seed) = arguments.seed {
        command.env("SHUTTLE_RANDOM_SEED", seed.to_string());
    }
    let output = command.output().with_context(|| format!("running the tests of {package}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        print!("{text}");
    }
    Ok((passed(&text), output.status.success()))
}

/// The flags that are there already, and the one that swaps the primitives.
fn flags() -> OsString {
    let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
    flags.push(" --cfg shuttle");
    flags
}

/// Sums "N passed" in the output of a test run.
fn passed(text: &str) -> usize {
    text.lines()
        .filter_map(|line| line.strip_prefix("test result: "))
        .filter_map(|line| line.split(". ").nth(1)?.split(' ').next()?.parse::<usize>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn passed_tests_are_counted() {
        let text = "\nrunning 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored\n\n\
                    test result: FAILED. 3 passed; 1 failed; 0 ignored\n";
        assert_eq!(super::passed(text), 5);
        assert_eq!(super::passed("error: could not compile"), 0);
    }
}
