//! Mutation of sites: each line of the product that makes bytes durable is left out in turn, and some crash image must show
//! that it is missing.
//!
//! ```text
//!   census    every call in log, engine and spaces that makes something durable      (from the source)
//!   log_bench the log alone, with dependencies between sessions
//!   log_again openings of a log that follow each other closely
//!   space_again
//!             a block of the space, freed by a process that dies and used again
//!   probe     seeded histories, each crashed without each site that it executed      (testkit, `sweep::without`)
//!   reasons   why the absence of a site can't show in a crash image                  (written, and checked to be needed)
//!     |
//!   table     which site, how often executed, images until it was caught, what the image showed: docs/sites.md
//!     |
//!   page      that table read again: each site left out where it shows soonest, a fiftieth of the images, for tests
//! ```
//!
//! A site that is neither caught nor explained is a hole in the tests or does nothing.

mod census;
mod log_again;
pub(crate) mod log_bench;
mod page;
mod probe;
mod reasons;
mod space_again;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

pub use census::{Call, census};
pub use page::{Again, search_again};
pub use probe::{Effort, Row};
pub use table::Report;

use crate::subjects::SUBJECTS;

/// Leaves out every flush, fence and sync in turn and looks for a crash image that shows it.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The engine.
    #[arg(long, default_value = "hetermm")]
    engine: String,
    /// Histories on each medium in each mode, at most: it ends early when every site was caught.
    #[arg(long, default_value_t = 200)]
    histories: u64,
    /// The first history's seed; the others follow.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Steps of the histories that begin with the recovery from a crash.
    #[arg(long, default_value_t = 24)]
    second_steps: usize,
    /// Fails unless every site is caught, or has a reason.
    #[arg(long)]
    check: bool,
    /// Writes the engine's page: docs/sites.md, or docs/sites-ENGINE.md of any but the first.
    #[arg(long)]
    write: bool,
}

/// The workspace.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page that `--write` writes.
pub fn document(engine: &str) -> PathBuf {
    let (first, _) = SUBJECTS[0];
    let name = if engine == first { "sites.md".into() } else { format!("sites-{engine}.md") };
    root().join("docs").join(name)
}

/// Looks for every site of an engine.
///
/// # Errors
/// If the engine is unknown, the source can't be read, or a history fails with every site in its place.
pub fn report(engine: &str, effort: Effort, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Report> {
    let calls = census(&root(), engine)?;
    let mut rows: Vec<Row> = Vec::new();
    let subject = crate::subjects::by_name(engine).map_err(anyhow::Error::msg)?;
    let has_log = crate::subjects::has_log(engine);
    let settings = probe::SETTINGS.into_iter().filter(|setting| has_log || setting.1.is_some());
    for setting in settings.filter(|setting| subject.takes(setting.0)) {
        let found = probe::probe(engine, setting, effort, (&calls, &rows, None), progress)?;
        rows.extend(found);
    }
    if let Some(resized) = crate::subjects::resized(engine) {
        for setting in probe::RESIZED.into_iter().filter(|setting| subject.takes(setting.0)) {
            let found = probe::probe_resizing(resized, setting, effort, &calls, &rows, progress)?;
            rows.extend(found);
        }
    }
    Ok(Report::new(engine, &calls, rows))
}

/// Runs the command.
///
/// # Errors
/// As [`report`], and if the table can't be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    let effort =
        Effort { seed: arguments.seed, histories: arguments.histories, second_steps: arguments.second_steps };
    let report = report(&arguments.engine, effort, &mut |message| {
        bar.set_message(message.to_string());
        bar.tick();
    })?;
    bar.finish_and_clear();
    println!("{}", report.details());
    if arguments.write {
        std::fs::write(document(&arguments.engine), report.markdown())?;
    }
    let problems = report.problems();
    for problem in &problems {
        println!("{problem}");
    }
    println!("{}", report.summary());
    let failed = arguments.check && !problems.is_empty();
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
