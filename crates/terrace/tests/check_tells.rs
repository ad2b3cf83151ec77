//! `terrace::check` says what is there, of whole stores and of what is left of one; it writes nothing unless it repairs; and a
//! repair says what it can't do.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use terrace::check::{CheckError, CheckOptions, Report};
use terrace::{Options, Place, Tier};

const KEYS: u32 = 8_000;
const LARGE: u32 = 3;

/// A closed store with more than its DRAM holds, and some large values.
fn made(home: &Path, memory: Option<&Path>, ssd: bool) -> Options {
    let options = Options {
        engine: "tac".into(),
        dir: Some(home.join("store")),
        dram_records: Some(4 << 20),
        pmem: memory.map(|path| Tier { bytes: 28 << 20, place: Some(Place::Path(path.into())) }),
        ssd: ssd.then_some(Tier { bytes: 64 << 20, place: None }),
        profile: memory.map(|_| "dram".into()),
        ..Options::default()
    };
    let store = terrace::open(options.clone()).unwrap();
    for i in 0..KEYS {
        store.set(format!("key:{i}").as_bytes(), &vec![i as u8; 1000]).unwrap();
    }
    for i in 0..LARGE {
        store.set(format!("large:{i}").as_bytes(), &vec![i as u8 + 1; 300_000]).unwrap();
    }
    store.close().unwrap();
    options
}

fn on_ssd() -> (tempfile::TempDir, Options, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let options = made(home.path(), None, true);
    let dir = home.path().join("store");
    (home, options, dir)
}

fn check(path: &Path) -> Result<Report, CheckError> {
    terrace::check(path, &CheckOptions::default())
}

fn repair(path: &Path) -> Result<Report, CheckError> {
    terrace::check(path, &CheckOptions { repair: true, ..CheckOptions::default() })
}

fn is_whole(report: &Report) {
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.counts.keys, u64::from(KEYS + LARGE), "{report}");
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

/// Copies of directories as a backup has them: read only, without lock files.
fn copied(dirs: &[&Path], to: &Path) {
    for file in dirs.iter().flat_map(|dir| contents(dir)) {
        let name = file.0.file_name().unwrap().to_owned();
        if name != "LOCK" {
            let copy = to.join(name);
            fs::write(&copy, file.1).unwrap();
            fs::set_permissions(copy, fs::Permissions::from_mode(0o444)).unwrap();
        }
    }
    fs::set_permissions(to, fs::Permissions::from_mode(0o555)).unwrap();
}

#[test]
fn a_copy_that_cannot_be_written_is_checked_and_nothing_is_made_in_it() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    for (pmem, ssd) in [(false, true), (true, true), (true, false)] {
        let home = tempfile::tempdir().unwrap();
        let memory = memory.path().join(format!("{ssd}"));
        made(home.path(), pmem.then_some(&*memory), ssd);
        let copy = tempfile::tempdir().unwrap();
        let store = home.path().join("store");
        let dirs = [Some(&*store).filter(|dir| dir.is_dir()), pmem.then_some(&*memory)];
        let dirs: Vec<_> = dirs.into_iter().flatten().collect();
        copied(&dirs, copy.path());
        let before = contents(copy.path());
        // The memory's copy lies on an ordinary disk.
        is_whole(&check(copy.path()).unwrap());
        assert!(contents(copy.path()) == before, "looking changed something");
        fs::set_permissions(copy.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if pmem && !ssd {
            let refused = repair(copy.path()).unwrap_err().to_string();
            assert!(refused.contains("is a copy, on ") && refused.contains("put it back"), "{refused}");
        }
    }
}

#[test]
fn a_store_without_its_marker_is_not_called_empty() {
    let (_home, options, dir) = on_ssd();
    fs::remove_file(dir.join("formatted")).unwrap();
    let report = check(&dir).unwrap();
    is_whole(&report);
    assert!(report.notes.iter().any(|note| note.contains("`formatted` is missing")), "{report}");
    assert!(!dir.join("formatted").exists());
    terrace::open(options).unwrap().close().unwrap();
    let report = check(&dir).unwrap();
    assert!(!report.notes.iter().any(|note| note.contains("formatted")), "{report}");

    // One that died while it was made, in which there is nothing.
    fs::remove_file(dir.join("formatted")).unwrap();
    for name in ["data", "log"] {
        let len = dir.join(name).metadata().unwrap().len();
        fs::File::create(dir.join(name)).unwrap().set_len(len).unwrap();
    }
    let report = check(&dir).unwrap();
    assert!(report.is_clean() && report.notes[0].contains("never opened in full"), "{report}");
}

#[test]
fn a_store_that_was_used_is_not_called_never_used() {
    let (_home, options, dir) = on_ssd();
    let data = fs::File::options().write(true).open(dir.join("data")).unwrap();
    for at in [0, 4096 + (4 << 20)] {
        data.write_all_at(&[0; 4096], at).unwrap();
    }
    let refused = terrace::open(options).map(drop).unwrap_err().to_string();
    let report = check(&dir).unwrap();
    assert!(report.problems[0].contains("both copies of the manifest are blank"), "{report}");
    assert!(report.problems[0].contains("does not open") && refused.contains("manifest"), "{refused}");
    assert!(report.counts.blocks_records > 0 && report.counts.keys > 0, "{report}");
    assert!(!report.to_string().contains("never used"));
    let repaired = repair(&dir).unwrap();
    assert!(!repaired.is_clean() && repaired.beyond[0].starts_with("the manifest: "), "{repaired}");
    assert!(repaired.to_string().contains("not repaired: the manifest"), "{repaired}");
}

#[test]
fn a_bad_mebibyte_takes_one_copy_of_the_manifest_at_most() {
    for first in [true, false] {
        let (_home, options, dir) = on_ssd();
        let data = fs::File::options().read(true).write(true).open(dir.join("data")).unwrap();
        let whole = check(&dir).unwrap();
        data.write_all_at(&vec![0xff; 1 << 20], if first { 0 } else { 4 << 20 }).unwrap();
        let report = check(&dir).unwrap();
        assert!(report.problems.iter().any(|line| line.contains("the other one counts")), "{report}");
        assert!(!report.problems.iter().any(|line| line.contains("no copy")), "{report}");
        let repaired = repair(&dir).unwrap();
        assert!(repaired.counts.keys > whole.counts.keys / 2, "{repaired}");
        let store = terrace::open(options).unwrap();
        assert!(store.len(0) > whole.counts.keys / 2, "{repaired}");
        store.close().unwrap();
    }
}

#[test]
fn what_is_left_of_a_store_is_told() {
    let (home, _, dir) = on_ssd();
    let error = |path: &Path| check(path).unwrap_err().to_string();
    let log = error(&dir.join("log"));
    assert!(log.contains("that is the log of the store in") && log.contains("by its directory"), "{log}");
    fs::remove_file(dir.join("superblock")).unwrap();
    let left = error(&dir);
    assert!(left.contains("no superblock") && left.contains("data") && left.contains("log"), "{left}");
    for name in ["formatted", "log", "data"] {
        fs::remove_file(dir.join(name)).unwrap();
    }
    let left = error(&dir);
    assert!(left.contains("clock") && left.contains("SIZE@PATH"), "{left}");
    assert!(error(home.path()).contains("no store is here"));

    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let home = tempfile::tempdir().unwrap();
    made(home.path(), Some(memory.path()), false);
    let file = memory.path().join("pmem");
    fs::File::options().write(true).open(&file).unwrap().write_all_at(&[0; 4096], 0).unwrap();
    let left = error(memory.path());
    assert!(left.contains("is blank, and data begin at byte ") && left.contains("--repair can't"), "{left}");
    fs::File::options().write(true).open(&file).unwrap().write_all_at(b"TERRMAKE", 0).unwrap();
    assert!(error(memory.path()).contains("was never finished"));
}

#[test]
fn a_repair_says_what_it_cannot_do() {
    let (_home, _, dir) = on_ssd();
    let data = fs::File::options().read(true).write(true).open(dir.join("data")).unwrap();
    let bytes = fs::read(dir.join("data")).unwrap();
    let find = |text: &[u8]| bytes.windows(text.len()).position(|window| window == text).unwrap() as u64;
    // In a record, and in a large value.
    data.write_all_at(b"X", find(&[9; 1000]) + 500).unwrap();
    data.write_all_at(b"X", find(&[2; 5000]) + 2500).unwrap();
    let looked = check(&dir).unwrap();
    assert!(looked.beyond.is_empty() && looked.problem_count() >= 2, "{looked}");
    let report = repair(&dir).unwrap();
    let text = report.to_string();
    assert!(text.contains("not repaired: 1 damaged records"), "{text}");
    assert!(text.contains("not repaired: 1 damaged large values"), "{text}");
    assert!(text.contains("until SET or DEL"), "{text}");
    assert_eq!(report.problem_count(), looked.problem_count());

    let log = fs::File::options().write(true).open(dir.join("log")).unwrap();
    log.write_all_at(&[0; 4096], 0).unwrap();
    let text = repair(&dir).unwrap().to_string();
    assert!(text.contains("not repaired: the log's superblock"), "{text}");
}

#[test]
fn progress_goes_from_nothing_to_all_and_counts_large_values() {
    let (_home, _, dir) = on_ssd();
    let seen = RefCell::new(Vec::new());
    let progress = |done, total| seen.borrow_mut().push((done, total));
    let report = terrace::check(&dir, &CheckOptions { repair: false, progress: &progress }).unwrap();
    is_whole(&report);
    let seen = seen.into_inner();
    let total = seen[0].1;
    assert_eq!((seen[0], *seen.last().unwrap()), ((0, total), (total, total)));
    assert!(seen.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[1].1 == total), "{seen:?}");
    // Blocks of large values count when they are read, not when they are passed over.
    let large = seen.windows(2).filter(|pair| pair[1].0 - pair[0].0 >= 300_000).count();
    assert!(large >= LARGE as usize, "{large} of {seen:?}");
    assert!(report.counts.blocks_extents > 0 && total > 64 << 20 >> 1);
}
