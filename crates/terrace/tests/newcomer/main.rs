//! The engine of `docs/adding-an-engine.md`, through the conformance suite.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod vec_space;

use std::sync::Arc;

use terrace::engine::clock::{Clock, ManualClock};
use terrace::engine::hash::KeyHasher;
use terrace::engine::manifest::Manifest;
use terrace::engine::record::INLINE_VALUE_BYTES;
use terrace::engine::{
    Batch, Condition, Durability, Expiry, Machine, MachineOptions, OpError, OpKind, Reply, Store, StoreHandle,
};
use terrace_index::Clht;
use terrace_log::ByteLog;
use terrace_media::HeapRegion;
use terrace_testkit::concurrent::{groups_test, threads_test};
use terrace_testkit::conformance::{Harness, Restarted, random_model_test};
use terrace_testkit::history::Plan;
use terrace_testkit::random::Limits;
use terrace_testkit::settings;
use vec_space::VecSpace;

const START_US: u64 = 1_800_000_000_000_000;

fn open(clock: &Arc<ManualClock>, capacity_bytes: u64, evict: bool) -> Box<dyn Store> {
    let options = MachineOptions {
        engine: "vec",
        durability: Durability::None,
        immediate: true,
        evict,
        sessions: 16,
        hasher: KeyHasher::new(7),
        clock: clock.clone(),
        threads: 1,
        recovery_keys: usize::MAX,
    };
    let (index, space) = (Clht::with_min_buckets(4), VecSpace::new(capacity_bytes));
    let machine = Machine::<_, _, ByteLog<HeapRegion>>::open(
        options,
        index,
        space,
        None,
        Manifest::default(),
        &|_, _| {},
    );
    Box::new(StoreHandle(machine.unwrap()))
}

struct Newcomer {
    clock: Arc<ManualClock>,
    /// `None` only during a restart.
    store: Option<Box<dyn Store>>,
}

impl Harness for Newcomer {
    fn store(&mut self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }
    fn restart(&mut self, clean: bool) -> Restarted {
        let store = self.store.take().unwrap();
        if clean {
            store.close().unwrap();
        }
        drop(store);
        self.store = Some(open(&self.clock, 256 << 20, false));
        Restarted::LostAll
    }
    fn advance_clock(&mut self, ms: u64) {
        self.clock.advance_us(ms * 1000);
    }
    fn now_ms(&self) -> u64 {
        self.clock.now_us() / 1000
    }
    fn limits(&self) -> Limits {
        Limits { value_bytes_max: INLINE_VALUE_BYTES / 4, ..Limits::default() }
    }
}

#[test]
fn random_operations_against_the_model() {
    for seed in settings::model_seeds(3) {
        let clock = Arc::new(ManualClock::new(START_US));
        let store = Some(open(&clock, 256 << 20, false));
        let report = random_model_test(&mut Newcomer { clock, store }, seed, settings::model_steps(600));
        println!("seed {seed}: {report:?}");
        assert!(report.operations > 1000 || settings::model_steps(600) < 600, "{report:?}");
    }
}

#[test]
fn threads_are_linearizable_and_see_groups_whole() {
    let open = || open(&Arc::new(ManualClock::new(START_US)), 256 << 20, false);
    let plan = Plan { clients: 4, batches: 3000, batch: 4, keys: 20, value_bytes: 200, seed: 1 };
    threads_test(&*open(), plan).unwrap();
    groups_test(&*open(), 3000, 2, 300).unwrap();
}

/// Sets keys to values of so many bytes; the error of the last one, if it was refused.
fn fill(store: &dyn Store, keys: u32, value_bytes: usize) -> Option<OpError> {
    let mut session = store.session().unwrap();
    let mut last = None;
    for key in 0..keys {
        let mut batch = Batch::new();
        let value = batch.bytes(&vec![1; value_bytes]);
        let (condition, expiry) = (Condition::Always, Expiry::Clear);
        let set = OpKind::Set { value, condition, expiry, flags: None, old_value: false };
        batch.push(0, &key.to_le_bytes(), set);
        session.execute(&mut batch);
        let proof = session.wait(&mut batch);
        last = match batch.reply(0, &proof) {
            Reply::Error(error) => Some(error),
            _ => None,
        };
    }
    last
}

#[test]
fn a_full_one_refuses_or_evicts_and_what_it_lacks_is_named() {
    let clock = Arc::new(ManualClock::new(START_US));
    let store = open(&clock, 1 << 20, false);
    assert_eq!(fill(&*store, 2000, 1000), Some(OpError::Full));
    assert!(store.stats().dram_other_bytes <= 1 << 20);
    assert!(matches!(fill(&*store, 1, INLINE_VALUE_BYTES + 1), Some(OpError::ValueTooLong(_))));
    let store = open(&clock, 1 << 20, true);
    assert_eq!(fill(&*store, 2000, 1000), None);
    assert!(store.stats().dram_other_bytes <= 1 << 20);
}

#[test]
fn the_page_shows_this_engine() {
    let page = include_str!("../../../../docs/adding-an-engine.md");
    let source = include_str!("vec_space.rs");
    assert!(source.lines().count() < 150);
    assert!(page.contains(&format!("```rust\n{source}```")), "docs/adding-an-engine.md has another engine");
}
