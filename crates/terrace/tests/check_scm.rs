//! `terrace::check` on stores of engine `scmkv`: whole ones are clean and counted, each kind of damage is named, and what the records say
//! again is made anew.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use terrace::check::{CheckOptions, Report};
use terrace::{OpenStore, Options, Place, Tier};

const KEYS: u32 = 5_000;
/// docs/formats/scm.md
const ROOTS_AT: u64 = 4608;
const LINES_AT: u64 = 5952;
const LINE_BYTES: u64 = 64;
/// Fewer than keys: most have chains.
const BUCKETS: u64 = 1024;

struct Made {
    _dir: tempfile::TempDir,
    options: Options,
    path: PathBuf,
}

fn key(i: u32) -> Vec<u8> {
    format!("key:{i:08}").into_bytes()
}

fn value(i: u32) -> Vec<u8> {
    format!("[{i}]").into_bytes().repeat(1 + i as usize % 40)
}

fn large() -> Vec<u8> {
    b"[large]".repeat(100_000)
}

/// A store that was filled, written over in part, and closed or killed; `None` where the machine has no memory to share.
fn made(close: bool) -> Option<Made> {
    let dir = tempfile::tempdir_in("/dev/shm").ok()?;
    let options = Options {
        engine: "scmkv".into(),
        dir: Some(dir.path().into()),
        pmem: Some(Tier { bytes: 32 << 20, place: Some(Place::Path(dir.path().into())) }),
        profile: Some("dram".into()),
        expected_records: Some(BUCKETS),
        ..Options::default()
    };
    let store = terrace::open(options.clone()).unwrap();
    store.set(b"large", &large()).unwrap();
    for i in 0..KEYS {
        store.set(&key(i), &value(i + 1)).unwrap();
    }
    for i in 0..KEYS {
        store.set(&key(i), &value(i)).unwrap();
    }
    assert!(store.delete(&key(5)).unwrap());
    if close {
        store.close().unwrap();
    } else {
        // The table leads to most of them by then.
        let a_bucket = |(of, count): &(&str, u64)| *of == "scm_records_a_bucket" && *count > 2;
        while !store.stats().engine_details.iter().any(a_bucket) {
            std::thread::yield_now();
        }
        store.kill();
    }
    Some(Made { path: dir.path().join("pmem"), options, _dir: dir })
}

impl Made {
    fn file(&self) -> File {
        File::options().read(true).write(true).open(&self.path).unwrap()
    }
    fn damage(&self, at: u64, bytes: usize) {
        self.file().write_all_at(&vec![0xa5; bytes], at).unwrap();
    }
    fn check(&self) -> Report {
        terrace::check(&self.path, &CheckOptions::default()).unwrap()
    }
    fn repair(&self) -> Report {
        terrace::check(&self.path, &CheckOptions { repair: true, ..CheckOptions::default() }).unwrap()
    }
    fn open(&self) -> OpenStore {
        terrace::open(self.options.clone()).unwrap()
    }
    fn pages(&self) -> u64 {
        self.check().counts.heap.unwrap().pages
    }
    fn buckets_at(&self) -> u64 {
        LINES_AT + self.pages() * 2 * LINE_BYTES
    }
    fn pages_at(&self) -> u64 {
        (self.buckets_at() + BUCKETS * 8).next_multiple_of(LINE_BYTES) + 128
    }
    /// What it says of damage.
    fn tells(&self, what: &str) {
        let before = std::fs::read(&self.path).unwrap();
        let report = self.check();
        assert!(!report.is_clean() && report.to_string().contains(what), "{report}");
        assert!(std::fs::read(&self.path).unwrap() == before, "looking changes nothing");
    }
    /// All is there that was written, and nothing else but what `may_be_back`.
    fn holds_all(&self, may_be_back: &[u32]) {
        let store = self.open();
        for i in 0..KEYS {
            let found = store.get(&key(i)).unwrap();
            let is_right = found == (i != 5).then(|| value(i));
            assert!(is_right || may_be_back.contains(&i), "key {i}: {found:?}");
        }
        assert!(store.get(b"large").unwrap() == Some(large()));
        // What is taken as free is free.
        (0..KEYS).for_each(|i| store.set(&key(i), &value(i + 2)).map(drop).unwrap());
        for i in 0..KEYS {
            assert_eq!(store.get(&key(i)).unwrap(), Some(value(i + 2)), "key {i}");
        }
        assert_eq!(store.len(0), u64::from(KEYS) + 1);
        store.close().unwrap();
        let report = self.check();
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.counts.keys, u64::from(KEYS) + 1, "{report}");
    }
}

#[test]
fn whole_stores_are_clean_and_counted() {
    for close in [true, false] {
        let Some(made) = made(close) else { return };
        let report = made.check();
        assert!(report.is_clean() && report.to_string().ends_with("\nclean"), "{report}");
        // What a killed one has in its log alone is not counted.
        assert!(!close || report.counts.keys == u64::from(KEYS), "{report}");
        assert!(made.repair().repairs.is_empty(), "nothing is to be repaired");
        made.holds_all(&[]);
    }
}

#[test]
fn a_damaged_record_is_told() {
    let Some(made) = made(true) else { return };
    let (bytes, text) = (std::fs::read(&made.path).unwrap(), value(39));
    // The newest one stands last.
    let at = bytes.windows(text.len()).rposition(|window| window == text).unwrap();
    made.damage(at as u64, 2);
    made.tells("damaged record; its key answers an error");
    let report = made.repair();
    assert!(report.beyond.iter().any(|line| line.contains("damaged record")), "{report}");
    let store = made.open();
    assert!(store.get(&key(39)).is_err());
    assert_eq!(store.get(&key(40)).unwrap(), Some(value(40)));
}

#[test]
fn damaged_buckets_are_made_anew() {
    for close in [true, false] {
        let Some(made) = made(close) else { return };
        made.damage(made.buckets_at() + 64 * 8, 256 * 8);
        made.tells("of the table is damaged");
        let report = made.repair();
        assert!(report.is_clean() && report.to_string().contains("256 buckets"), "{report}");
        // All is counted anew, and what the table leads to is read for that.
        let heap = report.counts.heap.unwrap();
        for is_counted in [true, false] {
            let store = made.open();
            let scanned = store.stats().recovery.unwrap().scanned;
            let used = heap.pages - heap.pages_empty;
            assert_eq!(scanned.pages * 2 > used, is_counted, "{scanned:?} of {used} in use");
            // What was counted is stored with what is written next.
            store.set(&key(6), &value(6)).unwrap();
            store.close().unwrap();
        }
        made.holds_all(&[]);
    }
}

#[test]
fn a_damaged_page_of_chains_is_made_anew() {
    for close in [true, false] {
        let Some(made) = made(close) else { return };
        let page = ((made.file().metadata().unwrap().len() - made.pages_at()) / made.pages()).ilog2();
        let page = 1 << page;
        let bytes = std::fs::read(&made.path).unwrap();
        let copy = |number: u64, copy: u64| &bytes[(LINES_AT + (2 * number + copy) * LINE_BYTES) as usize..];
        let sequence = |line: &[u8]| u64::from_le_bytes(line[8..16].try_into().unwrap());
        let newest = |number| [0, 1].map(|i| copy(number, i)).into_iter().max_by_key(|line| sequence(line));
        let is_of_chains = |number: &u64| newest(*number).is_some_and(|line| line[16] == 3);
        let chains: Vec<u64> = (0..made.pages()).filter(is_of_chains).collect();
        assert!(!chains.is_empty());
        for number in chains {
            made.damage(made.pages_at() + number * page + 64, page as usize - 128);
        }
        made.tells("of the table is damaged");
        let report = made.repair();
        assert!(report.is_clean() && report.to_string().contains("were made anew"), "{report}");
        made.holds_all(&[]);
    }
}

#[test]
fn lines_of_pages_are_made_anew() {
    for close in [true, false] {
        let Some(made) = made(close) else { return };
        made.damage(LINES_AT, (made.pages() * 2 * LINE_BYTES) as usize);
        made.tells("the store does not open");
        let report = made.repair();
        assert!(
            report.is_clean() && report.to_string().contains("lines of pages were made anew"),
            "{report}"
        );
        made.holds_all(&[]);
    }
}

#[test]
fn what_stands_nowhere_else_is_not_repaired() {
    let Some(made) = made(true) else { return };
    made.damage(ROOTS_AT, 3 * 448);
    made.tells("no copy of the table's root is whole");
    let before = std::fs::read(&made.path).unwrap();
    let report = made.repair();
    assert!(report.beyond.iter().any(|line| line.contains("root")), "{report}");
    assert!(std::fs::read(&made.path).unwrap() == before, "nothing was changed");
    assert!(terrace::open(made.options.clone()).is_err());
}
