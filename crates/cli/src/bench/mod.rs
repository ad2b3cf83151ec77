//! `terrace bench`: options to a [`Config`], report to output.

mod indexes;
pub mod shared;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use shared::Shared;
use terrace::{Eviction, Granularity, Placement, ReadCache, Swap};
use terrace_bench::{Config, Endpoint, Verify};

use crate::{interrupt, names, say};

/// What else there is to measure.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Measure indexes alone, without a store around them.
    Indexes(indexes::IndexesArgs),
    /// Simulate placements and policies of tiers, without a store.
    Trace(trace::TraceArgs),
}

/// Options of `terrace bench`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
A percentage is of the bytes that the records occupy with their headers. A latency is that of the batch an operation was \
in. With neither --pmem nor --ssd, hetermm gets 300% (at least 256 MiB) of --pmem if there is a --profile, else of --ssd.

Examples:
  terrace bench --workload wh --records 1000000 --dram-records 25%
  terrace bench --workload ro --dram-records 25% --profile optane-200 --pmem 200% --durability sync
  terrace bench --engine dram --workload rh --threads 2 --batch 16 --json rh.json
  terrace bench --workload a --dram-records 10% --ssd 300%@/srv/bench --recover
  terrace bench --engine tac --workload load --dram-records 10% --rate 50000
  terrace bench --connect redis://127.0.0.1:6379 --workload b --batch 32
  terrace bench indexes --help                 indexes alone
  terrace bench trace --help                   policies of tiers alone"
)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// The engine: tac, hetermm, heap-hybrid, heap-persistent, scmkv, bonsai or dram
    #[arg(long, value_parser = names::engine, default_value = "hetermm", value_name = "E")]
    engine: String,
    /// Of tac with --pmem and --ssd, which tier records lie in: tac, anti-2, anti-nvm or anti-tuple [default: tac]
    #[arg(long, value_name = "P")]
    placement: Option<Placement>,
    /// Of tac, which record leaves DRAM next: clock, lazy-lru, lazy-lru-paper, lru, alru, sampled-lru, s3-fifo or sieve; and which may enter, as in lru/hot: all, hot or beats [default: clock/beats]
    #[arg(long, value_name = "P[/GATE]")]
    policy: Option<Eviction>,
    /// Of tac with --ssd, what a read of the SSD brings up: tuple (the record) or buf (what is worth it of the 16 KiB around it) [default: tuple]
    #[arg(long, value_name = "S")]
    swap: Option<Swap>,
    /// Of hetermm, which records that are read below DRAM are copied to it: gated, sampled:N (one of N reads) or off [default: gated with --ssd, off with --pmem]
    #[arg(long, value_name = "HOW")]
    read_cache: Option<ReadCache>,
    /// Of heap-hybrid, how long the chunks of a new store are: slab (one of some lengths, those of a page of the same) or object (as long as the record needs) [default: slab]
    #[arg(long, value_name = "HOW")]
    heap: Option<Granularity>,
    #[command(flatten)]
    shared: Shared,
    /// Records to load
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    records: u64,
    /// Operations to measure
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    operations: u64,
    /// Batches that each thread keeps submitted (a store in this process alone): the device then always has reads to do
    #[arg(long, default_value_t = 1, value_name = "N")]
    in_flight: usize,
    /// Operations a second, all threads together; latencies count from when a batch was due [default: as many as the store takes]
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Records a second to load before that: memcached's extstore forgets what comes faster than it writes
    #[arg(long, value_name = "N")]
    load_rate: Option<u64>,
    /// Where the store lies, to be kept [default: a temporary directory, removed at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Drive a server instead: redis://HOST:PORT or memcached://HOST:PORT
    #[arg(long, value_name = "URL")]
    connect: Option<Endpoint>,
    /// Afterwards drop the store as if killed, and open it again
    #[arg(long)]
    recover: bool,
    /// How many reads are compared with what was written: none, sample (one in 64) or all
    #[arg(long, default_value = "sample", value_name = "HOW")]
    verify: Verify,
    /// Write the report here too, as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl BenchArgs {
    fn config(self) -> (Config, Option<PathBuf>) {
        let config = Config {
            engine: self.engine,
            placement: self.placement,
            policy: self.policy,
            swap: self.swap,
            read_cache: self.read_cache,
            heap: self.heap,
            records: self.records,
            operations: self.operations,
            in_flight: self.in_flight,
            rate: self.rate,
            load_rate: self.load_rate,
            dir: self.dir,
            connect: self.connect,
            recover: self.recover,
            verify: self.verify,
            ..self.shared.config()
        };
        (config, self.json)
    }
}

/// Runs it; fails if an answer was wrong or an operation refused, after the report.
pub fn run(mut args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.what.take() {
        Some(What::Indexes(args)) => return indexes::run(args),
        Some(What::Trace(args)) => return trace::run(args),
        None => {}
    }
    let (config, json) = args.config();
    if config.connect.is_none() {
        // A server that does not answer would be waited for.
        interrupt::in_order()?;
    }
    let report = terrace_bench::run(&config)?;
    let to_stdout = json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    if !to_stdout {
        say::line(report.to_string().trim_end())?;
    }
    if let Some(path) = json {
        report.write_json(&path)?;
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, Command};
    use clap::Parser;
    use terrace::{Granularity, Placement, Size, Swap};
    use terrace_bench::{Config, Distribution, Workload};

    fn config(line: &str) -> Result<Config, String> {
        let words = ["terrace", "bench"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Bench(args) => Ok(args.config().0),
            other => panic!("{other:?} is no benchmark"),
        }
    }

    #[test]
    fn every_option_arrives() {
        let config = config(
            "--engine dram --index clht --placement anti-2 --policy lru/hot --swap buf --read-cache sampled:100 --heap object --workload wh --records 10 --operations 20 --threads 3 --batch 4 --in-flight 5 --rate 1000 --load-rate 2000 \
             --key-bytes 16 --value-bytes 100 --distribution zipfian:1.5 --dram-records 25% --pmem 200%@/mnt/pmem \
             --ssd 1GiB --profile optane-200 --durability sync --dir /srv/x --connect redis://127.0.0.1:7000 --seed 9 \
             --recover --json out.json",
        )
        .unwrap();
        assert_eq!((config.engine.as_str(), config.workload), ("dram", Workload::WriteHeavy));
        assert_eq!(config.placement, Some(Placement::Anti2));
        assert_eq!(config.policy, "lru/hot".parse().ok());
        assert_eq!(config.read_cache, "sampled:100".parse().ok());
        assert_eq!((config.swap, config.heap), (Some(Swap::Buf), Some(Granularity::Object)));
        assert_eq!((config.records, config.operations, config.threads, config.batch), (10, 20, 3, 4));
        assert_eq!((config.rate, config.load_rate), (Some(1000), Some(2000)));
        assert_eq!((config.in_flight, config.key_bytes, config.value_bytes, config.seed), (5, 16, 100, 9));
        assert_eq!(config.distribution, Some(Distribution::Zipfian(1.5)));
        assert_eq!(config.dram_records, Some(Size::Percent(25.0)));
        assert_eq!(config.pmem.unwrap().size, Size::Percent(200.0));
        assert_eq!(config.ssd.unwrap().size, Size::Bytes(1 << 30));
        assert_eq!(config.durability.unwrap().to_string(), "sync");
        assert_eq!(config.connect.unwrap().to_string(), "redis://127.0.0.1:7000");
        assert!(config.recover && config.profile.as_deref() == Some("optane-200"));
    }

    #[test]
    fn wrong_values_are_told_with_what_is_possible() {
        for (line, word) in [
            ("--engine bonsay", "did you mean bonsai?"),
            ("--workload z", "expected one of"),
            ("--distribution zipf", "zipfian:EXPONENT"),
            ("--durability always", "batch:MILLISECONDS"),
            ("--dram 1 --dram-records 1", "cannot be used with"),
            ("--pmem 5parsecs", "expected a size"),
            ("--placement anti-3", "anti-2 or anti-nvm"),
            ("--policy lru/cold", "hot or beats"),
            ("--swap page", "tuple or buf"),
            ("--read-cache 100", "sampled:100"),
            ("--heap page", "slab or object"),
        ] {
            let error = config(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
