//! Stores of engine `bonsai` that tests damage, and where things are in them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use terrace::check::{CheckOptions, Report};
use terrace::{OpenStore, Options, Place, Tier};
use terrace_engine::Batch;
use terrace_engine::op::{Condition, Expiry, OpKind};

/// Pairs that are entries themselves, records, keys whose fences take places of entries, and keys with fences too long for a node.
pub(crate) const PAIRS: u32 = 2_000;
pub(crate) const RECORDS: u32 = 1_000;
pub(crate) const LONG: u32 = 500;
pub(crate) const LONGER: u32 = 300;
/// All of these, and a large value.
pub(crate) const KEYS: u64 = (PAIRS + RECORDS + LONG + LONGER + 1) as u64;
/// docs/formats/scm.md
pub(crate) const LINES_AT: u64 = 5952;
pub(crate) const LINE_BYTES: u64 = 64;
/// Where roots say how many nodes there are.
pub(crate) const NODES_SAID_AT: [u64; 3] = [5040, 5488, 5936];
pub(crate) const STATICS: [u64; 2] = [0, 64];
pub(crate) const COMMIT: u64 = 32;
pub(crate) const FINGERPRINTS: u64 = 48;
pub(crate) const META_BYTES: u64 = 128;
pub(crate) const ENTRY_BYTES: u64 = 28;
pub(crate) const ENTRIES: u64 = 40;
/// Between versions of one session: below are its number's bits.
const VERSION_STEP: u64 = 1 << 10;
pub(crate) const SLOT_BYTES: u64 = META_BYTES + ENTRIES * ENTRY_BYTES;

pub(crate) struct Made {
    _dir: tempfile::TempDir,
    pub options: Options,
    pub path: PathBuf,
}

/// Where an entry is: its slot's first byte, and which of it.
pub(crate) type Where = (u64, u64);

pub(crate) fn pair(i: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("{i:08}").into_bytes(), format!("v{i:07}").into_bytes())
}

pub(crate) fn record(i: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("key:{i:08}").into_bytes(), format!("[{i}]").into_bytes().repeat(1 + i as usize % 40))
}

pub(crate) fn long(i: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("a key that begins as others do:{i:08}").into_bytes(), pair(i).1)
}

pub(crate) fn longer(i: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("{}{i:08}", "so much is alike ".repeat(30)).into_bytes(), pair(i).1)
}

pub(crate) fn large() -> (Vec<u8>, Vec<u8>) {
    (b"large".to_vec(), b"[large]".repeat(100_000))
}

pub(crate) fn all() -> Vec<(Vec<u8>, Vec<u8>)> {
    let small = (0..PAIRS)
        .map(pair)
        .chain((0..RECORDS).map(record))
        .chain((0..LONG).map(long))
        .chain((0..LONGER).map(longer));
    small.chain([large()]).collect()
}

/// A store that was filled, written over in part, and closed or killed; `None` where the machine has no memory to share.
pub(crate) fn made(close: bool) -> Option<Made> {
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
pub(crate) fn is_free(commit: u64) -> bool {
    (commit >> 32) as u32 ^ commit as u32 == crc32c::crc32c(b"free") ^ crc32c::crc32c(b"slot")
}

pub(crate) fn word(bytes: &[u8], at: u64) -> u64 {
    u64::from_le_bytes(bytes[at as usize..][..8].try_into().unwrap())
}

impl Made {
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }
    pub fn flip(&self, at: u64, bit: u32) {
        let file = File::options().read(true).write(true).open(&self.path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
    }
    pub fn zero(&self, at: u64, bytes: u64) {
        let file = File::options().write(true).open(&self.path).unwrap();
        file.write_all_at(&vec![0; bytes as usize], at).unwrap();
    }
    /// Makes a version there that of the record before: each key was written twice, one time after the other by one session.
    pub fn flip_to_version_before(&self, at: u64) {
        let version = word(&self.bytes(), at);
        let differs = version ^ (version - VERSION_STEP);
        (0..u64::BITS).filter(|bit| differs >> bit & 1 == 1).for_each(|bit| {
            self.flip(at + u64::from(bit / 8), bit % 8);
        });
    }
    pub fn check(&self) -> Report {
        terrace::check(&self.path, &CheckOptions::default()).unwrap()
    }
    pub fn repair(&self) -> Report {
        terrace::check(&self.path, &CheckOptions { repair: true, ..CheckOptions::default() }).unwrap()
    }
    /// Repairs it, which does this much and no more; a second time does nothing.
    pub fn repaired(&self, expected: &[&str]) -> Report {
        let report = self.repair();
        let text = report.to_string();
        assert!(report.is_clean() && report.beyond.is_empty(), "{text}");
        assert_eq!(report.repairs.len(), expected.len(), "{text}");
        for what in expected {
            assert!(report.repairs.iter().any(|line| line.starts_with(what)), "{what}: {text}");
        }
        let bytes = self.bytes();
        assert!(self.repair().repairs.is_empty() && self.bytes() == bytes, "twice is once");
        report
    }
    /// Opens it: these keys are not there, all others have what was written. All can be written, and is counted.
    pub fn holds_but(&self, is_gone: impl Fn(&[u8]) -> bool) {
        let store = self.open();
        let mut gone = 0;
        for (key, value) in all() {
            let expected = (!is_gone(&key)).then_some(value);
            gone += u64::from(expected.is_none());
            assert!(store.get(&key).unwrap() == expected, "{}", key.escape_ascii());
        }
        assert_eq!(store.len(0), KEYS - gone);
        store.close().unwrap();
        let report = self.check();
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.counts.keys, KEYS - gone + 1, "{report}");
        let store = self.open();
        for (key, _) in all() {
            store.set(&key, b"another").unwrap();
        }
        for (key, value) in all() {
            store.set(&key, &value).unwrap();
        }
        store.close().unwrap();
        self.is_mended();
    }
    pub fn pages_at(&self) -> u64 {
        LINES_AT + self.check().counts.heap.unwrap().pages * 2 * LINE_BYTES + 128
    }
    /// The keys of a node's entries that are records themselves.
    pub fn keys_of(&self, slot: u64) -> Vec<Vec<u8>> {
        let bytes = self.bytes();
        let commit = word(&bytes, slot + COMMIT);
        let entries = (0..ENTRIES).filter(|i| commit >> i & 1 == 1);
        let key = |i: u64| {
            let at = (slot + META_BYTES + i * ENTRY_BYTES) as usize;
            bytes[at..at + 8].iter().rev().copied().collect()
        };
        entries.map(key).collect()
    }
    /// The entry that leads to the newest record of a key.
    pub fn reference_of(&self, (key, value): (Vec<u8>, Vec<u8>)) -> Where {
        let (bytes, pages_at) = (self.bytes(), self.pages_at());
        let is_it = |slot: u64, i: u64| {
            let at = slot + META_BYTES + i * ENTRY_BYTES;
            let leads = word(&bytes, slot + COMMIT) >> i & 1 == 1 && bytes[at as usize + 24] & 127 == 81;
            leads && {
                let record = &bytes[(pages_at + word(&bytes, at + 8)) as usize..];
                let has = |text: &[u8]| {
                    text.is_empty() || record[..400].windows(text.len()).any(|window| window == text)
                };
                record.len() > 400 && has(&key) && has(&value[..value.len().min(100)])
            }
        };
        let mut all = self.nodes(&bytes).into_iter().flat_map(|slot| (0..ENTRIES).map(move |i| (slot, i)));
        all.find(|(slot, i)| is_it(*slot, *i)).unwrap()
    }
    pub fn open(&self) -> OpenStore {
        terrace::open(self.options.clone()).unwrap()
    }
    /// Slots of pages of nodes: their numbers, and where each starts.
    pub fn slots(&self, bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
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
    /// Where a slot starts that has the text of a node's fence.
    pub fn text_of_a_fence(&self) -> u64 {
        let bytes = self.bytes();
        let number = |slot: u64| u32::from_le_bytes(bytes[slot as usize + 20..][..4].try_into().unwrap());
        let slot_of = |number| self.slots(&bytes).find(|(of, _)| *of == u64::from(number)).unwrap().1;
        let is_one = |slot: &u64| bytes[*slot as usize + 4] == 255 && slot_of(number(*slot)) != *slot;
        let slot = self.nodes(&bytes).into_iter().find(is_one).unwrap();
        slot_of(number(slot))
    }
    /// Where each node's slot starts, as commit words say.
    pub fn nodes(&self, bytes: &[u8]) -> Vec<u64> {
        let all = self.slots(bytes).map(|(_, at)| at);
        all.filter(|at| !is_free(word(bytes, at + COMMIT))).collect()
    }
    /// The entry of a pair.
    pub fn entry_of(&self, (key, value): (Vec<u8>, Vec<u8>)) -> Where {
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
    pub fn tells(&self, what: &str) -> Report {
        let before = self.bytes();
        let report = self.check();
        assert!(report.to_string().contains(what), "{what}: {report}");
        assert!(self.bytes() == before, "looking changes nothing");
        report
    }
    /// Opens it: of these keys each answers an error, all others what was written. They can be written, and all is counted.
    pub fn answers_but(&self, is_lost: impl Fn(&[u8]) -> bool) -> u64 {
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
    pub fn is_mended(&self) {
        self.answers_but(|_| false);
        let report = self.check();
        assert!(report.is_clean() && report.notes.is_empty(), "{report}");
        assert_eq!(report.counts.keys, KEYS + 1, "{report}");
    }
}
