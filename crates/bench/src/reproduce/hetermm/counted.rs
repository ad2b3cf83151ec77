//! A store with one client, in which hits and accesses are counted: in the process's memory, with a clock that stands
//! still, and background work by turns.

use std::sync::Arc;

use anyhow::ensure;
use terrace::engine::clock::ManualClock;
use terrace::engine::{Durability, Stats};
use terrace::{OpenStore, Options, ReadCache, Tier};
use terrace_media::CountersSnapshot;

use super::super::in_memory::{finish, media, take_a_turn, tier};
use super::{KEY_BYTES, VALUE_BYTES, dram_bytes, pmem_bytes};
use crate::Verify;
use crate::client::{Client, Local, Work};
use crate::content::Content;
use crate::distribution::{Distribution, Generator};
use crate::latency::Tally;
use crate::plan::Planned;
use crate::rng::Rng;
use crate::workload::Kind;

/// Any time.
const NOW_US: u64 = 1_800_000_000_000_000;
/// What a device adds changes no count.
const NO_DELAYS: &str = "dram";
/// Operations between two times that background work is done, whatever the batch.
const OPERATIONS_A_TURN: usize = 16;
/// Records that are loaded together.
const LOAD_BATCH: usize = 16;

/// See the module.
pub(super) struct Counted {
    // Before the store: it is a part of that.
    client: Local,
    store: OpenStore,
    content: Content,
    tally: Tally,
    records: u64,
    /// What is drawn: the same records are popular in all of its phases.
    generator: Generator,
    rng: Rng,
    nonce: u64,
}

/// What a phase did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Did {
    /// Gets that were answered.
    pub gets: u64,
    /// Of these, from DRAM and from below.
    pub hits: [u64; 2],
    /// Sets that were answered.
    pub sets: u64,
    /// What was asked of PMem.
    pub media: CountersSnapshot,
}

impl Counted {
    /// A store that is loaded with so many records, and has room for so many more writes.
    pub fn new(
        (distribution, read_cache): (Distribution, ReadCache),
        records: u64,
        writes: u64,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let store = terrace::open(Options {
            engine: "hetermm".into(),
            read_cache: Some(read_cache),
            dram_records: Some(dram_bytes(records)),
            pmem: Some(Tier { bytes: pmem_bytes(records + writes), place: None }),
            profile: Some(NO_DELAYS.into()),
            durability: Durability::Sync,
            background_threads: 0,
            hash_seed: Some(seed),
            clock: Arc::new(ManualClock::new(NOW_US)),
            ..Options::default()
        })?;
        let mut counted = Self {
            client: Local::new(store.session()?, 1),
            store,
            content: Content::new(KEY_BYTES, VALUE_BYTES, false, seed),
            tally: Tally::new()?,
            records,
            generator: Generator::new(distribution, records, seed, 0, 1),
            rng: Rng::new(seed, 1),
            nonce: 0,
        };
        let loaded = (0..records).map(|record| Planned::new(Kind::Insert, record));
        counted.go(LOAD_BATCH, loaded)?;
        finish(&*counted.store);
        Ok(counted)
    }

    fn go(&mut self, batch: usize, operations: impl Iterator<Item = Planned>) -> anyhow::Result<()> {
        let mut operations = operations.peekable();
        let (mut together, mut done) = (Vec::with_capacity(batch), 0);
        while operations.peek().is_some() {
            together.clear();
            together.extend(operations.by_ref().take(batch));
            let work = Work {
                operations: &together,
                content: &self.content,
                verify: Verify::Sample,
                nonce: self.nonce,
                due: None,
            };
            self.client.run(&work, &mut self.tally)?;
            self.nonce += together.len() as u64;
            done += together.len();
            if done >= OPERATIONS_A_TURN {
                done = 0;
                take_a_turn(&*self.store);
            }
        }
        let Tally { misses, wrong, errors, .. } = &self.tally;
        ensure!(misses + wrong == 0 && errors.is_empty(), "{misses} missing, {wrong} wrong, {errors:?}");
        Ok(())
    }

    /// Runs so many operations on drawn records, so many together, and all background work that they leave.
    pub fn run(
        &mut self,
        batch: usize,
        operations: u64,
        kind: impl Fn(&mut Rng) -> Kind,
    ) -> anyhow::Result<Did> {
        let before = (self.stats(), self.tally.gets, self.tally.sets);
        let plan: Vec<Planned> = (0..operations)
            .map(|_| Planned::new(kind(&mut self.rng), self.generator.draw(&mut self.rng)))
            .collect();
        self.go(batch, plan.into_iter())?;
        finish(&*self.store);
        self.since(&before)
    }

    fn since(&self, (stats, gets, sets): &(Stats, u64, u64)) -> anyhow::Result<Did> {
        let now = self.stats();
        let hits = |name: &str| anyhow::Ok(tier(&now, name)?.hits - tier(stats, name)?.hits);
        Ok(Did {
            gets: self.tally.gets - gets,
            hits: [hits("dram")?, hits("pmem")?],
            sets: self.tally.sets - sets,
            media: media(&now)? - media(stats)?,
        })
    }

    /// The share of the records that DRAM holds, in percent.
    pub fn held(&self) -> anyhow::Result<f64> {
        Ok(100.0 * tier(&self.stats(), "dram")?.records as f64 / self.records as f64)
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// Ends it. One that is not ended keeps its memory until the process is over.
    pub fn end(self) -> anyhow::Result<()> {
        let Self { client, store, .. } = self;
        drop(client);
        Ok(store.close()?)
    }
}
