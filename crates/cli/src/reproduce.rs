//! `terrace reproduce`: options to [`Options`], report to output.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use terrace_bench::reproduce::{
    self, Collection, Options, Report, Settings, Study, bonsai, hetermm, porting, scmkv, tac,
};

use crate::say;

/// Where the report of all papers goes.
const HTML: &str = "reproduce.html";
const JSON: &str = "reproduce.json";

/// Papers there are.
const STUDIES: [Study; 5] = [hetermm::STUDY, tac::STUDY, porting::STUDY, scmkv::STUDY, bonsai::STUDY];

/// Options of `terrace reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without a paper all are reproduced, one after the other, at one scale: each table is printed, and a report of all of \
them is written as one HTML file that loads nothing from elsewhere (reproduce.html, or --html) and one JSON object \
(reproduce.json, or --json), both of them anew after each paper. At scale 1 that takes the times below together.

Each row has the paper's figure and ours, where ours comes from (deterministic: counted in the engine; simulated: by the trace \
simulator; measured: timed here; emulated: timed over an emulated device) and whether the paper's statement holds. What can't be \
measured yet has no figure and says why. That a statement does not hold is no failure: the command fails if it can't run.

hetermm: scale 1 has 1,000,000 records of 8 + 64 bytes for H3, 200,000 for H2 and 500,000 for what is timed (the paper \
has 200,000,000), DRAM for a quarter of them (2 MiB at least, which below 87,382 records is more). H2 and H3 are \
counted; H1, H4, H6 and H7 are timed over emulated devices in this process's memory, three runs of each at most; H5 \
needs /dev/shm, and kills the store 50 times the scale, but four times at least. H1 has a stand-in of ours in the place \
of TIPS.

tac: scale 1 simulates 1,000,000 records for T1, 200,000 for T3 and 50,000 for T4 and T5 (the paper has 50,000,000), five runs of each with seeds that \
follow each other. Stores of engine tac have 60,000 records for T1, in two runs, 64,000 for T2 and T3, 20,000 (40,000 where they are timed) for T4, 25,000 (60,000) for T5 and 40,000 for T6, in three. What is counted \
in them lies in memory, with a clock that the accesses move, and is the same anywhere; what is timed needs memory at /dev/shm and a disk under temporary files, and no scale much below 1. All of it takes about \
nine minutes on two cores that do nothing else; --only chooses tables, and the last line tells the seconds of each. Time and memory grow with the scale: 0.01 is a look that takes seconds, 50 the paper's \
own size (12 GB of memory, and hours). All ratios of sizes stay as they are; hit ratios change with the number of records nevertheless.

porting: scale 1 has 300,000 inserts for P1 to P3, up to 2,000,000 records for P4, 100,000 for P5 and P6 and 50,000 for P7 (the paper has up to 50,000,000), \
three runs of each at most, over emulated PMem at /dev/shm. All of it is timed but P5, and has the machine for itself. Where redis-server is installed (in the path, or as \
TERRACE_REDIS_ORIGINAL names it), P3 and P5 have rows of it, with and without its snapshots and its log; they take about a minute at most.

scmkv: scale 1 has 1,048,576 records of 16 + 100 bytes and 131,072 of 128 + 512 (a 64th of the paper's), three runs of each at most, over memory at /dev/shm that \
emulates nothing, as the paper's does. All of it is timed but S4 and the counts of S1, and has the machine for itself. The LSM of S2 is in a build with the cargo \
feature lsm alone.

bonsai: scale 1 has 1,000,000 pairs of 8 + 8 bytes (the paper's table 3 has up to 240,000,000), three runs of what is timed at most. B1, B2, B5 and a part of B4 \
are counted in this process's memory; the rest is timed over emulated PMem at /dev/shm, and has the machine for itself. The rows aim are what is asked of ours: \
bonsai beside hetermm with btree and scmkv in one run, at 10,000,000 pairs with --scale 10 (12 GB of /dev/shm). B6 and B8 say what they lack.

Examples:
  terrace reproduce                                            all papers, and a report of them
  terrace reproduce --scale 0.01 --html look.html              the same, quickly
  terrace reproduce --only T1,S4,H2,B5                         of all papers these
  terrace reproduce hetermm --only H2,H3                       bursts a set, and hits in DRAM, counted
  terrace reproduce tac                                        all of it
  terrace reproduce tac --scale 0.01                           a quick look
  terrace reproduce tac --only T1 --runs 10 --plots plots      hits of placements, ten runs, and their plots
  terrace reproduce tac --json tac.json --plots plots          rows for programs, plots as SVG
  terrace reproduce porting --only P4,P6 --plots plots         restarts, and dips while the table grows
  terrace reproduce scmkv --only S4                            look-ups of absent keys, counted
  terrace reproduce bonsai --only B1,B2,B5 --plots plots       bytes and reads, counted
  terrace reproduce bonsai --only aim --scale 10               beside other engines, 10 million pairs")]
pub struct ReproduceArgs {
    /// The paper [default: all of them]
    #[arg(value_parser = PossibleValuesParser::new(STUDIES.map(|study| study.name)), value_name = "PAPER")]
    paper: Option<String>,
    /// Numbers of records, in multiples of the default ones
    #[arg(long, default_value_t = 1.0, value_name = "X")]
    scale: f64,
    /// Only these tables and figures, by the ids of their rows
    #[arg(long, value_delimiter = ',', value_name = "ID,..")]
    only: Vec<String>,
    /// Runs of what depends on chance, each with another seed; two at least give confidence intervals
    #[arg(long, default_value_t = 5, value_name = "R")]
    runs: u32,
    /// The first run's seed
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Simulations at a time [default: as many as there are cores]
    #[arg(long, value_name = "T")]
    threads: Option<usize>,
    /// Write the rows here too, as a JSON list with the keys id, what, paper, ours, kind and holds; - for standard output, instead of the table. Of all papers: one object, with circumstances, options, and such rows of each of its studies [default: reproduce.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write tables and plots here too, as one HTML file that loads nothing from elsewhere [default of all papers: reproduce.html]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Draw an SVG file for each figure in this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// What is done with rows, beside their table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Files {
    json: Option<PathBuf>,
    html: Option<PathBuf>,
}

impl Files {
    /// Whether standard output is for JSON alone.
    fn is_json_printed(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }
    fn print(&self, report: &Report) -> anyhow::Result<()> {
        if !self.is_json_printed() {
            say::line(report.to_string().trim_end())?;
        }
        Ok(())
    }
}

impl ReproduceArgs {
    fn options(self) -> (Options, Files) {
        let threads = self
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get));
        let settings = Settings { scale: self.scale, runs: self.runs, seed: self.seed, threads };
        let files = Files { json: self.json, html: self.html };
        (Options { settings, only: self.only, plots: self.plots }, files)
    }
}

/// Runs it.
pub fn run(args: ReproduceArgs) -> anyhow::Result<ExitCode> {
    let paper = args.paper.clone();
    let (options, files) = args.options();
    match paper.as_deref().map(|paper| STUDIES.into_iter().find(|study| study.name == paper)) {
        None => run_all(&options, files)?,
        Some(Some(study)) => run_one(&study, &options, &files)?,
        Some(None) => anyhow::bail!("{paper:?} is no paper that is known"),
    }
    Ok(ExitCode::SUCCESS)
}

fn run_one(study: &Study, options: &Options, files: &Files) -> anyhow::Result<()> {
    let report = reproduce::run(study, options)?;
    if let Some(path) = &files.json {
        report.write_json(path)?;
    }
    files.print(&report)?;
    if let Some(path) = &files.html {
        Collection::of(report, options).write_html(path)?;
    }
    Ok(())
}

fn run_all(options: &Options, files: Files) -> anyhow::Result<()> {
    let files = Files {
        json: files.json.or_else(|| Some(JSON.into())),
        html: files.html.or_else(|| Some(HTML.into())),
    };
    let begins = |name: &str, number, of| say::error(&format!("{name} ({number} of {of})"));
    let all = reproduce::run_all(&STUDIES, options, begins, |so_far| {
        let Some(last) = so_far.reports.last() else { return Ok(()) };
        files.print(last)?;
        if let Some(path) = files.json.as_ref().filter(|_| !files.is_json_printed()) {
            so_far.write_json(path)?;
        }
        files.html.as_ref().map_or(Ok(()), |path| so_far.write_html(path))
    })?;
    let shown =
        |path: &Option<PathBuf>| path.iter().map(|path| path.display().to_string()).collect::<String>();
    if files.is_json_printed() {
        all.write_json(Path::new("-"))?;
        say::error(&format!("the report: {}", shown(&files.html)));
    } else {
        say::line(&format!("the report: {}, {}", shown(&files.html), shown(&files.json)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn options(line: &str) -> Result<(Options, Files), String> {
        let words = ["terrace", "reproduce"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Reproduce(args) => Ok(args.options()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_arrive() {
        let (standard, files) = options("tac").unwrap();
        assert_eq!((standard.settings.scale, standard.settings.runs, standard.settings.seed), (1.0, 5, 1));
        assert!(standard.settings.threads > 0 && standard.only.is_empty() && standard.plots.is_none());
        assert_eq!(files, Files::default());
        let (some, files) = options(
            "tac --scale 0.5 --only T1,T5 --runs 3 --seed 9 --threads 4 --json rows.json --plots there --html a.html",
        )
        .unwrap();
        assert_eq!(some.settings, Settings { scale: 0.5, runs: 3, seed: 9, threads: 4 });
        assert_eq!(some.only, ["T1", "T5"]);
        assert_eq!(some.plots, Some("there".into()));
        assert_eq!(files, Files { json: Some("rows.json".into()), html: Some("a.html".into()) });
    }

    #[test]
    fn unknown_papers_and_parts_are_told_with_those_there_are() {
        let error = options("tic").unwrap_err();
        assert!(error.contains("tac"), "{error}");
        let refused = |line| reproduce::run(&tac::STUDY, &options(line).unwrap().0).unwrap_err().to_string();
        assert!(refused("tac --only T9").contains("T1, T2, T3"));
        let (options, _) = options("bonsai --only B9").unwrap();
        assert!(reproduce::run(&bonsai::STUDY, &options).unwrap_err().to_string().contains("B8, aim"));
        assert!(refused("tac --scale 0").contains("--scale"));
        assert!(refused("tac --runs 0").contains("--runs"));
    }
}
