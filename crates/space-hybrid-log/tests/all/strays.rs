//! A damaged record under an index that keeps keys: nobody can say what its key was, yet whoever asks for it is told.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{
    Batch, Condition, Direction, Durability, Expiry, MachineOptions, OpError, OpKind, Progress, RangeStart,
    Reply, Store,
};
use terrace_index::{Erased, MakeIndex, WithStrays};
use terrace_media::{AnyRegion, ByteRegion, HeapRegion};
use terrace_space_hybrid_log::{Opening, Sizes, open_byte};
use terrace_testkit::reference_index::ReferenceIndex;

const SIZES: Sizes = Sizes {
    block_bytes: 256 << 10,
    log_block_bytes: 256 << 10,
    manifests_apart: 0,
    log_bytes: 8 << 20,
    dram_bytes: 4 << 20,
    dram_with_index: false,
    store_id: 1,
};
const KEYS: usize = 200;

fn open(region: &Arc<HeapRegion>, fresh: bool) -> Box<dyn Store> {
    let opening = Opening {
        sizes: SIZES,
        fresh,
        machine: MachineOptions {
            engine: "hetermm",
            durability: Durability::Sync,
            immediate: true,
            evict: false,
            sessions: 4,
            hasher: KeyHasher::new(7),
            clock: Arc::new(ManualClock::new(1_800_000_000_000_000)),
            threads: 1,
            recovery_keys: usize::MAX,
        },
        index: MakeIndex::Other(&|| Erased::new(WithStrays::new(ReferenceIndex::default()))),
        description: String::new(),
        progress: &|_, _| {},
    };
    open_byte(&Arc::new(AnyRegion::new(region.clone())), 0, opening).unwrap()
}

/// What one operation is answered, and the keys of a range.
fn run(store: &dyn Store, fill: impl FnOnce(&mut Batch)) -> (Reply, Vec<Vec<u8>>) {
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    fill(&mut batch);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    let keys = batch.ranged(0, &proof).map(|row| batch.output(row.key).to_vec()).collect();
    (batch.reply(0, &proof), keys)
}

fn key(i: usize) -> Vec<u8> {
    format!("key {i:04}").into_bytes()
}

fn set(store: &dyn Store, key: &[u8], value: &[u8]) {
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    let reply = run(store, |batch| {
        let value = batch.bytes(value);
        batch.push(0, key, OpKind::Set { value, condition, expiry, flags: None, old_value: false });
    });
    assert!(matches!(reply.0, Reply::Stored { .. }), "{reply:?}");
}

fn get(store: &dyn Store, key: &[u8]) -> Reply {
    run(store, |batch| _ = batch.push(0, key, OpKind::Get { value: true })).0
}

fn all_keys(store: &dyn Store) -> Vec<Vec<u8>> {
    let (from, direction) = (RangeStart::Edge, Direction::Forward);
    run(store, |batch| {
        batch.push(0, b"", OpKind::Range { from, direction, count: 1000, values: true });
    })
    .1
}

/// Changes one byte of a text wherever it stands.
fn damage(region: &HeapRegion, text: &[u8]) {
    let mut bytes = vec![0; region.len() as usize];
    region.read(0, &mut bytes);
    let places: Vec<usize> = bytes
        .windows(text.len())
        .enumerate()
        .filter(|(_, window)| *window == text)
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty());
    for at in places {
        region.write_nt(at as u64, &[text[0] ^ 1]);
    }
    region.fence();
}

#[test]
fn a_key_whose_record_was_damaged_answers_an_error_until_it_is_written() {
    let region = Arc::new(HeapRegion::new(32 << 20).unwrap());
    let store = open(&region, true);
    for i in 0..KEYS {
        set(&*store, &key(i), format!("value of {i:04}").as_bytes());
    }
    store.close().unwrap();
    drop(store);
    damage(&region, b"value of 0007");
    // The key itself too: what is left of the record says nothing of it.
    damage(&region, b"key 0123");

    let damaged = [key(7), key(123)];
    let store = open(&region, false);
    assert_eq!(store.len(0), KEYS as u64);
    for i in 0..KEYS {
        let reply = get(&*store, &key(i));
        if damaged.contains(&key(i)) {
            assert_eq!(reply, Reply::Error(OpError::Poisoned), "key {i}");
        } else {
            assert!(matches!(reply, Reply::Hit { .. }), "key {i}: {reply:?}");
        }
    }
    assert_eq!(get(&*store, b"never there"), Reply::Miss);
    let sound: Vec<Vec<u8>> = (0..KEYS).map(key).filter(|key| !damaged.contains(key)).collect();
    assert_eq!(all_keys(&*store), sound, "what has no key any more is in no range");

    set(&*store, &key(7), b"new");
    let delete = OpKind::Delete { condition: Condition::Always, old_value: false };
    let deleted = run(&*store, |batch| _ = batch.push(0, &key(123), delete)).0;
    assert!(matches!(deleted, Reply::Deleted { .. }), "{deleted:?}");
    assert!(matches!(get(&*store, &key(7)), Reply::Hit { .. }));
    assert_eq!(get(&*store, &key(123)), Reply::Miss);
    assert_eq!(store.len(0), KEYS as u64 - 1);
    let left: Vec<Vec<u8>> = (0..KEYS).map(key).filter(|k| *k != key(123)).collect();
    assert_eq!(all_keys(&*store), left);
    store.close().unwrap();
    drop(store);
    assert_eq!(all_keys(&*open(&region, false)), left);
}

/// Blocks are reclaimed with strays in them, and with records that were damaged while the index knew their keys.
#[test]
fn reclamation_takes_damaged_records_along() {
    let region = Arc::new(HeapRegion::new(24 << 20).unwrap());
    let store = open(&region, true);
    for i in 0..KEYS {
        set(&*store, &key(i), format!("value of {i:04}").as_bytes());
    }
    store.close().unwrap();
    drop(store);
    damage(&region, b"value of 0007");
    let store = open(&region, false);
    damage(&region, b"value of 0008");
    // Enough to go through the whole medium several times.
    let filler = vec![b'x'; 4000];
    for round in 0..20_000 {
        set(&*store, format!("filler {:03}", round % 500).as_bytes(), &filler);
    }
    while store.step() == Progress::Worked {}
    assert!(store.stats().engine_details.iter().any(|(name, n)| name.contains("moved") && *n > 0));
    for i in 0..KEYS {
        let reply = get(&*store, &key(i));
        if i == 7 || i == 8 {
            assert_eq!(reply, Reply::Error(OpError::Poisoned), "key {i}");
        } else {
            assert!(matches!(reply, Reply::Hit { .. }), "key {i}: {reply:?}");
        }
    }
    assert_eq!(store.len(0), KEYS as u64 + 500);
}
