//! Stores that are written to: loaded, then timed while records are replaced.
//!
//! ```text
//!   open --> load N records --> writes of drawn records, timed --> a sample is read, and must be what was written
//! ```

use std::path::Path;

use anyhow::ensure;
use terrace::engine::Durability;
use terrace::{OpenStore, Options, Place, Tier};

use super::super::driven::Driven;
use super::super::{Settings, in_turns, shared_memory};
use super::lsm::Lsm;
use crate::Verify;
use crate::client::{Client, Local};
use crate::content::Content;
use crate::distribution::{Distribution, Generator, YCSB_EXPONENT};
use crate::plan::Planned;
use crate::record::record_bytes;
use crate::rng::Rng;
use crate::workload::Kind;

/// What the paper emulates its memory by: DRAM, and nothing is added to that.
pub(super) const PROFILE: &str = "dram";
/// Runs, at most.
const RUNS_MAX: usize = 3;
/// Records that are loaded together: nobody times it.
const LOAD_BURST: usize = 64;
/// Bytes of a write beside its record: its entry's head, its group's, and what fills up cache lines.
pub(super) const AROUND_BYTES: u64 = 128;
/// DRAM and PMem that a store has at least.
const LEAST_BYTES: u64 = 64 << 20;
/// DRAM for a record where all are there, in its own sizes, and for its part of the index.
const DRAM_RECORDS: u64 = 3;
const DRAM_INDEX_BYTES: u64 = 256;

/// Both workloads.
pub(super) const DISTRIBUTIONS: [Distribution; 2] =
    [Distribution::Uniform, Distribution::Zipfian(YCSB_EXPONENT)];

/// As the paper names it.
pub(super) fn workload(distribution: Distribution) -> &'static str {
    if distribution == Distribution::Uniform { "uniform" } else { "skewed" }
}

/// A row of the paper's table 1, a 64th of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub name: &'static str,
    pub key_bytes: usize,
    pub value_bytes: usize,
    records: u32,
    /// Writes, in numbers of records: short runs say little.
    rewrites: u64,
}

pub(super) const SMALL: Data =
    Data { name: "small", key_bytes: 16, value_bytes: 100, records: 1 << 20, rewrites: 1 };
pub(super) const LARGE: Data =
    Data { name: "large", key_bytes: 128, value_bytes: 512, records: 1 << 17, rewrites: 4 };
pub(super) const DATA: [Data; 2] = [SMALL, LARGE];

impl Data {
    pub fn records(&self, settings: &Settings) -> u64 {
        u64::from(settings.records(self.records))
    }
    fn writes(&self, records: u64) -> u64 {
        records * self.rewrites
    }
    fn record_bytes(&self) -> u64 {
        record_bytes("scmkv", self.key_bytes, self.value_bytes)
    }
    /// For people.
    pub fn describe(&self, settings: &Settings) -> String {
        let records = self.records(settings);
        format!(
            "{}: {records} records of {} + {} B, {} writes",
            self.name,
            self.key_bytes,
            self.value_bytes,
            self.writes(records)
        )
    }
    /// PMem for so many records and so many writes, with nothing to clean: a page in 16 is kept free.
    pub fn pmem_bytes(&self, records: u64, writes: u64) -> u64 {
        LEAST_BYTES + (records + writes) * (self.record_bytes() + AROUND_BYTES) / 4 * 5
    }
}

/// What rows have in common.
pub(super) fn setting(settings: &Settings, data: &[Data]) -> String {
    let data: Vec<String> = data.iter().map(|data| data.describe(settings)).collect();
    format!(
        "{}; uniform, or skewed: zipfian:0.99, a true Zipf; a client waits for each answer; shared memory, mapped as it is touched, profile \
         {PROFILE} (emulated, and nothing is added: as the paper emulates it), with room for all that is written",
        data.join("; ")
    )
}

/// What is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// Ours, as the paper has it.
    Scm(Durability),
    /// Everything in DRAM behind this index; nothing is kept.
    Dram(&'static str),
    /// Of another crate.
    Lsm,
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Job {
    pub system: System,
    pub data: Data,
    pub distribution: Distribution,
    /// Writes that are answered together.
    pub burst: usize,
    pub threads: usize,
    pub records: u64,
    pub seed: u64,
}

impl Job {
    /// Of one client that waits for each answer.
    pub fn new(system: System, data: Data, distribution: Distribution, settings: &Settings) -> Self {
        let records = data.records(settings);
        Self { system, data, distribution, burst: 1, threads: 1, records, seed: settings.seed }
    }

    /// Writes a second.
    fn run(&self) -> anyhow::Result<f64> {
        let dir = shared_memory::directory()?;
        if self.system == System::Lsm {
            let lsm = Lsm::open(dir.path())?;
            return self.drive(&|| Ok(lsm.client()));
        }
        let store = self.open(dir.path())?;
        let rate = self.drive(&|| Ok(Box::new(Local::new(store.session()?, 1))));
        store.kill();
        rate
    }

    fn open(&self, dir: &Path) -> anyhow::Result<OpenStore> {
        let options = match self.system {
            System::Dram(index) => Options {
                engine: "dram".into(),
                index: index.into(),
                dram: Some(
                    LEAST_BYTES + self.records * (DRAM_RECORDS * self.data.record_bytes() + DRAM_INDEX_BYTES),
                ),
                durability: Durability::None,
                ..Options::default()
            },
            System::Scm(durability) => Options {
                engine: "scmkv".into(),
                dir: Some(dir.join("store")),
                dram: Some(LEAST_BYTES),
                pmem: Some(Tier {
                    bytes: self.data.pmem_bytes(self.records, self.data.writes(self.records)),
                    place: Some(Place::Path(dir.to_owned())),
                }),
                profile: Some(PROFILE.into()),
                expected_records: Some(self.records),
                durability,
                ..Options::default()
            },
            System::Lsm => anyhow::bail!("an LSM is no store of ours"),
        };
        Ok(terrace::open(Options { threads: self.threads, ..options })?)
    }

    /// One thread's writes: drawn before the clock starts.
    fn plan(&self, thread: usize) -> Vec<Planned> {
        let (mine, threads) = (thread as u64, self.threads as u64);
        let generator = Generator::new(self.distribution, self.records, self.seed, mine, threads);
        let mut rng = Rng::new(self.seed, 1 + mine);
        let all = self.data.writes(self.records);
        let share = all * (mine + 1) / threads - all * mine / threads;
        (0..share).map(|_| Planned::new(Kind::Set, generator.draw(&mut rng))).collect()
    }

    fn drive(&self, connect: &dyn Fn() -> anyhow::Result<Box<dyn Client>>) -> anyhow::Result<f64> {
        let content = Content::new(self.data.key_bytes, self.data.value_bytes, false, self.seed);
        let driven = Driven { connect, content: &content, records: self.records };
        driven.load(LOAD_BURST, 1)?;
        let plans = (0..self.threads).map(|thread| self.plan(thread)).collect();
        let operations = self.data.writes(self.records);
        let (tally, took) = driven.run("write", self.burst, Verify::All, plans)?;
        ensure!(tally.sets == operations, "{} of {operations} writes were answered", tally.sets);
        driven.check(LOAD_BURST)?;
        Ok(operations as f64 / took.as_secs_f64())
    }
}

/// The rates of each job, each in so many runs.
pub(super) fn rates(id: &str, settings: &Settings, jobs: &[Job]) -> anyhow::Result<Vec<Vec<f64>>> {
    in_turns(id, settings, RUNS_MAX, jobs, |job, seed| Job { seed, ..*job }.run())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_writes() {
        let settings = Settings { scale: 0.001, runs: 1, seed: 1, threads: 1 };
        let job = Job::new(System::Lsm, LARGE, Distribution::Uniform, &settings);
        for threads in 1..6 {
            let job = Job { threads, ..job };
            let planned: usize = (0..threads).map(|thread| job.plan(thread).len()).sum();
            assert_eq!(planned as u64, job.data.writes(job.records));
        }
    }
}
