//! Project chores: `cargo xtask tidy` checks what the compiler can't.
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
}

fn main() -> anyhow::Result<std::process::ExitCode> {
    match Arguments::parse().chore {
        Chore::Tidy => tidy::run(),
    }
}
