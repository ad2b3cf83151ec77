//! A store with one client, in which bytes and accesses are counted: in the process's memory, with a clock that stands still, and
//! background work by turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::ensure;
use terrace::OpenStore;
use terrace::engine::clock::ManualClock;
use terrace_engine::{Durability, Progress, Stats, Store};
use terrace_media::CountersSnapshot;
use terrace_space_scm_log::{Geometry, buckets_for};

use super::super::in_memory::{Making, PAGE_BYTES, detail, finish, make, media, take_a_turn, tier};
use super::WORD_BYTES;
use super::systems::System;
use crate::Verify;
use crate::client::{Client, Local, Work};
use crate::content::Content;
use crate::latency::Tally;
use crate::plan::Planned;
use crate::workload::Kind;

/// Operations that are answered together.
pub(super) const BATCH: usize = 16;
/// Any time.
const NOW_US: u64 = 1_800_000_000_000_000;
/// What a device adds changes no count.
const NO_DELAYS: &str = "dram";
/// How long a background thread that has nothing to do waits.
const IDLE: Duration = Duration::from_millis(1);

/// How a store is held.
enum Held {
    /// Made here: the seed decides all of it.
    Bare(Box<dyn Store>),
    /// Opened as users do: it hashes with another seed each time.
    Whole(OpenStore),
}

/// What keys and values are made of, and where answers are counted: made before memory is counted.
pub(super) struct Tools {
    content: Content,
    tally: Tally,
}

impl Tools {
    pub fn new(seed: u64) -> anyhow::Result<Self> {
        Ok(Self { content: Content::new(WORD_BYTES, WORD_BYTES, false, seed), tally: Tally::new()? })
    }
    /// So many gets were answered, and so many of them found nothing.
    pub fn expect(&self, gets: u64, misses: u64) -> anyhow::Result<()> {
        let found = (self.tally.gets, self.tally.misses);
        ensure!(found == (gets, misses), "gets and misses are {found:?}, not {:?}", (gets, misses));
        Ok(())
    }
}

/// See the module.
pub(super) struct Counted {
    // Before the store: it is a part of that.
    client: Local,
    store: Held,
    /// Bytes of its memory.
    bytes: u64,
    pairs: u64,
    nonce: u64,
}

impl Counted {
    /// An empty store for so many pairs and so many writes of them.
    pub fn new(system: System, pairs: u64, writes: u64, seed: u64) -> anyhow::Result<Self> {
        let bytes = System::pmem_bytes(writes, WORD_BYTES);
        let bare = |is_ordered, buckets, dram_bytes| {
            let geometry = Geometry { page_bytes: PAGE_BYTES, buckets, bytes };
            make(&Making {
                is_ordered,
                geometry,
                dram_bytes,
                durability: Durability::Sync,
                seed,
                nodes: None,
            })
        };
        let store = match system {
            System::Bonsai => Held::Bare(bare(true, 0, System::bonsai_dram_bytes(pairs))?),
            System::Log => Held::Bare(bare(false, buckets_for(Some(pairs), 0), 16 << 20)?),
            System::Tree | System::Heap => {
                let options = terrace::Options {
                    background_threads: 0,
                    hash_seed: Some(seed),
                    profile: Some(NO_DELAYS.into()),
                    clock: Arc::new(ManualClock::new(NOW_US)),
                    ..system.options((pairs, writes), WORD_BYTES, None)
                };
                Held::Whole(terrace::open(options)?)
            }
        };
        let client = Local::new(store.get().session()?, 1);
        Ok(Self { client, store, bytes, pairs, nonce: 0 })
    }

    fn run(&mut self, tools: &mut Tools, operations: &[Planned]) -> anyhow::Result<()> {
        let work =
            Work { operations, content: &tools.content, verify: Verify::All, nonce: self.nonce, due: None };
        self.client.run(&work, &mut tools.tally)?;
        self.nonce += operations.len() as u64;
        let errors = &tools.tally.errors;
        ensure!(errors.is_empty() && tools.tally.wrong == 0, "answers are wrong: {errors:?}");
        Ok(())
    }

    /// Does this to each of the records, so many together; `each` comes after each batch.
    fn go(
        &mut self,
        tools: &mut Tools,
        (kind, batch): (Kind, usize),
        records: impl Iterator<Item = u64>,
        mut each: impl FnMut(&dyn Store, usize),
    ) -> anyhow::Result<()> {
        let mut operations = Vec::with_capacity(batch);
        let mut records = records.peekable();
        let mut number = 0;
        while records.peek().is_some() {
            operations.clear();
            operations.extend(records.by_ref().take(batch).map(|record| Planned::new(kind, record)));
            self.run(tools, &operations)?;
            each(self.store.get(), number);
            number += 1;
        }
        Ok(())
    }

    /// Inserts all pairs, background work by turns, and does all that is left of it.
    pub fn load(&mut self, tools: &mut Tools) -> anyhow::Result<()> {
        self.go(tools, (Kind::Insert, BATCH), 0..self.pairs, |store, _| take_a_turn(store))?;
        finish(self.store.get());
        let keys = self.store.get().len(0);
        ensure!(keys == self.pairs, "{keys} of {} pairs are there", self.pairs);
        Ok(())
    }

    /// Inserts all pairs while a thread does the background work, and looks on after each batch.
    pub fn load_beside_thread(
        &mut self,
        tools: &mut Tools,
        mut look: impl FnMut(usize),
    ) -> anyhow::Result<()> {
        let Self { client, store, pairs, .. } = self;
        let store = store.get();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    if store.step() != Progress::Worked {
                        store.wait_for_work(IDLE);
                    }
                }
            });
            let mut load = || -> anyhow::Result<()> {
                let mut operations = Vec::with_capacity(BATCH);
                for (number, first) in (0..*pairs).step_by(BATCH).enumerate() {
                    operations.clear();
                    let records = first..(first + BATCH as u64).min(*pairs);
                    operations.extend(records.map(|record| Planned::new(Kind::Insert, record)));
                    let (content, verify) = (&tools.content, Verify::None);
                    let work = Work { operations: &operations, content, verify, nonce: first, due: None };
                    client.run(&work, &mut tools.tally)?;
                    look(number);
                }
                Ok(())
            };
            let loaded = load();
            is_over.store(true, Relaxed);
            loaded
        })
    }

    /// What these accesses asked of the memory, so many together, without background work.
    pub fn accesses(
        &mut self,
        tools: &mut Tools,
        what: (Kind, usize),
        records: impl Iterator<Item = u64>,
    ) -> anyhow::Result<CountersSnapshot> {
        let before = media(&self.stats())?;
        self.go(tools, what, records, |_, _| ())?;
        Ok(media(&self.stats())? - before)
    }

    /// What these writes asked of the memory, so many together, all of their background work counted: it is done by turns, one after as
    /// many writes whatever the batch.
    pub fn writes(
        &mut self,
        tools: &mut Tools,
        batch: usize,
        writes_a_turn: usize,
        records: impl Iterator<Item = u64>,
    ) -> anyhow::Result<CountersSnapshot> {
        let before = media(&self.stats())?;
        self.go(tools, (Kind::Set, batch), records, |store, number| {
            if ((number + 1) * batch).is_multiple_of(writes_a_turn) {
                take_a_turn(store);
            }
        })?;
        finish(self.store.get());
        Ok(media(&self.stats())? - before)
    }

    pub fn stats(&self) -> Stats {
        self.store.get().stats()
    }

    /// Bytes of the memory that it needs, and that are not free. The first leave out what is dead in pages of the log: they are cleaned
    /// once room is short. Tables in front of pages, a log apart, and free places of nodes are in both.
    pub fn pmem(&self) -> anyhow::Result<[u64; 2]> {
        let stats = self.stats();
        let pmem = tier(&stats, "pmem")?;
        let log = stats.log.map_or(0, |log| log.used_bytes);
        Ok(match self.store {
            Held::Bare(_) => {
                let in_front = self.bytes - pmem.capacity_bytes;
                let nodes = detail(&stats, "bonsai_nodes").unwrap_or(0);
                let free = detail(&stats, "bonsai_free_slots").unwrap_or(0);
                let free_bytes =
                    detail(&stats, "bonsai_node_bytes").unwrap_or(0) * free / (nodes + free).max(1);
                // The log is in the pages.
                [pmem.live_bytes + free_bytes + in_front, pmem.used_bytes + in_front]
            }
            // Nothing was overwritten.
            Held::Whole(_) => [pmem.used_bytes + log; 2],
        })
    }

    /// Ends it. One that is not ended keeps its memory until the process is over.
    pub fn end(self) -> anyhow::Result<()> {
        let Self { client, store, .. } = self;
        drop(client);
        match store {
            Held::Bare(_) => Ok(()),
            Held::Whole(store) => Ok(store.close()?),
        }
    }
}

impl Held {
    fn get(&self) -> &dyn Store {
        match self {
            Self::Bare(store) => &**store,
            Self::Whole(store) => &**store,
        }
    }
}
