//! What a request costs a server: its CPU time, beside requests a second and percentiles of latency.
//!
//! ```text
//!   for each round, in turns: server (one worker) <--- one thread, many connections, a pipeline of so many requests on each
//!                               '--> CPU time of the process, from the kernel's accounts
//! ```
//! The client is often what is full first; so requests a second say little, and the server's CPU time for a request says what
//! it would cost an operator. Everything is in DRAM. Answers are counted by their length, and checked by it.

mod load;
pub mod server;
pub mod wire;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Context;

use crate::built;
use load::{Load, Outcome};
use server::{Kind, Server};
use wire::Request;

/// Measures what a request costs servers, in turns.
#[derive(clap::Args)]
pub struct Arguments {
    /// The servers. redis and memcached are Debian's packages.
    #[arg(long, value_delimiter = ',', default_value = "terrace-redis,redis,terrace-memcached,memcached")]
    servers: Vec<Kind>,
    /// The requests.
    #[arg(long, value_delimiter = ',', default_value = "get,set")]
    requests: Vec<Request>,
    /// Bytes of a value.
    #[arg(long, value_delimiter = ',', default_value = "64")]
    value_bytes: Vec<usize>,
    /// Requests sent before their answers are waited for, on each connection.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    pipelines: Vec<usize>,
    /// Connections.
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Different keys.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds in which each server is measured once.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The binary of terrace [default: built in release mode].
    #[arg(long)]
    terrace: Option<PathBuf>,
    /// Where terrace keeps its data while it is measured.
    #[arg(long, default_value = "target/request-cost")]
    dir: PathBuf,
    /// More options for `terrace serve`.
    #[arg(long, value_delimiter = ' ', allow_hyphen_values = true)]
    serve: Vec<String>,
}

/// One line of the table.
struct Row {
    kind: Kind,
    request: Request,
    value_bytes: usize,
    pipeline: usize,
    outcomes: Vec<Outcome>,
}

/// Runs it and prints a table: medians over the rounds.
///
/// # Errors
/// If a server does not start, or gives an answer of another length than it should.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let terrace = built::or_build(arguments.terrace.as_deref())?.canonicalize()?;
    if arguments.servers.iter().any(|kind| matches!(kind, Kind::LoopEpoll | Kind::LoopUring)) {
        let build = ["build", "--release", "-p", "terrace-media", "--example", "event_loops"];
        Command::new("cargo").args(build).status().context("building the event loops")?;
    }
    std::fs::create_dir_all(&arguments.dir)?;
    let mut rows = Vec::new();
    for &value_bytes in &arguments.value_bytes {
        for &request in &arguments.requests {
            for &pipeline in &arguments.pipelines {
                for &kind in &arguments.servers {
                    rows.push(Row { kind, request, value_bytes, pipeline, outcomes: Vec::new() });
                }
            }
        }
    }
    for round in 0..arguments.rounds {
        for kind in &arguments.servers {
            let server = Server::start(*kind, &terrace, &arguments.dir, &arguments.serve)?;
            for &value_bytes in &arguments.value_bytes {
                let load = Load {
                    address: server.address,
                    protocol: kind.protocol(),
                    connections: arguments.connections,
                    keys: arguments.keys,
                    value_bytes,
                };
                load.fill()?;
                for row in rows.iter_mut().filter(|row| row.kind == *kind && row.value_bytes == value_bytes) {
                    let length = Duration::from_secs_f64(arguments.seconds);
                    row.outcomes.push(load.run(row.request, row.pipeline, length, || server.cpu())?);
                }
            }
            eprintln!("round {}: {kind}", round + 1);
            server.stop()?;
        }
    }
    println!(
        "{:<18} {:>4} {:>6} {:>5}  {:>9} {:>10} {:>8} {:>8}",
        "server", "", "bytes", "pipe", "CPU us", "requests/s", "p50 us", "p99 us"
    );
    for row in &rows {
        let median = |of: fn(&Outcome) -> f64| {
            let mut all: Vec<f64> = row.outcomes.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        println!(
            "{:<18} {:>4} {:>6} {:>5}  {:>9.2} {:>10.0} {:>8.0} {:>8.0}",
            row.kind.to_string(),
            row.request.to_string(),
            row.value_bytes,
            row.pipeline,
            median(|outcome| outcome.cpu_us),
            median(|outcome| outcome.requests_per_second),
            median(|outcome| outcome.p50_us),
            median(|outcome| outcome.p99_us),
        );
    }
    Ok(ExitCode::SUCCESS)
}
