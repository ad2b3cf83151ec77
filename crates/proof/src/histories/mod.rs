//! Checked histories of the real server: `cargo xtask histories --help`.
//!
//! ```text
//!   plan      which keys there are and what is asked of them
//!   value     numbers <-> the bytes of values, lists, counters
//!   request   a call <-> RESP and memcached
//!   client    a connection, a window of calls, what it saw          server   the child process, and its end
//!      |                                                      power    the same with power cuts
//!      '--> record   rounds of load, crash, restart, reading all  <--'       serve    what the child runs
//!               '--> History --> check
//! ```

mod client;
mod plan;
mod power;
mod record;
mod request;
mod serve;
mod server;
mod value;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use terrace_testkit::linearize::{Failure, History};

pub use power::PowerCuts;
pub use record::{Recorded, Recording, record};
pub use serve::ServeArguments;
pub use server::{Kill, Launch, Launcher, Running, Tiers};

/// Records what clients see of a server that crashes again and again, and checks it for linearizability.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Loads and crashes a server, and checks all that its clients saw as one history.
    Record(RecordArguments),
    /// Checks a history that was kept.
    Check {
        /// The file.
        file: PathBuf,
        /// Threads that check.
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// Check this key alone.
        #[arg(long)]
        key: Option<u32>,
    },
}

/// What is recorded.
#[derive(Clone, Debug, clap::Args)]
struct RecordArguments {
    #[command(flatten)]
    recording: Recording,
    #[command(flatten)]
    tiers: Tiers,
    /// Run this `terrace` instead of the same server in a process of this command.
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
    /// Cut the power instead of killing the process: what no fence or sync made durable may be lost or torn.
    #[arg(long, conflicts_with = "server")]
    power_cuts: bool,
    /// Keep the history in this file; without, only that of a key that fails is kept.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Threads that check.
    #[arg(long, default_value_t = 2)]
    check_threads: usize,
}

/// Runs the command.
///
/// # Errors
/// If the server can't be started or stops answering, or a file can't be read or written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Record(arguments) => run_record(arguments),
        Command::Check { file, threads, key } => {
            let open = File::open(file).with_context(|| format!("can't open {}", file.display()))?;
            let mut history = History::load(BufReader::new(open))?;
            if let Some(key) = key {
                history = history.of_key(*key);
            }
            Ok(verdict(&format!("{}", file.display()), "", &mut history, *threads).0)
        }
    }
}

/// Runs what a child process of [`record`] runs, until it is killed.
///
/// # Errors
/// If the store can't be opened or the server not started.
pub fn run_server(arguments: &ServeArguments) -> anyhow::Result<ExitCode> {
    serve::run(arguments)
}

fn run_record(arguments: &RecordArguments) -> anyhow::Result<ExitCode> {
    let RecordArguments { recording, tiers, server, power_cuts, keep, check_threads } = arguments;
    let this = std::env::current_exe()?;
    let launch: Box<dyn Launch> = match server {
        Some(program) => Box::new(Kill(Launcher::terrace(program, tiers)?)),
        None if *power_cuts => Box::new(PowerCuts::new(&this, tiers, recording.seed)?),
        None => Box::new(Kill(Launcher::child(&this, tiers)?)),
    };
    let how = if *power_cuts { "power cuts" } else { "SIGKILL" };
    let name = format!("{tiers}, {how}, seed {}", recording.seed);
    let mut recorded = match record(recording, &*launch) {
        Ok(recorded) => recorded,
        Err(error) => {
            let dir = launch.keep();
            return Err(error.context(format!("{name}: the store is left in {}", dir.display())));
        }
    };
    if let Some(keep) = keep {
        save(&recorded.history, keep)?;
    }
    let about = format!(", {recorded}");
    let (status, failed) = verdict(&name, &about, &mut recorded.history, *check_threads);
    if let Some(key) = failed {
        let file = PathBuf::from(format!("failed-{}-key-{key}.history", recording.seed));
        save(&recorded.history.of_key(key), &file)?;
        println!(
            "the history of key {key} is in {}; the store is left in {}",
            file.display(),
            launch.keep().display()
        );
    }
    Ok(status)
}

/// Checks a history and prints the line that sums up. Returns the key that failed.
fn verdict(name: &str, about: &str, history: &mut History, threads: usize) -> (ExitCode, Option<u32>) {
    let from = Instant::now();
    match history.check(threads, |_| None) {
        Ok(summary) => {
            println!("{name}: {summary}{about}; checked in {:.1?}: linearizable", from.elapsed());
            (ExitCode::SUCCESS, None)
        }
        Err(failure) => {
            println!("{failure}");
            let verdict = match failure {
                Failure::Violation(_) => "VIOLATED",
                _ => "NOT CHECKED",
            };
            let calls = history.calls.len();
            println!("{name}: {calls} calls{about}; checked in {:.1?}: {verdict}", from.elapsed());
            (ExitCode::FAILURE, failure.key())
        }
    }
}

fn save(history: &History, file: &Path) -> anyhow::Result<()> {
    let create = File::create(file).with_context(|| format!("can't create {}", file.display()))?;
    history.save(BufWriter::new(create)).with_context(|| format!("can't write {}", file.display()))
}
