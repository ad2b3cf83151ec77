//! Terrace beside another server, each in a memory cgroup so that the page cache can't stand in for the SSD.
//!
//! ```text
//!   for each workload, round after round, in turns:    server (cgroup: DRAM + 512 MiB) <--- terrace bench --connect
//!                                                        '--> bytes read from the device, resident memory
//!   table: medians over the rounds
//! ```
//!
//! memcached keeps an item's header and key in DRAM even where the value is on the SSD. With the same DRAM as terrace it may
//! have to forget items; `extstore-all` gets as much more as the headers take, so that nothing is lost.

mod server;
mod table;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use server::{Kind, Server};
use table::Run;

/// Measures terrace and other servers in turns.
#[derive(clap::Args)]
pub struct Arguments {
    /// The servers: terrace, extstore (memcached with as much DRAM as terrace), extstore-all (with its items' headers on top),
    /// redis (everything in DRAM). Those but terrace are Debian's packages.
    #[arg(long, value_delimiter = ',', default_value = "terrace,extstore,extstore-all")]
    servers: Vec<Kind>,
    /// terrace's engine.
    #[arg(long, default_value = "tac")]
    engine: String,
    /// YCSB workloads, as `terrace bench` knows them.
    #[arg(long, value_delimiter = ',', default_value = "ro,rh,wh")]
    workloads: Vec<String>,
    /// Records.
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 1000)]
    value_bytes: u64,
    /// Operations of one run.
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// The share of the records' bytes that terrace and extstore get as DRAM, in percent.
    #[arg(long, default_value_t = 10)]
    dram_percent: u64,
    /// The client's connections, a thread each.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Operations in a pipeline.
    #[arg(long, default_value_t = 16)]
    batch: u64,
    /// Records loaded a second: extstore forgets what comes faster than it writes.
    #[arg(long, default_value_t = 40_000)]
    load_rate: u64,
    /// Operations a second that the client asks for, whoever serves: latencies at equal work, counted from when each was due. As fast
    /// as it can, if none are given.
    #[arg(long)]
    rate: Option<u64>,
    /// Runs of each server on each workload.
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Where stores lie: on the disk that is to be measured.
    #[arg(long, default_value = "target/versus")]
    dir: PathBuf,
    /// A terrace that is built already.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Write every run here, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Arguments {
    /// DRAM for terrace and extstore.
    fn dram_bytes(&self) -> u64 {
        self.records * self.value_bytes * self.dram_percent / 100
    }
}

/// Runs everything and prints the table.
///
/// # Errors
/// If a server or the client can't be run, or a cgroup can't be made (it needs root).
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let terrace = crate::built::or_build(arguments.program.as_deref())?;
    std::fs::create_dir_all(&arguments.dir)?;
    let total = arguments.rounds * (arguments.workloads.len() * arguments.servers.len()) as u64;
    let bar = ProgressBar::new(total);
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {elapsed}")?);
    let mut runs = Vec::new();
    for workload in &arguments.workloads {
        for _ in 0..arguments.rounds {
            for &kind in &arguments.servers {
                bar.set_message(format!("{kind} {workload}"));
                let run = measure(arguments, &terrace, kind, workload)?;
                bar.println(run.line());
                runs.push(run);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    print!("{}", table::table(&runs));
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&runs)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(
    arguments: &Arguments,
    terrace: &std::path::Path,
    kind: Kind,
    workload: &str,
) -> anyhow::Result<Run> {
    let server = Server::start(arguments, terrace, kind)?;
    let rate = arguments.rate.map(|rate| ["--rate".to_owned(), rate.to_string()]);
    let output = Command::new(terrace)
        .args(["bench", "--connect", &server.url(), "--workload", workload])
        .args([
            "--records",
            &arguments.records.to_string(),
            "--operations",
            &arguments.operations.to_string(),
        ])
        .args(["--value-bytes", &arguments.value_bytes.to_string()])
        .args(["--threads", &arguments.threads.to_string(), "--batch", &arguments.batch.to_string()])
        .args(["--load-rate", &arguments.load_rate.to_string(), "--json", "-"])
        .args(rate.into_iter().flatten())
        .stderr(std::process::Stdio::null())
        .output()?;
    let usage = server.usage()?;
    server.stop()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{kind} {workload}: the client failed: {}", output.status))?;
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    let p99 = |what: &str| number(&report["latency_ns"][what]["p99"]) / 1e6;
    Ok(Run {
        server: kind.to_string(),
        workload: workload.into(),
        ops_per_second: number(&report["ops_per_second"]),
        load_seconds: number(&report["load_seconds"]),
        get_p99_ms: p99("get"),
        set_p99_ms: p99("set"),
        miss_percent: number(&report["misses"]) / number(&report["gets"]) * 100.0,
        wrong: report["wrong"].as_u64().unwrap_or(u64::MAX),
        read_bytes_an_operation: usage.read_bytes as f64 / arguments.operations as f64,
        written_bytes_an_operation: usage.written_bytes.map_or(f64::NAN, |bytes| bytes as f64)
            / (arguments.operations + arguments.records) as f64,
        anonymous_mib: usage.anonymous_bytes as f64 / f64::from(1 << 20),
    })
}
