//! What a clean stop saves brings back what a scan would have found, is used once, and is believed only if it is whole.

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
use terrace_media::{AnyRegion, ByteRegion, HeapRegion};
use terrace_space_slab::{Choices, Opening, Sizes, open_byte};
use terrace_testkit::reference_index::ReferenceIndex;

const BLOCK: usize = 4096;
const SIZES: Sizes = Sizes {
    block_bytes: BLOCK,
    log_block_bytes: 4096,
    manifests_apart: 0,
    log_bytes: 32 * 4096,
    dram_bytes: 10 * BLOCK as u64,
    dram_with_index: false,
    store_id: 9,
};
const REGION_BYTES: u64 = 80 * BLOCK as u64;

fn try_open(
    region: &Arc<HeapRegion>,
    fresh: bool,
    index: MakeIndex<'_>,
) -> Result<Box<dyn Store>, StoreError> {
    let opening = Opening {
        sizes: SIZES,
        fresh,
        machine: MachineOptions {
            engine: "tac",
            durability: Durability::Sync,
            immediate: true,
            evict: false,
            sessions: 3,
            hasher: KeyHasher::new(7),
            clock: Arc::new(ManualClock::new(1_800_000_000_000_000)),
            threads: 2,
            recovery_keys: usize::MAX,
        },
        index,
        description: String::new(),
        progress: &|_, _| {},
    };
    open_byte(&Arc::new(AnyRegion::new(region.clone())), 0, Choices::default(), opening)
}

fn open_with(region: &Arc<HeapRegion>, fresh: bool, index: MakeIndex<'_>) -> Box<dyn Store> {
    try_open(region, fresh, index).unwrap()
}

fn open(region: &Arc<HeapRegion>, fresh: bool) -> Box<dyn Store> {
    open_with(region, fresh, MakeIndex::Clht(&|| Clht::with_min_buckets(4)))
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
        let key = format!("key{}", bits % 150);
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
    for key in (0..150).map(|n| format!("key{n}")) {
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
fn shape(store: &dyn Store) -> (u64, u64, Vec<u64>, u64) {
    let stats = store.stats();
    let tier = stats.tiers.last().unwrap();
    let recovery = stats.recovery.unwrap();
    (stats.keys, stats.tombstones, vec![tier.live_bytes, recovery.records], detail(store, "pages_free"))
}

/// A store that was closed after a history, and where the head of its snapshot begins.
fn closed(ops: &Ops) -> Arc<HeapRegion> {
    let region = Arc::new(HeapRegion::new(REGION_BYTES).unwrap());
    let store = open(&region, true);
    run(&*store, ops);
    store.close().unwrap();
    assert_eq!((detail(&*store, "snapshots_saved"), detail(&*store, "snapshots_not_saved")), (1, 0));
    region
}

/// Where blocks may begin.
fn slots(region: &HeapRegion) -> impl Iterator<Item = u64> + use<> {
    let slots_at = SIZES.log_bytes + 512;
    let slots = (region.len() - slots_at) / BLOCK as u64;
    (0..slots).map(move |slot| slots_at + slot * BLOCK as u64)
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
    let mut bytes = vec![0; BLOCK];
    region.read(at, &mut bytes);
    bytes
}

fn put(region: &HeapRegion, at: u64, bytes: &[u8]) {
    region.write_nt(at, bytes);
    region.fence();
}

type Outcome = Result<(Vec<Result<Option<Vec<u8>>, OpError>>, u64), String>;

/// What an opening tells, and what every key answers then.
fn outcome(region: &Arc<HeapRegion>) -> (Outcome, SnapshotUse) {
    match try_open(region, false, MakeIndex::Clht(&|| Clht::with_min_buckets(4))) {
        Err(error) => (Err(error.to_string()), SnapshotUse::None),
        Ok(store) => {
            let answers = (0..150).map(|n| try_get(&*store, &format!("key{n}"))).collect();
            (Ok((answers, store.len(0))), made(&*store))
        }
    }
}

/// The outcome of an opening that may use the snapshot, which is that of one that can't.
fn as_a_scan_says(region: &HeapRegion, what: &str) -> (Outcome, SnapshotUse) {
    let scanned = copy(region);
    snapshot_blocks(&scanned).into_iter().for_each(|at| spoil(&scanned, at + 8));
    let (by_scan, _) = outcome(&scanned);
    let (by_snapshot, used) = outcome(&copy(region));
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

#[test]
fn a_start_from_it_finds_what_a_scan_finds() {
    let mut warmed = 0;
    for seed in 1..=30 {
        let ops = history(seed, 60 + 40 * seed as usize);
        let region = closed(&ops);
        let scanned = copy(&region);
        for at in snapshot_blocks(&scanned) {
            spoil(&scanned, at + 8);
        }
        let (from_it, from_scan) = (open(&region, false), open(&scanned, false));
        assert_eq!((made(&*from_it), made(&*from_scan)), (SnapshotUse::Used, SnapshotUse::Refused));
        assert_eq!(shape(&*from_it), shape(&*from_scan), "seed {seed}");
        for _ in 0..50 {
            let _ = from_it.step();
        }
        warmed += detail(&*from_it, "records_warmed");
        let model_now = model(&[&ops]);
        holds(&*from_it, &model_now);
        holds(&*from_scan, &model_now);
        let more = history(seed + 1000, 300);
        run(&*from_it, &more);
        let model_now = model(&[&ops, &more]);
        holds(&*from_it, &model_now);
        // It was used: whatever happens now, it is not used again.
        drop(from_it);
        let crashed = open(&region, false);
        assert_eq!(made(&*crashed), SnapshotUse::None);
        holds(&*crashed, &model_now);
    }
    assert!(warmed > 500, "{warmed} came up again");
}

#[test]
fn a_flipped_bit_anywhere_in_it_brings_the_scan() {
    let ops = history(5, 400);
    let region = closed(&ops);
    let expected = model(&[&ops]);
    let blocks = snapshot_blocks(&region);
    assert!(blocks.len() >= 2, "a head and parts: {blocks:?}");
    let (mut refused, mut used) = (0, 0);
    for (number, start) in blocks.iter().enumerate() {
        for word in (number as u64 % 3..BLOCK as u64 / 8).step_by(3) {
            let copy = copy(&region);
            spoil(&copy, start + word * 8);
            let store = open(&copy, false);
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

#[test]
fn another_index_scans_and_saves_none() {
    let ops = history(8, 200);
    let region = closed(&ops);
    let store = open_with(
        &region,
        false,
        MakeIndex::Other(&|| Erased::new(WithStrays::new(ReferenceIndex::default()))),
    );
    assert_eq!(made(&*store), SnapshotUse::Refused);
    holds(&*store, &model(&[&ops]));
    store.close().unwrap();
    drop(store);
    let store = open(&region, false);
    assert_eq!(made(&*store), SnapshotUse::None);
    holds(&*store, &model(&[&ops]));
}

#[test]
fn a_store_that_was_closed_is_closed_again_and_takes_no_session() {
    let ops = history(12, 300);
    let region = Arc::new(HeapRegion::new(REGION_BYTES).unwrap());
    let store = open(&region, true);
    run(&*store, &ops);
    store.close().unwrap();
    assert!(store.session().is_err());
    store.close().unwrap();
    drop(store);
    let store = open(&region, false);
    assert_eq!(made(&*store), SnapshotUse::Used);
    holds(&*store, &model(&[&ops]));
}

#[test]
fn nothing_is_written_once_it_is_saved() {
    let ops = history(11, 300);
    let region = Arc::new(HeapRegion::new(REGION_BYTES).unwrap());
    let store = open(&region, true);
    run(&*store, &ops);
    store.close().unwrap();
    let before = copy(&region);
    for _ in 0..20 {
        let _ = store.step();
    }
    let (mut now, mut then) = (vec![0; REGION_BYTES as usize], vec![0; REGION_BYTES as usize]);
    region.read(SIZES.log_bytes + 512, &mut now[..60 * BLOCK / 2]);
    before.read(SIZES.log_bytes + 512, &mut then[..60 * BLOCK / 2]);
    assert!(now == then);
}

#[test]
fn damage_to_pages_is_what_it_is_to_a_scan() {
    let region = closed(&history(6, 300));
    let (mut refused, mut scanned, mut tried) = (0, 0, 0);
    let pages = blocks_of(&region, 1);
    for (start, word) in pages.iter().flat_map(|&start| (0..BLOCK as u64 / 8).map(move |word| (start, word)))
    {
        // Header, footer and trailer; of the records, which nobody looks at before they are read, a few.
        let (header, end) = (word < 8, word >= BLOCK as u64 / 8 - 8);
        if !header && !end && word % 16 != start / BLOCK as u64 % 16 {
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
            let (outcome, used) = as_a_scan_says(&copy, &format!("word {word} of the block at {start}"));
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

#[test]
fn pages_that_are_lost_stale_or_elsewhere_are_what_they_are_to_a_scan() {
    let first = history(7, 250);
    let region = closed(&first);
    let earlier = copy(&region);
    // As often as it takes for most slots to be used again.
    for seed in 1007..1013 {
        let store = open(&region, false);
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
        let of_another = block_at(&region, pages[(at as usize / BLOCK * 7) % pages.len()]);
        for (what, bytes) in [("lost", vec![0; BLOCK]), ("stale", before), ("elsewhere", of_another)] {
            if bytes == there {
                continue;
            }
            let copy = copy(&region);
            put(&copy, at, &bytes);
            let (outcome, used) = as_a_scan_says(&copy, &format!("the block at {at}, {what}"));
            assert_ne!(used, SnapshotUse::Used, "the block at {at}, {what}");
            refused += u64::from(outcome.is_err());
            // An earlier use of the slot that is whole: only its seq tells.
            older += u64::from(what == "stale" && pages_before.contains(&at) && is_page);
        }
    }
    assert!(refused > 10 && older > 0, "{refused} refused, {older} older, {} pages", pages.len());
}
