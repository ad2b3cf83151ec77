//! Engines whose memory grows when a store is opened with more of it.

use terrace::check::CheckOptions;
use terrace::engine::Durability;
use terrace::{OpenStore, Options, Place, Tier, open};

use super::{MIB, detail, key, long};

/// A store of such an engine in shared memory.
struct Grows {
    engine: &'static str,
    memory: tempfile::TempDir,
}

impl Grows {
    fn new(engine: &'static str) -> Option<Self> {
        Some(Self { engine, memory: tempfile::tempdir_in("/dev/shm").ok()? })
    }
    fn options(&self, bytes: u64) -> Options {
        Options {
            engine: self.engine.into(),
            dram_records: Some(4 * MIB),
            pmem: Some(Tier { bytes, place: Some(Place::Path(self.memory.path().into())) }),
            profile: Some("dram".into()),
            durability: Durability::Sync,
            ..Options::default()
        }
    }
    /// Opens a store that `terrace check` takes for whole, and that has the size of its file.
    fn open(&self, bytes: u64) -> OpenStore {
        let report = terrace::check(self.memory.path(), &CheckOptions::default()).unwrap();
        assert!(report.is_clean(), "{report}");
        let store = open(self.options(bytes)).unwrap();
        assert_eq!(store.pmem_bytes(), Some(self.len()), "{:?}", store.description);
        store
    }
    fn file(&self) -> std::path::PathBuf {
        self.memory.path().join("pmem")
    }
    fn len(&self) -> u64 {
        self.file().metadata().unwrap().len()
    }
    fn set_len(&self, bytes: u64) {
        std::fs::File::options().write(true).open(self.file()).unwrap().set_len(bytes).unwrap();
    }
}

fn says(store: &OpenStore, what: &str) -> bool {
    store.description.iter().any(|line| line.contains(what))
}

/// Writes until the store takes nothing more; the first number that was refused.
fn fill(store: &OpenStore, from: u32) -> u32 {
    (from..200_000).find(|number| store.set(&key(*number), &long(*number, 1)).is_err()).unwrap()
}

fn assert_all(store: &OpenStore, count: u32) {
    for number in 0..count {
        assert!(store.get(&key(number)).unwrap() == Some(long(number, 1)), "{number}");
    }
    assert_eq!(store.len(0), u64::from(count));
}

#[test]
fn a_full_store_takes_more_once_it_is_opened_with_more() {
    for engine in ["scmkv", "bonsai"] {
        let Some(grows) = Grows::new(engine) else { return };
        let store = open(grows.options(24 * MIB)).unwrap();
        let first = fill(&store, 0);
        assert!(first > 2_000, "{engine}: {first}");
        let error = store.resize_pmem(48 * MIB).unwrap_err().to_string();
        assert!(error.contains("can't be resized while this engine runs"), "{error}");
        assert!(error.contains("larger --pmem"), "{error}");
        store.kill();

        // The same size: all is as it was.
        let store = open(grows.options(24 * MIB)).unwrap();
        assert!(!says(&store, "grew") && !says(&store, "keeps its size"), "{:?}", store.description);
        assert_all(&store, first);
        store.close().unwrap();

        let store = grows_to(&grows, 48 * MIB);
        assert_all(&store, first);
        let second = fill(&store, first);
        assert!(second > first + first * 3 / 4, "{engine}: {first}, and {second} in twice as much");
        assert_all(&store, second);
        store.kill();
        let store = grows.open(48 * MIB);
        assert!(!says(&store, "grew"), "{:?}", store.description);
        assert_all(&store, second);
        store.close().unwrap();

        // A smaller one says why not.
        let store = grows.open(24 * MIB);
        assert!(
            says(&store, "keeps its size, 48 MiB") && says(&store, "does not shrink"),
            "{:?}",
            store.description
        );
        assert_eq!(grows.len(), 48 * MIB);
        assert_all(&store, second);
        // Pages that it has grown by are cleaned and filled again.
        (0..second / 2).for_each(|number| assert!(store.delete(&key(number)).unwrap()));
        (0..second / 3).for_each(|number| store.set(&key(number), &long(number, 1)).unwrap());
        (second / 3..second / 2).for_each(|number| assert!(store.get(&key(number)).unwrap().is_none()));
        (second / 3..second / 2).for_each(|number| store.set(&key(number), &long(number, 1)).unwrap());
        store.close().unwrap();

        // Again, by what is no multiple of anything.
        let store = grows_to(&grows, 71 * MIB + 4096);
        assert_all(&store, second);
        let third = fill(&store, second);
        assert!(third > second + first / 2, "{engine}: {second}, and {third}");
        store.close().unwrap();
        let store = grows.open(71 * MIB + 4096);
        assert_all(&store, third);
        assert!(detail(&store, "scm_rounds") > 0);
        store.close().unwrap();
        // A part is missing.
        grows.set_len(60 * MIB);
        let error = open(grows.options(48 * MIB)).err().unwrap().to_string();
        assert!(error.contains("are recorded"), "{error}");
        assert!(terrace::check(grows.memory.path(), &CheckOptions::default()).is_err());
    }
}

fn grows_to(grows: &Grows, bytes: u64) -> OpenStore {
    let store = open(grows.options(bytes)).unwrap();
    assert!(says(&store, "the store grew from"), "{:?}", store.description);
    assert_eq!((grows.len(), store.pmem_bytes()), (bytes, Some(bytes)));
    store
}

/// As a crash leaves it that comes before the size is stored.
#[test]
fn a_file_that_is_longer_than_its_store_counts_for_nothing() {
    for engine in ["scmkv", "bonsai"] {
        let Some(grows) = Grows::new(engine) else { return };
        let store = open(grows.options(24 * MIB)).unwrap();
        (0..2_000).for_each(|number| store.set(&key(number), &long(number, 1)).unwrap());
        store.kill();
        grows.set_len(48 * MIB);
        let report = terrace::check(grows.memory.path(), &CheckOptions::default()).unwrap();
        assert!(report.is_clean(), "{report}");
        let store = open(grows.options(24 * MIB)).unwrap();
        assert_eq!(store.pmem_bytes(), Some(24 * MIB));
        assert_all(&store, 2_000);
        store.close().unwrap();
        let store = grows_to(&grows, 48 * MIB);
        assert_all(&store, 2_000);
        store.close().unwrap();
    }
}

/// It is told what to do, and the store is as it was.
#[test]
fn too_little_room_is_an_error_and_changes_nothing() {
    for engine in ["scmkv", "bonsai"] {
        let Some(grows) = Grows::new(engine) else { return };
        let store = open(grows.options(24 * MIB)).unwrap();
        (0..2_000).for_each(|number| store.set(&key(number), &long(number, 1)).unwrap());
        store.close().unwrap();
        let error = open(grows.options(1 << 50)).err().unwrap().to_string();
        assert!(error.contains("more than now") && error.contains("free"), "{error}");
        assert_eq!(grows.len(), 24 * MIB);
        let store = grows.open(24 * MIB);
        assert_all(&store, 2_000);
        store.close().unwrap();
    }
}

/// docs/formats/scm.md: where lines of pages begin that are in front of them.
const LINES_AT: usize = 5952;
/// Records that are in nodes themselves: they take pages of nodes when all others are full.
const SMALL: u32 = 20_000;

fn small(number: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("{number:08}").into_bytes(), format!("v{number:07}").into_bytes())
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Where all lines of pages stand, in front of the pages or among them: the copies of each one are neighbours.
fn lines(bytes: &[u8]) -> Vec<usize> {
    let is_one = |at: &usize| bytes[*at..].starts_with(b"TRCSCMP1");
    (LINES_AT..bytes.len()).step_by(64).filter(is_one).collect()
}

/// A store that was full, has grown, and has something in its new pages that these bytes say where to damage.
fn is_repaired(
    engine: &'static str,
    damage: impl Fn(&mut [u8], usize, usize),
    expected: &str,
    gone_most: u32,
) {
    let Some(grows) = Grows::new(engine) else { return };
    let store = open(grows.options(24 * MIB)).unwrap();
    let first = fill(&store, 0);
    store.close().unwrap();
    let check = |repair| {
        terrace::check(grows.memory.path(), &CheckOptions { repair, ..CheckOptions::default() }).unwrap()
    };
    let made = check(false).counts.heap.unwrap().pages as usize;
    let store = grows_to(&grows, 48 * MIB);
    let all = first + 500;
    (first..all).for_each(|number| store.set(&key(number), &long(number, 1)).unwrap());
    (0..SMALL).map(small).for_each(|(key, value)| store.set(&key, &value).unwrap());
    store.close().unwrap();
    let now = check(false).counts.heap.unwrap().pages as usize;
    assert!(now > made + made / 2, "{engine}: {made}, and {now}");

    let mut bytes = std::fs::read(grows.file()).unwrap();
    damage(&mut bytes, made, now);
    std::fs::write(grows.file(), &bytes).unwrap();
    assert!(!check(false).is_clean());
    let report = check(true);
    assert!(report.is_clean() && report.beyond.is_empty(), "{engine}: {report}");
    assert!(report.repairs.iter().any(|line| line.contains(expected)), "{engine}, {expected}: {report}");
    assert!(check(true).repairs.is_empty(), "{engine}: twice is once");

    let store = grows_to(&grows, 71 * MIB);
    let mut gone = 0;
    let written = (0..all).map(|number| (key(number), long(number, 1))).chain((0..SMALL).map(small));
    for (key, value) in written {
        match store.get(&key).unwrap() {
            Some(found) => assert!(found == value, "{engine}: {}", key.escape_ascii()),
            None => gone += 1,
        }
    }
    assert!(gone <= gone_most && (gone > 0) == (gone_most > 0), "{engine}: {gone} are gone");
    assert_eq!(store.len(0), u64::from(all + SMALL - gone), "{engine}");
    let end = fill(&store, all);
    assert!(end > all + 1_000, "{engine}: {all}, and {end}");
    store.close().unwrap();
    assert!(check(false).is_clean(), "{engine}");
}

#[test]
fn lines_of_pages_are_made_anew_of_a_store_that_has_grown() {
    for engine in ["scmkv", "bonsai"] {
        let of_all = |bytes: &mut [u8], made: usize, now: usize| {
            let lines = lines(bytes);
            let beyond = lines.len() / 2 - made;
            assert!(beyond > made / 2 && beyond < now - made, "{engine}: {beyond} of {now}");
            lines.iter().for_each(|at| bytes[at + 17] ^= 8);
        };
        is_repaired(engine, of_all, "lines of pages were made anew", 0);
    }
}

#[test]
fn a_bucket_that_leads_to_where_a_store_has_grown_is_made_anew() {
    let a_bucket = |bytes: &mut [u8], made: usize, _now: usize| {
        let (buckets_at, page) = (LINES_AT + made * 128, 256 << 10);
        let leads_there = |at: &usize| {
            let word = word(bytes, *at);
            word >> 45 & 3 != 0 && (word & ((1 << 45) - 1)) as usize * 8 >= made * page
        };
        let at = (buckets_at..).step_by(8).find(leads_there).unwrap();
        bytes[at + 1] ^= 1;
    };
    is_repaired("scmkv", a_bucket, "1 buckets of the table were made anew", 0);
}

#[test]
fn a_node_where_a_store_has_grown_is_given_up() {
    let a_node = |bytes: &mut [u8], made: usize, now: usize| {
        let (pages_at, page, slot_bytes) = (LINES_AT + made * 128 + 128, 256 << 10, 1248);
        let slots = (0..(page - 128) / slot_bytes).map(|i| 64 + i * slot_bytes);
        // It counts, has entries, and begins with a key of eight bytes.
        let is_node = |at: &usize| {
            let (commit, about) = (word(bytes, at + 32), &bytes[*at..at + 32]);
            // Halves of the word of a slot that is free differ by the same bits whatever the slot.
            let differ = (commit >> 32) as u32 ^ commit as u32;
            let is_free = differ == crc32c::crc32c(b"free") ^ crc32c::crc32c(b"slot");
            let has_many = (commit << 24).count_ones() >= 10;
            !is_free && has_many && about == &bytes[at + 64..at + 96] && about[4] == 8
        };
        let of_grown =
            (made..now).flat_map(|number| slots.clone().map(move |at| pages_at + number * page + at));
        let at = of_grown.into_iter().find(is_node).unwrap();
        [0, 64].into_iter().for_each(|copy| bytes[at + copy + 17] ^= 4);
    };
    is_repaired("bonsai", a_node, "1 nodes were given up", 40);
}
