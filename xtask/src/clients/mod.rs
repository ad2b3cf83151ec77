//! Client libraries run their own documentation's examples against terrace, or against the originals.
//!
//! ```text
//!   for each library:  its runtime on PATH? --> install --> build --> fresh server <-- the examples' program
//!                       no, or no packages: skipped, with the reason                   '--> a line for each example: ok, failed, skipped
//! ```
//! The programs lie in `xtask/clients/LANGUAGE`, with manifests that pin versions. They are copied to a cache under `target` and
//! everything that they need is installed there. `--originals` runs them against redis-server and memcached: that proves the programs.

mod install;
mod library;
mod outcome;
mod run;
mod server;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;

use library::{LIBRARIES, Library, Protocol};
use outcome::{Outcome, Tally};
use server::{Origin, Server};

/// Runs client libraries' documentation examples against terrace.
#[derive(clap::Args)]
pub struct Arguments {
    /// The libraries; all of them by default.
    #[arg(long, value_delimiter = ',')]
    libraries: Vec<String>,
    /// Run against redis-server and memcached instead, as found on PATH.
    #[arg(long, conflicts_with = "terrace")]
    originals: bool,
    /// Run Redis's clients against this running server, whose keys are deleted.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "originals")]
    redis: Option<SocketAddr>,
    /// Run memcached's clients against this running server, whose keys are deleted.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "originals")]
    memcached: Option<SocketAddr>,
    /// The binary of terrace; built if none is named.
    #[arg(long)]
    terrace: Option<PathBuf>,
    /// More options for `terrace serve`.
    #[arg(long, value_delimiter = ' ', allow_hyphen_values = true)]
    serve: Vec<String>,
    /// Where libraries are installed and programs are built.
    #[arg(long, default_value = "target/clients")]
    cache: PathBuf,
    /// Seconds that a program may take; installing and building one may take ten times as long.
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// Fail when a library is skipped.
    #[arg(long)]
    all: bool,
    /// Print every example, not only those that failed or were skipped.
    #[arg(long, short)]
    verbose: bool,
}

/// Runs them and prints a table.
///
/// # Errors
/// If a name is unknown, or a server can't be started.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let libraries = chosen(&arguments.libraries)?;
    let serves_itself = |library: &&Library| running(arguments, library.protocol).is_none();
    let origin = if arguments.originals {
        Origin::Originals
    } else if libraries.iter().any(serves_itself) {
        Origin::Terrace {
            program: crate::built::or_build(arguments.terrace.as_deref())?,
            options: arguments.serve.clone(),
        }
    } else {
        Origin::Running
    };
    std::fs::create_dir_all(&arguments.cache)?;
    let cache = arguments.cache.canonicalize()?;
    let mut tallies = Vec::new();
    for library in libraries {
        let outcomes = examples_of(library, arguments, &origin, &cache)?;
        for outcome in outcomes.iter().filter(|outcome| arguments.verbose || outcome.is_worth_a_line()) {
            println!("{:<18} {outcome}", library.name);
        }
        tallies.push((library, Tally::of(outcomes)));
    }
    Ok(table(&tallies, arguments.all))
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Library>> {
    if let Some(unknown) = names.iter().find(|name| LIBRARIES.iter().all(|library| library.name != *name)) {
        let known: Vec<&str> = LIBRARIES.iter().map(|library| library.name).collect();
        bail!("there is no library {unknown}; there are {}", known.join(", "));
    }
    Ok(LIBRARIES
        .iter()
        .filter(|library| names.is_empty() || names.iter().any(|name| name == library.name))
        .collect())
}

fn running(arguments: &Arguments, protocol: Protocol) -> Option<SocketAddr> {
    match protocol {
        Protocol::Redis => arguments.redis,
        Protocol::Memcached => arguments.memcached,
    }
}

/// Each library gets a server of its own, so that what one does to it is not another's failure.
fn examples_of(
    library: &Library,
    arguments: &Arguments,
    origin: &Origin,
    cache: &std::path::Path,
) -> anyhow::Result<Vec<Outcome>> {
    let patience = Duration::from_secs(arguments.patience);
    let program = match install::program(library, cache, patience * 10)? {
        Ok(program) => program,
        Err(outcome) => return Ok(vec![outcome]),
    };
    let Some(address) = running(arguments, library.protocol) else {
        let mut server = match Server::start(library.protocol, origin)? {
            Ok(server) => server,
            Err(reason) => return Ok(vec![Outcome::library_skipped(reason)]),
        };
        let mut outcomes = run::examples(&program, library.protocol, server.address, patience)?;
        outcomes.extend(server.ended().map(|how| Outcome::failed("the server", &how)));
        return Ok(outcomes);
    };
    run::examples(&program, library.protocol, address, patience)
}

/// Prints it; what failed, or nothing having run, is a failure of the command.
fn table(tallies: &[(&Library, Tally)], all: bool) -> ExitCode {
    println!(
        "\n{:<18} {:<10} {:<36} {:>6} {:>6} {:>7}",
        "library", "protocol", "version", "passed", "failed", "skipped"
    );
    for (library, tally) in tallies {
        println!(
            "{:<18} {:<10} {:<36} {:>6} {:>6} {:>7}  {}",
            library.name,
            library.protocol.to_string(),
            library.version,
            tally.passed,
            tally.failed,
            tally.skipped,
            tally.library_skipped.as_deref().unwrap_or_default(),
        );
    }
    let sum = |of: fn(&Tally) -> usize| tallies.iter().map(|(_, tally)| of(tally)).sum::<usize>();
    let (passed, failed) = (sum(|tally| tally.passed), sum(|tally| tally.failed));
    let left_out = sum(|tally| usize::from(tally.library_skipped.is_some()));
    println!("\n{passed} passed, {failed} failed, {} skipped", sum(|tally| tally.skipped));
    if failed > 0 || passed == 0 || (all && left_out > 0) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
