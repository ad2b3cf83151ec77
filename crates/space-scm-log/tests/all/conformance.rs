//! The conformance suite on both directories: the hash table, and nodes of eight and of forty entries.

use std::sync::Arc;

use terrace_engine::clock::Clock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Reply, Session, Store};
use terrace_media::{AnyRegion, HeapRegion};
use terrace_space_scm_log::{Geometry, Opening, buckets_for, open, open_ordered};
use terrace_testkit::clocks::{Clocks, Passed, wild};
use terrace_testkit::concurrent::{groups_test, threads_test};
use terrace_testkit::conformance::{Harness, Restarted, random_model_test};
use terrace_testkit::history::Plan;
use terrace_testkit::random::{Limits, TICK_MS};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings;

use super::ranges::run;

const START_US: u64 = 1_800_000_000_000_000;
const REGION_BYTES: u64 = 96 << 20;
const DRAM_BYTES: u64 = 4 << 20;
/// Of a page that takes the longest keys.
const PAGE_BYTES: usize = 512 << 10;

pub(super) struct Made {
    clock: Arc<Clocks>,
    pub(super) region: Arc<AnyRegion>,
    geometry: Geometry,
    is_ordered: bool,
    /// `None` only during a restart.
    store: Option<Box<dyn Store>>,
}

impl Made {
    fn new(page_bytes: usize, is_ordered: bool) -> Self {
        Self::of(REGION_BYTES, page_bytes, is_ordered)
    }
    pub(super) fn of(bytes: u64, page_bytes: usize, is_ordered: bool) -> Self {
        let region = Arc::new(AnyRegion::new(Arc::new(HeapRegion::new(bytes).unwrap())));
        let buckets = if is_ordered { 0 } else { buckets_for(Some(1000), bytes) };
        let geometry = Geometry { page_bytes, buckets, bytes };
        let mut made =
            Self { clock: Arc::new(Clocks::new(START_US)), region, geometry, is_ordered, store: None };
        made.store = Some(made.open(true));
        made
    }
    fn open(&self, fresh: bool) -> Box<dyn Store> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let opening = Opening {
            geometry: self.geometry,
            wanted_bytes: 0,
            dram_bytes: DRAM_BYTES,
            store_id: 3,
            fresh,
            machine: MachineOptions {
                engine: if self.is_ordered { "bonsai" } else { "scmkv" },
                durability: Durability::Sync,
                immediate: true,
                evict: false,
                sessions: 16,
                hasher: KeyHasher::new(7),
                clock,
                threads: 2,
                recovery_keys: usize::MAX,
            },
            description: String::new(),
            progress: &|_, _| {},
            far: None,
        };
        let opened = if self.is_ordered {
            open_ordered(&self.region, 0, opening)
        } else {
            open(&self.region, 0, opening)
        };
        opened.unwrap()
    }
}

impl Harness for Made {
    fn store(&mut self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }
    fn restart(&mut self, clean: bool) -> Restarted {
        let store = self.store.take().unwrap();
        if clean {
            store.close().unwrap();
        }
        drop(store);
        self.store = Some(self.open(false));
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
        Limits { ranges: self.is_ordered, ..Limits::default() }
    }
}

fn random_operations(page_bytes: usize, is_ordered: bool) {
    for seed in settings::model_seeds(3) {
        let steps = settings::model_steps(300);
        let mut made = Made::new(page_bytes, is_ordered);
        let report = random_model_test(&mut made, seed, steps);
        println!("seed {seed}: {report:?} {:?}", made.store().stats().engine_details);
        assert!(report.operations > 500 || steps < 300, "{report:?}");
        assert!((report.ranges > 20) == is_ordered || steps < 300, "{report:?}");
    }
}

#[test]
fn random_operations_over_a_hash_table() {
    random_operations(PAGE_BYTES, false);
}

#[test]
fn random_operations_and_ranges_over_nodes_of_forty() {
    random_operations(PAGE_BYTES, true);
}

#[test]
fn threads_are_linearizable_key_by_key() {
    for (round, (value_bytes, is_ordered)) in
        [(0, true), (200, true), (20_000, true), (0, false)].into_iter().enumerate()
    {
        let mut made = Made::new(PAGE_BYTES, is_ordered);
        let plan = Plan { clients: 4, batches: 300, batch: 4, keys: 60, value_bytes, seed: round as u64 };
        let outcome = threads_test(made.store(), plan);
        outcome.unwrap_or_else(|wrong| panic!("values of {value_bytes} bytes: {wrong}"));
    }
}

#[test]
fn atomic_groups_are_seen_whole() {
    for is_ordered in [true, false] {
        for (groups, value_bytes) in [(500, 0), (500, 300)] {
            let mut made = Made::new(PAGE_BYTES, is_ordered);
            groups_test(made.store(), groups, 2, value_bytes).unwrap();
        }
    }
}

/// What a flush forgot stayed until something was written, and a store that was full took no write.
#[test]
fn a_full_store_takes_writes_again_after_a_flush() {
    for (is_ordered, bytes) in [(false, 16_000), (true, 16_000), (true, 8)] {
        let mut made = Made::new(PAGE_BYTES, is_ordered);
        let store = made.store();
        let mut session = store.session().unwrap();
        let mut number = 0u64;
        let mut put = |session: &mut Box<dyn Session>, count: u64| -> bool {
            let mut batch = Batch::new();
            let value = batch.bytes(&vec![7; bytes]);
            let (condition, expiry) = (Condition::Always, Expiry::Clear);
            for _ in 0..count {
                number += 1;
                let kind = OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false };
                batch.push(0, &number.to_be_bytes(), kind);
            }
            let proof = run(store, session, &mut batch);
            (0..count as usize).all(|i| match batch.reply(i, &proof) {
                Reply::Stored { .. } => true,
                Reply::Error(_) => false,
                other => panic!("{other:?}"),
            })
        };
        while put(&mut session, 64) {}
        let mut batch = Batch::new();
        batch.push(0, b"", OpKind::Flush { db: None });
        let proof = run(store, &mut session, &mut batch);
        assert!(matches!(batch.reply(0, &proof), Reply::Done), "{:?}", batch.reply(0, &proof));
        for _ in 0..20_000 {
            store.step();
        }
        for _ in 0..100 {
            assert!(put(&mut session, 16), "values of {bytes} bytes, ordered: {is_ordered}");
        }
    }
}

/// Does something with a tiny store of each seed, of both directories by turns: none may wait for ever.
fn with_tiny_stores(seeds: u64, act: fn(&dyn Store, &mut Box<dyn Session>, &mut Rng, usize)) {
    for (is_ordered, seed) in (0..seeds).map(|seed| (seed % 2 == 0, seed)) {
        let (done, waits) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut made = Made::of(80 << 10, 2048, is_ordered);
            let store = made.store();
            let mut session = store.session().unwrap();
            act(store, &mut session, &mut Rng::new(seed), seed as usize / 2);
            done.send(()).unwrap();
        });
        waits.recv_timeout(std::time::Duration::from_secs(120)).unwrap_or_else(|why| {
            panic!("seed {seed}, ordered: {is_ordered}: it failed or waits for ever: {why}")
        });
    }
}

/// Writes a value of so many bytes; whether it was taken.
fn is_taken(store: &dyn Store, session: &mut Box<dyn Session>, key: &[u8], bytes: usize) -> bool {
    let mut batch = Batch::new();
    let value = batch.bytes(&vec![7; bytes]);
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    batch.push(0, key, OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false });
    let proof = run(store, session, &mut batch);
    !matches!(batch.reply(0, &proof), Reply::Error(_))
}

/// Deletions need room in the log: what they free is found for them.
#[test]
fn a_full_store_takes_deletions_and_then_writes() {
    with_tiny_stores(60, |store, session, rng, kind| {
        for _ in 0..2 {
            let mut keys = Vec::new();
            loop {
                let start = rng.below(1 << 40).to_be_bytes();
                let key = [&start[..3 + kind % 6], &(keys.len() as u32).to_be_bytes()].concat();
                if !is_taken(store, session, &key, 8 + rng.below(200) as usize * (kind % 3)) {
                    break;
                }
                keys.push(key);
            }
            assert!(keys.len() > 50, "{} keys", keys.len());
            for key in keys {
                let mut batch = Batch::new();
                batch.push(0, &key, OpKind::Delete { condition: Condition::Always, old_value: false });
                let proof = run(store, session, &mut batch);
                let reply = batch.reply(0, &proof);
                assert!(matches!(reply, Reply::Deleted { .. }), "{reply:?}");
            }
            assert_eq!(store.len(0), 0);
        }
    });
}

/// Cleaning that came as far as the reserve began to count anew what it did in vain, and a value that takes more waited for ever.
#[test]
fn a_nearly_full_store_refuses_what_does_not_fit_and_does_not_wait_for_ever() {
    with_tiny_stores(400, |store, session, rng, _| {
        for _ in 0..400 {
            is_taken(store, session, &[rng.below(16) as u8], 800 + rng.below(1500) as usize);
        }
    });
}
