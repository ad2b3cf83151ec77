//! Sets that don't read what they replace: over pages that must be read, with keys that are told apart and with keys that collide.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use tempfile::TempDir;
use terrace_engine::clock::{Clock, ManualClock};
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Reply, Session, Store};
use terrace_index::{Clht, Erased, Index, LockFree, MakeIndex};
use terrace_media::{AnyDevice, AnyRegion, BlockFile, BlockFileOptions, HeapRegion};
use terrace_space_slab::{Choices, Opening, Sizes, open_block, open_tiered};
use terrace_testkit::concurrent::threads_test;
use terrace_testkit::conformance::{Harness, Restarted, random_model_test};
use terrace_testkit::history::Plan;
use terrace_testkit::random::Limits;
use terrace_testkit::settings;

const SIZES: Sizes = Sizes {
    block_bytes: 16 << 10,
    log_block_bytes: 16 << 10,
    manifests_apart: 0,
    log_bytes: 1 << 20,
    dram_bytes: 256 << 10,
    dram_with_index: false,
    store_id: 1,
};
const DATA_BYTES: u64 = 16 << 20;
const MIDDLE_BYTES: u64 = SIZES.log_bytes + 8 * (16 << 10);
/// DRAM holds a quarter of them.
const KEYS: u64 = 4000;
/// Some that are set once more before a clean stop.
const AGAIN: std::ops::Range<u64> = 500..564;

struct Bed<I> {
    clock: Arc<ManualClock>,
    durability: Durability,
    hasher: KeyHasher,
    index: fn() -> I,
    dir: TempDir,
    /// With a middle tier.
    region: Option<Arc<HeapRegion>>,
    store: Option<Box<dyn Store>>,
}

impl<I: Index> Bed<I> {
    fn new(index: fn() -> I, hasher: KeyHasher, durability: Durability, tiered: bool) -> Self {
        let clock = Arc::new(ManualClock::new(1_800_000_000_000_000));
        let region = tiered.then(|| Arc::new(HeapRegion::new(MIDDLE_BYTES).unwrap()));
        let dir = tempfile::tempdir().unwrap();
        let mut bed = Self { clock, durability, hasher, index, dir, region, store: None };
        bed.open(true);
        bed
    }
    fn open(&mut self, fresh: bool) {
        let opening = Opening {
            sizes: SIZES,
            fresh,
            machine: MachineOptions {
                engine: "tac",
                durability: self.durability,
                immediate: true,
                evict: false,
                sessions: 8,
                hasher: self.hasher,
                clock: self.clock.clone(),
                threads: 2,
                recovery_keys: usize::MAX,
            },
            index: MakeIndex::Other(&|| Erased::new((self.index)())),
            description: String::new(),
            progress: &|_, _| {},
        };
        let file = |name: &str, bytes, direct| {
            let options = BlockFileOptions { direct, ring: true, prewrite: false };
            let path = self.dir.path().join(name);
            AnyDevice::of(if fresh {
                BlockFile::create(&path, bytes, &options).unwrap()
            } else {
                BlockFile::open(&path, &options).unwrap()
            })
        };
        let data = file("data", DATA_BYTES, true);
        let choices = Choices::default();
        self.store = Some(match &self.region {
            Some(region) => {
                open_tiered((&Arc::new(AnyRegion::new(region.clone())), 0), &data, "", choices, opening)
                    .unwrap()
            }
            None => {
                let log = file("log", SIZES.log_bytes, false);
                open_block(&log, &data, choices, opening).unwrap()
            }
        });
    }
    fn detail(&self, name: &str) -> u64 {
        let details = self.store.as_ref().unwrap().stats().engine_details;
        details.iter().find(|(detail, _)| *detail == name).unwrap_or_else(|| panic!("{name}")).1
    }
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.detail("sets_unsettled") == 0 {
                return;
            }
            self.store().step();
        }
        panic!("some owe for ever");
    }
}

impl<I: Index> Harness for Bed<I> {
    fn store(&mut self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }
    fn restart(&mut self, clean: bool) -> Restarted {
        let store = self.store.take().unwrap();
        if clean || self.durability == Durability::None {
            store.close().unwrap();
        }
        drop(store);
        self.open(false);
        Restarted::KeptAll
    }
    fn advance_clock(&mut self, ms: u64) {
        self.clock.advance_us(ms * 1000);
    }
    fn now_ms(&self) -> u64 {
        self.clock.now_us() / 1000
    }
    fn limits(&self) -> Limits {
        // Most of them don't fit DRAM.
        let defaults = Limits::default();
        Limits {
            key_bytes_max: 300,
            value_bytes_max: 3000,
            keys: 300,
            group_bytes_max: 2000,
            long_group_bytes_max: 2000,
            ..defaults
        }
    }
}

fn clht() -> Clht {
    Clht::with_min_buckets(64)
}

fn value(key: u64, round: u64) -> Vec<u8> {
    (key * 1000 + round).to_be_bytes().repeat(16)
}

fn set<I: Index>(bed: &mut Bed<I>, session: &mut dyn Session, keys: impl Iterator<Item = u64>, round: u64) {
    let keys: Vec<u64> = keys.collect();
    for some in keys.chunks(16) {
        let mut batch = Batch::new();
        for &key in some {
            let value = batch.bytes(&value(key, round));
            let (condition, expiry) = (Condition::Always, Expiry::Clear);
            let set = OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false };
            batch.push(0, &key.to_be_bytes(), set);
        }
        session.execute(&mut batch);
        let settled = session.wait(&mut batch);
        for i in 0..some.len() {
            assert!(matches!(batch.reply(i, &settled), Reply::Stored { .. }));
        }
        bed.store().step();
    }
}

fn get(session: &mut dyn Session, key: u64) -> Option<Vec<u8>> {
    let mut batch = Batch::new();
    batch.push(0, &key.to_be_bytes(), OpKind::Get { value: true });
    session.execute(&mut batch);
    let settled = session.wait(&mut batch);
    match batch.reply(0, &settled) {
        Reply::Hit { value, .. } => Some(batch.output(value.unwrap()).to_vec()),
        Reply::Miss => None,
        other => panic!("{other:?}"),
    }
}

fn filled<I: Index>(
    index: fn() -> I,
    hasher: KeyHasher,
    durability: Durability,
) -> (Bed<I>, Box<dyn Session>) {
    let mut bed = Bed::new(index, hasher, durability, false);
    let mut session = bed.store().session().unwrap();
    set(&mut bed, &mut *session, 0..KEYS, 0);
    (bed, session)
}

#[test]
fn a_set_of_a_cold_key_reads_nothing_and_the_count_stays_right() {
    let (mut bed, mut session) = filled(clht, KeyHasher::new(7), Durability::default());
    let reads = |bed: &Bed<Clht>| bed.store.as_ref().unwrap().stats().tiers[1].media.reads;
    bed.settle();
    let (before, footers) = (reads(&bed), bed.detail("footers_read"));
    // The oldest ones, which have left DRAM; so few that nobody has to look.
    set(&mut bed, &mut *session, 0..64, 1);
    let owing = bed.detail("sets_unsettled");
    // A few are still in DRAM.
    let blind = bed.detail("sets_blind");
    assert!((48..=64).contains(&blind), "{blind}");
    assert_eq!(reads(&bed) - before, bed.detail("footers_read") - footers, "footers alone");
    assert!(owing > 0 && bed.store().len(0) == KEYS, "{owing}");
    // What was read before finds the new one, and so does what is read meanwhile.
    (0..64).for_each(|key| assert_eq!(get(&mut *session, key), Some(value(key, 1)), "{key}"));
    bed.settle();
    assert_eq!((bed.detail("sets_replaced"), bed.detail("sets_new")), (blind, 0));
    assert!(reads(&bed) - before < blind / 2, "a footer serves many");
    assert_eq!(bed.store().len(0), KEYS);
    for clean in [true, false] {
        drop(session);
        set_unread(&mut bed, clean);
        bed.restart(clean);
        session = bed.store().session().unwrap();
        assert_eq!(bed.store().len(0), KEYS);
        for key in 0..KEYS {
            let round = if key < 64 {
                1
            } else if AGAIN.contains(&key) {
                2
            } else {
                0
            };
            assert_eq!(get(&mut *session, key), Some(value(key, round)), "{key}");
        }
    }
}

/// Some are still unsettled when the store ends.
fn set_unread(bed: &mut Bed<Clht>, clean: bool) {
    let mut session = bed.store().session().unwrap();
    if clean {
        let blind = bed.detail("sets_blind");
        set(bed, &mut *session, AGAIN, 2);
        assert!(bed.detail("sets_unsettled") > 0, "of {}", bed.detail("sets_blind") - blind);
    }
}

/// What a set found unread was another key's: both are there, and counted.
#[test]
fn a_set_of_a_new_key_beside_others_counts_once_somebody_has_looked() {
    let (mut bed, mut session) = filled(clht, KeyHasher::with_few_bits(7, 6), Durability::default());
    bed.settle();
    let new = KEYS..KEYS + 50;
    set(&mut bed, &mut *session, new.clone(), 1);
    assert!(bed.detail("sets_blind") > 0);
    bed.settle();
    assert!(bed.detail("sets_new") > 0, "hashes of six bits collide");
    assert_eq!(bed.store().len(0), KEYS + 50);
    new.for_each(|key| assert_eq!(get(&mut *session, key), Some(value(key, 1)), "{key}"));
    (0..KEYS).for_each(|key| assert_eq!(get(&mut *session, key), Some(value(key, 0)), "{key}"));
}

#[test]
fn random_operations_on_cold_keys() {
    random_operations(KeyHasher::new(7), Durability::Sync);
    random_operations(KeyHasher::new(7), Durability::None);
}

#[test]
fn random_operations_on_keys_that_collide() {
    random_operations(KeyHasher::with_few_bits(7, 4), Durability::Sync);
    random_operations(KeyHasher::with_few_bits(7, 4), Durability::None);
}

fn random_operations(hasher: KeyHasher, durability: Durability) {
    for seed in settings::model_seeds(2) {
        let steps = settings::model_steps(400);
        for tiered in [false, true] {
            random_on(Bed::new(clht, hasher, durability, tiered), seed, steps);
            random_on(Bed::new(|| LockFree::with_min_buckets(64), hasher, durability, tiered), seed, steps);
        }
    }
}

fn random_on<I: Index>(mut bed: Bed<I>, seed: u64, steps: usize) {
    let report = random_model_test(&mut bed, seed, steps);
    println!("seed {seed}: {report:?} {:?}", bed.store().stats().engine_details);
    assert!(report.operations > 500 || steps < 300, "{report:?}");
}

#[test]
fn threads_are_linearizable_where_keys_collide() {
    for tiered in [false, true] {
        let mut bed = Bed::new(clht, KeyHasher::with_few_bits(7, 1), Durability::default(), tiered);
        let plan = Plan { clients: 4, batches: 400, batch: 4, keys: 24, value_bytes: 2000, seed: 5 };
        threads_test(bed.store(), plan).unwrap_or_else(|wrong| panic!("{wrong}"));
        let details = bed.store().stats().engine_details;
        println!("{details:?}");
    }
}
