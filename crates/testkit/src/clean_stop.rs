//! What a clean stop saves brings back what a scan would have found, is used once, and is believed only if it is whole: of any
//! engine over blocks in byte-addressable memory. A failure panics.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{
    Batch, Condition, Durability, Expiry, MachineOptions, OpError, OpKind, Reply, SnapshotUse, Store,
    StoreError,
};
use terrace_index::{Clht, Erased, MakeIndex, WithStrays};
use terrace_media::{ByteRegion, HeapRegion};

use crate::reference_index::ReferenceIndex;

/// A block of the tier that these tests are meant for.
pub const BLOCK_BYTES: usize = 4096;
/// A block of the log.
pub const LOG_BLOCK_BYTES: usize = 4096;
/// The log, in front of the tier.
pub const LOG_BYTES: u64 = 32 * 4096;
/// DRAM for records.
pub const DRAM_BYTES: u64 = 10 * BLOCK_BYTES as u64;
const REGION_BYTES: u64 = 80 * BLOCK_BYTES as u64;
const KEYS: u64 = 150;

/// Opens a store on a region, a new one or the one that is there, with manifests that are not apart.
pub type Open<'a> =
    &'a dyn Fn(&Arc<HeapRegion>, bool, MachineOptions, MakeIndex<'_>) -> Result<Box<dyn Store>, StoreError>;

/// Stores of an engine.
pub struct Stops<'a> {
    /// Opens one.
    pub open: Open<'a>,
    /// The engine's name.
    pub engine: &'static str,
    /// What it calls the number of its free blocks, among its details.
    pub free: &'static str,
    /// Whether what was in DRAM comes up again.
    pub warms: bool,
}

impl Stops<'_> {
    fn try_open(
        &self,
        region: &Arc<HeapRegion>,
        fresh: bool,
        index: MakeIndex<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        let machine = MachineOptions {
            engine: self.engine,
            durability: Durability::Sync,
            immediate: true,
            evict: false,
            sessions: 3,
            hasher: KeyHasher::new(7),
            clock: Arc::new(ManualClock::new(1_800_000_000_000_000)),
            threads: 2,
            recovery_keys: usize::MAX,
        };
        (self.open)(region, fresh, machine, index)
    }
    fn open_with(&self, region: &Arc<HeapRegion>, fresh: bool, index: MakeIndex<'_>) -> Box<dyn Store> {
        self.try_open(region, fresh, index).unwrap()
    }
    fn open(&self, region: &Arc<HeapRegion>, fresh: bool) -> Box<dyn Store> {
        self.open_with(region, fresh, MakeIndex::Clht(&|| Clht::with_min_buckets(4)))
    }
}

fn copy(region: &HeapRegion) -> Arc<HeapRegion> {
    let copy = HeapRegion::new(region.len()).unwrap();
    let mut bytes = vec![0; region.len() as usize];
    region.read(0, &mut bytes);
    copy.write_nt(0, &bytes);
    copy.fence();
    Arc::new(copy)
}

fn run(store: &dyn Store, ops: &[(String, Option<Vec<u8>>)]) {
    let mut session = store.session().unwrap();
    for (i, (key, value)) in ops.iter().enumerate() {
        let mut batch = Batch::new();
        let kind = match value {
            Some(value) => OpKind::Set {
                value: batch.bytes(value),
                condition: Condition::Always,
                expiry: Expiry::Clear,
                flags: None,
                old_value: false,
            },
            None => OpKind::Delete { condition: Condition::Always, old_value: false },
        };
        batch.push(0, key.as_bytes(), kind);
        session.execute(&mut batch);
        let settled = session.wait(&mut batch);
        let reply = batch.reply(0, &settled);
        assert!(
            matches!(reply, Reply::Stored { .. } | Reply::Deleted { .. } | Reply::Miss),
            "{i}: {reply:?}"
        );
        if i % 7 == 0 {
            store.step();
        }
    }
}

fn get(store: &dyn Store, key: &str) -> Option<Vec<u8>> {
    try_get(store, key).unwrap()
}

fn try_get(store: &dyn Store, key: &str) -> Result<Option<Vec<u8>>, OpError> {
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    batch.push(0, key.as_bytes(), OpKind::Get { value: true });
    session.execute(&mut batch);
    let settled = session.wait(&mut batch);
    match batch.reply(0, &settled) {
        Reply::Hit { value: Some(span), .. } => Ok(Some(batch.output(span).to_vec())),
        Reply::Miss => Ok(None),
        Reply::Error(error) => Err(error),
        other => panic!("{key}: {other:?}"),
    }
}

type Ops = Vec<(String, Option<Vec<u8>>)>;

/// Sets of three in four keys, deletes of some, a few values that are extents.
fn history(seed: u64, count: usize) -> Ops {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut op = |i: usize| {
        let bits = next();
        let key = format!("key{}", bits % KEYS);
        let bytes = match bits >> 20 & 31 {
            0 => 3000,
            1..4 => 700,
            _ => 20 + (bits >> 40 & 127) as usize,
        };
        let value = format!("{i}.").bytes().cycle().take(bytes).collect();
        (key, (bits >> 12 & 3 != 0).then_some(value))
    };
    (0..count).map(&mut op).collect()
}

fn model(histories: &[&Ops]) -> BTreeMap<String, Vec<u8>> {
    let mut model = BTreeMap::new();
    for (key, value) in histories.iter().copied().flatten() {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
    model
}

fn holds(store: &dyn Store, model: &BTreeMap<String, Vec<u8>>) {
    for key in (0..KEYS).map(|n| format!("key{n}")) {
        assert_eq!(get(store, &key).as_ref(), model.get(&key), "{key}");
    }
    assert_eq!(store.len(0), model.len() as u64);
}

fn made(store: &dyn Store) -> SnapshotUse {
    store.stats().recovery.unwrap().snapshot
}

fn detail(store: &dyn Store, name: &str) -> u64 {
    store.stats().engine_details.iter().find(|(detail, _)| *detail == name).unwrap().1
}

/// What is where, as far as it does not depend on how it was found out.
fn shape(stops: &Stops<'_>, store: &dyn Store) -> (u64, u64, Vec<u64>, u64) {
    let stats = store.stats();
    let tier = stats.tiers.last().unwrap();
    let recovery = stats.recovery.unwrap();
    (
        stats.keys,
        stats.tombstones,
        vec![tier.live_bytes, recovery.records, recovery.poisoned],
        detail(store, stops.free),
    )
}

/// A store that was closed after a history, and where the head of its snapshot begins.
fn closed(stops: &Stops<'_>, ops: &Ops) -> Arc<HeapRegion> {
    let region = Arc::new(HeapRegion::new(REGION_BYTES).unwrap());
    let store = stops.open(&region, true);
    run(&*store, ops);
    store.close().unwrap();
    assert_eq!((detail(&*store, "snapshots_saved"), detail(&*store, "snapshots_not_saved")), (1, 0));
    region
}

/// Where blocks may begin.
fn slots(region: &HeapRegion) -> impl Iterator<Item = u64> + use<> {
    let slots_at = LOG_BYTES + 512;
    let slots = (region.len() - slots_at) / BLOCK_BYTES as u64;
    (0..slots).map(move |slot| slots_at + slot * BLOCK_BYTES as u64)
}

/// The blocks of this kind, by where they begin.
fn blocks_of(region: &HeapRegion, asked: u32) -> Vec<u64> {
    let kind = |at: u64| {
        let mut word = [0; 4];
        region.read(at + 28, &mut word);
        let mut magic = [0; 4];
        region.read(at, &mut magic);
        (magic == *b"TRCB").then(|| u32::from_le_bytes(word))
    };
    slots(region).filter(|&at| kind(at) == Some(asked)).collect()
}

fn snapshot_blocks(region: &HeapRegion) -> Vec<u64> {
    blocks_of(region, 3)
}

fn block_at(region: &HeapRegion, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    region.read(at, &mut bytes);
    bytes
}

fn put(region: &HeapRegion, at: u64, bytes: &[u8]) {
    region.write_nt(at, bytes);
    region.fence();
}

type Outcome = Result<(Vec<Result<Option<Vec<u8>>, OpError>>, u64), String>;

/// What an opening tells, and what every key answers then.
fn outcome(stops: &Stops<'_>, region: &Arc<HeapRegion>) -> (Outcome, SnapshotUse) {
    match stops.try_open(region, false, MakeIndex::Clht(&|| Clht::with_min_buckets(4))) {
        Err(error) => (Err(error.to_string()), SnapshotUse::None),
        Ok(store) => {
            let answers = (0..KEYS).map(|n| try_get(&*store, &format!("key{n}"))).collect();
            (Ok((answers, store.len(0))), made(&*store))
        }
    }
}

/// The outcome of an opening that may use the snapshot, which is that of one that can't.
fn as_a_scan_says(stops: &Stops<'_>, region: &HeapRegion, what: &str) -> (Outcome, SnapshotUse) {
    let scanned = copy(region);
    snapshot_blocks(&scanned).into_iter().for_each(|at| spoil(&scanned, at + 8));
    let (by_scan, _) = outcome(stops, &scanned);
    let (by_snapshot, used) = outcome(stops, &copy(region));
    assert_eq!(by_snapshot, by_scan, "{what}");
    (by_snapshot, used)
}

fn spoil(region: &HeapRegion, at: u64) {
    let mut word = [0; 8];
    region.read(at, &mut word);
    region.store_u64(at, u64::from_le_bytes(word) ^ 4);
    region.flush(at, 8);
    region.fence();
}

/// See its name.
pub fn a_start_from_it_finds_what_a_scan_finds(stops: &Stops<'_>) {
    let mut warmed = 0;
    for seed in 1..=30 {
        let ops = history(seed, 60 + 40 * seed as usize);
        let region = closed(stops, &ops);
        let scanned = copy(&region);
        for at in snapshot_blocks(&scanned) {
            spoil(&scanned, at + 8);
        }
        let (from_it, from_scan) = (stops.open(&region, false), stops.open(&scanned, false));
        assert_eq!((made(&*from_it), made(&*from_scan)), (SnapshotUse::Used, SnapshotUse::Refused));
        assert_eq!(shape(stops, &*from_it), shape(stops, &*from_scan), "seed {seed}");
        for _ in 0..50 {
            let _ = from_it.step();
        }
        warmed += if stops.warms { detail(&*from_it, "records_warmed") } else { 0 };
        let model_now = model(&[&ops]);
        holds(&*from_it, &model_now);
        holds(&*from_scan, &model_now);
        let more = history(seed + 1000, 300);
        run(&*from_it, &more);
        let model_now = model(&[&ops, &more]);
        holds(&*from_it, &model_now);
        // It was used: whatever happens now, it is not used again.
        drop(from_it);
        let crashed = stops.open(&region, false);
        assert_eq!(made(&*crashed), SnapshotUse::None);
        holds(&*crashed, &model_now);
    }
    assert!(warmed > 500 || !stops.warms, "{warmed} came up again");
}

/// See its name.
pub fn a_flipped_bit_anywhere_in_it_brings_the_scan(stops: &Stops<'_>) {
    let ops = history(5, 400);
    let region = closed(stops, &ops);
    let expected = model(&[&ops]);
    let blocks = snapshot_blocks(&region);
    assert!(blocks.len() >= 2, "a head and parts: {blocks:?}");
    let (mut refused, mut used) = (0, 0);
    for (number, start) in blocks.iter().enumerate() {
        for word in (number as u64 % 3..BLOCK_BYTES as u64 / 8).step_by(3) {
            let copy = copy(&region);
            spoil(&copy, start + word * 8);
            let store = stops.open(&copy, false);
            match made(&*store) {
                SnapshotUse::Refused => refused += 1,
                // Behind the bytes of a part stands nothing.
                SnapshotUse::Used => used += 1,
                SnapshotUse::None => panic!("it was named"),
            }
            holds(&*store, &expected);
        }
    }
    assert!(refused > 200, "{refused} refused, {used} used");
}

/// See its name.
pub fn records_that_say_that_they_were_damaged_are_counted(stops: &Stops<'_>) {
    let (mut poisoned, mut damaged) = (0, 0);
    for seed in 1..=6 {
        let region = closed(stops, &history(seed, 400));
        // Of each page a word of a record, which an opening does not look at.
        for at in blocks_of(&region, 1) {
            spoil(&region, at + 64 * (2 + seed % 8));
        }
        let store = stops.open(&region, false);
        // Every second key is written until blocks are reclaimed, and the others move.
        let others: Ops = history(seed + 100, 6000)
            .into_iter()
            .filter(|(key, _)| key.ends_with(['0', '2', '4', '6', '8']))
            .collect();
        // There is less room than that takes.
        let full: Ops = (0..70).map(|n| (format!("full{n}"), Some(vec![b'f'; 700]))).collect();
        let mixed = others.chunks(2).zip(full.chunks(1).map(Some).chain(std::iter::repeat(None)));
        let mixed: Ops = mixed.flat_map(|(two, one)| [two, one.unwrap_or_default()].concat()).collect();
        run(&*store, &mixed);
        // A snapshot needs some.
        run(&*store, &full.into_iter().map(|(key, _)| (key, None)).collect::<Ops>());
        for _ in 0..100 {
            let _ = store.step();
        }
        store.close().unwrap();
        damaged += u64::from(made(&*store) == SnapshotUse::Used);
        let scanned = copy(&region);
        snapshot_blocks(&scanned).into_iter().for_each(|at| spoil(&scanned, at + 8));
        let (from_it, from_scan) = (stops.open(&region, false), stops.open(&scanned, false));
        assert_eq!((made(&*from_it), made(&*from_scan)), (SnapshotUse::Used, SnapshotUse::Refused));
        // Not what is live, for a scan does not find what a damaged record describes; and it finds tombstones that were dropped.
        let told = |store: &dyn Store| {
            let recovery = store.stats().recovery.unwrap();
            (store.len(0), recovery.records, recovery.poisoned)
        };
        assert_eq!(told(&*from_it), told(&*from_scan), "seed {seed}");
        poisoned += from_it.stats().recovery.unwrap().poisoned;
    }
    assert!(poisoned > 0 && damaged > 0, "{poisoned} records of {damaged} stores");
}

/// See its name.
pub fn another_index_scans_and_saves_none(stops: &Stops<'_>) {
    let ops = history(8, 200);
    let region = closed(stops, &ops);
    let store = stops.open_with(
        &region,
        false,
        MakeIndex::Other(&|| Erased::new(WithStrays::new(ReferenceIndex::default()))),
    );
    assert_eq!(made(&*store), SnapshotUse::Refused);
    holds(&*store, &model(&[&ops]));
    store.close().unwrap();
    drop(store);
    let store = stops.open(&region, false);
    assert_eq!(made(&*store), SnapshotUse::None);
    holds(&*store, &model(&[&ops]));
}

/// See its name.
pub fn a_store_that_was_closed_is_closed_again_and_takes_no_session(stops: &Stops<'_>) {
    let ops = history(12, 300);
    let region = Arc::new(HeapRegion::new(REGION_BYTES).unwrap());
    let store = stops.open(&region, true);
    run(&*store, &ops);
    store.close().unwrap();
    assert!(store.session().is_err());
    store.close().unwrap();
    drop(store);
    let store = stops.open(&region, false);
    assert_eq!(made(&*store), SnapshotUse::Used);
    holds(&*store, &model(&[&ops]));
}

/// See its name.
pub fn nothing_is_written_once_it_is_saved(stops: &Stops<'_>) {
    let ops = history(11, 300);
    let region = Arc::new(HeapRegion::new(REGION_BYTES).unwrap());
    let store = stops.open(&region, true);
    run(&*store, &ops);
    store.close().unwrap();
    let before = copy(&region);
    for _ in 0..20 {
        let _ = store.step();
    }
    let (mut now, mut then) = (vec![0; REGION_BYTES as usize], vec![0; REGION_BYTES as usize]);
    region.read(LOG_BYTES + 512, &mut now[..60 * BLOCK_BYTES / 2]);
    before.read(LOG_BYTES + 512, &mut then[..60 * BLOCK_BYTES / 2]);
    assert!(now == then);
}

/// See its name.
pub fn damage_to_pages_is_what_it_is_to_a_scan(stops: &Stops<'_>) {
    let region = closed(stops, &history(6, 300));
    let (mut refused, mut scanned, mut tried) = (0, 0, 0);
    let pages = blocks_of(&region, 1);
    for (start, word) in
        pages.iter().flat_map(|&start| (0..BLOCK_BYTES as u64 / 8).map(move |word| (start, word)))
    {
        // Header, footer and trailer; of the records, which nobody looks at before they are read, a few.
        let (header, end) = (word < 8, word >= BLOCK_BYTES as u64 / 8 - 8);
        if !header && !end && word % 16 != start / BLOCK_BYTES as u64 % 16 {
            continue;
        }
        for zero in [false, true] {
            let copy = copy(&region);
            if zero {
                put(&copy, start + word * 8, &[0; 8]);
            } else {
                spoil(&copy, start + word * 8);
            }
            let changed = block_at(&copy, start) != block_at(&region, start);
            let (outcome, used) =
                as_a_scan_says(stops, &copy, &format!("word {word} of the block at {start}"));
            tried += 1;
            refused += u64::from(outcome.is_err());
            scanned += u64::from(used == SnapshotUse::Refused);
            assert!(used == SnapshotUse::Used || changed, "it was whole, and was not used");
            assert!(used != SnapshotUse::Used || !changed || !(header || end), "nobody looked");
        }
    }
    assert!(
        pages.len() > 4 && refused > 100 && scanned > 0 && refused < tried,
        "{refused}, {scanned} of {tried}"
    );
}

/// See its name.
pub fn pages_that_are_lost_stale_or_elsewhere_are_what_they_are_to_a_scan(stops: &Stops<'_>) {
    let first = history(7, 250);
    let region = closed(stops, &first);
    let earlier = copy(&region);
    // As often as it takes for most slots to be used again.
    for seed in 1007..1013 {
        let store = stops.open(&region, false);
        run(&*store, &history(seed, 250));
        store.close().unwrap();
    }
    let (mut refused, mut older) = (0, 0);
    let pages = [blocks_of(&region, 1), blocks_of(&region, 2)].concat();
    let pages_before = blocks_of(&earlier, 1);
    for &at in &pages {
        let is_page = blocks_of(&region, 1).contains(&at);
        let there = block_at(&region, at);
        let before = block_at(&earlier, at);
        let of_another = block_at(&region, pages[(at as usize / BLOCK_BYTES * 7) % pages.len()]);
        for (what, bytes) in [("lost", vec![0; BLOCK_BYTES]), ("stale", before), ("elsewhere", of_another)] {
            if bytes == there {
                continue;
            }
            let copy = copy(&region);
            put(&copy, at, &bytes);
            let (outcome, used) = as_a_scan_says(stops, &copy, &format!("the block at {at}, {what}"));
            assert_ne!(used, SnapshotUse::Used, "the block at {at}, {what}");
            refused += u64::from(outcome.is_err());
            // An earlier use of the slot that is whole: only its seq tells.
            older += u64::from(what == "stale" && pages_before.contains(&at) && is_page);
        }
    }
    assert!(refused > 10 && older > 0, "{refused} refused, {older} older, {} pages", pages.len());
}
