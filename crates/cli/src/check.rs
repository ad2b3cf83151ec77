//! `terrace check`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Options of `terrace check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  terrace check ./terrace-data               look, change nothing
  terrace check --repair ./terrace-data      drop what can't be trusted, so that the store opens again")]
pub struct CheckArgs {
    /// The store's directory
    pub dir: PathBuf,
    /// Drop what can't be trusted
    #[arg(long)]
    pub repair: bool,
}

/// Runs it.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let what = if args.repair { "repairing" } else { "checking" };
    anyhow::bail!(
        "{what} a store offline is not there yet ({} was not touched); opening it verifies what recovery reads",
        args.dir.display()
    )
}
