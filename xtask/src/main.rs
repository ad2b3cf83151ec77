//! Project chores: `cargo xtask tidy` checks what the compiler can't, `cargo xtask crash-sweep` crashes an engine everywhere.
//!
//! ```text
//!   git ls-files ------> files ---+--> sizes, source, links ---+
//!                                                              +--> failures, each with what to do about it
//!   cargo metadata ----> crates --+--> imports ----------------+
//! ```
#![forbid(unsafe_code)]

mod built;
mod clients;
mod connections;
mod dax_vm;
mod device_reads;
mod disk;
mod instructions;
mod request_cost;
mod schedules;
mod tidy;
mod versus;

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
    /// Feeds parsers, decoders and recovery with mangled bytes (`--help` lists the options, `list` the targets).
    #[command(disable_help_flag = true)]
    Fuzz(Passed),
    /// Cuts the power of the real server, and compares what is left with what was acknowledged.
    #[command(disable_help_flag = true)]
    Torture(Passed),
    /// Makes each access of seeded histories fail or lie, and flips the bytes of small images (`--help` lists the options).
    #[command(disable_help_flag = true)]
    Sick(Passed),
    /// Explores a small model of the durability protocol exhaustively (`--help` lists the bounds).
    #[command(disable_help_flag = true)]
    Model(Passed),
    /// Explores schedules of the lock-free parts, on shuttle's primitives.
    Schedules(schedules::Arguments),
    /// Tests the product on real DAX, in a virtual machine whose power is cut.
    DaxVm(dax_vm::Arguments),
    /// Writes `docs/commands.md` from the server's table of commands, or checks it (`--check`).
    Docs(Docs),
    /// Measures terrace and other servers in turns, each in a memory cgroup.
    Versus(versus::Arguments),
    /// Counts the instructions of operations inside `Session::execute` and compares them with docs/benchmarks.md.
    Instructions(instructions::Arguments),
    /// Measures terrace's reads of an SSD and fio's of the same file, in turns.
    DeviceReads(device_reads::Arguments),
    /// Measures what a request costs servers: CPU time, requests a second, percentiles.
    RequestCost(request_cost::Arguments),
    /// Runs client libraries' documentation examples against terrace, or against the originals.
    Clients(clients::Arguments),
    /// Measures what stalled connections, and those that never read, cost the others.
    Connections(connections::Arguments),
    /// Leaves out every flush, fence and sync in turn and looks for a crash image that shows it.
    #[command(disable_help_flag = true)]
    Sites(Passed),
    /// Plants every bug of the library in a copy of the workspace and sees it caught.
    #[command(disable_help_flag = true)]
    Planted(Passed),
    /// Lives a week of real use in small on the real server, under published workloads, and says what it costs.
    #[command(disable_help_flag = true)]
    Week(Passed),
}

/// Options that the command behind the chore reads.
#[derive(clap::Args)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// The page of commands.
#[derive(clap::Args)]
struct Docs {
    /// Write nothing: fail if the page is not what the table says.
    #[arg(long)]
    check: bool,
}

impl Docs {
    /// A test of the server knows the table; told so, it writes the page.
    fn run(&self) -> anyhow::Result<std::process::ExitCode> {
        let mut cargo =
            std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args([
            "test",
            "--quiet",
            "--package",
            "terrace-server",
            "--lib",
            "the_page_says_what_the_table_says",
        ]);
        if !self.check {
            cargo.env("TERRACE_WRITE_DOCS", "1");
        }
        let status = cargo.status()?;
        Ok(if status.success() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE })
    }
}

fn main() -> anyhow::Result<std::process::ExitCode> {
    match Arguments::parse().chore {
        Chore::Tidy => tidy::run(),
        Chore::CrashSweep(passed) => proof("crash-sweep", &passed),
        Chore::Histories(passed) => proof("histories", &passed),
        Chore::Fuzz(passed) => fuzz(&passed),
        Chore::Torture(passed) => proof("torture", &passed),
        Chore::Sick(passed) => proof("sick", &passed),
        Chore::Model(passed) => {
            cargo_run(&["--release", "--package", "terrace-durability-model", "--"], &passed)
        }
        Chore::Schedules(arguments) => schedules::run(&arguments),
        Chore::DaxVm(arguments) => dax_vm::run(&arguments),
        Chore::Docs(docs) => docs.run(),
        Chore::Versus(arguments) => versus::run(&arguments),
        Chore::DeviceReads(arguments) => device_reads::run(&arguments),
        Chore::Instructions(arguments) => instructions::run(&arguments),
        Chore::RequestCost(arguments) => request_cost::run(&arguments),
        Chore::Clients(arguments) => clients::run(&arguments),
        Chore::Connections(arguments) => connections::run(&arguments),
        Chore::Sites(passed) => proof("sites", &passed),
        Chore::Planted(passed) => proof("planted", &passed),
        Chore::Week(mut passed) => {
            if !passed.options.iter().any(|option| option.starts_with("--terrace") || option == "--help") {
                passed.options.insert(0, format!("--terrace={}", built::or_build(None)?.display()));
            }
            proof("week", &passed)
        }
    }
}

/// A command of the crate that knows every engine.
fn proof(name: &str, passed: &Passed) -> anyhow::Result<std::process::ExitCode> {
    cargo_run(&["--release", "--package", "terrace-proof", "--", name], passed)
}

/// Without `--release`: arithmetic that overflows and broken assertions are what it looks for.
fn fuzz(passed: &Passed) -> anyhow::Result<std::process::ExitCode> {
    cargo_run(&["--package", "terrace-proof", "--bin", "terrace-fuzz", "--"], passed)
}

fn cargo_run(arguments: &[&str], passed: &Passed) -> anyhow::Result<std::process::ExitCode> {
    let status = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["run", "--quiet"])
        .args(arguments)
        .args(&passed.options)
        .status()?;
    Ok(if status.success() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE })
}
