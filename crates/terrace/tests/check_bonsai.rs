//! `terrace::check` on stores of engine `bonsai`: whole ones are clean and counted, and each kind of damage is named, and answers an
//! error where the store opens.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use terrace::check::{CheckOptions, Report};
use terrace::{OpenStore, Options, Place, Tier};
use terrace_engine::Batch;
use terrace_engine::op::{Condition, Expiry, OpKind};

/// Pairs that are entries themselves, records, keys whose fences take places of entries, and keys with fences too long for a node.
const PAIRS: u32 = 2_000;
const RECORDS: u32 = 1_000;
const LONG: u32 = 500;
const LONGER: u32 = 300;
/// All of these, and a large value.
const KEYS: u64 = (PAIRS + RECORDS + LONG + LONGER + 1) as u64;
/// docs/formats/scm.md
const LINES_AT: u64 = 5952;
const LINE_BYTES: u64 = 64;
const STATICS: [u64; 2] = [0, 64];
const COMMIT: u64 = 32;
const FINGERPRINTS: u64 = 48;
const META_BYTES: u64 = 128;
const ENTRY_BYTES: u64 = 28;
const ENTRIES: u64 = 40;
const SLOT_BYTES: u64 = META_BYTES + ENTRIES * ENTRY_BYTES;

struct Made {
    _dir: tempfile::TempDir,
    options: Options,
    path: PathBuf,
}

/// Where an entry is: its slot's first byte, and which of it.
type Where = (u64, u64);

fn pair(i: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("{i:08}").into_bytes(), format!("v{i:07}").into_bytes())
}

fn record(i: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("key:{i:08}").into_bytes(), format!("[{i}]").into_bytes().repeat(1 + i as usize % 40))
}

fn long(i: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("a key that begins as others do:{i:08}").into_bytes(), pair(i).1)
}

fn longer(i: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("{}{i:08}", "so much is alike ".repeat(30)).into_bytes(), pair(i).1)
}

fn large() -> (Vec<u8>, Vec<u8>) {
    (b"large".to_vec(), b"[large]".repeat(100_000))
}

fn all() -> Vec<(Vec<u8>, Vec<u8>)> {
    let small = (0..PAIRS)
        .map(pair)
        .chain((0..RECORDS).map(record))
        .chain((0..LONG).map(long))
        .chain((0..LONGER).map(longer));
    small.chain([large()]).collect()
}

/// A store that was filled, written over in part, and closed or killed; `None` where the machine has no memory to share.
fn made(close: bool) -> Option<Made> {
    let dir = tempfile::tempdir_in("/dev/shm").ok()?;
    let options = Options {
        engine: "bonsai".into(),
        dir: Some(dir.path().into()),
        pmem: Some(Tier { bytes: 32 << 20, place: Some(Place::Path(dir.path().into())) }),
        profile: Some("dram".into()),
        ..Options::default()
    };
    let store = terrace::open(options.clone()).unwrap();
    for (key, value) in all() {
        store.set(&key, b"another").unwrap();
        store.set(&key, &value).unwrap();
    }
    for (db, key) in [(1, b"flushed"), (2, b"is kept")] {
        let fill = |batch: &mut Batch| {
            let value = batch.bytes(b"value");
            let (condition, expiry) = (Condition::Always, Expiry::Clear);
            batch.push(db, key, OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false });
        };
        store.run(fill, |_, _| ()).unwrap();
    }
    store.run(|batch| _ = batch.push(0, b"", OpKind::Flush { db: Some(1) }), |_, _| ()).unwrap();
    assert!(store.delete(&pair(5).0).unwrap() && store.delete(&record(5).0).unwrap());
    store.set(&pair(5).0, &pair(5).1).unwrap();
    store.set(&record(5).0, &record(5).1).unwrap();
    if close {
        store.close().unwrap();
    } else {
        let of_nodes = |(of, count): &(&str, u64)| *of == "bonsai_nodes" && *count > 50;
        while !store.stats().engine_details.iter().any(of_nodes) {
            std::thread::yield_now();
        }
        store.kill();
    }
    Some(Made { path: dir.path().join("pmem"), options, _dir: dir })
}

/// Whether there is no node: the word's halves are checksums of the slot and `free`, and of the slot and `slot`. They differ by the same bits
/// whatever the slot.
fn is_free(commit: u64) -> bool {
    (commit >> 32) as u32 ^ commit as u32 == crc32c::crc32c(b"free") ^ crc32c::crc32c(b"slot")
}

fn word(bytes: &[u8], at: u64) -> u64 {
    u64::from_le_bytes(bytes[at as usize..][..8].try_into().unwrap())
}

impl Made {
    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }
    fn flip(&self, at: u64, bit: u32) {
        let file = File::options().read(true).write(true).open(&self.path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
    }
    fn check(&self) -> Report {
        terrace::check(&self.path, &CheckOptions::default()).unwrap()
    }
    fn open(&self) -> OpenStore {
        terrace::open(self.options.clone()).unwrap()
    }
    /// Slots of pages of nodes: their numbers, and where each starts.
    fn slots(&self, bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
        let pages = self.check().counts.heap.unwrap().pages;
        let pages_at = (LINES_AT + pages * 2 * LINE_BYTES) + 128;
        let page_bytes = 1 << ((bytes.len() as u64 - pages_at) / pages).ilog2();
        let is_of_nodes = |page: &u64| {
            let copies = [0, 1].map(|copy| LINES_AT + (2 * page + copy) * LINE_BYTES);
            let newest = copies.into_iter().max_by_key(|at| word(bytes, at + 8)).unwrap();
            bytes[newest as usize + 16] == 5
        };
        let of_page = (page_bytes - 2 * LINE_BYTES) / SLOT_BYTES;
        let of_nodes: Vec<u64> = (0..pages).filter(is_of_nodes).collect();
        of_nodes.into_iter().flat_map(move |page| {
            let first = pages_at + page * page_bytes + LINE_BYTES;
            (0..of_page).map(move |i| (page * of_page + i, first + i * SLOT_BYTES))
        })
    }
    /// Where each node's slot starts, as commit words say.
    fn nodes(&self, bytes: &[u8]) -> Vec<u64> {
        let all = self.slots(bytes).map(|(_, at)| at);
        all.filter(|at| !is_free(word(bytes, at + COMMIT))).collect()
    }
    /// The entry of a pair.
    fn entry_of(&self, (key, value): (Vec<u8>, Vec<u8>)) -> Where {
        let bytes = self.bytes();
        let key: Vec<u8> = key.into_iter().rev().collect();
        let is_it = |slot: u64, i: u64| {
            let at = (slot + META_BYTES + i * ENTRY_BYTES) as usize;
            let counts = word(&bytes, slot + COMMIT) >> i & 1 == 1;
            counts && bytes[at..at + 8] == key[..] && bytes[at + 8..at + 16] == value[..]
        };
        let mut all = self.nodes(&bytes).into_iter().flat_map(|slot| (0..ENTRIES).map(move |i| (slot, i)));
        all.find(|(slot, i)| is_it(*slot, *i)).unwrap()
    }
    /// What it says of damage.
    fn tells(&self, what: &str) -> Report {
        let before = self.bytes();
        let report = self.check();
        assert!(report.to_string().contains(what), "{what}: {report}");
        let how = CheckOptions { repair: true, ..CheckOptions::default() };
        let repaired = terrace::check(&self.path, &how).unwrap();
        assert!(repaired.repairs.is_empty(), "{repaired}");
        assert!(repaired.to_string().contains("can't be repaired yet: nothing was changed"), "{repaired}");
        assert!(self.bytes() == before, "looking changes nothing");
        report
    }
    /// Opens it: of these keys each answers an error, all others what was written. They can be written, and all is counted.
    fn answers_but(&self, is_lost: impl Fn(&[u8]) -> bool) -> u64 {
        let store = self.open();
        let mut lost = 0;
        for (key, value) in all() {
            if is_lost(&key) {
                assert!(store.get(&key).is_err(), "{}", key.escape_ascii());
                lost += 1;
            } else {
                assert!(store.get(&key).unwrap() == Some(value), "{}", key.escape_ascii());
            }
        }
        for (key, value) in all().into_iter().filter(|(key, _)| is_lost(key)) {
            store.set(&key, &value).unwrap();
            assert!(store.get(&key).unwrap() == Some(value), "{}", key.escape_ascii());
        }
        store.close().unwrap();
        let store = self.open();
        for (key, value) in all() {
            assert!(store.get(&key).unwrap() == Some(value), "{}", key.escape_ascii());
        }
        assert_eq!(store.len(0), KEYS);
        store.close().unwrap();
        lost
    }
    /// It can be opened, all is there, and nothing is left to be said.
    fn is_mended(&self) {
        self.answers_but(|_| false);
        let report = self.check();
        assert!(report.is_clean() && report.notes.is_empty(), "{report}");
        assert_eq!(report.counts.keys, KEYS + 1, "{report}");
    }
}

#[test]
fn whole_stores_are_clean_and_counted() {
    for close in [true, false] {
        let Some(made) = made(close) else { return };
        let report = made.tells("slots free");
        assert!(report.is_clean() && report.to_string().ends_with("\nclean"), "{report}");
        if close {
            assert_eq!(report.counts.keys, KEYS + 1, "{report}");
            assert_eq!((report.counts.records[1], report.counts.extents), (1, 1), "{report}");
            let count = |what: &str| {
                let line = report.about.iter().find(|line| line.contains(what)).unwrap();
                let (before, _) = line.split_once(what).unwrap();
                before.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
            };
            assert_eq!(count(" entries inline") + count(" references"), KEYS + 1, "{report}");
            assert_eq!(count(" entries inline"), u64::from(PAIRS) + 1, "{report}");
            // Of the longest keys alone: fences of the others are in the places of entries.
            assert!((5..20).contains(&count(" with texts")), "{report}");
            assert_eq!(count(" nodes"), made.nodes(&made.bytes()).len() as u64, "{report}");
        }
        made.is_mended();
    }
}

#[test]
fn a_damaged_entry_is_told_and_answers_an_error() {
    let Some(made) = made(true) else { return };
    let (slot, i) = made.entry_of(pair(39));
    // Its key, its value, its version, its check.
    for (byte, bit) in [(2, 0), (9, 6), (20, 3), (24, 1), (27, 7)] {
        let at = slot + META_BYTES + i * ENTRY_BYTES + byte;
        made.flip(at, bit);
        made.tells(&format!("entry {i}: damaged; its key answers an error"));
        let store = made.open();
        assert!(store.get(&pair(39).0).is_err());
        assert_eq!(store.get(&pair(40).0).unwrap(), Some(pair(40).1));
        store.close().unwrap();
        made.flip(at, bit);
    }
    made.flip(slot + META_BYTES + i * ENTRY_BYTES + 9, 6);
    assert_eq!(made.answers_but(|key| key == pair(39).0), 1);
    made.is_mended();
}

#[test]
fn damaged_records_and_large_values_are_told() {
    let Some(made) = made(true) else { return };
    for (key, value) in [record(39), large()] {
        // The newest one stands last.
        let text = &value[..value.len().min(1000)];
        let at = made.bytes().windows(text.len()).rposition(|window| window == text).unwrap();
        made.flip(at as u64 + 3, 4);
        let what = if value.len() > 1000 { "parts of its large value are damaged" } else { "damaged record" };
        let report = made.tells(what);
        assert_eq!((report.problem_count(), report.counts.poisoned), (1, 1), "{report}");
        assert_eq!(made.answers_but(|lost| lost == key), 1);
        made.is_mended();
    }
}

#[test]
fn damaged_fingerprints_are_told_and_made_anew() {
    let Some(made) = made(true) else { return };
    let (slot, i) = made.entry_of(pair(39));
    let at = if i < 16 { FINGERPRINTS + i } else { 104 + i - 16 };
    // Of the commit word the last twelve bits are their check.
    for (at, bit) in [(at, 0), (at, 7), (COMMIT + 7, 2)] {
        made.flip(slot + at, bit);
        assert!(made.tells("1 nodes have damaged fingerprints").is_clean());
        made.is_mended();
    }
}

#[test]
fn a_damaged_commit_word_is_told_and_its_keys_answer_errors() {
    let Some(first) = made(true) else { return };
    // An entry that counts, one that does not, the check.
    for (pick, bit) in [(39, 0), (700, 38), (1500, 45)] {
        let made = if pick == 39 { &first } else { &made(true).unwrap() };
        let bytes = made.bytes();
        let (slot, _) = made.entry_of(pair(pick));
        let commit = word(&bytes, slot + COMMIT);
        let entries = (0..ENTRIES).filter(|i| commit >> i & 1 == 1);
        let keys: Vec<Vec<u8>> = entries
            .map(|i| {
                let at = (slot + META_BYTES + i * ENTRY_BYTES) as usize;
                bytes[at..at + 8].iter().rev().copied().collect()
            })
            .collect();
        assert!(keys.len() > 10 && keys.contains(&pair(pick).0));
        made.flip(slot + COMMIT + bit / 8, bit as u32 % 8);
        let report = made.tells("the word is damaged that says which entries it has");
        assert_eq!(report.problem_count(), 1, "{report}");
        assert_eq!(made.answers_but(|key| keys.iter().any(|lost| lost == key)), keys.len() as u64);
        let report = made.tells("something of it was lost");
        assert_eq!(report.counts.keys, KEYS + 1, "{report}");
    }
}

#[test]
fn one_copy_of_what_does_not_change_is_made_anew_and_both_are_told() {
    let Some(made) = made(true) else { return };
    let (slot, _) = made.entry_of(pair(39));
    for at in STATICS {
        made.flip(slot + at + 17, 2);
        assert!(made.tells("1 nodes have a damaged copy of what does not change").is_clean());
        made.is_mended();
    }
    // And a word that says when it ends.
    made.flip(slot + 96 + 3, 2);
    assert!(made.tells("1 nodes have a damaged copy").is_clean());
    made.is_mended();
    STATICS.iter().for_each(|at| made.flip(slot + at + 17, 2));
    made.tells("nobody can tell which keys it has");
    assert!(terrace::open(made.options.clone()).is_err());
    STATICS.iter().for_each(|at| made.flip(slot + at + 17, 2));
    made.is_mended();
}

#[test]
fn a_damaged_text_of_a_fence_is_told() {
    let Some(made) = made(true) else { return };
    let bytes = made.bytes();
    let number = |slot: u64| u32::from_le_bytes(bytes[slot as usize + 20..][..4].try_into().unwrap());
    let slot_of = |number| made.slots(&bytes).find(|(of, _)| *of == u64::from(number)).unwrap().1;
    let is_one = |slot: &u64| bytes[*slot as usize + 4] == 255 && slot_of(number(*slot)) != *slot;
    let slot = made.nodes(&bytes).into_iter().find(is_one).unwrap();
    let text = slot_of(number(slot)) + 48;
    assert!(bytes[text as usize..].starts_with(b"so much is alike so much"));
    made.flip(text + 5, 1);
    made.tells("nobody can tell which keys it has");
    assert!(terrace::open(made.options.clone()).is_err());
    made.flip(text + 5, 1);
    made.is_mended();
}

#[test]
fn a_damaged_text_of_a_fence_in_its_node_is_made_anew_from_keys() {
    let Some(made) = made(true) else { return };
    let bytes = made.bytes();
    // The text is at the slot's end, in whole words.
    let at = |slot: u64| {
        let length = u64::from(u32::from_le_bytes(bytes[slot as usize + 16..][..4].try_into().unwrap()));
        (slot + SLOT_BYTES - length.next_multiple_of(8), length)
    };
    let is_one = |slot: &u64| {
        let start = b"a key that begins as others do:";
        bytes[*slot as usize + 4] == 255 && bytes[at(*slot).0 as usize..].starts_with(start)
    };
    let slot = made.nodes(&bytes).into_iter().find(is_one).unwrap();
    let (text, length) = at(slot);
    for byte in [0, 5, length - 1] {
        made.flip(text + byte, 1);
        assert!(made.tells("1 nodes have a damaged copy").is_clean());
        made.is_mended();
        let report = terrace::check(&made.path, &CheckOptions::default()).unwrap().to_string();
        assert!(!report.contains("damaged copy"), "{report}");
    }
}

#[test]
fn without_a_root_it_does_not_open() {
    let Some(made) = made(true) else { return };
    (0..3).for_each(|copy| made.flip(4608 + copy * 448 + 20, 0));
    made.tells("no copy of the root is whole");
    assert!(terrace::open(made.options.clone()).is_err());
}
