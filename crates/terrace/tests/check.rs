//! `terrace::check` on stores made through `terrace::open`: clean ones are clean, each kind of damage is named, and a
//! repair makes the store open again.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use terrace::check::{CheckError, CheckOptions, Report};
use terrace::engine::{
    Batch, Condition, Durability, Expiry, OpError, OpKind, Reply, Session, SnapshotUse, StoreError,
};
use terrace::{OpenStore, Options, Tier};

/// The manifest's two copies on block media: in front of the blocks, and behind the first of them.
const MANIFESTS: [u64; 2] = [0, 4096 + BETWEEN];
const BETWEEN: u64 = 4 << 20;
/// What sizes this small give.
const BLOCK: u64 = 256 << 10;

/// Where a block begins.
fn start_of(block: u64) -> u64 {
    (if block < BETWEEN / BLOCK { 4096 } else { 8192 }) + block * BLOCK
}

/// The block that a byte is in.
fn block_at(at: u64) -> u64 {
    (at - if at < MANIFESTS[1] { 4096 } else { 8192 }) / BLOCK
}

const KEYS: u32 = 20_000;
const LARGE: u32 = 3;

fn options(dir: &Path) -> Options {
    Options {
        dir: Some(dir.join("store")),
        dram_records: Some(4 << 20),
        ssd: Some(Tier { bytes: 64 << 20, place: None }),
        engine: "hetermm".into(),
        ..Options::default()
    }
}

fn key(i: u32) -> Vec<u8> {
    format!("key:{i:08}").into_bytes()
}

fn value(i: u32) -> Vec<u8> {
    (0..200 + i % 300).map(|at| (at * 7 + i) as u8).collect()
}

fn large(i: u32) -> Vec<u8> {
    (0..300_000 + i).map(|at| ((at * 13 + at / 256 * (i + 3)) ^ i) as u8).collect()
}

fn set(session: &mut Box<dyn Session>, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    let value = batch.bytes(value);
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    let at = batch.push(0, key, OpKind::Set { value, condition, expiry, flags: None, old_value: false });
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    assert!(matches!(batch.reply(at, &proof), Reply::Stored { .. }), "{:?}", batch.reply(at, &proof));
}

/// The value, or why there is none.
fn get(session: &mut Box<dyn Session>, key: &[u8]) -> Result<Option<Vec<u8>>, OpError> {
    let mut batch = Batch::new();
    let at = batch.push(0, key, OpKind::Get { value: true });
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    match batch.reply(at, &proof) {
        Reply::Hit { value, .. } => Ok(Some(batch.output(value.unwrap()).to_vec())),
        Reply::Miss => Ok(None),
        Reply::Error(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// More than DRAM holds, some of it overwritten and some deleted, and a few large values.
fn fill(store: &OpenStore) {
    let mut session = store.session().unwrap();
    for round in 0..2 {
        for i in (0..KEYS).step_by(1 + round * 9) {
            set(&mut session, &key(i), &value(i));
        }
    }
    for i in 0..LARGE {
        set(&mut session, format!("large:{i}").as_bytes(), &large(i));
    }
    let mut batch = Batch::new();
    batch.push(0, b"never there", OpKind::Delete { condition: Condition::Always, old_value: false });
    batch.push(0, &key(5), OpKind::Delete { condition: Condition::Always, old_value: false });
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    assert!(matches!(batch.reply(1, &proof), Reply::Deleted { .. }));
}

fn check(path: &Path, repair: bool) -> Result<Report, CheckError> {
    terrace::check(path, &CheckOptions { repair, ..CheckOptions::default() })
}

fn clean(dir: &Path) -> Report {
    let report = check(dir, false).unwrap();
    assert!(report.is_clean() && report.to_string().ends_with("\nclean"), "{report}");
    report
}

/// A filled store, closed.
fn made() -> (tempfile::TempDir, Options, PathBuf) {
    made_by("hetermm")
}

fn made_by(engine: &str) -> (tempfile::TempDir, Options, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { engine: engine.into(), ..options(dir.path()) };
    let store = terrace::open(options.clone()).unwrap();
    fill(&store);
    store.close().unwrap();
    let path = dir.path().join("store");
    (dir, options, path)
}

fn data(path: &Path) -> File {
    File::options().read(true).write(true).open(path.join("data")).unwrap()
}

fn flip(file: &File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    file.sync_all().unwrap();
}

/// Where a text stands in the data file: its last place, which is in the newest block that has it or in an older one.
fn find(file: &File, text: &[u8]) -> Vec<u64> {
    bytes(file).windows(text.len()).enumerate().filter(|(_, w)| *w == text).map(|(at, _)| at as u64).collect()
}

fn all_answer(store: &OpenStore, but: &[u32]) {
    let mut session = store.session().unwrap();
    for i in (0..KEYS).filter(|i| !but.contains(i)) {
        let expected = (i != 5).then(|| value(i));
        assert_eq!(get(&mut session, &key(i)), Ok(expected), "key {i}");
    }
    for i in 0..LARGE {
        assert_eq!(get(&mut session, format!("large:{i}").as_bytes()), Ok(Some(large(i))), "large {i}");
    }
}

#[test]
fn a_closed_store_is_clean_and_counted() {
    let (_dir, options, path) = made();
    let report = clean(&path);
    assert_eq!(report.counts.keys, u64::from(KEYS - 1 + LARGE));
    assert_eq!((report.counts.extents, report.counts.keys_in_log), (u64::from(LARGE), 0));
    assert_eq!(report.counts.extent_bytes, (0..LARGE).map(|i| large(i).len() as u64).sum::<u64>());
    assert!(report.counts.record_bytes > report.counts.live_bytes && report.counts.live_bytes > 4 << 20);
    // Killed right after opening, and closed after that: no version is above what the manifest allows.
    let store = terrace::open(options.clone()).unwrap();
    all_answer(&store, &[]);
    store.kill();
    assert_eq!(clean(&path).counts.keys, report.counts.keys);
    terrace::open(options).unwrap().close().unwrap();
    assert_eq!(clean(&path).counts.keys, report.counts.keys);
}

#[test]
fn a_killed_store_is_clean_and_nothing_is_changed_by_looking() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let path = dir.path().join("store");
    let store = terrace::open(options.clone()).unwrap();
    fill(&store);
    let held = check(&path, false).unwrap_err();
    assert!(
        matches!(held, CheckError::Locked(_)) && held.to_string().contains("in use by process"),
        "{held}"
    );
    store.kill();
    let before: Vec<_> =
        ["data", "log", "superblock"].map(|name| std::fs::read(path.join(name)).unwrap()).into();
    let report = clean(&path);
    assert_eq!(report.counts.keys, u64::from(KEYS - 1 + LARGE), "{report}");
    assert!(report.counts.keys_in_log > 0 && report.counts.log_needed > 0, "{report}");
    let after: Vec<_> =
        ["data", "log", "superblock"].map(|name| std::fs::read(path.join(name)).unwrap()).into();
    assert!(before == after, "looking changed a file");
    let store = terrace::open(options).unwrap();
    assert_eq!(store.len(0), report.counts.keys);
    all_answer(&store, &[]);
    store.close().unwrap();
    clean(&path);
}

#[test]
fn a_damaged_record_is_named_and_a_set_clears_it() {
    let (_dir, options, path) = made();
    let victim = 7;
    // Every version of it that is left, so that the newest is among them.
    let places = find(&data(&path), &key(victim));
    assert!(!places.is_empty());
    places.iter().for_each(|at| flip(&data(&path), at + 40));
    let report = check(&path, false).unwrap();
    assert_eq!((report.counts.damaged, report.problem_count()), (places.len() as u64, places.len() as u64));
    let slots: Vec<_> = places.iter().map(|at| block_at(*at)).collect();
    let text = report.to_string();
    assert!(slots.iter().all(|slot| text.contains(&format!("block {slot}, offset "))), "{text}");
    assert!(text.contains("its key answers an error until SET or DEL"), "{text}");
    assert!(text.ends_with("problem") || text.ends_with("problems"), "{text}");
    // A repair has nothing to do: the store opens.
    let repaired = check(&path, true).unwrap();
    assert!(repaired.repairs.is_empty() && repaired.problems == report.problems);

    let store = terrace::open(options).unwrap();
    let mut session = store.session().unwrap();
    assert_eq!(get(&mut session, &key(victim)), Err(OpError::Poisoned));
    set(&mut session, &key(victim), &value(victim));
    assert_eq!(get(&mut session, &key(victim)), Ok(Some(value(victim))));
    drop(session);
    all_answer(&store, &[]);
    store.close().unwrap();
    let report = check(&path, false).unwrap();
    assert!(report.problems.iter().all(|line| line.contains("no answer depends on it")), "{report}");
}

/// Damages the block that a key is in, at an offset from its end or start; looks, repairs, opens.
fn damaged_block(at: impl Fn(u64) -> u64, what: &str) {
    let (_dir, options, path) = made();
    let file = data(&path);
    // Key 11 was written once, so its block's records count.
    let block = block_at(find(&file, &key(11))[0]);
    flip(&file, at(start_of(block)));
    let error = terrace::open(options.clone()).err().unwrap();
    let named = matches!(&error, StoreError::Corrupt(text) if text.contains(&format!("block {block} ")));
    assert!(named, "{error}");
    let report = check(&path, false).unwrap();
    assert!(report.problem_count() >= 1 && report.repairs.is_empty(), "{report}");
    let line = &report.problems[0];
    assert!(line.starts_with(&format!("block {block} ")) && line.contains(what), "{line}");
    assert!(terrace::open(options.clone()).is_err(), "looking repairs nothing");
    let report = check(&path, true).unwrap();
    // What the last stop saved goes first.
    assert!(report.is_clean() && report.repairs.len() == 2, "{report}");
    assert!(report.repairs[0].contains("snapshot"), "{report}");
    assert!(report.repairs[1].contains("none is missing"), "{report}");
    let store = terrace::open(options).unwrap();
    all_answer(&store, &[]);
    store.close().unwrap();
    clean(&path);
}

#[test]
fn a_damaged_footer_stops_opening_until_it_is_rebuilt() {
    damaged_block(|start| start + BLOCK - 64 - 24 * 3 + 5, "footer");
}

#[test]
fn a_damaged_trailer_stops_opening_until_it_is_rebuilt() {
    damaged_block(|start| start + BLOCK - 64 + 17, "trailer");
}

#[test]
fn a_damaged_header_stops_opening_until_it_is_rebuilt() {
    damaged_block(|start| start + 18, "header");
}

#[test]
fn a_record_that_nothing_names_any_more_is_given_up_alone() {
    let (_dir, options, path) = made();
    let file = data(&path);
    let place = find(&file, &key(11))[0];
    let block = block_at(place);
    flip(&file, place + 40);
    flip(&file, start_of(block) + BLOCK - 64 - 24 * 3 + 5);
    let report = check(&path, true).unwrap();
    assert!(report.is_clean() && report.repairs.len() == 2, "{report}");
    assert!(report.repairs[1].contains("records may be missing"), "{report}");
    assert!(report.notes[1].starts_with(&format!("block {block}: ")), "{report}");
    let store = terrace::open(options).unwrap();
    all_answer(&store, &[11]);
    let mut session = store.session().unwrap();
    assert_eq!(get(&mut session, &key(11)), Ok(None));
    drop(session);
    store.close().unwrap();
    clean(&path);
}

#[test]
fn a_block_without_a_whole_record_is_given_up() {
    let (_dir, options, path) = made();
    let file = data(&path);
    let block = block_at(find(&file, &key(11))[0]);
    let start = start_of(block);
    file.write_all_at(&vec![0x77; BLOCK as usize - 64 - 64], start + 64).unwrap();
    let report = check(&path, true).unwrap();
    assert!(report.is_clean() && report.repairs[0].contains("given up"), "{report}");
    let store = terrace::open(options).unwrap();
    let mut session = store.session().unwrap();
    assert_eq!(get(&mut session, &key(11)), Ok(None));
    drop(session);
    store.close().unwrap();
    clean(&path);
}

#[test]
fn a_block_that_reads_as_zeros_is_missed_and_given_up() {
    let (_dir, options, path) = made();
    let file = data(&path);
    let block = block_at(find(&file, &key(11))[0]);
    file.write_all_at(&vec![0; BLOCK as usize], start_of(block)).unwrap();
    let refused = terrace::open(options.clone()).map(drop).unwrap_err().to_string();
    assert!(refused.contains(&format!("block {block} ")) && refused.contains("check --repair"), "{refused}");
    let report = check(&path, false).unwrap();
    assert_eq!(report.problem_count(), 1, "{report}");
    assert!(report.problems[0].starts_with(&format!("block {block}: it was written")), "{report}");
    let report = check(&path, true).unwrap();
    assert!(report.is_clean() && report.repairs[0].contains("given up"), "{report}");
    let store = terrace::open(options).unwrap();
    let mut session = store.session().unwrap();
    assert_eq!(get(&mut session, &key(11)), Ok(None));
    drop(session);
    store.close().unwrap();
    clean(&path);
}

#[test]
fn a_damaged_large_value_is_named() {
    let (_dir, options, path) = made();
    let at = find(&data(&path), &large(1)[..600])[0];
    flip(&data(&path), at + 100);
    let report = check(&path, false).unwrap();
    assert_eq!(report.problem_count(), 1, "{report}");
    assert!(report.problems[0].starts_with("large value, hash "), "{report}");
    let store = terrace::open(options).unwrap();
    let mut session = store.session().unwrap();
    assert_eq!(get(&mut session, b"large:1"), Err(OpError::Poisoned));
    assert_eq!(get(&mut session, b"large:2"), Ok(Some(large(2))));
}

#[test]
fn a_damaged_log_stops_opening_until_it_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::Sync, ..options(dir.path()) };
    let path = dir.path().join("store");
    let store = terrace::open(options.clone()).unwrap();
    let mut session = store.session().unwrap();
    (0..50).for_each(|i| set(&mut session, &key(i), &value(i)));
    drop(session);
    store.kill();
    let log = File::options().read(true).write(true).open(path.join("log")).unwrap();
    let mut bytes = vec![0; log.metadata().unwrap().len() as usize];
    log.read_exact_at(&mut bytes, 0).unwrap();
    let at = bytes.windows(12).position(|window| window == key(25)).unwrap() as u64;
    flip(&log, at);
    assert!(matches!(terrace::open(options.clone()).err().unwrap(), StoreError::Corrupt(_)));
    let report = check(&path, false).unwrap();
    assert!(report.problems[0].contains("log block"), "{report}");
    let report = check(&path, true).unwrap();
    assert!(report.is_clean() && report.repairs[0].starts_with("log: cut"), "{report}");
    assert_eq!(report.counts.keys, 25, "{report}");
    let store = terrace::open(options).unwrap();
    let mut session = store.session().unwrap();
    for i in 0..50 {
        assert_eq!(get(&mut session, &key(i)), Ok((i < 25).then(|| value(i))), "key {i}");
    }
}

#[test]
fn a_damaged_manifest_is_named_and_the_other_copy_counts() {
    let (_dir, options, path) = made();
    let keys = clean(&path).counts.keys;
    for copy in MANIFESTS {
        flip(&data(&path), copy + 50);
        let report = check(&path, false).unwrap();
        assert_eq!((report.problem_count(), report.counts.keys), (1, keys), "{report}");
        assert!(report.problems[0].contains("manifest"), "{report}");
        flip(&data(&path), copy + 50);
    }
    clean(&path);
    flip(&data(&path), 50);
    flip(&data(&path), MANIFESTS[1] + 50);
    assert!(check(&path, false).unwrap().problems[0].contains("no copy of the manifest is whole"));
    flip(&data(&path), 50);
    let store = terrace::open(options).unwrap();
    all_answer(&store, &[]);
    store.close().unwrap();
}

#[test]
fn what_is_no_store_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let error = check(dir.path(), false).unwrap_err();
    assert!(matches!(error, CheckError::NoStore { .. }), "{error}");
    assert!(
        std::fs::read_dir(dir.path()).unwrap().next().is_none(),
        "nothing is left in a directory that isn't ours"
    );
    assert!(check(&dir.path().join("none"), false).unwrap_err().to_string().contains("no such file"));

    let (_dir, _, path) = made();
    let file = data(&path);
    let whole = file.metadata().unwrap().len();
    file.set_len(whole - 4096).unwrap();
    let error = check(&path, false).unwrap_err();
    assert!(error.to_string().contains("it was truncated"), "{error}");
    file.set_len(whole).unwrap();
    let superblock = File::options().read(true).write(true).open(path.join("superblock")).unwrap();
    flip(&superblock, 100);
    assert!(check(&path, false).unwrap_err().to_string().contains("superblock damaged"));
}

#[test]
fn byte_media_are_read_too() {
    // Memory stands in for the device.
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    let options = Options {
        dir: Some(dir.path().to_path_buf()),
        dram_records: Some(4 << 20),
        pmem: Some(Tier { bytes: 64 << 20, place: Some(terrace::Place::Path(dir.path().to_path_buf())) }),
        profile: Some("dram".into()),
        ..Options::default()
    };
    let store = terrace::open(options.clone()).unwrap();
    fill(&store);
    store.kill();
    let report = clean(dir.path());
    assert_eq!(report.counts.keys, u64::from(KEYS - 1 + LARGE), "{report}");
    let store = terrace::open(options).unwrap();
    all_answer(&store, &[]);
    store.close().unwrap();
    assert_eq!(clean(&dir.path().join("pmem")).counts, clean(dir.path()).counts);
}

/// Where the blocks of a snapshot begin: its parts, and its head.
fn snapshot_blocks(file: &File) -> (Vec<u64>, u64) {
    let tails = find(file, b"TRCSNAPS").into_iter().map(|tail| {
        let mut word = [0; 4];
        file.read_exact_at(&mut word, tail + 16).unwrap();
        (u32::from_le_bytes(word), start_of(block_at(tail)))
    });
    let (heads, parts): (Vec<_>, Vec<_>) = tails.partition(|(number, _)| *number == u32::MAX);
    assert!(heads.len() == 1 && parts.len() > 2, "{heads:?} {parts:?}");
    (parts.into_iter().map(|(_, at)| at).collect(), heads[0].1)
}

fn snapshot_of(store: &OpenStore) -> SnapshotUse {
    store.stats().recovery.unwrap().snapshot
}

/// Its bytes as they are.
fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_damaged_snapshot_is_told_and_stops_no_opening() {
    ["tac", "hetermm"].into_iter().for_each(damaged_snapshot);
}

fn damaged_snapshot(engine: &str) {
    let (_dir, options, path) = made_by(engine);
    let file = data(&path);
    let report = clean(&path);
    let (parts, head) = snapshot_blocks(&file);
    assert_eq!(report.counts.blocks_snapshot, parts.len() as u64 + 1, "{report}");
    assert!(
        report.about.iter().any(|line| line.contains("snapshot of") && line.contains("whole")),
        "{report}"
    );
    let closed = bytes(&file);
    // In a part, in the head, and in the header of either.
    for at in [parts[0] + 100, parts[1] + 18, head + 70, head + 18, head] {
        file.write_all_at(&closed, 0).unwrap();
        flip(&file, at);
        let damaged = bytes(&file);
        let report = check(&path, false).unwrap();
        let told = "the snapshot of the last stop is damaged: block ";
        assert!(report.problems.len() == 1 && report.problems[0].starts_with(told), "byte {at}: {report}");
        assert!(bytes(&file) == damaged, "looking changes nothing");
        if at != parts[0] + 100 && at != head + 70 {
            continue;
        }
        let store = terrace::open(options.clone()).unwrap();
        assert_eq!(snapshot_of(&store), SnapshotUse::Refused, "byte {at}");
        all_answer(&store, &[]);
        store.close().unwrap();
        clean(&path);
    }
}

#[test]
fn a_repair_gives_a_damaged_snapshot_up() {
    ["tac", "hetermm"].into_iter().for_each(repaired_snapshot);
}

fn repaired_snapshot(engine: &str) {
    let (_dir, options, path) = made_by(engine);
    let file = data(&path);
    let (parts, head) = snapshot_blocks(&file);
    let closed = bytes(&file);
    for at in [parts[1] + 100, head + 18, head] {
        file.write_all_at(&closed, 0).unwrap();
        flip(&file, at);
        let report = check(&path, true).unwrap();
        let given_up = "the snapshot of the last stop was given up: opening scans";
        assert!(report.is_clean() && report.repairs == [given_up], "byte {at}: {report}");
        assert_eq!(report.notes, [given_up]);
    }
    let store = terrace::open(options.clone()).unwrap();
    assert_eq!(snapshot_of(&store), SnapshotUse::Refused);
    all_answer(&store, &[]);
    store.close().unwrap();
    let store = terrace::open(options).unwrap();
    assert_eq!(snapshot_of(&store), SnapshotUse::Used);
    all_answer(&store, &[]);
    store.close().unwrap();
    clean(&path);
}

#[test]
fn a_damaged_page_is_no_less_damage_where_a_snapshot_is_whole() {
    ["tac", "hetermm"].into_iter().for_each(damaged_page_with_a_snapshot);
}

fn damaged_page_with_a_snapshot(engine: &str) {
    let (_dir, options, path) = made_by(engine);
    let file = data(&path);
    // Key 11 was written once, so its block's records count.
    let block = block_at(find(&file, &key(11))[0]);
    flip(&file, start_of(block) + BLOCK - 64 - 24 * 3 + 5);
    let error = terrace::open(options.clone()).err().unwrap();
    assert!(
        matches!(&error, StoreError::Corrupt(text) if text.contains(&format!("block {block} "))),
        "{error}"
    );
    let report = check(&path, true).unwrap();
    // Before anything changes that it tells of.
    assert!(report.is_clean() && report.repairs[0].contains("snapshot"), "{report}");
    assert!(report.repairs.len() == 2 && report.repairs[1].contains("none is missing"), "{report}");
    let store = terrace::open(options).unwrap();
    assert_eq!(snapshot_of(&store), SnapshotUse::Refused);
    all_answer(&store, &[]);
    store.close().unwrap();
    clean(&path);
}
