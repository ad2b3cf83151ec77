//! The conformance suite on slabs over pages, on both kinds of media.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use tempfile::TempDir;
use terrace_engine::clock::{Clock, ManualClock};
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Reply, Store};
use terrace_index::{Clht, Erased, MakeIndex, WithStrays};
use terrace_media::{AnyDevice, AnyRegion, BlockFile, BlockFileOptions, HeapRegion};
use terrace_space_slab::{
    Choices, Eviction, Opening, Placement, Sizes, Swap, open_block, open_byte, open_tiered,
};
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
/// Of both media together: the log and a middle tier of 12 slabs.
const MIDDLE_BYTES: u64 = SIZES.log_bytes + 12 * (256 << 10);

pub(crate) enum Media {
    Byte(Arc<HeapRegion>, Choices),
    Block(TempDir, Choices),
    Tiered(Arc<HeapRegion>, TempDir, Choices),
}

impl Media {
    fn byte() -> Self {
        Self::byte_under(Eviction::default())
    }
    fn byte_under(eviction: Eviction) -> Self {
        Self::byte_chosen(eviction.into())
    }
    pub(crate) fn byte_chosen(choices: Choices) -> Self {
        Media::Byte(Arc::new(HeapRegion::new(REGION_BYTES).unwrap()), choices)
    }
    fn block() -> Self {
        Self::block_chosen(Choices::default())
    }
    pub(crate) fn block_chosen(choices: Choices) -> Self {
        Media::Block(tempfile::tempdir().unwrap(), choices)
    }
    fn tiered() -> Self {
        Self::chosen(Choices::default())
    }
    fn anti_2() -> Self {
        Self::chosen(Placement::Anti2.into())
    }
    fn anti_nvm() -> Self {
        Self::chosen(Placement::AntiNvm.into())
    }
    pub(crate) fn chosen(choices: Choices) -> Self {
        let region = Arc::new(HeapRegion::new(MIDDLE_BYTES).unwrap());
        Media::Tiered(region, tempfile::tempdir().unwrap(), choices)
    }
    pub(crate) fn open(
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
                engine: "tac",
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
            Media::Byte(region, choices) => {
                open_byte(&Arc::new(AnyRegion::new(region.clone())), 0, *choices, opening).unwrap()
            }
            Media::Block(dir, choices) => {
                let log = file(dir, "log", SIZES.log_bytes, false, fresh);
                let data = file(dir, "data", REGION_BYTES, true, fresh);
                open_block(&log, &data, *choices, opening).unwrap()
            }
            Media::Tiered(region, dir, choices) => {
                let data = file(dir, "data", REGION_BYTES, true, fresh);
                open_tiered((&Arc::new(AnyRegion::new(region.clone())), 0), &data, "", *choices, opening)
                    .unwrap()
            }
        }
    }
}

fn file(dir: &TempDir, name: &str, bytes: u64, direct: bool, fresh: bool) -> Arc<AnyDevice> {
    let options = BlockFileOptions { direct, ring: true, prewrite: false };
    let path = dir.path().join(name);
    AnyDevice::of(if fresh {
        BlockFile::create(&path, bytes, &options).unwrap()
    } else {
        BlockFile::open(&path, &options).unwrap()
    })
}

struct Tac {
    clock: Arc<Clocks>,
    durability: Durability,
    media: Media,
    ordered: bool,
    store: Option<Box<dyn Store>>,
}

impl Tac {
    fn new(media: Media, durability: Durability, ordered: bool) -> Self {
        let clock = Arc::new(Clocks::new(START_US));
        let store = Some(media.open(&clock, durability, true, ordered));
        Self { store, clock, durability, media, ordered }
    }
}

impl Harness for Tac {
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

fn random_operations(media: impl Fn() -> Media, durability: Durability, ordered: bool) {
    for seed in settings::model_seeds(3) {
        let steps = settings::model_steps(300);
        let mut tac = Tac::new(media(), durability, ordered);
        let report = random_model_test(&mut tac, seed, steps);
        println!("seed {seed}: {report:?} {:?}", tac.store().stats().engine_details);
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
fn random_operations_on_both_media() {
    random_operations(Media::tiered, Durability::Sync, false);
    random_operations(Media::tiered, Durability::default(), false);
    random_operations(Media::tiered, Durability::None, false);
}

/// The placements that it is compared with.
#[test]
fn random_operations_placed_otherwise() {
    for media in [Media::anti_2, Media::anti_nvm] {
        random_operations(media, Durability::Sync, false);
        random_operations(media, Durability::None, false);
    }
}

/// Whole bufs come up: what is worth it, and whatever lies in them.
#[test]
fn random_operations_with_whole_bufs() {
    for eviction in [Eviction::default(), "lru/all".parse().unwrap()] {
        let choices = Choices { swap: Swap::Buf, eviction, ..Choices::default() };
        let mut tac = Tac::new(Media::chosen(choices), Durability::Sync, false);
        let report = random_model_test(&mut tac, 11, 300);
        assert!(report.operations > 500, "{eviction}: {report:?}");
        let details = tac.store().stats().engine_details;
        println!("{eviction}: {details:?}");
    }
}

/// One step at a time: who has the steps' lock makes room in another partition, too.
#[test]
fn random_operations_in_partitions() {
    let choices = |eviction| Choices { partitions: 3, eviction, ..Choices::default() };
    for eviction in [Eviction::default(), "lru/all".parse().unwrap()] {
        for media in [Media::byte_chosen, Media::block_chosen, Media::chosen] {
            for durability in [Durability::default(), Durability::None] {
                let mut tac = Tac::new(media(choices(eviction)), durability, false);
                let report = random_model_test(&mut tac, 12, 150);
                assert!(report.operations > 250, "{eviction}: {report:?}");
            }
        }
    }
}

/// Policies other than the default's, in both places where they are asked: over pages, and over slots of a middle tier.
#[test]
fn random_operations_under_every_policy() {
    for eviction in Eviction::all().filter(|eviction| *eviction != Eviction::default()) {
        for media in [Media::byte_under(eviction), Media::chosen(eviction.into())] {
            let mut tac = Tac::new(media, Durability::Sync, false);
            let report = random_model_test(&mut tac, 11, 100);
            assert!(report.operations > 150, "{eviction}: {report:?}");
        }
    }
}

#[test]
fn random_operations_and_ranges_over_an_ordered_index() {
    random_operations(Media::byte, Durability::Sync, true);
    random_operations(Media::byte, Durability::None, true);
    random_operations(Media::block, Durability::default(), true);
    random_operations(Media::tiered, Durability::Sync, true);
}

#[test]
fn threads_are_linearizable_key_by_key() {
    for media in [Media::byte, Media::block, Media::tiered] {
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
    for media in [Media::byte, Media::block, Media::tiered] {
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

/// Slots may be longer than their records need; what then goes down must find its way up, though its own class has no slab.
#[test]
fn what_is_hot_goes_up_into_slots_of_larger_classes() {
    const KEYS: u64 = 60_000;
    const HOT: u64 = 1000;
    let clock = Arc::new(ManualClock::new(START_US));
    let store = Media::byte().open(&clock, Durability::None, true, false);
    let mut session = store.session().unwrap();
    for first in (0..KEYS).step_by(100) {
        let mut batch = Batch::new();
        for key in first..first + 100 {
            // Room is made for the expiry that there might be, which makes it one class more.
            let (value, expiry) = (batch.bytes(&[1; 64]), Expiry::Keep);
            let condition = Condition::Always;
            let set = OpKind::Set { value, condition, expiry, flags: None, old_value: false };
            batch.push(0, &key.to_be_bytes(), set);
        }
        session.execute(&mut batch);
        let _ = session.wait(&mut batch);
        store.step();
    }
    let below = || store.stats().tiers[1].hits;
    let mut before = below();
    for round in 0..20 {
        if round == 10 {
            assert!(below() > before, "some of these keys were below");
            before = below();
        }
        let mut batch = Batch::new();
        for key in 0..HOT {
            batch.push(0, &key.to_be_bytes(), OpKind::Get { value: true });
        }
        session.execute(&mut batch);
        let _ = session.wait(&mut batch);
        for _ in 0..4 {
            store.step();
        }
    }
    assert_eq!(below(), before, "what is read again and again went up in ten rounds");
}
