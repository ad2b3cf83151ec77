//! `terrace check`.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use terrace::check::CheckOptions;
use terrace::human_bytes;

use crate::progress_lines::Lines;
use crate::{say, serve};

/// Problems were found.
const PROBLEMS: u8 = 1;
/// The store can't be checked.
const CAN_NOT: u8 = 2;

/// What a repair never does, told where it could not begin.
const CAN_NOT_REPAIR: &str = "terrace: nothing was repaired. --repair makes blocks and the log openable again; it can't make anew what stands nowhere else: \
     the superblock, the manifest, a missing or shortened file, the memory of a store on both. Put these back from a copy.";

/// Options of `terrace check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 0 if the store is clean, 1 if there are problems, 2 if it can't be checked (no store, in use, unreadable).

It writes nothing, so that a copy that can't be written can be checked, too, and a copy of a store's memory on any disk.
Where standard error is no terminal the log has its progress.

A repair makes a store openable that was refused. A block is rebuilt from the records in it that are whole, or given up
if there are none; a damaged log is cut where it is damaged. What was changed and what may be lost is printed. Copy the
store before, if you can. It does not make anew what stands nowhere else, and says so: the superblock, both copies of the
manifest, a file that is missing or was cut, memory that is damaged, the bytes of damaged records and large values.

Examples:
  terrace check ./terrace-data               look, change nothing
  terrace check /mnt/pmem0/pmem              a store on byte-addressable media
  terrace check /mnt/pmem0 /mnt/pmem1        one whose memory is striped over two, in any order
  terrace check --repair ./terrace-data      drop what can't be trusted, so that the store opens again")]
pub struct CheckArgs {
    /// The store's directory, or the file or device of a store on byte-addressable media; all of them if it is striped over several
    #[arg(required = true, value_name = "PLACE")]
    pub places: Vec<PathBuf>,
    /// Drop what can't be trusted
    #[arg(long)]
    pub repair: bool,
}

/// The places that were given, or those that a directory remembers.
fn remembered(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let [dir] = given else { return Ok(given.to_vec()) };
    let Some(places) = serve::store_of(dir)? else { return Ok(given.to_vec()) };
    let listed: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    say::error(&format!("{} has its store at {}", dir.display(), listed.join(", ")));
    Ok(places)
}

/// Runs it.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let places = match remembered(&args.places) {
        Ok(places) => places,
        Err(error) => {
            say::error(&format!("terrace: can't check: {error:#}"));
            return Ok(ExitCode::from(CAN_NOT));
        }
    };
    // Shows only where standard error is a terminal; elsewhere the log has lines.
    let bar = ProgressBar::new(0).with_message("checking");
    let style = ProgressStyle::with_template("{msg} {bar:40} {binary_bytes}/{binary_total_bytes} eta {eta}");
    let bar = if let Ok(style) = style { bar.with_style(style) } else { bar };
    let lines = (!std::io::stderr().is_terminal()).then(|| RefCell::new(Lines::new(Instant::now())));
    let progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        let Some(lines) = &lines else { return };
        if done == 0 {
            tracing::info!("checking {}", human_bytes(total));
        } else if let Some(percent) = lines.borrow_mut().due(done, total, Instant::now()) {
            tracing::info!(done, total, "checking: {percent}%");
        }
    };
    let outcome = terrace::check_all(&places, &CheckOptions { repair: args.repair, progress: &progress });
    bar.finish_and_clear();
    match outcome {
        Ok(report) => {
            say::line(&report.to_string())?;
            Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(PROBLEMS) })
        }
        Err(error) => {
            say::error(&format!("terrace: can't check: {error}"));
            if args.repair {
                say::error(CAN_NOT_REPAIR);
            }
            Ok(ExitCode::from(CAN_NOT))
        }
    }
}
