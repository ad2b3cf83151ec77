//! What an opening tells of how much it went through: `RecoveryStats::scanned`, engine by engine, after a kill and after a clean stop.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use terrace::check::CheckOptions;
use terrace::engine::{RecoveryStats, Scanned};
use terrace::{OpenStore, Options, Place, Tier};

const KEYS: u32 = 20_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// A store that holds records, on memory or on a file.
struct Made {
    _dir: tempfile::TempDir,
    options: Options,
    /// Of the medium that has its pages.
    path: PathBuf,
    store: Option<OpenStore>,
}

/// `None` where the machine has no memory to share.
fn in_memory(engine: &str) -> Option<Made> {
    let dir = tempfile::tempdir_in("/dev/shm").ok()?;
    let options = Options {
        engine: engine.into(),
        dir: Some(dir.path().into()),
        pmem: Some(Tier { bytes: 32 << 20, place: Some(Place::Path(dir.path().into())) }),
        profile: Some("dram".into()),
        expected_records: (engine == "scmkv").then_some(u64::from(KEYS)),
        ..Options::default()
    };
    Some(Made::new(dir, options, "pmem"))
}

/// Beside this memory, if there is some.
fn on_a_file(engine: &str, memory: Option<&tempfile::TempDir>) -> Made {
    let dir = tempfile::tempdir().unwrap();
    let place = |memory: &tempfile::TempDir| Some(Place::Path(memory.path().into()));
    let options = Options {
        engine: engine.into(),
        dir: Some(dir.path().into()),
        dram_records: Some(8 << 20),
        pmem: memory.map(|memory| Tier { bytes: 16 << 20, place: place(memory) }),
        profile: memory.map(|_| "dram".into()),
        ssd: Some(Tier { bytes: 64 << 20, place: None }),
        ..Options::default()
    };
    Made::new(dir, options, "")
}

impl Made {
    fn new(dir: tempfile::TempDir, options: Options, path: &str) -> Self {
        let store = terrace::open(options.clone()).unwrap();
        assert!(store.stats().recovery.is_none(), "a new store has nothing to go through");
        let value = vec![b'v'; 500];
        for i in 0..KEYS {
            store.set(format!("key:{i:08}").as_bytes(), &value).unwrap();
        }
        Self { path: dir.path().join(path), options, _dir: dir, store: Some(store) }
    }
    fn store(&self) -> &OpenStore {
        self.store.as_ref().unwrap()
    }
    fn used_bytes(&self) -> u64 {
        self.store().stats().tiers.iter().filter(|tier| tier.tier != "dram").map(|tier| tier.used_bytes).sum()
    }
    /// Opens it again after a kill or a clean stop; what that took, and its pages with records, as a check of it had found them.
    fn opened_after(&mut self, kill: bool) -> (RecoveryStats, Scanned) {
        let store = self.store.take().unwrap();
        if kill {
            store.kill();
        } else {
            store.close().unwrap();
        }
        let counts = terrace::check(&self.path, &CheckOptions::default()).unwrap().counts;
        let found = match counts.heap {
            Some(heap) => Scanned { pages: heap.pages - heap.pages_empty, of: heap.pages },
            None => Scanned { pages: counts.blocks_records, of: counts.blocks },
        };
        self.store = Some(terrace::open(self.options.clone()).unwrap());
        let recovery = self.store().stats().recovery.unwrap();
        assert_eq!((recovery.clean, recovery.records), (!kill, u64::from(KEYS)));
        assert_eq!(self.store().get(b"key:00000007").unwrap().map(|value| value.len()), Some(500));
        (recovery, found)
    }
}

#[test]
fn a_heap_without_its_index_is_gone_through() {
    let Some(mut made) = in_memory("heap-hybrid") else { return };
    for kill in [true, false, true] {
        let (recovery, found) = made.opened_after(kill);
        assert_eq!(recovery.scanned, found, "killed: {kill}");
        assert!(found.pages > 0 && found.pages < found.of, "{found:?}");
    }
    // What is free by then is no less than before.
    assert!(made.used_bytes() > u64::from(KEYS) * 500);
}

#[test]
fn a_heap_with_its_index_is_not() {
    let Some(mut made) = in_memory("heap-persistent") else { return };
    for kill in [true, false, true] {
        let (recovery, found) = made.opened_after(kill);
        assert!(found.pages > 0, "{found:?}");
        assert_eq!(recovery.scanned, Scanned { pages: 0, of: found.of }, "killed: {kill}");
    }
}

#[test]
fn of_a_log_what_its_table_lacks_is_gone_through() {
    what_is_lacking_is_gone_through("scmkv");
}

#[test]
fn of_a_log_what_its_nodes_lack_is_gone_through() {
    what_is_lacking_is_gone_through("bonsai");
}

fn what_is_lacking_is_gone_through(engine: &str) {
    let Some(mut made) = in_memory(engine) else { return };
    // The table follows within milliseconds, unless the machine has other things to do.
    let from = Instant::now();
    while made.store().stats().log.unwrap().used_bytes * 8 > made.used_bytes() {
        assert!(from.elapsed() < PATIENCE, "{engine} does not follow its log: {:?}", made.store().stats());
        std::thread::yield_now();
    }
    let (recovery, found) = made.opened_after(true);
    assert!(recovery.scanned.pages * 4 < found.pages, "{recovery:?} of {found:?}");
    let (recovery, found) = made.opened_after(false);
    assert!(recovery.scanned.pages * 4 < found.pages, "{recovery:?} of {found:?}");
    // And written once more at once: what was written last is there to be read.
    (0..100)
        .for_each(|i| made.store().set(format!("key:{i:08}").as_bytes(), &[b'w'; 500]).map(drop).unwrap());
    let (recovery, found) = made.opened_after(true);
    assert!(recovery.scanned.pages > 0 && recovery.scanned.of == found.of, "{recovery:?} of {found:?}");
}

#[test]
fn blocks_are_gone_through_unless_a_snapshot_spares_it() {
    for engine in ["hetermm", "tac"] {
        let mut made = on_a_file(engine, None);
        for kill in [true, false, true] {
            let (recovery, found) = made.opened_after(kill);
            let pages = if kill { found.pages } else { 0 };
            assert_eq!(recovery.scanned, Scanned { pages, of: found.of }, "{engine}, killed: {kill}");
        }
    }
}

#[test]
fn both_media_are_gone_through() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let mut made = on_a_file("tac", Some(&memory));
    let (recovery, found) = made.opened_after(false);
    let details = made.store().stats().engine_details;
    let detail = |name: &str| details.iter().find(|(of, _)| *of == name).unwrap().1;
    let (slabs, free) = (detail("pmem_slabs"), detail("pmem_slabs_free"));
    assert!(slabs > free, "{slabs} slabs, {free} of them free");
    let both = Scanned { pages: found.pages + slabs - free, of: found.of + slabs };
    assert_eq!(recovery.scanned, both);
}
