//! `terrace-proof`: the commands behind `cargo xtask crash-sweep` and its kin.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use terrace_proof::crash_sweep;

/// Proves what terrace promises.
#[derive(Parser)]
#[command(name = "terrace-proof")]
struct Arguments {
    #[command(subcommand)]
    proof: Proof,
}

#[derive(Subcommand)]
enum Proof {
    CrashSweep(crash_sweep::Arguments),
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().proof {
        Proof::CrashSweep(arguments) => crash_sweep::run(&arguments),
    }
}
