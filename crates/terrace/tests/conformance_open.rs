//! The conformance suite through the door that users take, `terrace::open`: real directories, the system's clock, with and
//! without background threads; killed and closed in between.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::time::{SystemTime, UNIX_EPOCH};

use terrace::engine::{Batch, Durability, OpError, OpKind, Reply, Store};
use terrace::{Granularity, OpenStore, Options, Place, Tier};
use terrace_testkit::clocks::Passed;
use terrace_testkit::concurrent::{groups_test, threads_test};
use terrace_testkit::conformance::{Harness, Restarted, random_model_test};
use terrace_testkit::history::Plan;
use terrace_testkit::random::Limits;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings;

struct Opened {
    options: Options,
    /// `None` only during a restart.
    store: Option<OpenStore>,
    /// What a restart keeps: after a clean stop, and after a kill.
    keeps: (bool, bool),
    now_ms: u64,
    _dir: tempfile::TempDir,
}

impl Opened {
    fn new(engine: &str, durability: Durability, background_threads: usize) -> Self {
        Self::with_index(engine, "clht", durability, background_threads)
    }
    fn with_index(engine: &str, index: &str, durability: Durability, background_threads: usize) -> Self {
        Self::on_devices(1, engine, index, durability, background_threads)
    }
    /// With memory that is striped over so many files.
    fn on_devices(
        devices: usize,
        engine: &str,
        index: &str,
        durability: Durability,
        background_threads: usize,
    ) -> Self {
        let (persistent, engine_of_memory) =
            (engine != "dram", engine.starts_with("heap") || ["scmkv", "bonsai"].contains(&engine));
        let in_heap = engine_of_memory || devices > 1;
        // A file in memory stands in for persistent memory.
        let dir = if in_heap { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() }.unwrap();
        let options = Options {
            engine: if engine == "heap-object" { "heap-hybrid" } else { engine }.into(),
            heap: (engine == "heap-object").then_some(Granularity::Object),
            index: index.into(),
            dir: persistent.then(|| dir.path().join("data")),
            // Less than the random operations write, so that records move down.
            dram: Some(if persistent { 32 << 20 } else { 512 << 20 }),
            ssd: (persistent && !in_heap).then_some(Tier { bytes: 512 << 20, place: None }),
            pmem: in_heap.then(|| Tier {
                bytes: 256 << 20,
                place: Some(match devices {
                    1 => Place::Path(dir.path().join("pmem")),
                    _ => Place::Striped((0..devices).map(|i| dir.path().join(format!("pmem{i}"))).collect()),
                }),
            }),
            profile: in_heap.then(|| "dram".into()),
            durability,
            background_threads,
            ..Options::default()
        };
        let keeps = (persistent, engine_of_memory || persistent && durability != Durability::None);
        let store = Some(terrace::open(options.clone()).unwrap());
        Self { options, store, keeps, now_ms: 0, _dir: dir }
    }
}

impl Harness for Opened {
    fn store(&mut self) -> &dyn Store {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        self.now_ms = self.now_ms.max(now_ms);
        &**self.store.as_ref().unwrap()
    }
    fn restart(&mut self, clean: bool) -> Restarted {
        // What a kill keeps without a log is not defined: only clean stops are compared then.
        let clean = clean || self.keeps.0 && !self.keeps.1;
        let store = self.store.take().unwrap();
        if clean {
            store.close().unwrap();
        } else {
            store.kill();
        }
        self.store = Some(terrace::open(self.options.clone()).unwrap());
        if self.keeps.0 { Restarted::KeptAll } else { Restarted::LostAll }
    }
    fn advance_clock(&mut self, _ms: u64) {}
    fn disturb_clocks(&mut self, _rng: &mut Rng) -> Passed {
        Passed::Really
    }
    fn now_ms(&self) -> u64 {
        self.now_ms
    }
    fn limits(&self) -> Limits {
        let about = terrace::INDEXES.iter().find(|about| about.name == self.options.index).unwrap();
        Limits {
            near_expiries: false,
            ranges: about.ordered || self.options.engine == "bonsai",
            ..Limits::default()
        }
    }
}

fn random_operations(engine: &str, durability: Durability) {
    for seed in settings::model_seeds(2) {
        let mut harness = Opened::new(engine, durability, seed as usize % 2);
        let report = random_model_test(&mut harness, seed, settings::model_steps(400));
        println!("{engine}, {durability}, seed {seed}: {report:?}");
    }
}

fn threads(engine: &str, durability: Durability) {
    for value_bytes in [0, 300, 20_000] {
        let batches = if value_bytes > 1000 { 100 } else { 500 };
        let harness = Opened::new(engine, durability, 1);
        let store = harness.store.as_ref().unwrap();
        let plan = Plan { clients: 4, batches, batch: 4, keys: 20, value_bytes, seed: 1 };
        let outcome = threads_test(&**store, plan);
        outcome.unwrap_or_else(|wrong| panic!("values of {value_bytes} bytes: {wrong}"));

        let harness = Opened::new(engine, durability, 1);
        let store = harness.store.as_ref().unwrap();
        // A log group holds all writes of an atomic one.
        let outcome = groups_test(&**store, batches, 2, value_bytes.min(3000));
        outcome.unwrap_or_else(|wrong| panic!("groups with values of {value_bytes} bytes: {wrong}"));
    }
}

#[test]
fn dram() {
    random_operations("dram", Durability::None);
    threads("dram", Durability::None);
}

#[test]
fn tac_without_a_log() {
    random_operations("tac", Durability::None);
}

#[test]
fn tac_batch() {
    random_operations("tac", Durability::default());
    threads("tac", Durability::default());
}

#[test]
fn tac_sync() {
    random_operations("tac", Durability::Sync);
    threads("tac", Durability::Sync);
}

#[test]
fn hetermm_without_a_log() {
    random_operations("hetermm", Durability::None);
}

#[test]
fn hetermm_batch() {
    random_operations("hetermm", Durability::default());
    threads("hetermm", Durability::default());
}

#[test]
fn hetermm_sync() {
    random_operations("hetermm", Durability::Sync);
    threads("hetermm", Durability::Sync);
}

#[test]
fn heap_hybrid() {
    // Whatever was asked for, every write is safe before it is answered.
    random_operations("heap-hybrid", Durability::None);
    random_operations("heap-hybrid", Durability::Sync);
    threads("heap-hybrid", Durability::Sync);
}

#[test]
fn heap_of_objects() {
    random_operations("heap-object", Durability::Sync);
    threads("heap-object", Durability::Sync);
}

#[test]
fn heap_persistent() {
    random_operations("heap-persistent", Durability::None);
    random_operations("heap-persistent", Durability::Sync);
    threads("heap-persistent", Durability::Sync);
}

#[test]
fn scmkv() {
    // A group is one burst into memory: what is written is safe, whatever was asked for.
    random_operations("scmkv", Durability::None);
    random_operations("scmkv", Durability::Sync);
    threads("scmkv", Durability::Sync);
}

#[test]
fn bonsai() {
    random_operations("bonsai", Durability::None);
    random_operations("bonsai", Durability::Sync);
    threads("bonsai", Durability::Sync);
}

/// Memory that is striped over several devices is as that of one, whatever the engine.
fn striped(devices: usize, engine: &str, durability: Durability) {
    let harness = |background| Opened::on_devices(devices, engine, "clht", durability, background);
    for seed in settings::model_seeds(1) {
        let report = random_model_test(&mut harness(seed as usize % 2), seed, settings::model_steps(300));
        println!("{engine} on {devices} devices, {durability}, seed {seed}: {report:?}");
    }
    let plan = Plan { clients: 4, batches: 200, batch: 4, keys: 20, value_bytes: 300, seed: 1 };
    let harness = harness(1);
    threads_test(&**harness.store.as_ref().unwrap(), plan).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn bonsai_striped() {
    striped(2, "bonsai", Durability::Sync);
    striped(6, "bonsai", Durability::Sync);
}

#[test]
fn scmkv_striped() {
    striped(6, "scmkv", Durability::Sync);
}

#[test]
fn heaps_striped() {
    striped(2, "heap-hybrid", Durability::Sync);
    striped(3, "heap-object", Durability::Sync);
    striped(3, "heap-persistent", Durability::Sync);
}

#[test]
fn logs_striped() {
    striped(2, "hetermm", Durability::Sync);
    striped(3, "tac", Durability::default());
}

/// Every index of this build, in every engine: with the adapters, if they are built (`--features adapters`).
#[test]
fn every_index() {
    for about in terrace::INDEXES.iter().filter(|about| about.built && about.name != "clht") {
        let tiered = Durability::default();
        let engines =
            [("dram", Durability::None), ("hetermm", tiered), ("tac", tiered), ("heap-hybrid", tiered)];
        for (seed, (engine, durability)) in (1..).zip(engines) {
            let mut harness = Opened::with_index(engine, about.name, durability, seed as usize % 2);
            if !has_cursors(harness.store()) {
                println!("{engine}, index {}: no cursors, so not for the suite", about.name);
                continue;
            }
            let report = random_model_test(&mut harness, seed, settings::model_steps(300));
            println!("{engine}, index {}, seed {seed}: {report:?}", about.name);
            assert_eq!(report.ranges > 0, about.ordered, "{}", about.name);
        }
    }
}

/// Whether the store's index can iterate; one that can't says so by name.
fn has_cursors(store: &dyn Store) -> bool {
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    batch.push(0, b"", OpKind::Scan { cursor: 0, count: 1 });
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    !matches!(batch.reply(0, &proof), Reply::Error(OpError::NoCursor(_)))
}
