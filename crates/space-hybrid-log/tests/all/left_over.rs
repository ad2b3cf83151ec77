//! A read that the queue had no room for is started later, when its block may hold other records.
//!
//! ```text
//!   get a   in flight, and comes late: the queue is full
//!   get b   in slot 3, left over         slot 3: reclaimed, reused, sealed again         b is read: from where it is now
//! ```

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::io;
use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Reply, Session, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AlignedBuf, AnyDevice, BlockDevice, Counters};
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock, SimQueue};
use terrace_space_hybrid_log::{Opening, Sizes, open_block};

const SIZES: Sizes = Sizes {
    block_bytes: 8192,
    log_block_bytes: 4096,
    manifests_apart: 0,
    log_bytes: 16 * 4096,
    dram_bytes: 6 * 8192,
    dram_with_index: false,
    store_id: 9,
};
const BLOCKS: usize = 24;
/// Keys that are written first, and so lie on the device alone; they fill some blocks.
const COLD: usize = 60;
/// Keys that are written meanwhile, more than DRAM holds.
const WARM: usize = 120;
/// Writes until every block was used more than once, whatever the order in which blocks are taken.
const CHURN: usize = 3000;
/// Looks at the device until the late read completes: more than the test takes for all the rest.
const LATE: u32 = 1 << 20;

/// A device whose queues hold one read each.
struct Narrow(SimBlock);

impl BlockDevice for Narrow {
    type Queue = SimQueue;
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        self.0.write_at(offset, buf)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn queue(&self, _depth: usize) -> io::Result<SimQueue> {
        self.0.queue(1)
    }
    fn counters(&self) -> &Counters {
        self.0.counters()
    }
}

fn store(data: &SimBlock) -> Box<dyn Store> {
    let log = Narrow(SimBlock::from_image(vec![0; 17 * 4096]));
    let opening = Opening {
        sizes: SIZES,
        fresh: true,
        machine: MachineOptions {
            engine: "hetermm",
            durability: Durability::Sync,
            immediate: true,
            evict: false,
            sessions: 3,
            hasher: KeyHasher::new(7),
            clock: Arc::new(ManualClock::new(1_800_000_000_000_000)),
            threads: 1,
            recovery_keys: 10,
        },
        index: MakeIndex::Clht(&|| Clht::with_min_buckets(4)),
        description: String::new(),
        progress: &|_, _| {},
    };
    open_block(&AnyDevice::of(log), &AnyDevice::of(Narrow(data.clone())), opening).unwrap()
}

fn value(key: &str, round: usize) -> Vec<u8> {
    // Of many lengths: records of a later use of a block begin elsewhere.
    let mut value = format!("<{key}, round {round}>").into_bytes();
    value.resize(300 + round * 37 % 400, b'.');
    value
}

fn set(session: &mut dyn Session, key: &str, round: usize) {
    let mut batch = Batch::new();
    let value = batch.bytes(&value(key, round));
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    batch.push(0, key.as_bytes(), OpKind::Set { value, condition, expiry, flags: None, old_value: false });
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    assert!(matches!(batch.reply(0, &proof), Reply::Stored { .. }), "{key}: {:?}", batch.reply(0, &proof));
}

/// Where the device holds a key's first value.
fn places(data: &SimBlock, key: &str) -> Vec<usize> {
    let text = format!("<{key}, round 0>").into_bytes();
    data.to_bytes().windows(text.len()).enumerate().filter(|(_, w)| *w == text).map(|(at, _)| at).collect()
}

/// A store with cold keys, a reader and a writer.
struct World {
    data: SimBlock,
    store: Box<dyn Store>,
    reader: Box<dyn Session>,
    writer: Box<dyn Session>,
    keys: Vec<String>,
    rounds: usize,
}

impl World {
    fn new() -> Self {
        let data = SimBlock::from_image(vec![0; (BLOCKS + 2) * SIZES.block_bytes]);
        let store = store(&data);
        let (reader, writer) = (store.session().unwrap(), store.session().unwrap());
        let keys = (0..COLD).map(|i| format!("cold{i}")).collect();
        let mut world = Self { data, store, reader, writer, keys, rounds: 0 };
        world.set_all(|_| 0);
        world.churn(200);
        world
    }
    fn set_all(&mut self, round: impl Fn(usize) -> usize) {
        for (i, key) in self.keys.iter().enumerate() {
            set(&mut *self.writer, key, round(i));
        }
    }
    fn churn(&mut self, rounds: usize) {
        for round in self.rounds..self.rounds + rounds {
            set(&mut *self.writer, &format!("warm{}", round % WARM), round);
            self.store.step();
        }
        self.rounds += rounds;
    }
    /// Asks for so many cold keys, of which the first comes late, and nobody reads anything until it does; meanwhile the keys
    /// are replaced, and the blocks where they lay are used for others.
    fn reuse_behind(&mut self, keys: usize) -> Batch {
        let before: Vec<Vec<usize>> = self.keys.iter().map(|key| places(&self.data, key)).collect();
        let reads = |data: &SimBlock| data.counters().snapshot().reads;
        let read_before = reads(&self.data);
        self.data.inject(Fault::new(Access::Read, FaultKind::Late { reaps: LATE }));
        let mut batch = Batch::new();
        for key in &self.keys[..keys] {
            batch.push(0, key.as_bytes(), OpKind::Get { value: true });
        }
        self.reader.execute(&mut batch);
        let so_far = (self.data.faults_fired(), reads(&self.data) - read_before);
        assert_eq!(so_far, (1, 0), "the first read is under way, and no other has come");
        assert!(!self.reader.poll(&mut batch));
        self.set_all(|i| 1 + i);
        self.churn(CHURN);
        for (key, before) in self.keys.iter().zip(before) {
            let now = places(&self.data, key);
            assert!(
                before.iter().all(|at| !now.contains(at)),
                "the block where {key} lay was not used again"
            );
        }
        batch
    }
    /// The batch's answers are what was written last.
    fn answered(mut self, mut batch: Batch) {
        let proof = self.reader.wait(&mut batch);
        for i in 0..batch.len() {
            match batch.reply(i, &proof) {
                Reply::Hit { value: Some(span), .. } => {
                    assert_eq!(batch.output(span), value(&self.keys[i], 1 + i), "{}", self.keys[i]);
                }
                other => panic!("{}: {other:?}", self.keys[i]),
            }
        }
        let details = self.store.stats().engine_details;
        let damaged = details.iter().find(|(name, _)| *name == "records_damaged").unwrap();
        assert_eq!(damaged.1, 0, "nothing was damaged");
        drop((self.reader, self.writer));
        self.store.close().unwrap();
    }
}

#[test]
fn a_read_left_over_until_its_block_was_reused_is_looked_up_again() {
    let mut world = World::new();
    let batch = world.reuse_behind(COLD);
    world.answered(batch);
}

#[test]
fn a_read_that_fails_where_the_block_was_reused_is_looked_up_again() {
    let mut world = World::new();
    let batch = world.reuse_behind(1);
    world.data.inject(Fault::new(Access::Read, FaultKind::Io));
    let data = world.data.clone();
    world.answered(batch);
    assert_eq!(data.faults_fired(), 2);
}
