//! Engines beside each other: one workload, the same media and the same budget of DRAM for each.
//!
//! ```text
//!   Options --> for each round, for each engine in turns:
//!                 trial   a fresh store --> load --> the workload, measured --> killed, opened again
//!   Comparison --> table for people, JSON for programs
//!     figures  the rounds of an engine as one line      loss  what a crash may take from it
//! ```
//!
//! An engine that takes other media is left out, with its own words for it; one that takes these, and not this budget
//! or so many records, has a row that says so.

mod figures;
mod loss;
mod table;
mod trial;

use std::path::Path;

use anyhow::{Context, ensure};
use serde::Serialize;
use terrace::{Place, TierSpec};
use terrace_media::Profile;

pub use figures::{Figures, Percentiles, Restart, Traffic};
pub use loss::Loss;
use trial::Trial;

use crate::report::{Circumstances, OptionsReport};
use crate::storage::{DRAM_DEFAULT, DRAM_ONLY};
use crate::{Config, interrupt};

/// Rounds, at most.
const ROUNDS_MAX: u32 = 100;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Options {
    /// The workload and the media; which engine it names does not matter.
    pub config: Config,
    /// Engines, in the order of their rows.
    pub engines: Vec<String>,
    /// How often each engine is measured, each time with another seed.
    pub rounds: u32,
}

/// What became of each engine. Serialised, its fields are the JSON's keys.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The workload.
    pub workload: String,
    /// Records loaded in each round.
    pub records: u64,
    /// Operations measured in each round.
    pub operations: u64,
    /// Threads.
    pub threads: usize,
    /// Rounds of each engine.
    pub rounds: u32,
    /// The index of engines that have none of their own.
    pub index: String,
    /// What the figures depend on, as an engine with a lower tier has it if there is one.
    pub options: OptionsReport,
    /// A row for each engine that takes the media.
    pub engines: Vec<Row>,
    /// Those that don't.
    pub left_out: Vec<LeftOut>,
}

/// An engine that takes the media.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The engine.
    pub engine: String,
    /// The index, or that it has one of its own.
    pub index: String,
    /// Why it has no figures: the budget or the records do not fit it. Null if they do.
    pub stopped: Option<String>,
    /// Of its rounds together; null if it was stopped.
    pub figures: Option<Figures>,
}

/// An engine that takes other media, or does not know the workload.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// The engine.
    pub engine: String,
    /// Why, in its own words.
    pub reason: String,
}

impl Options {
    /// Checks what can be checked before anything is opened.
    ///
    /// # Errors
    /// If an option is out of range; the text says which and what is possible.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!((1..=ROUNDS_MAX).contains(&self.rounds), "--rounds must be 1 to {ROUNDS_MAX}");
        ensure!(!self.engines.is_empty(), "--engines must name an engine at least");
        for (i, engine) in self.engines.iter().enumerate() {
            ensure!(!self.engines[..i].contains(engine), "--engines names {engine} twice");
        }
        let config = &self.config;
        config.check()?;
        if let Some(profile) = &config.profile {
            Profile::resolve(profile).context("--profile")?;
        }
        for (name, tier) in [("--pmem", &config.pmem), ("--ssd", &config.ssd)] {
            for path in tier.iter().filter_map(|tier| tier.place.as_ref()).flat_map(Place::paths) {
                let shown = path.display();
                ensure!(
                    path.is_dir(),
                    "{name}: {shown} is no directory: give one, in which each engine gets a store for a while"
                );
            }
        }
        Ok(())
    }

    /// One engine's part in one round.
    fn config_of(&self, engine: &str, round: u32) -> Config {
        let Config { index, dram, dram_records, pmem, ssd, .. } = &self.config;
        let lower = |tier: &Option<TierSpec>| tier.clone().filter(|_| engine != DRAM_ONLY);
        let no_budget = dram.is_none() && dram_records.is_none();
        Config {
            engine: engine.into(),
            index: if terrace::has_own_index(engine) { Config::default().index } else { index.clone() },
            dram_records: if no_budget { Some(DRAM_DEFAULT) } else { *dram_records },
            pmem: lower(pmem),
            ssd: lower(ssd),
            seed: self.config.seed.wrapping_add(u64::from(round)),
            recover: true,
            ..self.config.clone()
        }
    }
}

/// An engine while rounds run.
struct Contender<'a> {
    engine: &'a str,
    trials: Vec<Trial>,
}

impl Contender<'_> {
    fn goes_on(&self) -> bool {
        self.trials.iter().all(|trial| matches!(trial, Trial::Measured(_)))
    }
}

/// Compares. `tell` hears of each part before it begins.
///
/// # Errors
/// If the options are wrong, scratch directories can't be made, or it is interrupted. An engine that fails is a row.
pub fn run(options: &Options, tell: &dyn Fn(&str)) -> anyhow::Result<Comparison> {
    options.check()?;
    let contender = |engine| Contender { engine, trials: Vec::new() };
    let mut contenders: Vec<Contender<'_>> =
        options.engines.iter().map(|engine| contender(engine.as_str())).collect();
    for round in 0..options.rounds {
        for contender in contenders.iter_mut().filter(|contender| contender.goes_on()) {
            tell(&format!("round {} of {}: {}", round + 1, options.rounds, contender.engine));
            contender.trials.push(trial::run(&options.config_of(contender.engine, round))?);
            interrupt::check()?;
        }
    }
    let config = &options.config;
    let mut comparison = Comparison {
        workload: config.workload.name().into(),
        records: config.records,
        operations: config.measured_operations(),
        threads: config.threads,
        rounds: options.rounds,
        index: config.index.clone(),
        options: conditions(options)?,
        engines: Vec::new(),
        left_out: Vec::new(),
    };
    for Contender { engine, trials } in contenders {
        comparison.add(engine, trials, options);
    }
    Ok(comparison)
}

/// What the rounds have in common.
fn conditions(options: &Options) -> anyhow::Result<OptionsReport> {
    let names = || options.engines.iter().map(String::as_str);
    let engine = names().find(|engine| *engine != DRAM_ONLY).unwrap_or(DRAM_ONLY);
    let config = options.config_of(engine, 0);
    let storage = trial::plan(&config)?;
    let report = OptionsReport::new(&config, Circumstances::Here(&storage, Vec::new()));
    // Each round has a place of its own, which goes with it.
    Ok(OptionsReport { dir: None, ..report })
}

impl Comparison {
    fn add(&mut self, engine: &str, trials: Vec<Trial>, options: &Options) {
        let config = options.config_of(engine, 0);
        let index = terrace::Options { engine: engine.into(), index: config.index, ..Default::default() };
        let mut row =
            Row { engine: engine.into(), index: index.index_shown().into(), stopped: None, figures: None };
        let mut measured = Vec::with_capacity(trials.len());
        for trial in trials {
            match trial {
                Trial::Measured(round) => measured.push(*round),
                Trial::Stopped(reason) => row.stopped = Some(reason),
                Trial::LeftOut(reason) => {
                    return self.left_out.push(LeftOut { engine: engine.into(), reason });
                }
            }
        }
        if row.stopped.is_none() {
            row.figures = Some(Figures::of(&measured));
        }
        self.engines.push(row);
    }

    /// Whether an engine was measured, and of each all answers were right and no promise was broken by the kill.
    pub fn is_sound(&self) -> bool {
        self.figures().next().is_some() && self.figures().all(|figures| figures.is_sound)
    }

    fn figures(&self) -> impl Iterator<Item = &Figures> {
        self.engines.iter().filter_map(|row| row.figures.as_ref())
    }

    /// Writes the JSON; to standard output for `-`.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        crate::json::write(self, path)
    }
}
