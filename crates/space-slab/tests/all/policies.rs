//! What policies and gates of DRAM do to a store over pages in memory: who stays, who enters, and what lists hear.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Reply, Session, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AnyRegion, HeapRegion};
use terrace_space_slab::{Eviction, Opening, Sizes, open_byte};

const SIZES: Sizes = Sizes {
    block_bytes: 64 << 10,
    log_block_bytes: 64 << 10,
    manifests_apart: 0,
    log_bytes: 4 << 20,
    dram_bytes: 1 << 20,
    dram_with_index: false,
    store_id: 1,
};
const VALUE: usize = 400;
/// DRAM holds 1,300 of them at most.
const KEYS: u64 = 12_000;
/// Keys that are read over and over.
const HOT: std::ops::Range<u64> = 0..600;

struct Bed {
    store: Option<Box<dyn Store>>,
    session: Option<Box<dyn Session>>,
    clock: Arc<ManualClock>,
    region: Arc<HeapRegion>,
    turns: u64,
}

impl Bed {
    fn new(eviction: Eviction) -> Self {
        let region = Arc::new(HeapRegion::new(24 << 20).unwrap());
        let clock = Arc::new(ManualClock::new(1_800_000_000_000_000));
        let mut bed = Self { store: None, session: None, clock, region, turns: 0 };
        bed.open(eviction, true);
        bed.set(0..KEYS);
        bed
    }
    fn open(&mut self, eviction: Eviction, fresh: bool) {
        self.session = None;
        if let Some(store) = self.store.take() {
            store.close().unwrap();
        }
        let opening = Opening {
            sizes: SIZES,
            fresh,
            machine: MachineOptions {
                engine: "tac",
                durability: Durability::default(),
                immediate: true,
                evict: false,
                sessions: 2,
                hasher: KeyHasher::new(7),
                clock: self.clock.clone(),
                threads: 1,
                recovery_keys: 10,
            },
            index: MakeIndex::Clht(&|| Clht::with_min_buckets(64)),
            description: String::new(),
            progress: &|_, _| {},
        };
        let store =
            open_byte(&Arc::new(AnyRegion::new(self.region.clone())), 0, eviction.into(), opening).unwrap();
        self.session = Some(store.session().unwrap());
        self.store = Some(store);
    }
    fn store(&self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }
    /// Does something to each key, and lets the store work now and then.
    fn each(&mut self, keys: impl Iterator<Item = u64>, op: impl Fn(&mut Batch) -> OpKind) {
        for key in keys {
            let session = self.session.as_mut().unwrap();
            let mut batch = Batch::new();
            let kind = op(&mut batch);
            batch.push(0, &key.to_be_bytes(), kind);
            session.execute(&mut batch);
            let settled = session.wait(&mut batch);
            let reply = batch.reply(0, &settled);
            assert!(matches!(reply, Reply::Hit { .. } | Reply::Stored { .. }), "key {key}: {reply:?}");
            drop(settled);
            // What is kept free follows from how many come in a time.
            self.clock.advance_us(1000);
            self.turns += 1;
            if self.turns.is_multiple_of(4) {
                self.store().step();
            }
        }
    }
    fn set(&mut self, keys: impl Iterator<Item = u64>) {
        self.each(keys, |batch| {
            let (value, condition, expiry) = (batch.bytes(&[7; VALUE]), Condition::Always, Expiry::Clear);
            OpKind::Set { value, condition, expiry, flags: None, old_value: false }
        });
    }
    fn get(&mut self, keys: impl Iterator<Item = u64>) {
        self.each(keys, |_| OpKind::Get { value: true });
    }
    fn detail(&self, name: &str) -> u64 {
        let details = self.store().stats().engine_details;
        details.iter().find(|(known, _)| *known == name).unwrap().1
    }
    /// Gets of these keys that DRAM answers.
    fn hits(&mut self, keys: std::ops::Range<u64>) -> u64 {
        let before = self.store().stats().tiers[0].hits;
        self.get(keys);
        self.store().stats().tiers[0].hits - before
    }
}

/// Whatever the policy, what is read over and over is in DRAM, and stays there while others are read once.
#[test]
fn what_is_hot_stays_under_every_policy() {
    for eviction in Eviction::all() {
        let mut bed = Bed::new(eviction);
        let gone = |bed: &Bed| bed.detail("records_evicted") + bed.detail("records_evicted_clean");
        let before = gone(&bed);
        for round in 0..12 {
            bed.get(HOT);
            // Each of these is read once: they come by, they don't stay.
            bed.get(3000 + round * 400..3400 + round * 400);
        }
        let hits = bed.hits(HOT);
        // Sampled LRU hears of a touch in a hundred: to it what is read twelve times is like what is read once.
        assert!(hits > 500 || eviction.to_string().starts_with("sampled-lru"), "{eviction}: {hits} of 600");
        assert_eq!(bed.detail("touches_not_told"), 0, "{eviction}");
        // All that comes in lets others out.
        let (entered, left) = (bed.detail("records_promoted"), gone(&bed) - before);
        assert!(entered > 500 && entered.abs_diff(left) < 300, "{eviction}: {entered} in, {left} out");
        let tier = bed.store().stats().tiers[0].clone();
        assert!(tier.live_bytes * 10 > tier.capacity_bytes * 7, "{eviction}: DRAM is used: {tier:?}");
    }
}

#[test]
fn gates_differ_in_whom_they_let_in() {
    let entered = |name: &str| {
        let mut bed = Bed::new(name.parse().unwrap());
        for _ in 0..6 {
            bed.get(HOT);
        }
        let before = bed.detail("records_promoted");
        // Each is read for the first time, and is none of the hot ones.
        bed.get(2000..6000);
        bed.detail("records_promoted") - before
    };
    let [all, hot, beats] = ["lru/all", "lru/hot", "lru/beats"].map(entered);
    assert!(all > 3900, "whatever is read: {all}");
    assert!(hot < all / 4 && beats < all / 4, "hot ones: {hot}; who beats the next victim: {beats}");
}

/// LRU, exactly as far as it is told: it is, here, of everything.
#[test]
fn lru_lets_go_what_was_read_longest_ago() {
    let mut bed = Bed::new("lru".parse().unwrap());
    bed.get(3000..4000);
    bed.get(3000..3300);
    // Somebody has to go for these: of the others, the first ones.
    bed.get(8000..8600);
    let (again, since) = (bed.hits(3000..3300), bed.hits(8000..8600));
    assert_eq!((again, since), (300, 600), "read twice, and read last");
    assert_eq!(bed.hits(3300..3400), 0, "read longest ago");
}

/// After a crash nothing is in DRAM, and nothing known of anybody.
#[test]
fn an_empty_dram_fills_under_every_policy() {
    let mut bed = Bed::new(Eviction::default());
    bed.open(Eviction::default(), false);
    for eviction in Eviction::all() {
        bed.session = None;
        drop(bed.store.take());
        bed.open(eviction, false);
        for round in 0..10 {
            bed.get(HOT);
            bed.get(3000 + round * 400..3400 + round * 400);
        }
        let (hits, held) = (bed.hits(HOT), bed.store().stats().tiers[0].records);
        // The hot ones at least: a gate may keep out the others.
        assert!(held > 550, "{eviction}: {held} records in DRAM");
        // Lists that are told little let go by age alone, and of five at random the oldest may be a hot one.
        let least = match eviction.to_string().as_str() {
            "sampled-lru/all" => 0,
            "alru/all" => 400,
            _ => 501,
        };
        assert!(hits >= least, "{eviction}: {hits} of 600");
    }
}

/// The lists know nothing of what was there before them, and find it.
#[test]
fn each_opening_may_name_another_policy() {
    let mut bed = Bed::new(Eviction::default());
    for _ in 0..6 {
        bed.get(HOT);
    }
    for eviction in Eviction::all() {
        bed.open(eviction, false);
        for _ in 0..3 {
            bed.get(HOT);
        }
        let hits = bed.hits(HOT);
        assert!(hits > 500, "{eviction}: {hits} of 600");
        // Writes need slots, and so victims.
        let written = 4000 + 100 * hits % 3000;
        bed.set(written..written + 3000);
    }
}
