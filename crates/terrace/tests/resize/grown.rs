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
