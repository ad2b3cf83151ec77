//! `terrace::check` on heaps: clean ones are clean, each kind of damage is named as an opening takes it, and a repair makes the
//! heap open again with all that is whole.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use terrace::check::{CheckOptions, Report};
use terrace::engine::OpError;
use terrace::{CallError, Granularity, OpenStore, Options, Place, Tier};

const KEYS: u32 = 20_000;
const LARGE: u32 = 3;
/// The superblock, and a heap's manifests, intents and runs.
const PAGES_AT: u64 = 4096 + 41_472;
/// Where the intents begin, and how many bytes the first copies take.
const INTENTS_AT: u64 = 4096 + 512;
const INTENTS_BYTES: u64 = 256 * 16;

struct Heap {
    _dir: tempfile::TempDir,
    options: Options,
    path: PathBuf,
    page_bytes: u64,
}

fn key(i: u32) -> Vec<u8> {
    format!("key:{i:08}").into_bytes()
}

fn value(i: u32) -> Vec<u8> {
    format!("[{i}]").into_bytes().repeat(1 + i as usize % 40)
}

fn large(i: u32) -> Vec<u8> {
    (0..900_000 + i).map(|at| ((at * 13 + at / 256 * (i + 3)) ^ i) as u8).collect()
}

/// Stores of both kinds that were filled, overwritten, thinned out, and closed or killed.
fn made(close: bool) -> impl Iterator<Item = Heap> {
    [Granularity::Slab, Granularity::Object].into_iter().filter_map(move |heap| made_of(heap, close))
}

fn made_of(heap: Granularity, close: bool) -> Option<Heap> {
    let dir = tempfile::tempdir_in("/dev/shm").ok()?;
    let path = dir.path().join("pmem");
    let options = Options {
        engine: "heap-hybrid".into(),
        heap: Some(heap),
        dir: Some(dir.path().into()),
        pmem: Some(Tier { bytes: 32 << 20, place: Some(Place::Path(dir.path().into())) }),
        profile: Some("dram".into()),
        ..Options::default()
    };
    let store = terrace::open(options.clone()).unwrap();
    for round in 0..2 {
        for i in (0..KEYS).step_by(1 + round * 6) {
            store.set(&key(i), &value(i)).unwrap();
        }
    }
    (0..LARGE).for_each(|i| store.set(format!("large:{i}").as_bytes(), &large(i)).map(drop).unwrap());
    assert!(store.delete(&key(5)).unwrap());
    if close {
        store.close().unwrap();
    } else {
        store.kill();
    }
    let mut heap = Heap { _dir: dir, options, path, page_bytes: 0 };
    heap.page_bytes = (4..=24).map(|bits| 1 << bits).find(|bytes| heap.has_pages_of(*bytes)).unwrap();
    Some(heap)
}

impl Heap {
    fn file(&self) -> File {
        File::options().read(true).write(true).open(&self.path).unwrap()
    }
    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }
    fn put(&self, at: u64, bytes: &[u8]) {
        self.file().write_all_at(bytes, at).unwrap();
    }
    fn flip(&self, at: u64) {
        let mut byte = [0];
        self.file().read_exact_at(&mut byte, at).unwrap();
        self.put(at, &[byte[0] ^ 0x10]);
    }
    fn has_pages_of(&self, page_bytes: u64) -> bool {
        let bytes = self.bytes();
        let is_page = |at: u64| bytes.get(at as usize..at as usize + 4) == Some(b"TRCH");
        (0..8).all(|page| is_page(PAGES_AT + page * page_bytes))
    }
    /// Where a text stands.
    fn find(&self, text: &[u8]) -> u64 {
        self.bytes().windows(text.len()).position(|window| window == text).unwrap() as u64
    }
    fn check(&self, repair: bool) -> Report {
        terrace::check(&self.path, &CheckOptions { repair, ..CheckOptions::default() }).unwrap()
    }
    /// Fills the page of a byte with noise and repairs; the keys and large values whose names stood there.
    fn turned_to_noise(&self, at: u64) -> (Vec<u32>, Vec<u32>, Report) {
        let page = self.page_of(at);
        let bytes = self.bytes();
        let held = &bytes[page as usize..][..self.page_bytes as usize];
        let keys: HashSet<&[u8]> = held.windows(12).filter(|window| window.starts_with(b"key:")).collect();
        let large: HashSet<&[u8]> = held.windows(7).filter(|window| window.starts_with(b"large:")).collect();
        self.put(page, &vec![0xa5; self.page_bytes as usize]);
        self.refuses("of the heap is damaged");
        let lost = (0..KEYS).filter(|i| keys.contains(&key(*i)[..])).collect();
        let lost_large = (0..LARGE).filter(|i| large.contains(format!("large:{i}").as_bytes())).collect();
        (lost, lost_large, self.check(true))
    }
    fn refuses(&self, why: &str) {
        let error = terrace::open(self.options.clone()).err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    }
    fn open(&self) -> OpenStore {
        terrace::open(self.options.clone()).unwrap()
    }
    /// The start of the page that a byte is in.
    fn page_of(&self, at: u64) -> u64 {
        at - (at - PAGES_AT) % self.page_bytes
    }
    /// Opens it, and asks for every key but these.
    fn all_answer(&self, but: &[u32]) {
        self.all_answer_but(but, &[]);
    }
    /// The same without some large values either.
    fn all_answer_but(&self, but: &[u32], but_large: &[u32]) {
        let store = self.open();
        for i in (0..KEYS).filter(|i| !but.contains(i)) {
            assert_eq!(store.get(&key(i)).unwrap(), (i != 5).then(|| value(i)), "key {i}");
        }
        for i in (0..LARGE).filter(|i| !but_large.contains(i)) {
            assert!(store.get(format!("large:{i}").as_bytes()).unwrap() == Some(large(i)), "large {i}");
        }
        store.close().unwrap();
        let report = self.check(false);
        assert!(report.is_clean(), "{report}");
    }
}

#[test]
fn whole_heaps_are_clean_and_counted() {
    for close in [true, false] {
        for heap in made(close) {
            let before = heap.bytes();
            let report = heap.check(false);
            assert!(report.is_clean() && report.to_string().ends_with("\nclean"), "{report}");
            let counts = report.counts;
            assert_eq!(
                (counts.keys, counts.extents),
                (u64::from(KEYS - 1 + LARGE), u64::from(LARGE)),
                "{report}"
            );
            let heap_counts = counts.heap.unwrap();
            assert!(heap_counts.pages_empty > 0 && heap_counts.chunks > u64::from(KEYS), "{report}");
            assert!(
                report.to_string().contains("\nheap  ") && !report.to_string().contains("\nlog  "),
                "{report}"
            );
            assert!(heap.bytes() == before, "looking changes nothing");
            heap.all_answer(&[]);
        }
    }
}

#[test]
fn a_damaged_record_is_told_and_its_key_answers_an_error() {
    for heap in made(true) {
        heap.flip(heap.find(&value(39)));
        let report = heap.check(true);
        assert!(report.problems.len() == 1 && report.counts.damaged == 1, "{report}");
        assert!(
            report.problems[0].contains("damaged record, hash") && report.counts.poisoned == 1,
            "{report}"
        );
        assert!(report.beyond[0].contains("until SET or DEL"), "{report}");
        let store = heap.open();
        assert!(matches!(store.get(&key(39)), Err(CallError::Op(OpError::Poisoned))));
        store.set(&key(39), &value(39)).unwrap();
        store.close().unwrap();
        heap.all_answer(&[]);
    }
}

#[test]
fn a_header_is_made_anew_from_its_chunks() {
    for heap in made(false) {
        let page = heap.page_of(heap.find(&value(39)));
        let whole = heap.bytes();
        // A bit of its magic, of its use, of the length of its chunks; all of it.
        for damage in [Some(2), Some(17), Some(28), None] {
            match damage {
                Some(at) => heap.flip(page + at),
                None => heap.put(page, &[0; 64]),
            }
            heap.refuses("of the heap is damaged");
            let report = heap.check(false);
            assert!(report.problems[0].contains("is damaged; the store does not open"), "{report}");
            let report = heap.check(true);
            assert!(report.is_clean() && report.repairs[0].contains("its header was made anew"), "{report}");
            heap.all_answer(&[]);
            heap.put(0, &whole);
        }
    }
}

#[test]
fn a_page_of_noise_is_given_up_and_the_others_stay() {
    for heap in made(true) {
        let (lost, lost_large, report) = heap.turned_to_noise(heap.find(&value(39)));
        assert!(report.is_clean() && report.repairs[0].contains("it was given up"), "{report}");
        assert!(lost.contains(&39) && lost.len() < KEYS as usize / 2);
        heap.all_answer_but(&lost, &lost_large);
        assert_eq!(heap.open().get(&key(39)).unwrap(), None);
    }
}

#[test]
fn parts_of_a_large_value_whose_record_was_given_up_are_freed() {
    for heap in made(true) {
        let (lost, lost_large, report) = heap.turned_to_noise(heap.find(b"large:1"));
        assert!(
            report.is_clean() && report.repairs.iter().any(|line| line.contains("whose records are gone")),
            "{report}"
        );
        assert!(lost_large.contains(&1) && report.beyond.is_empty(), "{report}");
        heap.all_answer_but(&lost, &lost_large);
        assert_eq!(heap.open().get(b"large:1").unwrap(), None);
    }
}

#[test]
fn a_chunk_of_which_nobody_can_tell_is_freed() {
    for heap in made(true) {
        let record = heap.find(&key(39));
        let chunk = record - (record - PAGES_AT) % 64;
        heap.put(chunk, &[0x5a; 64]);
        heap.refuses("of the heap is damaged");
        let report = heap.check(false);
        assert!(report.problems[0].contains("nobody can tell what it held"), "{report}");
        let report = heap.check(true);
        assert!(report.is_clean() && report.repairs[0].contains("it was freed"), "{report}");
        heap.all_answer(&[39]);
        assert_eq!(heap.open().get(&key(39)).unwrap(), None);
    }
}

#[test]
fn intents_are_mended_when_both_copies_are_damaged() {
    for heap in made(false) {
        heap.flip(INTENTS_AT + 3);
        assert!(heap.check(false).is_clean(), "the other copy counts");
        heap.flip(INTENTS_AT + INTENTS_BYTES + 9);
        heap.refuses("intent is damaged in both copies");
        let report = heap.check(true);
        assert!(report.is_clean() && report.repairs[0].contains("its intent was set"), "{report}");
        heap.all_answer(&[]);
    }
}

#[test]
fn a_large_value_whose_part_is_damaged_is_told() {
    for heap in made(true) {
        let part: Vec<u8> = large(1)[5000..5040].to_vec();
        heap.flip(heap.find(&part));
        let report = heap.check(true);
        assert!(
            report.problems.len() == 1 && report.problems[0].contains("its bytes have checksum"),
            "{report}"
        );
        assert!(report.beyond[0].contains("large values"), "{report}");
        let store = heap.open();
        assert!(matches!(store.get(b"large:1"), Err(CallError::Op(OpError::Poisoned))));
        assert!(store.get(b"large:2").unwrap() == Some(large(2)));
        store.set(b"large:1", &large(1)).unwrap();
        store.close().unwrap();
        heap.all_answer(&[]);
    }
}

#[test]
fn a_manifest_that_is_gone_is_beyond_repair() {
    for heap in made(true) {
        heap.flip(4096 + 20);
        let report = heap.check(false);
        assert!(report.problems[0].contains("one copy of the manifest"), "{report}");
        heap.flip(4096 + 256 + 20);
        let report = heap.check(true);
        assert!(report.problems[0].contains("no copy of the manifest is whole"), "{report}");
        assert!(report.beyond[0].contains("the manifest"), "{report}");
        heap.refuses("neither copy of the manifest");
    }
}

/// Where the map of a page of objects starts, and how many bytes it has at least.
const MAP_AT: u64 = 64;

#[test]
fn a_map_is_made_anew_from_what_is_left_of_it_and_from_the_chunks() {
    let Some(heap) = made_of(Granularity::Object, false) else { return };
    let page = heap.page_of(heap.find(&value(39)));
    let word = MAP_AT + (heap.find(&value(39)) - page) / (48 * 64) * 8;
    let whole = heap.bytes();
    let damages: [&dyn Fn(); 5] = [
        // A bit of a word; a word, where the record is; the first line; the line that the record's word is in; the header, too.
        &|| heap.flip(page + word + 2),
        &|| heap.put(page + word, &[0x5a; 8]),
        &|| heap.put(page + MAP_AT, &[0; 64]),
        &|| heap.put(page + word / 64 * 64, &[0xff; 64]),
        &|| heap.put(page, &[0; 128]),
    ];
    for (i, damage) in damages.iter().enumerate() {
        damage();
        heap.refuses("of the heap is damaged");
        let report = heap.check(false);
        assert!(report.problems[0].contains("its header or its map is damaged"), "{i}: {report}");
        let report = heap.check(true);
        assert!(
            report.is_clean() && report.repairs[0].contains("its map of where chunks start"),
            "{i}: {report}"
        );
        heap.all_answer(&[]);
        heap.put(0, &whole);
    }
}

#[test]
fn a_heap_stays_as_it_was_divided() {
    let Some(heap) = made_of(Granularity::Object, true) else { return };
    let with = |heap_of: Option<Granularity>| Options { heap: heap_of, ..heap.options.clone() };
    let refused = |options: Options| terrace::open(options).err().unwrap().to_string();
    let error = refused(with(Some(Granularity::Slab)));
    assert!(error.contains("was made with --heap object"), "{error}");
    let store = terrace::open(with(None)).unwrap();
    assert_eq!(store.get(&key(39)).unwrap(), Some(value(39)));
    store.close().unwrap();
    heap.all_answer(&[]);
    for (engine, why) in [("heap-persistent", "keeps its index in slabs"), ("tac", "has no heap")] {
        let options = Options { engine: engine.into(), ..with(Some(Granularity::Object)) };
        assert!(terrace::refuse_at_once(&options).is_err());
        let error = refused(options);
        assert!(error.contains(why) && error.contains("--engine heap-hybrid"), "{error}");
    }
}
