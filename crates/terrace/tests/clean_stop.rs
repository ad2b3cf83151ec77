//! A start after a clean stop of an engine that saves index and block table: no page is scanned, every answer and every count is
//! right, and what is written afterwards is as safe as ever. What is damaged brings the scan.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::engine::clock::ManualClock;
use terrace::engine::{Batch, Condition, Expiry, OpKind, RecoveryStats, Reply, SnapshotUse, StoreError};
use terrace::{OpenStore, Options, Place, Tier};

const START_US: u64 = 1_800_000_000_000_000;
const MINUTE_MS: u64 = 60_000;
/// What sizes this small give.
const BLOCK: u64 = 256 << 10;
/// Keys of each database that is filled, but for those that are deleted.
const KEYS: u32 = 6_000;
const LARGE: u32 = 3;
const FILLED: [u8; 3] = [0, 3, 15];
/// Filled as well, and flushed.
const FLUSHED: u8 = 7;

/// A store with what it lies in.
struct World {
    _dir: tempfile::TempDir,
    options: Options,
    clock: Arc<ManualClock>,
    /// Of the blocks.
    file: PathBuf,
}

fn on_a_file(engine: &str) -> World {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_US));
    let options = Options {
        engine: engine.into(),
        dir: Some(dir.path().into()),
        dram_records: Some(3 << 20),
        ssd: Some(Tier { bytes: 64 << 20, place: None }),
        clock: clock.clone(),
        ..Options::default()
    };
    World { file: dir.path().join("data"), _dir: dir, options, clock }
}

/// `None` where the machine has no memory to share.
fn in_memory(engine: &str) -> Option<World> {
    let dir = tempfile::tempdir_in("/dev/shm").ok()?;
    let clock = Arc::new(ManualClock::new(START_US));
    let options = Options {
        engine: engine.into(),
        dir: Some(dir.path().into()),
        dram_records: Some(3 << 20),
        pmem: Some(Tier { bytes: 64 << 20, place: Some(Place::Path(dir.path().into())) }),
        profile: Some("dram".into()),
        clock: clock.clone(),
        ..Options::default()
    };
    Some(World { file: dir.path().join("pmem"), _dir: dir, options, clock })
}

/// Engine and medium: each that there is.
fn worlds() -> impl Iterator<Item = (&'static str, World)> {
    let engines = ["hetermm", "tac"];
    engines.into_iter().flat_map(|engine| {
        [Some(on_a_file(engine)), in_memory(engine)].into_iter().flatten().map(move |world| (engine, world))
    })
}

fn key(i: u32) -> Vec<u8> {
    format!("key:{i:08}").into_bytes()
}

fn value(db: u8, i: u32, round: u32) -> Vec<u8> {
    (0..200 + i % 300).map(|at| (at * 7 + i + round + u32::from(db)) as u8).collect()
}

fn large(i: u32) -> Vec<u8> {
    (0..700_000 + i).map(|at| ((at * 13 + at / 256 * (i + 3)) ^ i) as u8).collect()
}

/// What becomes of a key.
enum Fate {
    Stays,
    Deleted,
    /// Long after all else.
    Expires,
    /// While the store is closed.
    Lapses,
}

fn fate(i: u32) -> Fate {
    match i % 16 {
        3 => Fate::Deleted,
        5 | 6 => Fate::Expires,
        9 => Fate::Lapses,
        _ => Fate::Stays,
    }
}

fn count(which: impl Fn(Fate) -> bool) -> u64 {
    (0..KEYS).filter(|&i| which(fate(i))).count() as u64
}

fn push(store: &OpenStore, db: u8, key: &[u8], kind: impl Fn(&mut Batch) -> OpKind) {
    let fill = |batch: &mut Batch| {
        let kind = kind(batch);
        batch.push(db, key, kind);
    };
    let read = |batch: &Batch, proof: &_| {
        if let Reply::Error(error) = batch.reply(0, proof) {
            panic!("{key:?}: {error}")
        }
    };
    store.run(fill, read).unwrap();
}

fn set(store: &OpenStore, db: u8, key: &[u8], value: &[u8], expiry: Expiry) {
    push(store, db, key, |batch| OpKind::Set {
        value: batch.bytes(value),
        condition: Condition::Always,
        expiry,
        flags: None,
        old_value: false,
    });
}

fn get(store: &OpenStore, db: u8, key: &[u8]) -> Option<Vec<u8>> {
    let read = |batch: &Batch, proof: &_| match batch.reply(0, proof) {
        Reply::Hit { value, .. } => Some(batch.output(value.unwrap()).to_vec()),
        Reply::Miss => None,
        other => panic!("{other:?}"),
    };
    store.run(|batch| _ = batch.push(db, key, OpKind::Get { value: true }), read).unwrap()
}

fn fill(store: &OpenStore) {
    let now_ms = START_US / 1000;
    for round in 0..2 {
        for db in FILLED.into_iter().chain([FLUSHED]) {
            for i in (0..KEYS).step_by(1 + round as usize * 4) {
                let expiry = match fate(i) {
                    Fate::Expires => Expiry::At(now_ms + 600 * MINUTE_MS),
                    Fate::Lapses => Expiry::At(now_ms + MINUTE_MS),
                    Fate::Stays | Fate::Deleted => Expiry::Clear,
                };
                set(store, db, &key(i), &value(db, i, round), expiry);
            }
        }
    }
    for db in FILLED {
        for i in (0..KEYS).filter(|&i| matches!(fate(i), Fate::Deleted)) {
            let kind = OpKind::Delete { condition: Condition::Always, old_value: false };
            push(store, db, &key(i), |_| kind);
        }
        (0..LARGE).for_each(|i| set(store, db, format!("large:{i}").as_bytes(), &large(i), Expiry::Clear));
    }
    push(store, FLUSHED, b"", |_| OpKind::Flush { db: Some(FLUSHED) });
    set(store, FLUSHED, b"since", b"then", Expiry::Clear);
}

/// A filled store that was closed.
fn closed(world: &World) {
    let store = terrace::open(world.options.clone()).unwrap();
    fill(&store);
    store.close().unwrap();
}

fn recovery(store: &OpenStore) -> RecoveryStats {
    store.stats().recovery.unwrap()
}

/// All that was filled, but for what is in `other`, and nothing else.
fn answers(store: &OpenStore, has_lapsed: bool, other: &dyn Fn(u32) -> Option<Vec<u8>>) {
    for db in FILLED {
        for i in 0..KEYS {
            let round = u32::from(i.is_multiple_of(5));
            let expected = match fate(i) {
                Fate::Deleted => None,
                Fate::Lapses if has_lapsed => None,
                _ => Some(value(db, i, round)),
            };
            let expected = other(i).filter(|_| db == 0).or(expected);
            assert!(get(store, db, &key(i)) == expected, "database {db}, key {i}");
        }
        for i in 0..LARGE {
            assert!(get(store, db, format!("large:{i}").as_bytes()) == Some(large(i)), "{db}, {i}");
        }
    }
    (0..KEYS).for_each(|i| assert_eq!(get(store, FLUSHED, &key(i)), None, "{i}"));
    assert_eq!(get(store, FLUSHED, b"since").as_deref(), Some(&b"then"[..]));
}

fn nothing_else(_: u32) -> Option<Vec<u8>> {
    None
}

/// Live keys and those that expire, by database, before any has lapsed.
fn counts(store: &OpenStore) {
    let (all, expiring) = (
        count(|fate| !matches!(fate, Fate::Deleted)) + u64::from(LARGE),
        count(|fate| matches!(fate, Fate::Expires | Fate::Lapses)),
    );
    for db in 0..16 {
        let expected = match db {
            _ if FILLED.contains(&db) => (all, expiring),
            FLUSHED => (1, 0),
            _ => (0, 0),
        };
        assert_eq!((store.len(db), store.expiring(db)), expected, "database {db}");
    }
}

#[test]
fn it_scans_nothing_and_all_is_as_it_was() {
    for (engine, world) in worlds() {
        closed(&world);
        let store = terrace::open(world.options.clone()).unwrap();
        let found = recovery(&store);
        assert_eq!((found.snapshot, found.scanned.pages), (SnapshotUse::Used, 0), "{engine}: {found:?}");
        assert!(found.clean && found.from_log == 0 && found.scanned.of > 100, "{engine}: {found:?}");
        counts(&store);
        assert!(store.stats().tombstones > 0);
        answers(&store, false, &nothing_else);
        // What lapses goes, as if it had never been closed.
        world.clock.advance_us(2 * MINUTE_MS * 1000);
        answers(&store, true, &nothing_else);
        // What is written now is there after a kill, and is closed and opened once more.
        for i in 0..KEYS / 2 {
            set(&store, 0, &key(i), format!("again {i}").as_bytes(), Expiry::Clear);
        }
        store.kill();
        let again = |i: u32| (i < KEYS / 2).then(|| format!("again {i}").into_bytes());
        let store = terrace::open(world.options.clone()).unwrap();
        let found = recovery(&store);
        assert_eq!(found.snapshot, SnapshotUse::None, "{engine}: {found:?}");
        assert!(found.scanned.pages > 0 && !found.clean, "{engine}: {found:?}");
        answers(&store, true, &again);
        store.close().unwrap();
        let store = terrace::open(world.options.clone()).unwrap();
        let found = recovery(&store);
        assert_eq!((found.snapshot, found.scanned.pages), (SnapshotUse::Used, 0), "{engine}: {found:?}");
        answers(&store, true, &again);
    }
}

#[test]
fn what_lapsed_while_it_was_closed_is_gone() {
    for (engine, world) in worlds() {
        closed(&world);
        world.clock.advance_us(2 * MINUTE_MS * 1000);
        let store = terrace::open(world.options.clone()).unwrap();
        assert_eq!(recovery(&store).snapshot, SnapshotUse::Used, "{engine}");
        answers(&store, true, &nothing_else);
    }
}

#[test]
fn a_store_that_dies_before_it_does_anything_has_all() {
    for (engine, world) in worlds() {
        closed(&world);
        for used in [SnapshotUse::Used, SnapshotUse::None, SnapshotUse::None] {
            let store = terrace::open(world.options.clone()).unwrap();
            assert_eq!(recovery(&store).snapshot, used, "{engine}");
            counts(&store);
            store.kill();
        }
        let store = terrace::open(world.options.clone()).unwrap();
        answers(&store, false, &nothing_else);
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// Where blocks of this kind begin.
fn blocks_of(bytes: &[u8], kind: u8) -> Vec<u64> {
    let is_one = |at: &usize| bytes[*at..].starts_with(b"TRCB") && bytes[at + 28..at + 32] == [kind, 0, 0, 0];
    (0..bytes.len() - BLOCK as usize).step_by(64).filter(is_one).map(|at| at as u64).collect()
}

#[test]
fn damage_to_it_brings_the_scan() {
    for (engine, world) in worlds() {
        closed(&world);
        let whole = bytes(&world.file);
        let parts = blocks_of(&whole, 3);
        assert!(parts.len() > 2, "{engine}: {parts:?}");
        // In the header, in what it holds, and in the tail, of the head among others.
        for (i, &part) in parts.iter().enumerate() {
            let at = part + [18, 64 + 2, BLOCK - 64 + 9][i % 3];
            flip(&world.file, at);
            let store = terrace::open(world.options.clone()).unwrap();
            let found = recovery(&store);
            assert_eq!(found.snapshot, SnapshotUse::Refused, "{engine}, byte {at}");
            assert!(found.scanned.pages > 0 && found.clean);
            counts(&store);
            if i == 0 || i + 1 == parts.len() {
                answers(&store, false, &nothing_else);
            }
            store.kill();
            std::fs::write(&world.file, &whole).unwrap();
        }
    }
}

#[test]
fn damage_to_a_page_is_what_it_is_to_a_scan() {
    for (engine, world) in worlds() {
        closed(&world);
        let whole = bytes(&world.file);
        let page = blocks_of(&whole, 1)[0];
        // In its header, its footer and its trailer: a scan is what judges it.
        for at in [page + 18, page + BLOCK - 64 - 24 * 3 + 5, page + BLOCK - 64 + 9] {
            flip(&world.file, at);
            let opened = terrace::open(world.options.clone()).map(|store| recovery(&store));
            let Err(error) = opened else {
                panic!("{engine} on {:?}, byte {} of {page}: {opened:?}", world.file, at - page)
            };
            assert!(
                matches!(&error, StoreError::Corrupt(text) if text.contains("block ")),
                "{engine}: {error}"
            );
            std::fs::write(&world.file, &whole).unwrap();
        }
        // One of its records: whoever reads it is told, and nobody else.
        flip(&world.file, page + 64 + 40);
        let store = terrace::open(world.options.clone()).unwrap();
        assert_eq!(recovery(&store).snapshot, SnapshotUse::Used, "{engine}");
        counts(&store);
    }
}

#[test]
fn another_index_scans() {
    for (engine, world) in worlds() {
        closed(&world);
        let other = Options { index: "btree".into(), ..world.options.clone() };
        let store = terrace::open(other).unwrap();
        assert_eq!(recovery(&store).snapshot, SnapshotUse::Refused, "{engine}");
        counts(&store);
        answers(&store, false, &nothing_else);
        store.close().unwrap();
        let store = terrace::open(world.options.clone()).unwrap();
        assert_eq!(recovery(&store).snapshot, SnapshotUse::None, "{engine}");
        answers(&store, false, &nothing_else);
    }
}
