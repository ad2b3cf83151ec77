//! `terrace bench indexes`: options to [`Options`], report to output.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use terrace_bench::Distribution;
use terrace_bench::indexes::{self, Options};
use terrace_index::catalogue::ALL;

use crate::say;

/// Options of `terrace bench indexes`.
#[derive(Debug, Args)]
#[command(after_help = "\
Records of 64 bytes are verified and copied. load inserts into an empty index; mix_95_5 and mix_50_50 replace entries in 5% \
and 50% of their operations; an operation of scan visits 100 keys in order and reads no record (ordered indexes only). \
Bytes of an entry are counted by an allocator hook and, for mappings, page by page.

Examples:
  terrace bench indexes                                   every index of this build
  terrace bench indexes --index clht,papaya --records 10000000 --json indexes.json
  terrace bench indexes --index scc-tree --key-bytes 24 --distribution uniform --threads 1")]
pub struct IndexesArgs {
    /// Names of indexes [default: all of this build]
    #[arg(long, value_delimiter = ',', value_name = "NAME,..")]
    index: Vec<String>,
    /// Entries of an index
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    records: u64,
    /// Operations of each thread and measurement (scans: a fiftieth)
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    operations: u64,
    /// Lengths of the keys, 8 to 56
    #[arg(long, value_delimiter = ',', default_value = "8,24", value_name = "K,..")]
    key_bytes: Vec<usize>,
    /// zipfian:EXPONENT, ycsb or uniform
    #[arg(long, value_delimiter = ',', default_value = "uniform,zipfian:0.99", value_name = "DIST,..")]
    distribution: Vec<Distribution>,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_name = "T,..")]
    threads: Vec<usize>,
    /// Keys of a batched get
    #[arg(long, default_value_t = 16, value_name = "B")]
    batch: usize,
    /// What all random choices follow from
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Write the rows here too, as a JSON list; - for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl IndexesArgs {
    fn options(self) -> (Options, Option<PathBuf>) {
        let mut indexes = self.index;
        if indexes.is_empty() {
            indexes = ALL.iter().filter(|about| about.built).map(|about| about.name.to_owned()).collect();
        }
        let options = Options {
            indexes,
            records: self.records,
            operations: self.operations,
            key_bytes: self.key_bytes,
            distributions: self.distribution,
            threads: self.threads,
            batch: self.batch,
            seed: self.seed,
        };
        (options, self.json)
    }
}

/// Runs it; fails if an index lost a record.
pub(super) fn run(args: IndexesArgs) -> anyhow::Result<ExitCode> {
    let (options, json) = args.options();
    let report = indexes::run(&options)?;
    if json.as_deref().is_none_or(|path| path.as_os_str() != "-") {
        say::line(report.to_string().trim_end())?;
        say::line(&format!("\n{} measurements of {} indexes", report.rows.len(), options.indexes.len()))?;
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

    fn options(line: &str) -> Options {
        let words = ["terrace", "bench", "indexes"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Bench(args) => match args.what {
                Some(super::super::What::Indexes(args)) => args.options().0,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_arrive() {
        let all = options("");
        assert!(all.indexes.contains(&"clht".to_owned()) && all.check().is_ok());
        assert_eq!((all.key_bytes, all.threads, all.records), (vec![8, 24], vec![1, 2], 1_000_000));
        assert_eq!(all.distributions, [Distribution::Uniform, Distribution::Zipfian(0.99)]);
        let some =
            options("--index clht,papaya --records 5 --operations 6 --key-bytes 9 --threads 3 --seed 7");
        assert_eq!(some.indexes, ["clht", "papaya"]);
        assert_eq!((some.key_bytes, some.threads), (vec![9], vec![3]));
        assert_eq!((some.records, some.operations, some.seed), (5, 6, 7));
    }

    #[test]
    fn unknown_indexes_are_told_with_those_there_are() {
        let error = options("--index chlt").check().unwrap_err().to_string();
        assert!(
            error.contains("\"chlt\"") && error.contains("clht") && error.contains("scc-tree"),
            "{error}"
        );
        let built = |name: &str| ALL.iter().any(|about| about.name == name && about.built);
        if !built("papaya") {
            let error = options("--index papaya").check().unwrap_err().to_string();
            assert!(error.contains("cargo feature \"papaya\""), "{error}");
        }
        for wrong in ["--records 0", "--batch 65", "--key-bytes 7", "--threads 0", "--distribution latest"] {
            assert!(options(wrong).check().is_err(), "{wrong}");
        }
    }
}
