//! A store of two tiers that is loaded once and read under one policy of DRAM after the other, at several sizes of DRAM.
//!
//! ```text
//!   load N records, close --> for each size and policy: open --> warm accesses --> counted ones --> kill
//!   counted   pages in the process's memory, a clock that the accesses move, steps in between: the same on every machine
//!   timed     pages on the SSD under temporary files, batches, a background thread
//! ```
//!
//! Gets alone: nothing that is read changes what lies on the lower tier, so that each opening finds what the first one did, and
//! an empty DRAM.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use tempfile::TempDir;
use terrace::engine::clock::ManualClock;
use terrace::engine::hash::KeyHasher;
use terrace::engine::{
    Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Progress, Reply, Session, Stats, Store,
};
use terrace::{Eviction, OpenStore, Options, Tier};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AnyRegion, HeapRegion};
use terrace_space_slab::{Opening, Sizes, open_byte};

use crate::content::Content;
use crate::trace::accesses::{AccessTo, Trace};

const KEY_BYTES: usize = 8;
/// Bytes of a value, where hits are counted and where reads are timed.
const COUNTED_VALUE: usize = 600;
const TIMED_VALUE: usize = 1960;
/// What a record takes on the lower tier at most, beside its value; and room to write pages that are not full.
const OVERHEAD: usize = 160;
/// Where hits are counted: small slabs, so that a per cent of few records is a DRAM.
const SIZES: Sizes = Sizes {
    block_bytes: 32 << 10,
    log_block_bytes: 64 << 10,
    manifests_apart: 0,
    log_bytes: 2 << 20,
    dram_bytes: 4 << 20,
    dram_with_index: false,
    store_id: 1,
};
/// A counted access takes so long: in 50 ms, for which DRAM keeps slots free, come fifty.
const ACCESS_US: u64 = 1000;
/// Counted accesses between two times that background work is done, and steps at such a time, at most.
const ACCESSES_A_TURN: usize = 16;
const STEPS_A_TURN: usize = 8;
/// Timed accesses that are made together.
const BATCH: usize = 16;
/// Sizes of DRAM that are tried until one holds about as many records as it should.
const SIZES_TRIED: usize = 6;

/// What was counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// Percent of gets that DRAM answered.
    pub hits: f64,
    /// Records brought into DRAM, an access.
    pub brought_in: f64,
    /// What DRAM held when counting began, percent of all records.
    pub held: f64,
}

/// A session, and what it asks for.
struct Client {
    session: Box<dyn Session>,
    batch: Batch,
    pushed: Vec<AccessTo>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Client {
    fn new(session: Box<dyn Session>) -> Self {
        Self { session, batch: Batch::new(), pushed: Vec::new(), key: Vec::new(), value: Vec::new() }
    }
    /// Makes these accesses, so many together; `after` each time.
    fn all(
        &mut self,
        content: &Content,
        accesses: impl Iterator<Item = AccessTo>,
        together: usize,
        mut after: impl FnMut(),
    ) -> anyhow::Result<()> {
        for access in accesses {
            let record = u64::from(access.record);
            content.key(record, &mut self.key);
            let kind = if access.is_set {
                content.value(record, 0, &mut self.value);
                let value = self.batch.bytes(&self.value);
                let (condition, expiry) = (Condition::Always, Expiry::Clear);
                OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false }
            } else {
                OpKind::Get { value: true }
            };
            self.batch.push(0, &self.key, kind);
            self.pushed.push(access);
            if self.pushed.len() >= together {
                self.answer(content)?;
                after();
            }
        }
        if self.pushed.is_empty() { Ok(()) } else { self.answer(content) }
    }
    /// Has the batch executed, and each answer looked at.
    fn answer(&mut self, content: &Content) -> anyhow::Result<()> {
        self.session.execute(&mut self.batch);
        let settled = self.session.wait(&mut self.batch);
        for (number, access) in self.pushed.iter().enumerate() {
            match self.batch.reply(number, &settled) {
                Reply::Stored { .. } if access.is_set => {}
                Reply::Hit { value: Some(value), .. }
                    if content.is_value(u64::from(access.record), self.batch.output(value)) => {}
                other => bail!("record {} was answered by {other:?}", access.record),
            }
        }
        self.batch.clear();
        self.pushed.clear();
        Ok(())
    }
}

fn loads(records: u32) -> impl Iterator<Item = AccessTo> {
    (0..records).map(|record| AccessTo { record, is_set: true })
}

/// Gets answered, those that DRAM answered, and records that came up.
fn figures(stats: &Stats) -> [u64; 3] {
    let promoted = stats.engine_details.iter().find(|(name, _)| *name == "records_promoted");
    let hits = |tier: Option<&terrace::engine::TierStats>| tier.map_or(0, |tier| tier.hits);
    let all = stats.tiers.iter().map(|tier| tier.hits).sum();
    [all, hits(stats.tiers.first()), promoted.map_or(0, |(_, count)| *count)]
}

/// Records in memory, where hits are counted.
pub(super) struct InMemory {
    region: Arc<AnyRegion>,
    clock: Arc<ManualClock>,
    content: Content,
    records: u32,
}

impl InMemory {
    /// Loads so many records.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn new(records: u32, seed: u64) -> anyhow::Result<Self> {
        let bytes = u64::from(records) * (COUNTED_VALUE + OVERHEAD) as u64 * 3 / 2 + (8 << 20);
        let region = HeapRegion::new((SIZES.log_bytes + bytes).next_multiple_of(1 << 20));
        let loaded = Self {
            region: AnyRegion::of(region.context("memory for records")?),
            clock: Arc::new(ManualClock::new(1_800_000_000_000_000)),
            content: Content::new(KEY_BYTES, COUNTED_VALUE, false, seed),
            records,
        };
        let store = loaded.open(Eviction::default(), SIZES.dram_bytes, true)?;
        loaded.access(&*store, loads(records))?;
        store.close()?;
        // What was in DRAM then comes up in one more opening, and in no other.
        loaded.open(Eviction::default(), SIZES.dram_bytes, false)?;
        Ok(loaded)
    }
    fn open(&self, eviction: Eviction, dram_bytes: u64, fresh: bool) -> anyhow::Result<Box<dyn Store>> {
        let buckets = u64::from(self.records) / 4;
        let opening = Opening {
            sizes: Sizes { dram_bytes, ..SIZES },
            fresh,
            machine: MachineOptions {
                engine: "tac",
                durability: Durability::None,
                immediate: true,
                evict: false,
                sessions: 2,
                hasher: KeyHasher::new(7),
                clock: self.clock.clone(),
                threads: 1,
                recovery_keys: usize::MAX,
            },
            index: MakeIndex::Clht(&|| Clht::with_min_buckets(buckets)),
            description: String::new(),
            progress: &|_, _| {},
        };
        Ok(open_byte(&self.region, 0, eviction.into(), opening)?)
    }
    fn access(&self, store: &dyn Store, accesses: impl Iterator<Item = AccessTo>) -> anyhow::Result<()> {
        let mut turns = 0;
        Client::new(store.session()?).all(&self.content, accesses, 1, || {
            self.clock.advance_us(ACCESS_US);
            turns += 1;
            if turns % ACCESSES_A_TURN == 0 {
                let mut steps = 0..STEPS_A_TURN;
                while steps.next().is_some() && store.step() == Progress::Worked {}
            }
        })
    }
    /// DRAM for so many records, about: how long slots are is the store's business.
    ///
    /// # Errors
    /// If the store can't be opened.
    pub fn dram_for(&self, records: u32) -> anyhow::Result<u64> {
        let least = 5 * SIZES.block_bytes as u64;
        let mut bytes = (u64::from(records) * (COUNTED_VALUE + OVERHEAD) as u64).max(least);
        // How far off it is, and the size.
        let mut best = (u64::MAX, bytes);
        for _ in 0..SIZES_TRIED {
            let (slabs, in_slab) = self.slots(bytes)?;
            best = best.min(((slabs * in_slab).abs_diff(u64::from(records)), bytes));
            let wanted = (u64::from(records) * bytes / (slabs * in_slab).max(1)).max(least);
            // Half of the way: where more slabs have shorter slots, all the way would go to and fro.
            bytes = bytes.midpoint(wanted);
        }
        Ok(best.1)
    }
    /// With so much DRAM, how many slabs there are, and slots in each.
    fn slots(&self, dram_bytes: u64) -> anyhow::Result<(u64, u64)> {
        let store = self.open("lru/all".parse().map_err(anyhow::Error::msg)?, dram_bytes, false)?;
        self.access(&*store, (0..64).map(|record| AccessTo { record, is_set: false }))?;
        let stats = store.stats();
        let detail = |name: &str| stats.engine_details.iter().find(|(known, _)| *known == name);
        let [slabs, slab_bytes] =
            ["slabs", "slab_bytes"].map(|name| detail(name).map_or(0, |(_, value)| *value));
        let slot_bytes = stats.tiers.first().map_or(0, |dram| dram.live_bytes / dram.records.max(1));
        Ok((slabs, slab_bytes / slot_bytes.max(1)))
    }
    /// Reads what the trace says, and counts after so many accesses.
    ///
    /// # Errors
    /// If the store can't be opened, or answers what it should not.
    pub fn count(
        &self,
        eviction: Eviction,
        dram_bytes: u64,
        trace: &Trace,
        warm: usize,
    ) -> anyhow::Result<Counted> {
        let store = self.open(eviction, dram_bytes, false)?;
        self.access(&*store, trace.iter().take(warm))?;
        let before = store.stats();
        self.access(&*store, trace.iter().skip(warm))?;
        let (from, to) = (figures(&before), figures(&store.stats()));
        let [gets, hits, promoted] = std::array::from_fn(|i| (to[i] - from[i]) as f64);
        let held = before.tiers.first().map_or(0, |dram| dram.records);
        Ok(Counted {
            hits: 100.0 * hits / gets.max(1.0),
            brought_in: promoted / gets.max(1.0),
            held: 100.0 * held as f64 / f64::from(self.records),
        })
    }
}

/// Records on the SSD, where reads are timed.
pub(super) struct OnDisk {
    dir: TempDir,
    content: Content,
    records: u32,
}

impl OnDisk {
    /// What a record takes in DRAM, about.
    pub const IN_DRAM: u64 = 2100;

    /// Loads so many records.
    ///
    /// # Errors
    /// If there is no room for them.
    pub fn new(records: u32, seed: u64) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("terrace-reproduce-").tempdir()?;
        let content = Content::new(KEY_BYTES, TIMED_VALUE, false, seed);
        let loaded = Self { dir, content, records };
        let store = loaded.open(Eviction::default(), u64::from(records) * Self::IN_DRAM / 4)?;
        Client::new(store.session()?).all(&loaded.content, loads(records), BATCH, || {})?;
        store.close()?;
        loaded.open(Eviction::default(), u64::from(records) * Self::IN_DRAM / 4)?.kill();
        Ok(loaded)
    }
    fn open(&self, eviction: Eviction, dram_bytes: u64) -> anyhow::Result<OpenStore> {
        let bytes = u64::from(self.records) * (TIMED_VALUE + OVERHEAD) as u64 * 3 / 2 + (96 << 20);
        Ok(terrace::open(Options {
            engine: "tac".into(),
            policy: Some(eviction),
            dir: Some(self.dir.path().join("store")),
            dram_records: Some(dram_bytes),
            ssd: Some(Tier { bytes: bytes / 4096 * 4096, place: None }),
            ..Options::default()
        })?)
    }
    /// Reads what the trace says; accesses a second, after so many.
    ///
    /// # Errors
    /// If the store can't be opened, or answers what it should not.
    pub fn time(
        &self,
        eviction: Eviction,
        dram_bytes: u64,
        trace: &Trace,
        warm: usize,
    ) -> anyhow::Result<f64> {
        let store = self.open(eviction, dram_bytes)?;
        let mut client = Client::new(store.session()?);
        client.all(&self.content, trace.iter().take(warm), BATCH, || {})?;
        let start = Instant::now();
        client.all(&self.content, trace.iter().skip(warm), BATCH, || {})?;
        let rate = trace.len().saturating_sub(warm) as f64 / start.elapsed().as_secs_f64();
        drop(client);
        store.kill();
        Ok(rate)
    }
}
