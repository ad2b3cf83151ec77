//! Memory between DRAM and an SSD, and memory alone.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use terrace::check::CheckOptions;
use terrace::engine::{Durability, StoreError};
use terrace::{Granularity, OpenStore, Options, Place, Tier, open};

use super::{MIB, assert_written, detail, key, large, long};

const LARGES: u32 = 30;
const KEPT: u32 = 1_500;
const STILL: u32 = 8;

/// A store with so many bytes of memory, over an SSD or alone; shared memory stands in for the device.
struct Stands {
    files: tempfile::TempDir,
    memory: tempfile::TempDir,
    with_ssd: bool,
}

impl Stands {
    fn new(with_ssd: bool) -> Option<Self> {
        let memory = tempfile::tempdir_in("/dev/shm").ok()?;
        Some(Self { files: tempfile::tempdir().unwrap(), memory, with_ssd })
    }
    fn options(&self, engine: &str, bytes: u64, durability: Durability) -> Options {
        Options {
            engine: engine.into(),
            dir: self.with_ssd.then(|| self.dir()),
            dram_records: Some(4 * MIB),
            pmem: Some(Tier { bytes, place: Some(Place::Path(self.memory.path().into())) }),
            ssd: self.with_ssd.then_some(Tier { bytes: 64 * MIB, place: None }),
            profile: Some("dram".into()),
            durability,
            ..Options::default()
        }
    }
    fn open(&self, bytes: u64, durability: Durability) -> OpenStore {
        open(self.options("tac", bytes, durability)).unwrap()
    }
    /// What `terrace check` is told.
    fn dir(&self) -> PathBuf {
        if self.with_ssd { self.files.path().join("store") } else { self.memory.path().into() }
    }
    fn file(&self) -> PathBuf {
        self.memory.path().join("pmem")
    }
    fn len(&self) -> u64 {
        self.file().metadata().unwrap().len()
    }
    /// Waits until nothing lies behind the end any more, and the file ends there.
    fn ends_at(&self, store: &OpenStore, bytes: u64) {
        let begun = Instant::now();
        let left = if self.with_ssd { "pmem_slabs_to_empty" } else { "pages_to_move" };
        while self.len() > bytes {
            let left = detail(store, left);
            assert!(begun.elapsed() < Duration::from_secs(60), "{left} are left to move after a minute");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    fn is_clean(&self) {
        let report = terrace::check(&self.dir(), &CheckOptions::default()).unwrap();
        assert!(report.is_clean(), "{report}");
    }
}

fn capacity(store: &OpenStore) -> u64 {
    store.stats().tiers.iter().find(|tier| tier.tier == "pmem").unwrap().capacity_bytes
}

/// Records of all ages, large values, and much that is deleted again.
fn fill(store: &OpenStore) {
    for number in 0..3_000 {
        store.set(&key(number), &long(number, 1)).unwrap();
    }
    for number in 0..LARGES {
        store.set(format!("large:{number}").as_bytes(), &large(number)).unwrap();
    }
    for number in KEPT..3_000 {
        store.delete(&key(number)).unwrap();
    }
}

/// Writes and reads until the store has the size that was asked for.
fn work_while(store: &OpenStore, rounds: &mut [u8], done: impl Fn() -> bool) {
    let (mut number, begun) = (0, Instant::now());
    while !done() {
        let at = number as usize;
        assert!(store.get(&key(number)).unwrap().unwrap() == long(number, rounds[at]), "{number}");
        rounds[at] = rounds[at].wrapping_add(1);
        store.set(&key(number), &long(number, rounds[at])).unwrap();
        let large_one = number % LARGES;
        assert!(store.get(format!("large:{large_one}").as_bytes()).unwrap() == Some(large(large_one)));
        number = (number + 13) % KEPT;
        assert!(begun.elapsed() < Duration::from_secs(60), "the tier stays as long as it is");
    }
}

fn refused(result: Result<(), StoreError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn memory_over_an_ssd_shrinks_is_drained_and_grows_and_nothing_is_lost() {
    for durability in [Durability::None, Durability::default(), Durability::Sync] {
        let Some(stands) = Stands::new(true) else { return };
        let store = stands.open(28 * MIB, durability);
        fill(&store);
        let mut rounds = vec![1u8; KEPT as usize];
        assert_eq!((store.pmem_bytes(), stands.len()), (Some(28 * MIB), 28 * MIB));
        let full = capacity(&store);
        let front = 28 * MIB - full;
        assert!(front > 7 * MIB && front < 8 * MIB, "the log lies there: {front}");

        store.resize_pmem(20 * MIB).unwrap();
        assert!(capacity(&store) <= 20 * MIB - front, "from the start");
        work_while(&store, &mut rounds, || stands.len() <= 20 * MIB);
        assert_written(&store, &rounds, LARGES);
        // The second is overtaken by the third.
        for megabytes in [14, 10, 16] {
            store.resize_pmem(megabytes * MIB).unwrap();
        }
        work_while(&store, &mut rounds, || stands.len() <= 16 * MIB);

        for (bytes, why) in [(MIB, "the log takes"), (1 << 50, "free"), (8 * MIB - MIB / 2, "none, or")] {
            let text = refused(store.resize_pmem(bytes));
            assert!(text.contains(why), "{bytes}: {text}");
        }
        assert_eq!(store.pmem_bytes(), Some(16 * MIB), "a refusal changes nothing");
        let len = stands.len();
        store.kill();
        stands.is_clean();
        // What is asked for of a store that is there already does not count.
        let store = stands.open(28 * MIB, durability);
        assert_eq!((stands.len(), store.pmem_bytes().map(|bytes| bytes / MIB)), (len, Some(15)));
        assert!(store.description.iter().any(|line| line.contains("CONFIG SET pmem-size")));
        if durability == Durability::None {
            // The kill took what was not saved.
            (0..KEPT).for_each(|number| store.set(&key(number), &long(number, 1)).unwrap());
            rounds.fill(1);
        }
        assert_written(&store, &rounds, LARGES);

        // No records at all, and the log stays.
        store.resize_pmem(0).unwrap();
        work_while(&store, &mut rounds, || stands.len() < 8 * MIB);
        assert_eq!((stands.len(), capacity(&store)), (store.pmem_bytes().unwrap(), 0));
        assert_eq!(detail(&store, "pmem_slabs_to_cut"), 0);
        assert_written(&store, &rounds, LARGES);
        store.close().unwrap();
        stands.is_clean();
        let store = stands.open(28 * MIB, durability);
        assert_written(&store, &rounds, LARGES);
        work_while(&store, &mut rounds, || store.stats().tiers[2].records > 0);

        store.resize_pmem(24 * MIB).unwrap();
        assert_eq!((stands.len() / MIB, capacity(&store) > 15 * MIB), (23, true), "at once");
        let before = store.stats().tiers[1].records;
        work_while(&store, &mut rounds, || store.stats().tiers[1].records > before + 100);
        store.close().unwrap();
        stands.is_clean();
        let store = stands.open(28 * MIB, durability);
        assert_eq!(stands.len() / MIB, 23);
        assert_written(&store, &rounds, LARGES);
        store.close().unwrap();
        // A part is missing.
        let file = std::fs::File::options().write(true).open(stands.file()).unwrap();
        file.set_len(20 * MIB).unwrap();
        let error = open(stands.options("tac", 28 * MIB, durability)).err().unwrap().to_string();
        assert!(error.contains("are recorded"), "{error}");
        assert!(terrace::check(&stands.dir(), &CheckOptions::default()).is_err());
    }
}

#[test]
fn memory_does_not_give_up_what_has_no_room_on_the_ssd() {
    for durability in [Durability::None, Durability::default()] {
        let Some(stands) = Stands::new(true) else { return };
        let store = stands.open(60 * MIB, durability);
        let mut written = 0;
        while store.set(&key(written), &long(written, 1)).is_ok() {
            written += 1;
            assert!(written < 20_000, "it is never full");
        }
        let text = refused(store.resize_pmem(0));
        assert!(text.contains("would need") && text.contains("of tier ssd"), "{text}");
        assert!(text.contains("or leave"), "{text}");
        assert_eq!(detail(&store, "pmem_slabs_to_cut"), 0, "a refusal changes nothing");
        store.resize_ssd(160 * MIB).unwrap();
        store.resize_pmem(0).unwrap();
        // Nobody does anything meanwhile.
        stands.ends_at(&store, store.pmem_bytes().unwrap());
        assert_written(&store, &vec![1; written as usize], 0);
        store.close().unwrap();
    }
}

#[test]
fn memory_alone_grows_and_shrinks_and_nothing_is_lost() {
    for durability in [Durability::None, Durability::default(), Durability::Sync] {
        let Some(stands) = Stands::new(false) else { return };
        let store = stands.open(48 * MIB, durability);
        fill(&store);
        let mut rounds = vec![1u8; KEPT as usize];
        for megabytes in [44, 41] {
            store.resize_pmem(megabytes * MIB).unwrap();
            work_while(&store, &mut rounds, || stands.len() <= megabytes * MIB);
        }
        assert_eq!(store.pmem_bytes(), Some(41 * MIB));
        for (bytes, why) in
            [(MIB, "the log takes"), (0, "can have"), (1 << 50, "free"), (26 * MIB, "holds needs")]
        {
            let text = refused(store.resize_pmem(bytes));
            assert!(text.contains(why), "{bytes}: {text}");
        }
        assert_written(&store, &rounds, LARGES);
        let len = stands.len();
        store.close().unwrap();
        stands.is_clean();
        let store = stands.open(48 * MIB, durability);
        assert_eq!(stands.len(), len);
        assert_written(&store, &rounds, LARGES);
        store.resize_pmem(96 * MIB).unwrap();
        assert!(stands.len() > 95 * MIB && capacity(&store) > 80 * MIB, "at once");
        for number in 0..LARGES * 4 {
            store.set(format!("other:{number}").as_bytes(), &large(number)).unwrap();
        }
        assert_written(&store, &rounds, LARGES);
        if durability == Durability::None {
            store.close().unwrap()
        } else {
            store.kill()
        }
        stands.is_clean();
        let store = stands.open(48 * MIB, durability);
        assert!(stands.len() > 95 * MIB);
        assert_written(&store, &rounds, LARGES);
        store.close().unwrap();
        let file = std::fs::File::options().write(true).open(stands.file()).unwrap();
        file.set_len(60 * MIB).unwrap();
        let error = open(stands.options("tac", 48 * MIB, durability)).err().unwrap().to_string();
        assert!(error.contains("are recorded"), "{error}");
    }
}

#[test]
fn a_heap_grows_and_shrinks_and_nothing_is_lost() {
    grows_and_shrinks(Granularity::Slab);
}

#[test]
fn a_heap_of_objects_grows_and_shrinks_and_nothing_is_lost() {
    grows_and_shrinks(Granularity::Object);
}

fn grows_and_shrinks(heap: Granularity) {
    let Some(stands) = Stands::new(false) else { return };
    let options =
        || Options { heap: Some(heap), ..stands.options("heap-hybrid", 48 * MIB, Durability::Sync) };
    let store = open(options()).unwrap();
    // What is to move lies behind what goes.
    let filler = |number: u32| format!("filler:{number}").into_bytes();
    (0..16).for_each(|number| store.set(&filler(number), &vec![7; 1_000_000]).unwrap());
    fill(&store);
    // Records that the work beside does not overwrite: how many of its own are moved is a matter of speed.
    let still = |number: u32| format!("still:{number}").into_bytes();
    (0..STILL).for_each(|number| store.set(&still(number), &[9; 1_700]).unwrap());
    (0..16).for_each(|number| assert!(store.delete(&filler(number)).unwrap()));
    // What was deleted is free once every session has passed.
    let begun = Instant::now();
    while detail(&store, "heap_chunks_retired") > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing becomes free");
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut rounds = vec![1u8; KEPT as usize];
    for megabytes in [40, 32] {
        store.resize_pmem(megabytes * MIB).unwrap();
        assert!(capacity(&store) <= megabytes * MIB, "from the start");
        work_while(&store, &mut rounds, || stands.len() <= megabytes * MIB);
    }
    assert_eq!((store.pmem_bytes(), detail(&store, "heap_pages_to_leave")), (Some(32 * MIB), 0));
    assert!(detail(&store, "heap_records_moved") > u64::from(LARGES), "large values among them");
    (0..STILL)
        .for_each(|number| assert!(store.get(&still(number)).unwrap() == Some(vec![9; 1_700]), "{number}"));
    for (bytes, why) in [(0, "can have"), (1 << 50, "free"), (8 * MIB, "holds needs")] {
        let text = refused(store.resize_pmem(bytes));
        assert!(text.contains(why) && !text.contains("log"), "{bytes}: {text}");
    }
    assert_written(&store, &rounds, LARGES);
    let len = stands.len();
    store.kill();
    stands.is_clean();
    let store = open(options()).unwrap();
    assert_eq!(stands.len(), len);
    assert!(store.description.iter().any(|line| line.contains("CONFIG SET pmem-size")));
    assert_written(&store, &rounds, LARGES);
    store.resize_pmem(96 * MIB).unwrap();
    assert!(stands.len() > 94 * MIB && capacity(&store) > 90 * MIB, "at once");
    for number in 0..LARGES * 4 {
        store.set(format!("other:{number}").as_bytes(), &large(number)).unwrap();
    }
    assert_written(&store, &rounds, LARGES);
    // It goes on, with nobody asking for anything, and one that grows again meanwhile is as long as it was.
    store.resize_pmem(80 * MIB).unwrap();
    store.resize_pmem(96 * MIB).unwrap();
    assert_written(&store, &rounds, LARGES);
    store.kill();
    stands.is_clean();
    let store = open(options()).unwrap();
    assert_written(&store, &rounds, LARGES);
    store.close().unwrap();
    let file = std::fs::File::options().write(true).open(stands.file()).unwrap();
    file.set_len(60 * MIB).unwrap();
    let error = open(options()).err().unwrap().to_string();
    assert!(error.contains("are recorded"), "{error}");
    assert!(terrace::check(&stands.dir(), &CheckOptions::default()).is_err());
}

#[test]
fn memory_that_keeps_its_size_says_so() {
    let emulated = Options {
        engine: "tac".into(),
        dram_records: Some(4 * MIB),
        pmem: Some(Tier { bytes: 32 * MIB, place: None }),
        profile: Some("dram".into()),
        ..Options::default()
    };
    let store = open(emulated).unwrap();
    let text = refused(store.resize_pmem(64 * MIB));
    assert!(text.contains("keeps its size") && text.contains("anonymous memory"), "{text}");
    assert_eq!(store.pmem_bytes(), Some(32 * MIB));
    store.close().unwrap();
    let Some(stands) = Stands::new(false) else { return };
    let store = open(stands.options("hetermm", 32 * MIB, Durability::default())).unwrap();
    let text = refused(store.resize_pmem(64 * MIB));
    assert!(text.contains("can't be resized while this engine runs"), "{text}");
    store.close().unwrap();
    let store = open(super::options(Path::new(stands.files.path()), "tac")).unwrap();
    let text = refused(store.resize_pmem(64 * MIB));
    assert!(text.contains("no tier in byte-addressable memory") && store.pmem_bytes().is_none(), "{text}");
    store.close().unwrap();
}
