//! Stores that are timed: loaded, then read, scanned and written, by two threads in batches.
//!
//! ```text
//!   open in /dev/shm --> load N pairs, timed --> wait until nodes lead to all --> each phase, timed --> a sample is read
//! ```

use std::time::{Duration, Instant};

use anyhow::ensure;
use terrace::{Coherence, OpenStore, Place};
use terrace_media::{INTERLEAVED_BYTES, STRIP_BYTES, settle};

use super::super::driven::Driven;
use super::super::in_memory::tier;
use super::super::{Settings, in_turns, shared_memory};
use super::systems::System;
use super::{WORD_BYTES, pairs};
use crate::Verify;
use crate::client::{Client, Local, Work};
use crate::content::Content;
use crate::distribution::{Distribution, Generator, YCSB_EXPONENT};
use crate::latency::Tally;
use crate::plan::{Planned, share};
use crate::rng::Rng;
use crate::workload::{Kind, Workload};

/// Runs, at most.
const RUNS_MAX: usize = 3;
/// Records of a scan.
pub(super) const SCANNED: u64 = 100;
/// Of so many pairs one is where a scan starts.
const PAIRS_A_SCAN: u64 = 10;
/// How long a checkpoint may take.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(5);
/// The device that is emulated.
pub(super) const OPTANE: &str = "optane-200";
/// One that adds nothing to memory.
pub(super) const NO_DELAYS: &str = "dram";

/// What is done to a loaded store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// As many uniform gets as there are pairs.
    Gets,
    /// As many, Zipf 0.99.
    HotGets,
    /// A tenth as many scans of [`SCANNED`] pairs, from uniform ones on.
    Scans,
    /// As many uniform updates.
    Updates,
    /// As many operations of YCSB's workload A, uniform.
    A,
}

/// Devices of memory that has several.
pub(super) const DEVICES: usize = 6;

/// Where a store's persistent memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// On one device.
    One,
    /// In strips over [`DEVICES`].
    Striped,
    /// Over as many, interleaved in pages.
    Interleaved,
    /// Over one device on each of [`NODES`] NUMA nodes, and a client of two on each.
    OnNodes(Coherence),
}

/// NUMA nodes of memory that is on several.
pub(super) const NODES: u32 = 2;

impl Memory {
    /// For people.
    fn name(self) -> String {
        match self {
            Self::One => "one device".into(),
            Self::Striped => format!("{DEVICES} devices in strips of {STRIP_BYTES} bytes"),
            Self::Interleaved => {
                format!("{DEVICES} devices interleaved in pages of {INTERLEAVED_BYTES} bytes")
            }
            Self::OnNodes(_) => format!("{NODES} NUMA nodes (emulated) with a device and a client on each"),
        }
    }
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub system: System,
    pub memory: Memory,
    pub profile: &'static str,
    pub pairs: u64,
    pub key_bytes: usize,
    /// Operations that are answered together.
    pub batch: usize,
    pub threads: usize,
    pub phases: &'static [Phase],
    /// Whether it is ended as if killed, and opened again.
    pub restarts: bool,
}

/// A client on a NUMA node, whichever thread runs it.
struct OnNode {
    node: u32,
    client: Local,
}

impl Client for OnNode {
    fn run(&mut self, work: &Work<'_>, tally: &mut Tally) -> anyhow::Result<()> {
        settle(self.node);
        self.client.run(work, tally)
    }
}

/// What a run gave, a second.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    /// Inserts of the load.
    pub load: f64,
    /// Of each phase.
    pub phases: Vec<f64>,
    /// Pairs of the restart, on one thread; 0 of a job that has none.
    pub restart: f64,
}

impl Job {
    /// Of two threads, with batches of 16.
    pub fn new(system: System, profile: &'static str, phases: &'static [Phase], settings: &Settings) -> Self {
        let (pairs, key_bytes) = (pairs(settings), WORD_BYTES);
        let (memory, batch, threads, restarts) = (Memory::One, 16, 2, false);
        Self { system, memory, profile, pairs, key_bytes, batch, threads, phases, restarts }
    }
    /// For people.
    pub fn setting(&self) -> String {
        format!(
            "{} pairs of {} + {WORD_BYTES} B, uniform; {} threads, batches of {}, sync; shared memory, emulated: profile {}; of hetermm a quarter \
             of the records is in DRAM; bonsai over {}",
            self.pairs,
            self.key_bytes,
            self.threads,
            self.batch,
            self.profile,
            self.memory.name()
        )
    }

    fn open(&self, dir: &std::path::Path) -> anyhow::Result<OpenStore> {
        let writes = self.pairs * (1 + self.phases.len() as u64);
        let mut options = terrace::Options {
            profile: Some(self.profile.into()),
            threads: self.threads,
            recovery_threads: 1,
            pmem_interleaved: self.memory == Memory::Interleaved,
            ..self.system.options((self.pairs, writes), self.key_bytes, Some(dir))
        };
        let devices = match self.memory {
            Memory::OnNodes(_) => NODES as usize,
            Memory::One | Memory::Striped | Memory::Interleaved => DEVICES,
        };
        if let Memory::OnNodes(coherence) = self.memory {
            (options.nodes, options.coherence) = (Some(NODES), coherence);
        }
        if let Some(pmem) = options.pmem.as_mut().filter(|_| self.memory != Memory::One) {
            let places = (1..=devices).map(|device| dir.join(format!("device-{device}")));
            pmem.place = Some(Place::Striped(places.collect()));
        }
        Ok(terrace::open(options)?)
    }

    /// One thread's operations.
    fn plan(&self, phase: Phase, thread: usize, seed: u64) -> Vec<Planned> {
        let (mine, threads) = (thread as u64, self.threads as u64);
        let distribution = match phase {
            Phase::HotGets => Distribution::Zipfian(YCSB_EXPONENT),
            _ => Distribution::Uniform,
        };
        let generator = Generator::new(distribution, self.pairs, seed, mine, threads);
        let mut rng = Rng::new(seed, 1 + mine);
        let all = if phase == Phase::Scans { self.pairs / PAIRS_A_SCAN } else { self.pairs };
        let of = |rng: &mut Rng| {
            let kind = match phase {
                Phase::Gets | Phase::HotGets => Kind::Get,
                Phase::Updates => Kind::Set,
                Phase::A => Workload::A.draw(rng),
                Phase::Scans => return Planned::scan(generator.draw(rng), SCANNED),
            };
            Planned::new(kind, generator.draw(rng))
        };
        share(all, self.threads, thread).map(|_| of(&mut rng)).collect()
    }

    fn run(&self, seed: u64) -> anyhow::Result<Rates> {
        let dir = shared_memory::directory()?;
        let mut store = self.open(dir.path())?;
        let content = Content::new(self.key_bytes, WORD_BYTES, false, seed);
        let load;
        let mut phases = Vec::new();
        {
            let turn = std::cell::Cell::new(0);
            let connect = || {
                let node = turn.replace(turn.get() + 1) % NODES;
                let client = Local::new(store.session()?, 1);
                Ok(Box::new(OnNode { node, client }) as Box<dyn Client>)
            };
            let driven = Driven { connect: &connect, content: &content, records: self.pairs };
            load = self.pairs as f64 / driven.load(self.batch, self.threads)?.as_secs_f64();
            for phase in self.phases {
                self.checkpoint(&store)?;
                let plans: Vec<_> = (0..self.threads).map(|thread| self.plan(*phase, thread, seed)).collect();
                let operations: usize = plans.iter().map(Vec::len).sum();
                let (_, took) = driven.run("run", self.batch, Verify::Sample, plans)?;
                phases.push(operations as f64 / took.as_secs_f64());
            }
            driven.check(self.batch)?;
        }
        let mut restart = 0.0;
        if self.restarts {
            self.checkpoint(&store)?;
            store.kill();
            let start = Instant::now();
            store = self.open(dir.path())?;
            restart = self.pairs as f64 / start.elapsed().as_secs_f64();
            ensure!(store.len(0) == self.pairs, "{} of {} pairs came back", store.len(0), self.pairs);
        }
        store.kill();
        Ok(Rates { load, phases, restart })
    }

    /// Waits until all that was written is where it stays, of those engines that keep it elsewhere for a while only.
    fn checkpoint(&self, store: &OpenStore) -> anyhow::Result<()> {
        if !matches!(self.system, System::Bonsai | System::Log) {
            return Ok(());
        }
        let start = Instant::now();
        while tier(&store.stats(), "dram")?.records > 0 {
            ensure!(start.elapsed() < PATIENCE, "{}: no checkpoint in {PATIENCE:?}", self.system.name());
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// The rates of each job, each in so many runs.
pub(super) fn rates(id: &str, settings: &Settings, jobs: &[Job]) -> anyhow::Result<Vec<Vec<Rates>>> {
    in_turns(id, settings, RUNS_MAX, jobs, Job::run)
}

/// Of each run of a job, the rate of a phase.
pub(super) fn of_phase(runs: &[Rates], phase: usize) -> Vec<f64> {
    runs.iter().map(|rates| rates.phases[phase]).collect()
}

/// The same of the load.
pub(super) fn of_load(runs: &[Rates]) -> Vec<f64> {
    runs.iter().map(|rates| rates.load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_operations_of_each_phase() {
        let settings = Settings { scale: 0.001, runs: 1, seed: 1, threads: 1 };
        let job = Job::new(System::Bonsai, NO_DELAYS, &[], &settings);
        let all =
            |phase| (0..job.threads).map(|thread| job.plan(phase, thread, 1)).collect::<Vec<_>>().concat();
        let kinds = |phase, kind| all(phase).iter().filter(|planned| planned.kind() == kind).count();
        assert_eq!((kinds(Phase::Gets, Kind::Get), kinds(Phase::Updates, Kind::Set)), (1000, 1000));
        assert_eq!(kinds(Phase::Scans, Kind::Scan), 100);
        assert!(all(Phase::Scans).iter().all(|planned| planned.length() == SCANNED));
        assert_eq!(kinds(Phase::A, Kind::Get) + kinds(Phase::A, Kind::Set), 1000);
    }
}
