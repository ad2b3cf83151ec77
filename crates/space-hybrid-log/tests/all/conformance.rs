//! The conformance suite on the hybrid log, over both kinds of media.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use tempfile::TempDir;
use terrace_engine::clock::{Clock, ManualClock};
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Reply, Store};
use terrace_index::{Clht, Erased, MakeIndex, WithStrays};
use terrace_media::{AnyDevice, AnyRegion, BlockFile, BlockFileOptions, HeapRegion};
use terrace_space_hybrid_log::{Opening, Sizes, open_block, open_byte};
use terrace_testkit::clocks::{Clocks, Passed, wild};
use terrace_testkit::concurrent::{groups_test, threads_test};
use terrace_testkit::conformance::{Harness, Restarted, random_model_test};
use terrace_testkit::history::Plan;
use terrace_testkit::random::{Limits, TICK_MS};
use terrace_testkit::reference_index::ReferenceIndex;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings;

const START_US: u64 = 1_800_000_000_000_000;
const SIZES: Sizes = Sizes {
    block_bytes: 256 << 10,
    log_block_bytes: 256 << 10,
    manifests_apart: 0,
    log_bytes: 8 << 20,
    dram_bytes: 4 << 20,
    dram_with_index: false,
    store_id: 1,
};
const REGION_BYTES: u64 = 160 << 20;

enum Media {
    Byte(Arc<HeapRegion>),
    Block(TempDir),
}

impl Media {
    fn byte() -> Self {
        Media::Byte(Arc::new(HeapRegion::new(REGION_BYTES).unwrap()))
    }
    fn block() -> Self {
        Media::Block(tempfile::tempdir().unwrap())
    }
    fn open(
        &self,
        clock: &Arc<impl Clock>,
        durability: Durability,
        fresh: bool,
        ordered: bool,
    ) -> Box<dyn Store> {
        if ordered {
            let index = || Erased::new(WithStrays::new(ReferenceIndex::default()));
            self.open_with(clock, durability, fresh, MakeIndex::Other(&index))
        } else {
            let index = || Clht::with_min_buckets(64);
            self.open_with(clock, durability, fresh, MakeIndex::Clht(&index))
        }
    }
    fn open_with(
        &self,
        clock: &Arc<impl Clock>,
        durability: Durability,
        fresh: bool,
        index: MakeIndex<'_>,
    ) -> Box<dyn Store> {
        let opening = Opening {
            sizes: SIZES,
            fresh,
            machine: MachineOptions {
                engine: "hetermm",
                durability,
                immediate: true,
                evict: false,
                sessions: 16,
                hasher: KeyHasher::new(7),
                clock: clock.clone(),
                threads: 2,
                recovery_keys: 100,
            },
            index,
            description: String::new(),
            progress: &|_, _| {},
        };
        match self {
            Media::Byte(region) => open_byte(&Arc::new(AnyRegion::new(region.clone())), 0, opening).unwrap(),
            Media::Block(dir) => {
                let options = |direct| BlockFileOptions { direct, ring: true, prewrite: false };
                let file = |name, bytes, direct| {
                    let path = dir.path().join(name);
                    AnyDevice::of(if fresh {
                        BlockFile::create(&path, bytes, &options(direct)).unwrap()
                    } else {
                        BlockFile::open(&path, &options(direct)).unwrap()
                    })
                };
                let log = file("log", SIZES.log_bytes, false);
                let data = file("data", REGION_BYTES, true);
                open_block(&log, &data, opening).unwrap()
            }
        }
    }
}

struct Hetermm {
    clock: Arc<Clocks>,
    durability: Durability,
    media: Media,
    ordered: bool,
    store: Option<Box<dyn Store>>,
}

impl Hetermm {
    fn new(media: Media, durability: Durability, ordered: bool) -> Self {
        let clock = Arc::new(Clocks::new(START_US));
        let store = Some(media.open(&clock, durability, true, ordered));
        Self { store, clock, durability, media, ordered }
    }
}

impl Harness for Hetermm {
    fn store(&mut self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }
    fn restart(&mut self, clean: bool) -> Restarted {
        let store = self.store.take().unwrap();
        // Without a log only a clean stop keeps everything.
        if clean || self.durability == Durability::None {
            store.close().unwrap();
        }
        drop(store);
        self.store = Some(self.media.open(&self.clock, self.durability, false, self.ordered));
        Restarted::KeptAll
    }
    fn advance_clock(&mut self, ms: u64) {
        self.clock.advance_us(ms * 1000);
    }
    fn now_ms(&self) -> u64 {
        self.store.as_ref().unwrap().time().now_ms
    }
    fn set_wall_clock(&mut self, rng: &mut Rng) {
        self.clock.set_wall(wild(rng));
    }
    fn disturb_clocks(&mut self, rng: &mut Rng) -> Passed {
        self.clock.disturb(rng, TICK_MS)
    }
    fn limits(&self) -> Limits {
        Limits { ranges: self.ordered, ..Limits::default() }
    }
}

fn random_operations(media: fn() -> Media, durability: Durability, ordered: bool) {
    for seed in settings::model_seeds(3) {
        let steps = settings::model_steps(300);
        let mut hetermm = Hetermm::new(media(), durability, ordered);
        let report = random_model_test(&mut hetermm, seed, steps);
        println!("seed {seed}: {report:?} {:?}", hetermm.store().stats().engine_details);
        assert!(report.operations > 500 || steps < 300, "{report:?}");
        assert!((report.ranges > 20) == ordered || steps < 300, "{report:?}");
    }
}

#[test]
fn random_operations_on_byte_media_synced() {
    random_operations(Media::byte, Durability::Sync, false);
}

#[test]
fn random_operations_on_byte_media_without_a_log() {
    random_operations(Media::byte, Durability::None, false);
}

#[test]
fn random_operations_on_block_media_batched() {
    random_operations(Media::block, Durability::default(), false);
}

#[test]
fn random_operations_on_block_media_synced() {
    random_operations(Media::block, Durability::Sync, false);
}

#[test]
fn random_operations_and_ranges_over_an_ordered_index() {
    random_operations(Media::byte, Durability::Sync, true);
    random_operations(Media::byte, Durability::None, true);
    random_operations(Media::block, Durability::default(), true);
}

#[test]
fn threads_are_linearizable_key_by_key() {
    for media in [Media::byte, Media::block] {
        for (round, value_bytes) in [0, 200, 20_000].into_iter().enumerate() {
            let media = media();
            let store = media.open(&Arc::new(ManualClock::new(START_US)), Durability::default(), true, false);
            let plan = Plan { clients: 4, batches: 300, batch: 4, keys: 20, value_bytes, seed: round as u64 };
            let outcome = threads_test(&*store, plan);
            outcome.unwrap_or_else(|wrong| panic!("values of {value_bytes} bytes: {wrong}"));
        }
    }
}

#[test]
fn atomic_groups_are_seen_whole() {
    for media in [Media::byte, Media::block] {
        for (groups, value_bytes) in [(500, 0), (500, 300)] {
            let media = media();
            let store = media.open(&Arc::new(ManualClock::new(START_US)), Durability::default(), true, false);
            groups_test(&*store, groups, 2, value_bytes).unwrap();
        }
    }
}

#[test]
fn who_reads_what_is_unsynced_waits_once_the_window_has_passed() {
    const WINDOW_US: u64 = 10_000;
    let clock = Arc::new(ManualClock::new(START_US));
    let durability = Durability::Batch(std::time::Duration::from_micros(WINDOW_US));
    let store = Media::block().open(&clock, durability, true, false);
    let (mut writer, mut reader) = (store.session().unwrap(), store.session().unwrap());
    let mut write = Batch::new();
    let value = write.bytes(b"value");
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    write.push(0, b"key", OpKind::Set { value, condition, expiry, flags: None, old_value: false });
    writer.execute(&mut write);
    assert!(writer.settled(&write).is_some(), "it is written, and the window is open");

    // Nobody has synced: there is no background thread here, and no step was taken.
    clock.advance_us(2 * WINDOW_US);
    let mut read = Batch::new();
    read.push(0, b"key", OpKind::Get { value: true });
    reader.execute(&mut read);
    assert!(reader.settled(&read).is_none(), "power loss could take it, and more than a window has passed");
    let settled = reader.wait(&mut read);
    assert!(matches!(read.reply(0, &settled), Reply::Hit { .. }));
}
