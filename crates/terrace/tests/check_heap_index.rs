//! `terrace::check` on heaps that keep their index: clean ones are clean and counted, and each kind of damage is named.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use terrace::check::{CheckOptions, Report};
use terrace::{OpenStore, Options, Place, Tier};

const KEYS: u32 = 5_000;

struct Heap {
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

/// A store that was filled, thinned out, and closed or killed; `None` where the machine has no memory to share.
fn made(close: bool) -> Option<Heap> {
    let dir = tempfile::tempdir_in("/dev/shm").ok()?;
    let options = Options {
        engine: "heap-persistent".into(),
        dir: Some(dir.path().into()),
        pmem: Some(Tier { bytes: 32 << 20, place: Some(Place::Path(dir.path().into())) }),
        profile: Some("dram".into()),
        ..Options::default()
    };
    let store = terrace::open(options.clone()).unwrap();
    (0..KEYS).for_each(|i| store.set(&key(i), &value(i)).map(drop).unwrap());
    assert!(store.delete(&key(5)).unwrap());
    if close {
        store.close().unwrap();
    } else {
        store.kill();
    }
    Some(Heap { path: dir.path().join("pmem"), options, _dir: dir })
}

impl Heap {
    fn file(&self) -> File {
        File::options().read(true).write(true).open(&self.path).unwrap()
    }
    fn word(&self, at: u64) -> [u8; 8] {
        let mut word = [0; 8];
        self.file().read_exact_at(&mut word, at).unwrap();
        word
    }
    fn put(&self, at: u64, bytes: &[u8]) {
        self.file().write_all_at(bytes, at).unwrap();
    }
    /// Where the chunk starts that holds a key's record: its key begins in the first line.
    fn chunk_of(&self, i: u32) -> u64 {
        let (bytes, text) = (std::fs::read(&self.path).unwrap(), key(i));
        bytes.windows(text.len()).position(|window| window == text).unwrap() as u64 / 64 * 64
    }
    fn check(&self) -> Report {
        terrace::check(&self.path, &CheckOptions::default()).unwrap()
    }
    fn open(&self) -> OpenStore {
        terrace::open(self.options.clone()).unwrap()
    }
    /// What it says of damage.
    fn tells(&self, what: &str) {
        let before = std::fs::read(&self.path).unwrap();
        let report = self.check();
        assert!(!report.is_clean() && report.to_string().contains(what), "{report}");
        assert!(std::fs::read(&self.path).unwrap() == before, "looking changes nothing");
    }
}

#[test]
fn whole_heaps_are_clean_and_counted() {
    for close in [true, false] {
        let Some(heap) = made(close) else { return };
        let report = heap.check();
        assert!(report.is_clean() && report.to_string().ends_with("\nclean"), "{report}");
        assert_eq!(report.counts.keys, u64::from(KEYS - 1), "{report}");
        heap.open().close().unwrap();
        assert!(heap.check().is_clean());
    }
}

#[test]
fn a_damaged_record_is_told() {
    let Some(heap) = made(true) else { return };
    let at = heap.chunk_of(39) + 128;
    heap.put(at, &heap.word(at).map(|byte| byte ^ 0xff));
    heap.tells("damaged record; its key answers an error");
    let store = heap.open();
    assert!(store.get(&key(39)).is_err());
    assert_eq!(store.get(&key(40)).unwrap(), Some(value(40)));
}

#[test]
fn a_record_in_a_chunk_that_says_it_is_free_is_told() {
    let Some(heap) = made(true) else { return };
    let (whole, at) = (std::fs::read(&heap.path).unwrap(), heap.chunk_of(39));
    let store = heap.open();
    assert!(store.delete(&key(39)).unwrap());
    store.close().unwrap();
    let free = heap.word(at);
    heap.put(0, &whole);
    heap.put(at, &free);
    heap.tells("which says that it is free");
}

/// What lies in front of the pages, in words, behind the manifest, whose times differ from run to run.
const FRONT_WORDS: std::ops::Range<usize> = 576..1 << 17;

#[test]
fn a_damaged_count_is_counted_anew() {
    let Some(heap) = made(true) else { return };
    let words = |bytes: &[u8]| -> Vec<i64> {
        let words = bytes.as_chunks::<8>().0.iter().take(FRONT_WORDS.end);
        words.map(|word| i64::from_le_bytes(*word)).collect()
    };
    let before = std::fs::read(&heap.path).unwrap();
    let store = heap.open();
    store.set(b"one more", b"v").unwrap();
    store.close().unwrap();
    let after = std::fs::read(&heap.path).unwrap();
    // A word's highest bits are how many keys it counts.
    let (before, after) = (words(&before), words(&after));
    let counts: Vec<usize> = FRONT_WORDS.filter(|i| (after[*i] >> 40) - (before[*i] >> 40) == 1).collect();
    // The stripe's lane, which comes before, tells it as well.
    assert!((1..=2).contains(&counts.len()), "{counts:?}");
    let count = counts[counts.len() - 1];
    // The lane tells that one; what it does not tell is counted, once.
    for (word, is_counted) in [(count, false), (count + 1, true)] {
        heap.put(word as u64 * 8, &(after[word] ^ 1 << 41).to_le_bytes());
        let report = heap.check();
        assert!(report.is_clean() && report.counts.keys == u64::from(KEYS), "{report}");
        for is_first in [true, false] {
            let store = heap.open();
            let scanned = store.stats().recovery.unwrap().scanned;
            assert_eq!(scanned.pages > 0, is_counted && is_first, "{scanned:?}");
            assert_eq!(store.len(0), u64::from(KEYS));
            assert_eq!(store.get(b"one more").unwrap(), Some(b"v".to_vec()));
            store.close().unwrap();
        }
    }
}

/// Where the pages of the index start.
fn index_pages(heap: &Heap) -> Vec<u64> {
    let bytes = std::fs::read(&heap.path).unwrap();
    let is_one = |at: &usize| bytes[*at..].starts_with(b"TRCH") && bytes[*at + 28..*at + 30] == [0xff; 2];
    (0..bytes.len() - 64).step_by(64).filter(is_one).map(|at| at as u64).collect()
}

#[test]
fn a_damaged_index_is_made_anew() {
    // The page's header, and buckets of it.
    for (offset, tells) in [(0, "the store does not open"), (4096, "of the index is damaged")] {
        for close in [true, false] {
            let Some(heap) = made(close) else { return };
            let large = b"[large]".repeat(100_000);
            let store = heap.open();
            store.set(b"large", &large).unwrap();
            if close {
                store.close().unwrap()
            } else {
                store.kill()
            }
            let pages = index_pages(&heap);
            assert!(!pages.is_empty());
            heap.put(pages[0] + offset, &[0xa5; 1024]);
            heap.tells(tells);
            let repair = CheckOptions { repair: true, ..CheckOptions::default() };
            let report = terrace::check(&heap.path, &repair).unwrap();
            assert!(report.is_clean() && report.to_string().contains("the index was made anew"), "{report}");
            assert_eq!(report.counts.keys, u64::from(KEYS), "{report}");
            let store = heap.open();
            for i in 0..KEYS {
                assert_eq!(store.get(&key(i)).unwrap(), (i != 5).then(|| value(i)), "key {i}");
            }
            assert!(store.get(b"large").unwrap() == Some(large));
            // What the index made anew takes as free is free.
            (0..KEYS).for_each(|i| store.set(&key(i), &value(i + 1)).map(drop).unwrap());
            for i in 0..KEYS {
                assert_eq!(store.get(&key(i)).unwrap(), Some(value(i + 1)), "key {i}");
            }
            store.close().unwrap();
            assert!(heap.check().is_clean());
        }
    }
}
