//! `terrace check`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use terrace::check::CheckOptions;

use crate::say;

/// Problems were found.
const PROBLEMS: u8 = 1;
/// The store can't be checked.
const CAN_NOT: u8 = 2;

/// Options of `terrace check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 0 if the store is clean, 1 if there are problems, 2 if it can't be checked (no store, in use, unreadable).

A repair makes a store openable that was refused. A block is rebuilt from the records in it that are whole, or given up
if there are none; a damaged log is cut where it is damaged. What was changed and what may be lost is printed. Copy the
store before, if you can.

Examples:
  terrace check ./terrace-data               look, change nothing
  terrace check /mnt/pmem0/pmem              a store on byte-addressable media
  terrace check --repair ./terrace-data      drop what can't be trusted, so that the store opens again")]
pub struct CheckArgs {
    /// The store's directory, or the file or device of a store on byte-addressable media
    pub dir: PathBuf,
    /// Drop what can't be trusted
    #[arg(long)]
    pub repair: bool,
}

/// Runs it.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    // Shows only where standard error is a terminal.
    let bar = ProgressBar::new(0).with_message("checking");
    let style = ProgressStyle::with_template("{msg} {bar:40} {binary_bytes}/{binary_total_bytes} eta {eta}");
    let bar = if let Ok(style) = style { bar.with_style(style) } else { bar };
    let progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let outcome = terrace::check(&args.dir, &CheckOptions { repair: args.repair, progress: &progress });
    bar.finish_and_clear();
    match outcome {
        Ok(report) => {
            say::line(&report.to_string())?;
            Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(PROBLEMS) })
        }
        Err(error) => {
            say::error(&format!("terrace: can't check: {error}"));
            Ok(ExitCode::from(CAN_NOT))
        }
    }
}
