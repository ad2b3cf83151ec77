//! `terrace bench trace`: options to [`Options`], report to output.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use terrace_bench::Distribution;
use terrace_bench::trace::{self, Options, Setup, Shares};

use crate::say;

/// Options of `terrace bench trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is stored and no clock is read: the same options give the same figures everywhere. N is the number of records.
Placements: tac (records in one tier each), tac-homes (the same, but what comes up from PMem keeps its slot there), tac-buf (as tac, and a read from the SSD brings in what lies with a warm record), anti-2 (DRAM and PMem as one pool), anti-nvm (DRAM as a cache of PMem).
Policies: clock, lazy-lru, lazy-lru-paper, lru, alru, sampled-lru, s3-fifo, sieve.
Gates: all (whatever is read goes up), hot (what exceeds the thresholds), beats (what was read more often than the next victim).

Examples:
  terrace bench trace                                           TaC's table 3 and what there is instead
  terrace bench trace --shares 1,5,10,25,50 --sets 0            eviction alone, as in TaC's figure 12
  terrace bench trace --setup tac/clock/beats,tac/lru/all --records 100000 --distribution ycsb --json rows.json")]
pub struct TraceArgs {
    /// What to simulate; a fourth part, sketch or table, says how records on the SSD are counted [default: 16 of them]
    #[arg(long, value_delimiter = ',', value_name = "PLACEMENT/POLICY/GATE,..")]
    setup: Vec<Setup>,
    /// Number of records
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    records: u32,
    /// zipfian:EXPONENT, ycsb or uniform
    #[arg(long, value_delimiter = ',', default_value = "zipfian:0.99,ycsb", value_name = "DIST,..")]
    distribution: Vec<Distribution>,
    /// Percent of the accesses that are sets
    #[arg(long, default_value_t = 5.0, value_name = "P")]
    sets: f64,
    /// Percent of the records that fit DRAM and PMem
    #[arg(long, value_delimiter = ',', default_value = "8/64", value_name = "DRAM/PMEM,..")]
    shares: Vec<Shares>,
    /// Accesses before counting starts, in N
    #[arg(long, default_value_t = 8.0, value_name = "X")]
    warm: f64,
    /// Accesses that are counted, in N
    #[arg(long, default_value_t = 4.0, value_name = "X")]
    measured: f64,
    /// Accesses after the hot set has moved, in N
    #[arg(long, default_value_t = 4.0, value_name = "X")]
    shifted: f64,
    /// Ticks of lazy LRU's clock in N accesses
    #[arg(long, default_value_t = 4, value_name = "T")]
    ticks: u32,
    /// Accesses between two halvings of the other policies' counts, in N [default: 25 accesses for each record that fits DRAM]
    #[arg(long, value_name = "X")]
    halve_every: Option<f64>,
    /// Store every change of a count, not only those by an eighth and more
    #[arg(long)]
    store_all: bool,
    /// What all random choices follow from
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Write the rows here too, as a JSON list; - for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl TraceArgs {
    fn options(self) -> (Options, Option<PathBuf>) {
        let options = Options {
            setups: if self.setup.is_empty() { Setup::standard() } else { self.setup },
            records: self.records,
            distributions: self.distribution,
            sets_percent: self.sets,
            shares: self.shares,
            warm: self.warm,
            measured: self.measured,
            shifted: self.shifted,
            ticks: self.ticks,
            halve_every: self.halve_every,
            stores_all: self.store_all,
            seed: self.seed,
        };
        (options, self.json)
    }
}

/// Runs it.
pub(super) fn run(args: TraceArgs) -> anyhow::Result<ExitCode> {
    let (options, json) = args.options();
    let report = trace::run(&options)?;
    if json.as_deref().is_none_or(|path| path.as_os_str() != "-") {
        say::line(report.to_string().trim_end())?;
        say::line(&format!("\n{} simulations of {} records", report.rows.len(), options.records))?;
    }
    if let Some(path) = json {
        report.write_json(&path)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn options(line: &str) -> Result<Options, String> {
        let words = ["terrace", "bench", "trace"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Bench(args) => match args.what {
                Some(super::super::What::Trace(args)) => Ok(args.options().0),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_arrive() {
        let standard = options("").unwrap();
        assert_eq!(standard.setups, Setup::standard());
        assert_eq!(standard.distributions, [Distribution::Zipfian(0.99), Distribution::Ycsb]);
        assert_eq!(standard.shares, [Shares { dram: 8.0, pmem: 64.0 }]);
        assert!(standard.check().is_ok());
        let some = options(
            "--setup tac/lru/all,anti-2/clock/hot --records 500 --distribution uniform --sets 50 --shares 1,2.5/10 --warm 1 \
             --measured 2 --shifted 3 --ticks 4 --halve-every 5 --store-all --seed 6",
        )
        .unwrap();
        assert_eq!(
            some.setups.iter().map(Setup::to_string).collect::<Vec<_>>(),
            ["tac/lru/all", "anti-2/clock/hot"]
        );
        assert_eq!(some.shares, [Shares { dram: 1.0, pmem: 0.0 }, Shares { dram: 2.5, pmem: 10.0 }]);
        assert_eq!(
            (some.records, some.sets_percent, some.warm, some.measured, some.shifted),
            (500, 50.0, 1.0, 2.0, 3.0)
        );
        assert_eq!((some.ticks, some.halve_every, some.stores_all, some.seed), (4, Some(5.0), true, 6));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for wrong in ["--setup tac/mru/all", "--shares 90/20", "--shares 0/5", "--shares x"] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
        for wrong in
            ["--records 5", "--sets 101", "--measured 0", "--ticks 0", "--distribution latest", "--warm 5000"]
        {
            assert!(options(wrong).unwrap().check().is_err(), "{wrong}");
        }
    }
}
