//! Project chores: `cargo xtask tidy` checks what the compiler can't, `cargo xtask crash-sweep` crashes an engine everywhere.
//!
//! ```text
//!   git ls-files ------> files ---+--> sizes, source, links ---+
//!                                                              +--> failures, each with what to do about it
//!   cargo metadata ----> crates --+--> imports ----------------+
//! ```
#![forbid(unsafe_code)]

mod tidy;

use clap::{Parser, Subcommand};

/// Project chores.
#[derive(Parser)]
#[command(name = "xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Checks import direction, file sizes, links in the documentation and a few rules of style.
    Tidy,
    /// Crashes seeded histories of an engine everywhere and judges what recovery finds (`--help` lists the options).
    #[command(disable_help_flag = true)]
    CrashSweep(Passed),
    /// Records what clients see of a server that crashes again and again, and checks it (`record`, `check`).
    #[command(disable_help_flag = true)]
    Histories(Passed),
}

/// Options that the command behind the chore reads.
#[derive(clap::Args)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

fn main() -> anyhow::Result<std::process::ExitCode> {
    match Arguments::parse().chore {
        Chore::Tidy => tidy::run(),
        Chore::CrashSweep(passed) => proof("crash-sweep", &passed),
        Chore::Histories(passed) => proof("histories", &passed),
    }
}

/// A command of the crate that knows every engine.
fn proof(name: &str, passed: &Passed) -> anyhow::Result<std::process::ExitCode> {
    let status = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["run", "--quiet", "--release", "--package", "terrace-proof", "--", name])
        .args(&passed.options)
        .status()?;
    Ok(if status.success() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE })
}
