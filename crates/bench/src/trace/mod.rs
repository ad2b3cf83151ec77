//! The trace simulator: hit ratios and moves of placements and policies, without a store, a byte or a clock.
//!
//! ```text
//!   Options --> accesses (drawn once) --> store, homes, inclusive: tiers of slots under a Policy and a Gate --> Row
//!                                     --> belady, static optimum: what is possible
//! ```
//!
//! **What the numbers mean.** Hits are shares of gets. Time is counted in accesses, so a run gives the same on every
//! machine. Records are loaded in order, then come `warm` times as many accesses as there are records, then `measured`
//! times as many, which are counted; then the hot set moves elsewhere, and it is looked when DRAM's hits are back at 95%.
//! A move is a record that changes tiers; the place that a set takes in DRAM is none, what it drives out is.

pub(crate) mod accesses;
mod belady;
mod bufs;
mod cold;
mod homes;
mod inclusive;
mod policy;
mod run;
mod setup;
mod store;
mod table;
mod tier;

use std::path::Path;

use anyhow::{bail, ensure};
use serde::Serialize;

pub use setup::Setup;

use crate::Distribution;

/// Shares of all records that fit the tiers, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// DRAM's.
    pub dram: f64,
    /// PMem's; 0 for none.
    pub pmem: f64,
}

impl std::str::FromStr for Shares {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (dram, pmem) = text.split_once('/').unwrap_or((text, "0"));
        match (dram.parse::<f64>(), pmem.parse::<f64>()) {
            (Ok(dram), Ok(pmem)) if dram > 0.0 && pmem >= 0.0 && dram + pmem <= 100.0 => {
                Ok(Self { dram, pmem })
            }
            _ => Err(format!("{text:?}: expected DRAM/PMEM in percent of the records, such as 8/64 or 25")),
        }
    }
}

impl std::fmt::Display for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.dram, self.pmem)
    }
}

/// Accesses between two halvings of all counts, for each record that fits DRAM: a period that follows the number of
/// records instead makes a small DRAM forget too late.
pub const HALVE_ACCESSES: f64 = 25.0;

/// What is simulated, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Placement, policy and gate of each row.
    pub setups: Vec<Setup>,
    /// Number of records.
    pub records: u32,
    /// Which records are asked for.
    pub distributions: Vec<Distribution>,
    /// Percent of the accesses that are sets.
    pub sets_percent: f64,
    /// Sizes of the tiers.
    pub shares: Vec<Shares>,
    /// Accesses before anything is counted, in numbers of records.
    pub warm: f64,
    /// Accesses that are counted, in numbers of records.
    pub measured: f64,
    /// Accesses after the hot set has moved, in numbers of records.
    pub shifted: f64,
    /// Ticks of Eq. 1's clock in as many accesses as there are records.
    pub ticks: u32,
    /// Accesses between two halvings of all counts, in numbers of records; none: [`HALVE_ACCESSES`] for each record that
    /// fits DRAM.
    pub halve_every: Option<f64>,
    /// Whether every change of an access word is stored, or those by an eighth and more.
    pub stores_all: bool,
    /// What all random choices follow from.
    pub seed: u64,
}

impl Default for Options {
    /// The setting of TaC's table 3, and what `terrace bench trace` does unless told otherwise.
    fn default() -> Self {
        Self {
            setups: Setup::standard(),
            records: 1_000_000,
            distributions: vec![Distribution::Zipfian(0.99), Distribution::Ycsb],
            sets_percent: 5.0,
            shares: vec![Shares { dram: 8.0, pmem: 64.0 }],
            warm: 8.0,
            measured: 4.0,
            shifted: 4.0,
            ticks: 4,
            halve_every: None,
            stores_all: false,
            seed: 1,
        }
    }
}

impl Options {
    /// Refuses what can't be simulated.
    ///
    /// # Errors
    /// If a number is out of range, or a distribution needs inserts.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!((100..=1 << 30).contains(&self.records), "--records must be 100 to 2^30");
        ensure!((0.0..=100.0).contains(&self.sets_percent), "--sets must be 0 to 100 percent");
        ensure!(
            self.warm >= 0.0 && self.measured > 0.0 && self.shifted >= 0.0,
            "lengths must not be negative, nor --measured 0"
        );
        ensure!(
            (self.warm + self.measured + self.shifted) * f64::from(self.records) < f64::from(u32::MAX),
            "more than 2^32 accesses: lower --records, --warm, --measured or --shifted"
        );
        ensure!(
            self.ticks > 0 && self.halve_every.is_none_or(|lengths| lengths > 0.0),
            "--ticks and --halve-every must not be 0"
        );
        ensure!(!self.setups.is_empty() && !self.shares.is_empty(), "name a setup and sizes at least");
        if let Some(latest) = self.distributions.iter().find(|d| **d == Distribution::Latest) {
            bail!("{latest} needs inserts, and nothing here inserts");
        }
        Ok(())
    }
}

/// One simulation. Shares of gets are in percent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The generator.
    pub distribution: String,
    /// Number of records.
    pub records: u32,
    /// Percent of accesses that set.
    pub sets: f64,
    /// DRAM's share of the records, in percent.
    pub dram_share: f64,
    /// PMem's share of the records, in percent.
    pub pmem_share: f64,
    /// `PLACEMENT/POLICY/GATE`.
    pub setup: String,
    /// Gets found in DRAM.
    pub dram_hits: f64,
    /// Gets found in PMem.
    pub pmem_hits: f64,
    /// What the best fixed choice of records gives DRAM.
    pub optimum_dram: f64,
    /// What the best fixed choice of records gives DRAM and PMem together.
    pub optimum_both: f64,
    /// What no placement of DRAM's size can exceed, knowing the future.
    pub belady_dram: f64,
    /// What no placement of both tiers' size can exceed.
    pub belady_both: f64,
    /// Records that go up, for each access.
    pub moves_up: f64,
    /// Records that go down, for each access.
    pub moves_down: f64,
    /// Accesses, in numbers of records, until DRAM's hits were at 95% of `dram_hits` again after the hot set moved; none if
    /// they were not by the end.
    pub back_after: Option<f64>,
}

/// Everything that was simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// In the order of the options: distributions, sizes, setups.
    pub rows: Vec<Row>,
    pub(crate) options: Options,
}

impl Report {
    /// Writes the rows as a JSON list; `-` is standard output.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        crate::json::write(&self.rows, path)
    }
}

/// Simulates.
///
/// # Errors
/// If the options are wrong.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    options.check()?;
    let bar = run::bar(options);
    let rows = run::all(options, &bar);
    bar.finish_and_clear();
    Ok(Report { rows, options: options.clone() })
}

/// Simulates and draws no progress bar: for whoever runs many and has one.
///
/// # Errors
/// If the options are wrong.
pub(crate) fn run_quietly(options: &Options) -> anyhow::Result<Vec<Row>> {
    options.check()?;
    Ok(run::all(options, &indicatif::ProgressBar::hidden()))
}
