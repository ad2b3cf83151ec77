//! Planted bugs: a library of mistakes that stores make, each put into this one, and each to be caught by a named detector.
//!
//! ```text
//!   planted/*.toml   class, name, file, original text, mutant text, why it is wrong, who must catch it
//!        |
//!   rewrite          every original becomes `if planted(N) { mutant } else { original }`, in a copy of the workspace
//!        |
//!   build once --> terrace-proof of the copy --> for each N: TERRACE_PLANTED=N, its detector, a time bound
//!                                                and first of all no bug, which every detector must pass
//! ```
//!
//! The index crate imports nothing that could choose for it, so its copy gets a choice of its own (`rewrite`). Its detectors are
//! its tests, some of them built to explore schedules (`product_test`).
//!
//! The product has no trace of this; a change that moves an original's text makes this fail with the entry's name.

mod clocks;
mod copy;
mod detect;
mod directed;
mod library;
mod litmus;
mod product_test;
mod rewrite;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;

pub use detect::{DetectArguments, detect};
pub use library::{Bug, load};

/// Plants every bug of the library and sees it caught.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Only bugs whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Only bugs of this class, such as `B+tree`.
    #[arg(long)]
    class: Option<String>,
    /// Only one part of so many, such as `1/2`: all parts together are all bugs.
    #[arg(long, default_value = "1/1")]
    part: Part,
    /// Added to the seed of every detector.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Makes and builds the copy, prints the bugs' numbers and, last, the copy's path.
    #[arg(long)]
    build_only: bool,
    /// Checks the entries against the source, without building anything.
    #[arg(long)]
    check_entries: bool,
    /// Only the bugs that nobody has caught yet: the holes to fill.
    #[arg(long)]
    survivors: bool,
    /// Only the bugs that the torture must find as well as their other detector.
    #[arg(long)]
    torture: bool,
    /// Seconds that one detector may take at most: one that takes several times as long as without the bug counts as caught, as a hang.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Detectors at once; 0 for one on each processor.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
}

/// Every `of`-th bug, counted from 1.
#[derive(Clone, Copy, Debug)]
struct Part {
    which: u32,
    of: u32,
}

impl Part {
    fn has(self, bug: u32) -> bool {
        bug % self.of == self.which % self.of
    }
}

impl std::str::FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed =
            text.split_once('/').and_then(|(which, of)| Some((which.parse().ok()?, of.parse().ok()?)));
        match parsed {
            Some((which, of)) if (1..=of).contains(&which) => Ok(Self { which, of }),
            _ => Err("expected a part of all parts, such as 1/2".into()),
        }
    }
}

/// The workspace.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Checks every entry against the source, and that there are tests of the names that detectors have.
///
/// # Errors
/// An entry that can't be read or doesn't fit the source, by name.
pub fn check_entries() -> anyhow::Result<Vec<Bug>> {
    let bugs = load(&root())?;
    rewrite::rewrite(&root(), &bugs)?;
    product_test::check(&root(), bugs.iter().flat_map(|bug| &bug.detectors))?;
    Ok(bugs)
}

/// Runs the command.
///
/// # Errors
/// If an entry doesn't fit the source, or the copy can't be made or built.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let bugs = check_entries()?;
    if arguments.check_entries {
        println!("{} entries fit the source", bugs.len());
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = |bug: &&Bug| {
        arguments.only.as_ref().is_none_or(|only| bug.name.contains(only.as_str()))
            && arguments.class.as_ref().is_none_or(|class| bug.class == *class)
            && bug.survives == arguments.survivors
            && (!arguments.torture || bug.detectors.len() > 1)
            && arguments.part.has(bug.number)
    };
    let chosen: Vec<Bug> = bugs.iter().filter(wanted).cloned().collect();
    ensure!(!chosen.is_empty(), "no bug has that name and class");
    let copy = copy::make(&root(), &rewrite::rewrite(&root(), &bugs)?)?;
    let detectors: Vec<&library::Detector> = chosen.iter().flat_map(|bug| &bug.detectors).collect();
    let tests = copy.build(&detectors)?;
    if arguments.build_only {
        for bug in &bugs {
            println!("{:>3}  {}: {}", bug.number, bug.class, bug.name);
        }
        println!("{}", copy.path.display());
        return Ok(ExitCode::SUCCESS);
    }
    let open = bugs.iter().filter(|bug| bug.survives).count();
    if open > 0 {
        println!("{open} more are known to survive: see `--survivors`");
    }
    let all_caught = run::run(&copy, &tests, &chosen, arguments)?;
    Ok(if all_caught { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
