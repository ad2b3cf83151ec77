//! A store of one of the engines, and one client that waits for each answer.

use std::time::{Duration, Instant};

use anyhow::bail;
use tempfile::TempDir;
use terrace::engine::{Batch, Condition, Durability, Expiry, OpKind, Reply, Session, Stats};
use terrace::{Granularity, OpenStore, Options, Place, Tier};

use super::super::shared_memory;

/// The device that is emulated where time counts.
pub(super) const PROFILE: &str = "optane-200";
/// Memory as fast as it is, for what depends on the number of records alone.
pub(super) const NO_DELAYS: &str = "dram";
/// PMem for a record, its part of the index counted, and for what a store has at least.
const PMEM_BYTES: u64 = 512;
const PMEM_LEAST: u64 = 64 << 20;
/// DRAM for a record's part of an index, and for what a store has at least.
const DRAM_BYTES: u64 = 128;
const DRAM_LEAST: u64 = 64 << 20;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// Nothing is kept: the base that the paper ports.
    Dram,
    /// The index is in DRAM, and records in slabs: as Memcached.
    Hybrid,
    /// The same with an allocation a record: as Redis.
    Objects,
    /// The index is on the medium.
    Persistent,
}

impl Engine {
    pub const ALL: [Self; 4] = [Self::Dram, Self::Hybrid, Self::Objects, Self::Persistent];
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::Hybrid => "heap-hybrid",
            Self::Objects => "heap-hybrid --heap object",
            Self::Persistent => "heap-persistent",
        }
    }
    /// As options name it, and its heap.
    pub fn options(self) -> (&'static str, Option<Granularity>) {
        match self {
            Self::Objects => (Self::Hybrid.name(), Some(Granularity::Object)),
            Self::Dram | Self::Hybrid | Self::Persistent => (self.name(), None),
        }
    }
}

/// The paper's insertions: keys of 4 to 11 bytes, values of 5 to 13.
pub(super) fn key(record: u64, out: &mut Vec<u8>) {
    use std::io::Write;
    out.clear();
    // A vector takes all that is written.
    let _ = write!(out, "{record:04}");
}
pub(super) fn value(record: u64, out: &mut Vec<u8>) {
    out.clear();
    let bytes = record.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    out.extend(bytes.iter().cycle().take(5 + (record % 9) as usize));
}

/// See the module.
pub(super) struct Bed {
    // Before the store: it is a part of that.
    session: Box<dyn Session>,
    store: OpenStore,
    dir: TempDir,
    engine: Engine,
    records: u64,
    profile: &'static str,
    batch: Batch,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Bed {
    /// An empty store with room for so many records.
    pub fn new(engine: Engine, records: u64, profile: &'static str) -> anyhow::Result<Self> {
        Self::open(engine, records, profile, shared_memory::directory()?)
    }

    fn open(engine: Engine, records: u64, profile: &'static str, dir: TempDir) -> anyhow::Result<Self> {
        let is_kept = engine != Engine::Dram;
        let place = Some(Place::Path(dir.path().to_owned()));
        let (name, heap) = engine.options();
        let store = terrace::open(Options {
            engine: name.into(),
            heap,
            dir: is_kept.then(|| dir.path().join("store")),
            dram: Some(DRAM_LEAST + records * if is_kept { DRAM_BYTES } else { PMEM_BYTES }),
            pmem: is_kept.then_some(Tier { bytes: PMEM_LEAST + records * PMEM_BYTES, place }),
            profile: is_kept.then(|| profile.into()),
            durability: if is_kept { Durability::Sync } else { Durability::None },
            ..Options::default()
        })?;
        Ok(Self {
            session: store.session()?,
            store,
            dir,
            engine,
            records,
            profile,
            batch: Batch::new(),
            key: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Stores a record, and waits until that is safe.
    pub fn insert(&mut self, record: u64) -> anyhow::Result<()> {
        key(record, &mut self.key);
        value(record, &mut self.value);
        let value = self.batch.bytes(&self.value);
        let (condition, expiry) = (Condition::Always, Expiry::Clear);
        let kind = OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false };
        self.batch.push(0, &self.key, kind);
        self.session.execute(&mut self.batch);
        let settled = self.session.wait(&mut self.batch);
        match self.batch.reply(0, &settled) {
            Reply::Stored { .. } => {}
            other => bail!("record {record} was answered by {other:?}"),
        }
        self.batch.clear();
        Ok(())
    }

    /// The same of records 0 to `records`, with how long each took.
    pub fn insert_timed(&mut self, records: u64, mut each: impl FnMut(Duration)) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let mut before = start;
        for record in 0..records {
            self.insert(record)?;
            let now = Instant::now();
            each(now - before);
            before = now;
        }
        Ok(before - start)
    }

    /// Whether a record is there as it was stored.
    pub fn has(&mut self, record: u64) -> anyhow::Result<bool> {
        key(record, &mut self.key);
        value(record, &mut self.value);
        self.batch.push(0, &self.key, OpKind::Get { value: true });
        self.session.execute(&mut self.batch);
        let settled = self.session.wait(&mut self.batch);
        let found = match self.batch.reply(0, &settled) {
            Reply::Miss => false,
            Reply::Hit { value: Some(span), .. } => self.batch.output(span) == self.value,
            other => bail!("record {record} was answered by {other:?}"),
        };
        self.batch.clear();
        Ok(found)
    }

    /// Ends the store as a kill would and opens it again: the time from there to the first answer of a get.
    pub fn restart(self) -> anyhow::Result<(Self, Duration)> {
        let Self { session, store, dir, engine, records, profile, .. } = self;
        drop(session);
        store.kill();
        let start = Instant::now();
        let mut again = Self::open(engine, records, profile, dir)?;
        again.has(0)?;
        Ok((again, start.elapsed()))
    }

    /// What the store has counted.
    pub fn stats(&self) -> Stats {
        self.store.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_have_the_papers_lengths() {
        let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
        for record in [0, 9999, 10_000, 50_000_000] {
            key(record, &mut bytes);
            lengths.push(bytes.len());
        }
        assert_eq!(lengths, [4, 4, 5, 8]);
        let lengths: Vec<usize> = (0..9).map(|record| (value(record, &mut bytes), bytes.len()).1).collect();
        assert_eq!(lengths, [5, 6, 7, 8, 9, 10, 11, 12, 13]);
    }
}
