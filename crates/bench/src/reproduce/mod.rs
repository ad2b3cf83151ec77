//! A paper's figures beside ours: `terrace reproduce`.
//!
//! ```text
//!   Study (a paper) --> Parts (its tables and figures), each a function of the Settings --> Rows, Plots
//!   Report --> table for people, JSON list of rows for programs, an SVG file for each plot
//!     stats  means of several runs with 95% intervals      jobs  simulations on a few threads      turns  what is timed, in turns
//!     driven     a store that is loaded, driven and looked at
//!     in_memory  a store in which all is counted, the same anywhere
//!   Collection (of several studies) --> one HTML file (html), one JSON object; with the machine (circumstances)
//! ```
//!
//! This frame knows no paper; [`hetermm`], [`tac`], [`porting`], [`scmkv`] and [`bonsai`] are five. What can't be
//! measured yet is a row that says so and has no figure.

mod all;
pub mod bonsai;
mod circumstances;
mod driven;
pub mod hetermm;
mod html;
mod in_memory;
mod jobs;
mod plot;
pub mod porting;
mod rows;
pub mod scmkv;
mod shared_memory;
mod sheet;
mod stats;
mod table;
pub mod tac;
mod turns;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};

pub use all::{Collection, run_all};
pub use circumstances::Circumstances;
pub use jobs::each;
pub use plot::{Plot, Shape};
pub use rows::{Figure, Holds, Kind, Row};
pub use stats::Interval;
pub(crate) use stats::median;
use turns::in_turns;

/// What a part goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How large, 1 being the default size of each part.
    pub scale: f64,
    /// How often what depends on chance is repeated, each time with another seed.
    pub runs: u32,
    /// The first run's seed.
    pub seed: u64,
    /// Simulations at a time; of what is timed it changes nothing.
    pub threads: usize,
}

impl Settings {
    /// The seed of each run.
    pub fn seeds(&self) -> impl Iterator<Item = u64> {
        (0..u64::from(self.runs)).map(|run| self.seed.wrapping_add(run))
    }
    /// So many records, scaled; at least 1000.
    pub fn records(&self, at_scale_1: u32) -> u32 {
        (f64::from(at_scale_1) * self.scale).round().max(1000.0) as u32
    }
}

/// What is reproduced, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Sizes and repetitions.
    pub settings: Settings,
    /// Parts by id; all if empty.
    pub only: Vec<String>,
    /// Where plots go; none are drawn otherwise.
    pub plots: Option<PathBuf>,
}

/// A paper.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// As users name it.
    pub name: &'static str,
    /// Its title and what of it is reproduced.
    pub about: &'static str,
    /// In the order in which they are printed.
    pub parts: &'static [Part],
}

/// A table or figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// As rows name it.
    pub id: &'static str,
    /// Fills its rows.
    pub source: fn(&Settings) -> anyhow::Result<Outcome>,
}

/// What a part gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// In their order.
    pub rows: Vec<Row>,
    /// May be none.
    pub plots: Vec<Plot>,
}

/// A reproduction.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// In the order of the study.
    pub rows: Vec<Row>,
    /// As the rows.
    pub plots: Vec<Plot>,
    pub(crate) study: &'static str,
    pub(crate) about: &'static str,
    pub(crate) settings: Settings,
    /// Of each part, in the order of the study.
    pub(crate) seconds: Vec<(&'static str, f64)>,
}

/// How many rows there are of each kind of judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub hold: usize,
    pub do_not: usize,
    pub not_judged: usize,
    pub not_measured: usize,
}

impl Report {
    pub(crate) fn count(&self) -> Count {
        let mut count = Count::default();
        for row in &self.rows {
            *match row.holds {
                Holds::Judged(true) => &mut count.hold,
                Holds::Judged(false) => &mut count.do_not,
                Holds::NotJudged(_) => &mut count.not_judged,
                Holds::NotMeasured(_) => &mut count.not_measured,
            } += 1;
        }
        count
    }

    pub(crate) fn total_seconds(&self) -> f64 {
        self.seconds.iter().map(|(_, seconds)| seconds).sum()
    }

    /// Writes the rows as a JSON list; `-` is standard output.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        crate::json::write(&self.rows, path)
    }
}

/// Reproduces a study.
///
/// # Errors
/// If the options are wrong, a part can't be run, or a plot can't be written. A statement that doesn't hold is no error.
pub fn run(study: &Study, options: &Options) -> anyhow::Result<Report> {
    let settings = &options.settings;
    ensure!(settings.scale > 0.0 && settings.scale <= 100.0, "--scale must be above 0, and 100 at most");
    ensure!((1..=1000).contains(&settings.runs), "--runs must be 1 to 1000");
    let ids: Vec<&str> = study.parts.iter().map(|part| part.id).collect();
    for id in &options.only {
        ensure!(ids.contains(&id.as_str()), "{id:?}: {} has {}", study.name, ids.join(", "));
    }
    if let Some(dir) = &options.plots {
        std::fs::create_dir_all(dir).with_context(|| format!("can't create {}", dir.display()))?;
    }
    let (mut rows, mut plots, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for part in study.parts {
        if !options.only.is_empty() && !options.only.iter().any(|id| id == part.id) {
            continue;
        }
        let started = Instant::now();
        let outcome = (part.source)(settings).with_context(|| format!("{} failed", part.id))?;
        rows.extend(outcome.rows);
        if let Some(dir) = &options.plots {
            outcome.plots.iter().try_for_each(|plot| plot.write(dir))?;
        }
        plots.extend(outcome.plots);
        seconds.push((part.id, started.elapsed().as_secs_f64()));
    }
    Ok(Report { rows, plots, study: study.name, about: study.about, settings: settings.clone(), seconds })
}
