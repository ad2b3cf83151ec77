//! Stores that are timed: loaded, then driven by a few clients, in runs that alternate. Nothing is kept: the memory is
//! the process's.

use terrace::engine::Durability;
use terrace::{Size, TierSpec};

use super::super::{Settings, in_turns};
use super::{AROUND_BYTES, KEY_BYTES, VALUE_BYTES, data_bytes, dram_bytes, pmem_bytes, sizes};
use crate::distribution::YCSB_EXPONENT;
use crate::{Config, Distribution, Workload};

const RECORDS: u32 = 500_000;
/// Operations, in numbers of records; a scan is as long as some fifty of them.
const OPERATIONS: u64 = 2;
const RECORDS_A_SCAN: u64 = 20;
/// Runs, at most.
pub(super) const RUNS_MAX: usize = 3;
/// Clients.
pub(super) const THREADS: usize = 2;
/// The device that is emulated.
pub(super) const OPTANE: &str = "optane-200";
/// One that adds nothing to memory.
pub(super) const NO_DELAYS: &str = "dram";
/// DRAM for the index and what else a store without a lower tier has, a record and at least.
const INDEX_BYTES: u64 = 256;
const DRAM_ALL_LEAST: u64 = 64 << 20;

/// What is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// Ours, over an emulated device.
    Hetermm(Durability, &'static str),
    /// Everything in DRAM; nothing is kept.
    Dram,
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Job {
    pub system: System,
    pub index: &'static str,
    pub workload: Workload,
    pub exponent: f64,
    /// Operations that are answered together.
    pub batch: usize,
    pub threads: usize,
    pub records: u64,
}

/// What a run gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    /// Operations a second.
    pub rate: f64,
    /// The share of gets that DRAM answered; 1 without gets.
    pub hits: f64,
}

impl Job {
    /// Of two clients that wait for each answer, Zipf 0.99.
    pub fn new(system: System, index: &'static str, workload: Workload, settings: &Settings) -> Self {
        let records = u64::from(settings.records(RECORDS));
        Self { system, index, workload, exponent: YCSB_EXPONENT, batch: 1, threads: THREADS, records }
    }

    /// What rows of such jobs have in common.
    pub fn setting(&self) -> String {
        format!(
            "{}, zipfian:{}; {} clients, {} together, one background thread; in the process's memory",
            sizes(self.records),
            self.exponent,
            self.threads,
            self.batch
        )
    }

    fn operations(&self) -> u64 {
        let operations = OPERATIONS * self.records;
        if self.workload.scans() { operations / RECORDS_A_SCAN } else { operations }
    }

    /// Its operations, and what it is run with.
    pub fn config(&self, seed: u64) -> Config {
        let operations = self.operations();
        let mut config = Config {
            index: self.index.into(),
            workload: self.workload,
            records: self.records,
            operations,
            threads: self.threads,
            batch: self.batch,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            distribution: Some(Distribution::Zipfian(self.exponent)),
            seed,
            ..Config::default()
        };
        match self.system {
            System::Dram => {
                let records = data_bytes(self.records) + self.records * (INDEX_BYTES + AROUND_BYTES);
                config.engine = "dram".into();
                config.dram = Some(Size::Bytes(DRAM_ALL_LEAST + 2 * records));
                config.durability = Some(Durability::None);
            }
            System::Hetermm(durability, profile) => {
                config.dram_records = Some(Size::Bytes(dram_bytes(self.records)));
                let size = Size::Bytes(pmem_bytes(self.records + operations));
                config.pmem = Some(TierSpec { size, place: None });
                config.profile = Some(profile.into());
                config.durability = Some(durability);
            }
        }
        config
    }

    /// Loads a store, drives it, and ends it.
    pub fn run(&self, seed: u64) -> anyhow::Result<Timed> {
        let report = crate::run(&self.config(seed))?;
        anyhow::ensure!(
            report.is_sound() && report.misses == 0,
            "{} misses, {} wrong answers, refused: {:?}",
            report.misses,
            report.wrong,
            report.errors
        );
        let hits = report.tiers.get("dram").and_then(|dram| dram.hit_ratio).unwrap_or(1.0);
        Ok(Timed { rate: report.ops_per_second, hits })
    }
}

/// What each job gave, in so many runs.
pub(super) fn timed(id: &str, settings: &Settings, jobs: &[Job]) -> anyhow::Result<Vec<Vec<Timed>>> {
    in_turns(id, settings, RUNS_MAX, jobs, Job::run)
}

/// Of each run, the rate.
pub(super) fn rates(runs: &[Timed]) -> Vec<f64> {
    runs.iter().map(|run| run.rate).collect()
}
