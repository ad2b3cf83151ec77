//! `terrace-proof`: the commands behind `cargo xtask crash-sweep` and its kin.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use terrace_proof::{crash_sweep, dax_guest, histories, planted, sick, sites, torture, week};

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
    Histories(histories::Arguments),
    /// The child process of `histories record`.
    #[command(hide = true)]
    HistoriesServer(histories::ServeArguments),
    Torture(torture::Arguments),
    #[command(hide = true)]
    TortureServer(torture::ServerArguments),
    Sick(sick::Arguments),
    DaxGuest(dax_guest::Arguments),
    Sites(sites::Arguments),
    Planted(planted::Arguments),
    #[command(hide = true)]
    PlantedDetector(planted::DetectArguments),
    Week(week::Arguments),
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().proof {
        Proof::CrashSweep(arguments) => crash_sweep::run(&arguments),
        Proof::Histories(arguments) => histories::run(&arguments),
        Proof::HistoriesServer(arguments) => histories::run_server(&arguments),
        Proof::Torture(arguments) => torture::run(&arguments),
        Proof::TortureServer(arguments) => torture::run_server(&arguments),
        Proof::Sick(arguments) => sick::run(&arguments),
        Proof::DaxGuest(arguments) => dax_guest::run(&arguments),
        Proof::Sites(arguments) => sites::run(&arguments),
        Proof::Planted(arguments) => planted::run(&arguments),
        Proof::PlantedDetector(arguments) => planted::detect(&arguments),
        Proof::Week(arguments) => week::run(&arguments),
    }
}
