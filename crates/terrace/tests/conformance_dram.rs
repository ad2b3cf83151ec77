//! The conformance suite on engine `dram`: random operations against the model, histories of several threads, and planted
//! faults that the suite must notice.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use terrace::engine::clock::{Clock, ManualClock};
use terrace::engine::hash::KeyHasher;
use terrace::engine::manifest::Manifest;
use terrace::engine::{
    Batch, Condition, Durability, Expiry, Machine, MachineOptions, OpKind, Reply, Store, StoreHandle,
};
use terrace_index::Clht;
use terrace_log::ByteLog;
use terrace_media::HeapRegion;
use terrace_space_dram::DramSpace;
use terrace_testkit::concurrent::{groups_test, threads_test};
use terrace_testkit::conformance::{Harness, Restarted, random_model_test};
use terrace_testkit::history::Plan;
use terrace_testkit::settings;

const START_US: u64 = 1_800_000_000_000_000;
const RECORD_BYTES: u64 = 256 << 20;

type DramMachine = Machine<Clht, DramSpace, ByteLog<HeapRegion>>;

fn open(clock: &Arc<ManualClock>) -> Box<dyn Store> {
    open_with(clock, RECORD_BYTES)
}

fn open_with(clock: &Arc<ManualClock>, bytes: u64) -> Box<dyn Store> {
    Box::new(StoreHandle(machine(clock, bytes)))
}

fn machine(clock: &Arc<ManualClock>, bytes: u64) -> Arc<DramMachine> {
    let machine = Machine::<_, _, ByteLog<HeapRegion>>::open(
        MachineOptions {
            engine: "dram",
            durability: Durability::None,
            immediate: true,
            evict: false,
            sessions: 16,
            hasher: KeyHasher::new(7),
            clock: clock.clone(),
            threads: 1,
            recovery_keys: usize::MAX,
        },
        Clht::with_min_buckets(4),
        DramSpace::new(bytes, false),
        None,
        Manifest::default(),
        &|_, _| {},
    );
    machine.unwrap()
}

struct Dram {
    clock: Arc<ManualClock>,
    /// `None` only during a restart.
    store: Option<Box<dyn Store>>,
    fault: Fault,
}

/// What the harness does wrong on purpose.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Claims that a restart kept what it lost.
    ForgetsAtRestart,
    /// Writes a key behind the suite's back.
    WritesByItself,
    /// Its time does not pass.
    ClockStandsStill,
}

impl Dram {
    fn new(fault: Fault) -> Self {
        let clock = Arc::new(ManualClock::new(START_US));
        Self { store: Some(open(&clock)), clock, fault }
    }
}

impl Harness for Dram {
    fn store(&mut self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }
    fn restart(&mut self, clean: bool) -> Restarted {
        let store = self.store.take().unwrap();
        if clean {
            store.close().unwrap();
        }
        drop(store);
        self.store = Some(open(&self.clock));
        if self.fault == Fault::ForgetsAtRestart { Restarted::KeptAll } else { Restarted::LostAll }
    }
    fn advance_clock(&mut self, ms: u64) {
        if self.fault == Fault::WritesByItself {
            let mut session = self.store().session().unwrap();
            let mut batch = Batch::new();
            let value = batch.bytes(b"planted");
            let (condition, expiry) = (Condition::Always, Expiry::Clear);
            batch.push(0, b"", OpKind::Set { value, condition, expiry, flags: None, old_value: false });
            session.execute(&mut batch);
            let _ = session.wait(&mut batch);
        }
        if self.fault != Fault::ClockStandsStill {
            self.clock.advance_us(ms * 1000);
        }
    }
    fn now_ms(&self) -> u64 {
        // The faulty one lies about the time that passed.
        let lie = if self.fault == Fault::ClockStandsStill { 200_000 * 86_400_000 } else { 0 };
        self.clock.now_us() / 1000 + lie
    }
}

#[test]
fn random_operations_against_the_model() {
    for seed in settings::model_seeds(6) {
        let report = random_model_test(&mut Dram::new(Fault::None), seed, settings::model_steps(600));
        println!("seed {seed}: {report:?}");
        assert!(report.operations > 1000 || settings::model_steps(600) < 600, "{report:?}");
    }
}

#[test]
fn the_suite_notices_planted_faults() {
    for fault in [Fault::ForgetsAtRestart, Fault::WritesByItself, Fault::ClockStandsStill] {
        let run = std::panic::AssertUnwindSafe(|| random_model_test(&mut Dram::new(fault), 1, 2000));
        assert!(std::panic::catch_unwind(run).is_err(), "a fault went unnoticed");
    }
}

#[test]
fn what_is_overwritten_counts_until_it_is_freed() {
    const BYTES: u64 = 1 << 20;
    let store = open_with(&Arc::new(ManualClock::new(START_US)), BYTES);
    let mut session = store.session().unwrap();
    for round in 1..=50 {
        let mut batch = Batch::new();
        let value = batch.bytes(&vec![round as u8; 300_000]);
        let (condition, expiry) = (Condition::Always, Expiry::Clear);
        batch.push(0, b"key", OpKind::Set { value, condition, expiry, flags: None, old_value: false });
        session.execute(&mut batch);
        let proof = session.wait(&mut batch);
        assert!(!matches!(batch.reply(0, &proof), Reply::Error(_)), "refused in round {round}");
        let held = store.stats().dram_other_bytes;
        assert!(held <= BYTES, "{held} bytes in round {round}");
        assert!(round > 3 || held >= round * 300_000, "nothing was freed yet, and {held} bytes count");
    }
}

#[test]
fn threads_are_linearizable_key_by_key() {
    // Small values, values rewritten in place at full length, and extents.
    for (round, value_bytes) in [0, 200, 20_000].into_iter().enumerate() {
        let store = open(&Arc::new(ManualClock::new(START_US)));
        let batches = if value_bytes > 1000 { 500 } else { 5000 };
        let plan = Plan { clients: 4, batches, batch: 4, keys: 20, value_bytes, seed: round as u64 };
        let outcome = threads_test(&*store, plan);
        outcome.unwrap_or_else(|wrong| panic!("values of {value_bytes} bytes: {wrong}"));
    }
}

#[test]
fn atomic_groups_are_seen_whole() {
    for (groups, value_bytes) in [(5000, 0), (5000, 300), (300, 20_000)] {
        let store = open(&Arc::new(ManualClock::new(START_US)));
        let outcome = groups_test(&*store, groups, 2, value_bytes);
        outcome.unwrap_or_else(|wrong| panic!("values of {value_bytes} bytes: {wrong}"));
    }
}

#[test]
fn a_store_that_is_dropped_without_being_closed_is_freed() {
    let clock = Arc::new(ManualClock::new(START_US));
    let machine = machine(&clock, RECORD_BYTES);
    let alive = Arc::downgrade(&machine);
    let store = StoreHandle(machine);
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    let value = batch.bytes(b"short-lived");
    let (condition, expiry) = (Condition::Always, Expiry::At(START_US / 1000 + 1));
    batch.push(0, b"key", OpKind::Set { value, condition, expiry, flags: None, old_value: false });
    session.execute(&mut batch);
    let _ = session.wait(&mut batch);
    drop((batch, session));
    // Purging what has expired takes a session of the store's own.
    clock.advance_us(1_000_000);
    for _ in 0..1000 {
        store.step();
    }
    assert_eq!(store.len(0), 0, "the expired key was purged");
    drop(store);
    assert!(alive.upgrade().is_none());
}
