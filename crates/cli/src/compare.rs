//! `terrace compare`: options to [`Options`], comparison to output.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use terrace_bench::Config;
use terrace_bench::compare::{self, Options};

use crate::bench::shared::Shared;
use crate::{interrupt, names, say};

/// Options of `terrace compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each engine gets a new store on the same media with the same budget of DRAM, is loaded, runs the workload, is killed \
and opened again; then it is the next one's turn, and so on for each round. Stores lie in temporary directories, which \
go afterwards: for --pmem SIZE@DIR and --ssd SIZE@DIR in these. dram keeps all in DRAM and has the same budget. Engines \
that take other media are listed below the table, each with its reason.

A percentage is of the bytes that the records occupy with their headers. With neither --pmem nor --ssd there is 300% \
(at least 256 MiB) of --pmem if there is a --profile, else of --ssd. With a --profile memory is emulated, and the table \
says so.

Examples:
  terrace compare                                         DRAM and the disk of temporary files
  terrace compare --workload wh --dram 64MiB --ssd 4GiB@/srv/bench --records 5000000
  terrace compare --workload a --profile optane-200 --durability sync     emulated persistent memory
  terrace compare --workload rh --pmem 64GiB@/mnt/pmem0 --records 100000000 --dram 4GiB --rounds 1
  terrace compare --pmem 100% --ssd 300% --profile cxl-dram --engines tac,hetermm --json compare.json")]
pub struct CompareArgs {
    /// Only these engines: tac, hetermm, heap-hybrid, heap-persistent, scmkv, bonsai or dram [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names::engine, value_name = "E,..")]
    engines: Vec<String>,
    #[command(flatten)]
    shared: Shared,
    /// Records to load, in each round
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    records: u64,
    /// Operations to measure, in each round
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    operations: u64,
    /// How often each engine is measured, in turns, each time with another seed; the table has the median
    #[arg(long, default_value_t = 3, value_name = "R")]
    rounds: u32,
    /// Write the comparison here too, as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl CompareArgs {
    fn options(self) -> (Options, Option<PathBuf>) {
        let Self { engines, shared, records, operations, rounds, json } = self;
        let engines = if engines.is_empty() { names::ENGINES.map(str::to_owned).to_vec() } else { engines };
        let config = Config { records, operations, ..shared.config() };
        (Options { config, engines, rounds }, json)
    }
}

/// Runs it; fails if an answer was wrong, after the table.
pub fn run(args: CompareArgs) -> anyhow::Result<ExitCode> {
    let (options, json) = args.options();
    interrupt::in_order()?;
    let comparison = compare::run(&options, &|part| tracing::info!("{part}"))?;
    if json.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        say::line(comparison.to_string().trim_end())?;
    }
    if let Some(path) = &json {
        comparison.write_json(path)?;
    }
    Ok(if comparison.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn options(line: &str) -> Result<Options, String> {
        let words = ["terrace", "compare"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Compare(args) => Ok(args.options().0),
            other => panic!("{other:?} is no comparison"),
        }
    }

    #[test]
    fn options_arrive() {
        let standard = options("").unwrap();
        assert_eq!(standard.engines, names::ENGINES);
        assert_eq!((standard.rounds, standard.config.records), (3, 200_000));
        let some = options("--engines tac,bonsai --rounds 5 --records 9 --operations 8 --dram 1MiB").unwrap();
        assert_eq!((some.engines, some.rounds), (vec!["tac".to_owned(), "bonsai".to_owned()], 5));
        assert_eq!((some.config.records, some.config.operations), (9, 8));
        assert_eq!(some.config.dram, Some(terrace::Size::Bytes(1 << 20)));
    }

    #[test]
    fn wrong_values_are_told_with_what_is_possible() {
        assert!(options("--engines tac,bonsay").unwrap_err().contains("did you mean bonsai?"));
        let refused = |line| options(line).unwrap().check().unwrap_err().to_string();
        assert!(refused("--rounds 0").contains("1 to 100"));
        assert!(refused("--engines tac,tac").contains("twice"));
        assert!(refused("--workload sh").contains("--index btree"));
        assert!(refused("--pmem 1GiB@/dev/null").contains("/dev/null is no directory"));
    }
}
