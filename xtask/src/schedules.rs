//! `cargo xtask schedules`: builds the crates with lock-free parts on shuttle's primitives and explores their schedules.
//!
//! The build has a directory of its own under the target directory: its flags would throw out everything else that is there.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;

/// Tests that explore schedules.
struct Suite {
    package: &'static str,
    /// Integration tests, or those beside the code.
    targets: &'static [&'static str],
    /// Words that the names of the tests have; all if there is none.
    filter: Option<&'static str>,
}

const LIB: &str = "lib";

const SUITES: [Suite; 7] = [
    Suite {
        package: "terrace-index",
        targets: &["shuttle", "shuttle_lockfree", "btree_shuttle"],
        filter: None,
    },
    beside_the_code("terrace-log"),
    beside_the_code("terrace-engine"),
    beside_the_code("terrace-space-hybrid-log"),
    beside_the_code("terrace-space-slab"),
    beside_the_code("terrace-space-heap"),
    beside_the_code("terrace-space-scm-log"),
];

const fn beside_the_code(package: &'static str) -> Suite {
    Suite { package, targets: &[LIB], filter: Some("schedules") }
}

/// A program that was built.
struct Program {
    suite: &'static Suite,
    path: PathBuf,
    folder: PathBuf,
}

/// What cargo says of something it built.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    executable: PathBuf,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// What is built to be explored and never timed: without what makes it smaller than that and with no lines for a debugger, it
/// takes half the time to build.
const PROFILE: [(&str, &str); 2] = [("CARGO_PROFILE_DEV_LTO", "off"), ("CARGO_PROFILE_DEV_DEBUG", "false")];

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
    let programs = build()?;
    let progress = ProgressBar::new(programs.len() as u64);
    progress.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {elapsed}")?);
    let (mut tests, mut failed) = (0, Vec::new());
    for program in &programs {
        let package = program.suite.package;
        progress.set_message(package);
        let (passed, success) = explore(arguments, program)?;
        println!("{package}: {passed} tests passed");
        tests += passed;
        if !success || passed == 0 {
            failed.push(package);
        }
        progress.inc(1);
    }
    for suite in &SUITES {
        if !programs.iter().any(|program| program.suite.package == suite.package) {
            failed.push(suite.package);
        }
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

/// Builds the programs of all suites at once: one after the other, what they are made of would be built anew for each, with other
/// features.
fn build() -> anyhow::Result<Vec<Program>> {
    let target: PathBuf = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["test", "--quiet", "--no-run", "--message-format", "json-render-diagnostics"])
        .env("RUSTFLAGS", flags())
        .env("CARGO_TARGET_DIR", target.join("schedules"))
        .envs(PROFILE)
        .stderr(Stdio::inherit());
    let mut wanted: Vec<&str> = SUITES.iter().flat_map(|suite| suite.targets).copied().collect();
    wanted.sort_unstable();
    wanted.dedup();
    for suite in &SUITES {
        command.args(["--package", suite.package]);
    }
    for target in wanted {
        match target {
            LIB => command.arg("--lib"),
            name => command.args(["--test", name]),
        };
    }
    let output = command.output().context("building the tests")?;
    ensure!(output.status.success(), "the tests do not compile on shuttle's primitives");
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        // Libraries that the tests need have no program.
        let Ok(artifact) = serde_json::from_str::<Artifact>(line) else { continue };
        let is_lib = artifact.target.kind.iter().any(|kind| kind == "lib");
        let target = if is_lib { LIB } else { &artifact.target.name };
        let folder = artifact.manifest_path.parent().context("the folder of a manifest")?;
        let is_of = |suite: &&Suite| {
            let name = folder.file_name().and_then(|name| name.to_str());
            name == suite.package.strip_prefix("terrace-") && suite.targets.contains(&target)
        };
        if let Some(suite) = SUITES.iter().find(is_of) {
            programs.push(Program { suite, path: artifact.executable, folder: folder.into() });
        }
    }
    Ok(programs)
}

/// Runs one; the tests that passed, and whether all did.
fn explore(arguments: &Arguments, program: &Program) -> anyhow::Result<(usize, bool)> {
    let mut command = Command::new(&program.path);
    command
        .args(program.suite.filter)
        .current_dir(&program.folder)
        .env("SHUTTLE_ITERATIONS", arguments.schedules.to_string())
        // Every planted bug panics: its trace is the expected outcome, and costs more than finding it.
        .env("RUST_BACKTRACE", "0")
        .stderr(Stdio::inherit());
    if let Some(seed) = arguments.seed {
        command.env("SHUTTLE_RANDOM_SEED", seed.to_string());
    }
    let output = command.output().with_context(|| format!("running {}", program.path.display()))?;
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
