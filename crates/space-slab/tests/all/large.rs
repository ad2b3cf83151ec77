//! Large values on block media: those that are read often get copies in DRAM, which go when others need it more.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::ops::Range;
use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Reply, Session, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AnyDevice, BlockFile, BlockFileOptions};
use terrace_space_slab::{Choices, Opening, Sizes, open_block};

const SIZES: Sizes = Sizes {
    block_bytes: 64 << 10,
    log_block_bytes: 64 << 10,
    manifests_apart: 0,
    log_bytes: 4 << 20,
    // Two slabs more than 2 MiB: the lists of pieces take of it.
    dram_bytes: (2 << 20) + (64 << 10),
    dram_with_index: false,
    store_id: 1,
};
const LARGE_BYTES: usize = 40_000;
/// Long enough that a large value beats as many of them as it takes the place of, though each was written just now.
const SMALL_BYTES: usize = 6000;
/// DRAM holds about 300.
const SMALL: Range<u64> = 1000..1800;

struct Bed {
    // Ends before the store does.
    session: Box<dyn Session>,
    store: Box<dyn Store>,
    clock: Arc<ManualClock>,
    _dir: tempfile::TempDir,
    turns: u64,
}

fn large(key: u64, round: u8) -> Vec<u8> {
    (0..LARGE_BYTES).map(|i| (i as u64 * 31 + key) as u8 ^ round).collect()
}

impl Bed {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(1_800_000_000_000_000));
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes| {
            let options = BlockFileOptions { direct: false, ring: true, prewrite: false };
            AnyDevice::of(BlockFile::create(&dir.path().join(name), bytes, &options).unwrap())
        };
        let opening = Opening {
            sizes: SIZES,
            fresh: true,
            machine: MachineOptions {
                engine: "tac",
                durability: Durability::default(),
                immediate: true,
                evict: false,
                sessions: 2,
                hasher: KeyHasher::new(7),
                clock: clock.clone(),
                threads: 1,
                recovery_keys: usize::MAX,
            },
            index: MakeIndex::Clht(&|| Clht::with_min_buckets(64)),
            description: String::new(),
            progress: &|_, _| {},
        };
        let (log, data) = (file("log", SIZES.log_bytes), file("data", 64 << 20));
        let store = open_block(&log, &data, Choices::default(), opening).unwrap();
        let session = store.session().unwrap();
        Self { session, store, clock, _dir: dir, turns: 0 }
    }
    fn run(&mut self, key: u64, op: impl Fn(&mut Batch) -> OpKind) -> Option<Vec<u8>> {
        let mut batch = Batch::new();
        let kind = op(&mut batch);
        batch.push(0, &key.to_be_bytes(), kind);
        self.session.execute(&mut batch);
        let settled = self.session.wait(&mut batch);
        let value = match batch.reply(0, &settled) {
            Reply::Hit { value, .. } => Some(batch.output(value.unwrap()).to_vec()),
            Reply::Stored { .. } | Reply::Deleted { .. } => None,
            reply => panic!("key {key}: {reply:?}"),
        };
        drop(settled);
        self.clock.advance_us(1000);
        self.turns += 1;
        if self.turns.is_multiple_of(4) {
            self.store.step();
            let dram = &self.store.stats().tiers[0];
            assert!(dram.capacity_bytes <= SIZES.dram_bytes, "{dram:?}");
        }
        value
    }
    fn set(&mut self, key: u64, value: &[u8]) {
        self.run(key, |batch| {
            let (value, condition, expiry) = (batch.bytes(value), Condition::Always, Expiry::Clear);
            OpKind::Set { value, condition, expiry, flags: None, old_value: false }
        });
    }
    fn get(&mut self, key: u64) -> Vec<u8> {
        self.run(key, |_| OpKind::Get { value: true }).unwrap()
    }
    fn detail(&self, name: &str) -> u64 {
        let details = self.store.stats().engine_details;
        details.iter().find(|(known, _)| *known == name).unwrap().1
    }
    /// Reads the large values of these keys; how many of the reads DRAM answered.
    fn read(&mut self, keys: Range<u64>, round: u8) -> u64 {
        let before = self.store.stats().tiers[0].hits;
        for key in keys {
            assert!(self.get(key) == large(key, round), "key {key}");
        }
        self.store.stats().tiers[0].hits - before
    }
}

#[test]
fn hot_large_values_are_answered_from_dram_and_give_way_to_hotter_records() {
    let mut bed = Bed::new();
    for key in 0..60 {
        bed.set(key, &large(key, 0));
    }
    SMALL.for_each(|key| bed.set(key, &[7; SMALL_BYTES]));

    // Hot ones among others that are read once each.
    let first = bed.read(0..12, 0);
    assert_eq!(first, 0, "the first time they come from the device");
    for round in 0..20 {
        bed.read(0..12, 0);
        bed.read(12 + round * 2..14 + round * 2, 0);
    }
    assert!(bed.read(0..12, 0) >= 10, "{} kept out", bed.detail("large_values_kept_out"));
    let (copies, used) = (bed.detail("large_values_in_dram"), bed.detail("large_value_bytes_in_dram"));
    assert!((10..=20).contains(&copies) && used == copies * LARGE_BYTES as u64, "{copies} of {used} bytes");

    // A copy never answers for a value that was replaced or deleted.
    bed.set(3, &large(3, 9));
    assert!(bed.get(3) == large(3, 9) && bed.get(4) == large(4, 0));
    let before = bed.detail("large_values_in_dram");
    bed.run(5, |_| OpKind::Delete { condition: Condition::Always, old_value: false });
    assert_eq!(bed.detail("large_values_in_dram"), before - 1);

    // Records that fit DRAM only without the copies are read over and over, the large values no more.
    for _ in 0..40 {
        (1000..1266).for_each(|key| assert!(bed.get(key) == [7; SMALL_BYTES]));
    }
    let left = bed.detail("large_values_in_dram");
    assert!(left * 4 <= copies, "{left} of {copies} are left");
    assert!(bed.get(4) == large(4, 0), "it is there all the same");
}
