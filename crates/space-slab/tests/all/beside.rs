//! Blind sets and what happens at the same time: operations that are reading the older version, flushes, iterations.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, MachineOptions, OpKind, Reply, Session, Settled, Store};
use terrace_index::{Address, Change, Clht, Erased, Index, Key, LockFree, Lookup, MakeIndex, Verdict};
use terrace_media::{AnyDevice, BlockDevice};
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};
use terrace_space_slab::{Choices, Opening, Sizes, open_block};

use crate::keys::{get, set, write};

const HASHER: KeyHasher = KeyHasher::new(7);
const SIZES: Sizes = Sizes {
    block_bytes: 16 << 10,
    log_block_bytes: 16 << 10,
    manifests_apart: 0,
    log_bytes: 1 << 20,
    dram_bytes: 128 << 10,
    dram_with_index: false,
    store_id: 1,
};
const DATA_BYTES: usize = 4 << 20;
/// DRAM holds a quarter of them.
const KEYS: u64 = 2000;
/// The oldest ones: pages alone have them. They are few, so that nobody has to look what sets of them replaced.
const COLD: Range<u64> = 0..32;
/// Values are of two lengths, so that there is DRAM for records of both.
const LENGTHS: [usize; 2] = [128, 320];
/// Looks at the device until a late read completes, unless somebody waits for it: more than there are.
const LATE: u32 = 1 << 20;

/// A store whose cold keys were settled.
struct World {
    data: SimBlock,
    store: Box<dyn Store>,
    writer: Box<dyn Session>,
}

impl World {
    fn new<I: Index>(index: impl Fn() -> I) -> Self {
        let log = SimBlock::from_image(vec![0; SIZES.log_bytes as usize]);
        let data = SimBlock::from_image(vec![0; DATA_BYTES]);
        let opening = Opening {
            sizes: SIZES,
            fresh: true,
            machine: MachineOptions {
                engine: "tac",
                durability: Durability::default(),
                immediate: true,
                evict: false,
                sessions: 3,
                hasher: HASHER,
                clock: Arc::new(ManualClock::new(1_800_000_000_000_000)),
                threads: 1,
                recovery_keys: usize::MAX,
            },
            index: MakeIndex::Other(&|| Erased::new(index())),
            description: String::new(),
            progress: &|_, _| {},
        };
        let store =
            open_block(&AnyDevice::of(log), &AnyDevice::of(data.clone()), Choices::default(), opening)
                .unwrap();
        let writer = store.session().unwrap();
        let mut world = Self { data, store, writer };
        for first in (0..KEYS).step_by(16) {
            world.write(|batch| (first..first + 16).for_each(|key| set(batch, key, &value(key))));
            world.store.step();
        }
        world.settle();
        world
    }
    fn write(&mut self, fill: impl FnOnce(&mut Batch)) {
        write(&mut *self.writer, fill);
    }
    /// How many sets read nothing, and how many of them are not settled.
    fn blind(&self) -> [u64; 2] {
        ["sets_blind", "sets_unsettled"].map(|name| self.detail(name))
    }
    /// Sets these keys blind. Which of them: those that are in DRAM for the time being are left out. None is settled when it ends.
    fn set_blind(&mut self, keys: Range<u64>, value: impl Fn(u64) -> Vec<u8>) -> Vec<u64> {
        let (before, all) = (self.blind(), (keys.end - keys.start) as usize);
        let mut blind = Vec::new();
        for key in keys {
            let so_far = self.detail("sets_blind");
            self.write(|batch| set(batch, key, &value(key)));
            if self.detail("sets_blind") > so_far {
                blind.push(key);
            }
        }
        assert_eq!(self.blind(), before.map(|count| count + blind.len() as u64));
        assert!(blind.len() * 4 > all * 3, "{blind:?}");
        blind
    }
    fn get(&mut self, key: u64) -> Option<Vec<u8>> {
        get(&mut *self.writer, key)
    }
    fn detail(&self, name: &str) -> u64 {
        let details = self.store.stats().engine_details;
        details.iter().find(|(detail, _)| *detail == name).unwrap_or_else(|| panic!("{name}")).1
    }
    /// Reads that the device has served.
    fn reads(&self) -> u64 {
        self.data.counters().snapshot().reads
    }
    fn settle(&self) {
        for _ in 0..10_000 {
            if self.detail("sets_unsettled") == 0 {
                return;
            }
            self.store.step();
        }
        panic!("some owe for ever");
    }
}

fn clht() -> Clht {
    Clht::with_min_buckets(64)
}

fn lock_free() -> LockFree {
    LockFree::with_min_buckets(64)
}

fn value(key: u64) -> Vec<u8> {
    key.to_be_bytes().repeat(LENGTHS[key as usize % 2] / 8)
}

/// Another session executes operations that must read, and what they read does not come until it waits.
fn begin_reading(world: &World, fill: impl FnOnce(&mut Batch)) -> (Box<dyn Session>, Batch) {
    let mut session = world.store.session().unwrap();
    let (reads, late) = (world.reads(), world.data.faults_fired());
    world.data.inject(Fault::new(Access::Read, FaultKind::Late { reaps: LATE }).forever());
    let mut batch = Batch::new();
    fill(&mut batch);
    session.execute(&mut batch);
    assert!(!session.poll(&mut batch) && world.data.faults_fired() > late && world.reads() == reads);
    (session, batch)
}

fn end_reading(world: &World, session: &mut dyn Session, batch: &mut Batch) -> Settled {
    let reads = world.reads();
    let proof = session.wait(batch);
    assert!(world.reads() > reads);
    world.data.heal();
    proof
}

#[test]
fn an_update_computes_from_what_was_put_beside_what_it_read() {
    updates_meet_sets(World::new(clht));
    updates_meet_sets(World::new(lock_free));
}

fn updates_meet_sets(mut world: World) {
    let (mut session, mut batch) = begin_reading(&world, |batch| {
        for key in COLD {
            let (value, condition) = (batch.bytes(b" and more"), Condition::Always);
            let append =
                OpKind::Append { value, front: false, create: true, condition, value_bytes_max: u32::MAX };
            batch.push(0, &key.to_be_bytes(), append);
        }
    });
    let new = |key: u64| format!("a newer value of key {key}").into_bytes();
    let cold = world.set_blind(COLD, new);
    let proof = end_reading(&world, &mut *session, &mut batch);
    for key in cold {
        let expected = [&new(key)[..], b" and more"].concat();
        let reply = batch.reply((key - COLD.start) as usize, &proof);
        assert_eq!(reply, Reply::Length(expected.len() as u64), "key {key}");
        assert_eq!(world.get(key), Some(expected), "key {key}");
    }
    world.settle();
    assert_eq!((world.detail("sets_new"), world.store.len(0)), (0, KEYS));
}

/// Some of the later sets find room in the place of the earlier ones, others don't.
#[test]
fn what_is_set_blind_before_a_flush_and_again_after_it_counts_once() {
    let mut world = World::new(clht);
    let again = |key: u64| vec![key as u8; LENGTHS[key as usize / 2 % 2]];
    let before = world.blind();
    world.write(|batch| {
        COLD.for_each(|key| set(batch, key, &value(key)));
        batch.push(0, b"", OpKind::Flush { db: Some(0) });
        COLD.for_each(|key| set(batch, key, &again(key)));
    });
    let [blind, unsettled] = [0, 1].map(|i| world.blind()[i] - before[i]);
    let count = COLD.end - COLD.start;
    assert!(blind * 4 > count * 3 && unsettled * 4 > blind * 3, "{unsettled} of {blind}");
    assert_eq!(world.store.len(0), count);
    world.settle();
    assert_eq!(world.store.len(0), count);
    COLD.for_each(|key| assert_eq!(world.get(key), Some(again(key)), "key {key}"));
    assert_eq!(world.get(COLD.end), None);
}

/// Is told what a step of an iteration has seen of the index, before anybody looks at that.
type Watcher = Arc<Mutex<Option<Box<dyn FnMut(&Clht, &[Address]) + Send>>>>;

struct Watched(Clht, Watcher);

impl Index for Watched {
    const NEEDS_KEY: bool = false;

    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup {
        self.0.get(key, verify)
    }
    fn prefetch(&self, key: &Key<'_>) {
        self.0.prefetch(key);
    }
    fn candidates(&self, key: &Key<'_>, visit: impl FnMut(Address)) {
        self.0.candidates(key, visit);
    }
    fn update<R>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R {
        self.0.update(key, verify, decide)
    }
    fn update_many<R>(
        &self,
        keys: &[Key<'_>],
        verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R {
        self.0.update_many(keys, verify, decide)
    }
    fn contains(&self, key: &Key<'_>, address: Address) -> bool {
        self.0.contains(key, address)
    }
    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        self.0.replace(key, from, to)
    }
    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        self.0.remove(key, address)
    }
    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        let before = out.len();
        let next = self.0.scan(cursor, out);
        // Not under its lock: what it does may end here.
        let watcher = self.1.lock().take();
        if let Some(mut watcher) = watcher {
            watcher(&self.0, &out[before..]);
            *self.1.lock() = Some(watcher);
        }
        next
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }
    fn name(&self) -> &'static str {
        self.0.name()
    }
}

/// The set comes when the iteration has seen the older version in the index, which it has read: the newer one is nowhere that it will
/// look.
#[test]
fn an_iteration_shows_what_is_set_blind_in_the_bucket_that_it_is_in() {
    let watcher = Watcher::default();
    let world = World::new(|| Watched(clht(), watcher.clone()));
    let (mut session, mut batch) = begin_reading(&world, |batch| {
        batch.push(0, b"", OpKind::Scan { cursor: 0, count: 10_000 });
    });
    let before = world.blind();
    let (mut writer, mut sets) = (world.store.session().unwrap(), 0);
    *watcher.lock() = Some(Box::new(move |index, seen| {
        let is_seen = |key: &u64| {
            let bytes = key.to_be_bytes();
            seen.iter().any(|at| index.contains(&HASHER.key(0, &bytes), *at))
        };
        if sets < 32
            && let Some(key) = (0..KEYS).find(is_seen)
        {
            sets += 1;
            write(&mut *writer, |batch| set(batch, key, &value(key)));
        }
    }));
    let proof = end_reading(&world, &mut *session, &mut batch);
    *watcher.lock() = None;
    assert_eq!(batch.reply(0, &proof), Reply::Scanned { cursor: 0 });
    let blind = world.blind()[0] - before[0];
    assert!(blind >= 16, "{blind}");
    let found: HashSet<&[u8]> = batch.scanned(0).collect();
    let missing: Vec<u64> = (0..KEYS).filter(|key| !found.contains(&key.to_be_bytes()[..])).collect();
    assert!(missing.is_empty(), "{missing:?}, of {blind} that were set blind");
}
