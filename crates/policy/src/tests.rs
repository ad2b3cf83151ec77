//! What every policy must do, whatever it prefers.

use std::cell::Cell;

use proptest::prelude::*;

use super::*;

/// Slots of a test: occupied ones have a word, pinned ones must not leave.
struct Words {
    words: Vec<Cell<Option<Access>>>,
    pinned: Vec<bool>,
}

impl Words {
    fn new(slots: usize) -> Self {
        Self { words: vec![Cell::new(None); slots], pinned: vec![false; slots] }
    }
}

impl Slots for Words {
    fn access(&self, slot: SlotId) -> Option<Access> {
        self.words[slot as usize].get().filter(|_| !self.pinned[slot as usize])
    }
    fn set_access(&self, slot: SlotId, access: Access) {
        self.words[slot as usize].set(Some(access));
    }
}

fn hash(record: u32) -> u32 {
    (record + 1).wrapping_mul(0x9E37_79B1)
}

/// A cache of records 0.. in front of nothing: insert-all, every touch told.
struct Cache<P: Policy> {
    policy: P,
    part: P::Part,
    words: Words,
    records: Vec<Option<u32>>,
    now: Now,
    touches: u32,
}

impl<P: Policy> Cache<P> {
    fn new(policy: P, slots: usize) -> Self {
        Self {
            part: policy.part(slots),
            policy,
            words: Words::new(slots),
            records: vec![None; slots],
            now: Now::default(),
            touches: 0,
        }
    }
    fn victim(&mut self) -> Option<SlotId> {
        self.policy.victim(&mut self.part, &self.words, self.now)
    }
    fn remove(&mut self, slot: SlotId, evicted: bool) {
        let record = self.records[slot as usize].take().expect("an empty slot is removed");
        self.words.words[slot as usize].set(None);
        self.policy.removed(&mut self.part, slot, hash(record), evicted);
    }
    fn see(&mut self, record: u32) {
        self.read(record);
    }
    /// Reads a record, inserting it if it is missing; whether it was there.
    fn read(&mut self, record: u32) -> bool {
        if let Some(slot) = self.records.iter().position(|&r| r == Some(record)) {
            let word = self.words.words[slot].get().unwrap_or_default();
            self.words.words[slot].set(Some(self.policy.touched(word, self.now)));
            self.touches += 1;
            if P::ACCESSED_EVERY > 0 && self.touches.is_multiple_of(P::ACCESSED_EVERY) {
                self.policy.accessed(&mut self.part, slot as u32);
            }
            return true;
        }
        let free = self.records.iter().position(Option::is_none);
        let slot = match free {
            Some(slot) => slot,
            None => {
                let Some(victim) = self.victim() else { return false };
                self.remove(victim, true);
                victim as usize
            }
        };
        self.records[slot] = Some(record);
        self.words.words[slot].set(Some(self.policy.entering(Count::ONE, self.now)));
        self.policy.inserted(&mut self.part, slot as u32, hash(record));
        false
    }
}

/// Any steps: victims are occupied slots that may leave, asking twice gives the same, and there is one wherever one may be.
fn keeps_its_word<P: Policy>(policy: P, steps: &[(u8, u32)]) -> Result<(), TestCaseError> {
    let mut cache = Cache::new(policy, 8);
    for (i, &(step, x)) in steps.iter().enumerate() {
        cache.now = Now { tick: i as u32 / 16, epoch: i as u32 / 64, fine: i as u32 };
        let slot = x % 8;
        match step {
            0..=5 => cache.see(x),
            6 if cache.records[slot as usize].is_some() => cache.remove(slot, false),
            7 => cache.words.pinned[slot as usize] ^= true,
            8 => cache.policy.passed(&mut cache.part),
            9 => cache.policy.set_thresholds(Thresholds { hot: Count::whole(x), warm: Count::whole(x / 2) }),
            _ => {}
        }
        let movable = (0..8).filter(|&slot| cache.words.access(slot).is_some()).count();
        let victim = cache.victim();
        prop_assert_eq!(victim.is_some(), movable > 0, "{} movable, victim {:?}", movable, victim);
        if let Some(slot) = victim {
            prop_assert!(cache.words.access(slot).is_some(), "{} is empty or pinned", slot);
            prop_assert_eq!(cache.victim(), victim, "asking changed the answer");
        }
    }
    Ok(())
}

/// A skewed stream over 400 records in 40 slots: hits of 20,000 reads.
fn hits<P: Policy>(policy: P) -> usize {
    let mut cache = Cache::new(policy, 40);
    let mut random = 1u64;
    let mut hits = 0;
    let mut histogram = Histogram::default();
    for i in 0..24_000u32 {
        cache.now = Now { tick: i / 25, epoch: i / 400, fine: i };
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (random >> 11) as f64 / (1u64 << 53) as f64;
        // Log-uniform: record r with probability about 1 / r.
        let record = 400f64.powf(unit) as u32 - 1;
        hits += usize::from(cache.read(record) && i >= 4000);
        if i % 100 == 0 {
            histogram.clear();
            for slot in 0..40 {
                if let Some(word) = cache.words.access(slot) {
                    histogram.add(cache.policy.count(word, cache.now));
                }
            }
            cache.policy.set_thresholds(histogram.thresholds(0.5, 0.3));
        }
    }
    hits
}

/// The first records are touched, the others not: the untouched leave first.
fn spares_the_touched<P: Policy>(policy: P) {
    let name = P::NAME;
    let mut cache = Cache::new(policy, 16);
    (0..16).for_each(|record| cache.see(record));
    let mut random = 7u32;
    let mut touch_some = |cache: &mut Cache<P>, times| {
        for _ in 0..times {
            cache.now.fine += 1;
            random = random.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            cache.see(random >> 29);
        }
    };
    touch_some(&mut cache, 4000);
    for record in 100..104 {
        touch_some(&mut cache, 200);
        cache.read(record);
    }
    let kept = (0..8).filter(|record| cache.records.contains(&Some(*record))).count();
    assert!(
        kept >= if name == "alru" || name == "sampled-lru" { 6 } else { 8 },
        "{name} let {} touched records go",
        8 - kept
    );
}

macro_rules! every_policy {
    ($($module:ident: $policy:expr, $hits:expr;)*) => {$(
        mod $module {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(128))]
                #[test]
                fn victims_may_leave_and_stay_the_same(steps in prop::collection::vec((0u8..10, 0u32..24), 0..150)) {
                    keeps_its_word($policy, &steps)?;
                }
            }

            #[test]
            fn the_untouched_leave_first() {
                spares_the_touched($policy);
            }

            #[test]
            fn it_hits_as_often_as_it_did() {
                // Any 40 of 400 hit a tenth; the best fixed 40 hit 61.6%.
                let percent = hits($policy) as f64 / 200.0;
                assert!((percent - $hits).abs() < 0.5, "{percent}");
            }
        }
    )*};
}

every_policy! {
    clock: Clock, 58.755;
    lazy_lru: LazyLru::new(Tier::Dram), 49.945;
    lazy_lru_pmem: LazyLru::new(Tier::Pmem), 50.84;
    lazy_lru_paper: LazyLruPaper::new(Tier::Dram), 46.08;
    lru: Lru, 47.695;
    alru: Alru, 47.005;
    sampled_lru: SampledLru, 42.11;
    s3_fifo: S3Fifo, 58.09;
    sieve: Sieve, 59.48;
}

#[test]
fn lru_is_exact() {
    let mut cache = Cache::new(Lru, 3);
    for (record, hit) in
        [(1, false), (2, false), (3, false), (1, true), (4, false), (2, false), (1, true), (3, false)]
    {
        assert_eq!(cache.read(record), hit, "record {record}");
    }
}

#[test]
fn sieve_spares_once_and_keeps_its_place() {
    let mut cache = Cache::new(Sieve, 3);
    (1..=3).for_each(|record| cache.see(record));
    cache.read(1);
    cache.read(4);
    // 1 was spared, 2 left, the hand stands at 3.
    assert!(cache.read(1) && cache.read(4) && !cache.read(5));
    assert!(!cache.records.contains(&Some(3)), "{:?}", cache.records);
}

#[test]
fn s3_fifo_lets_one_hit_wonders_out_of_the_small_queue() {
    let mut cache = Cache::new(S3Fifo, 20);
    for record in 0..20 {
        (0..3).for_each(|_| cache.see(record));
    }
    (100..400).for_each(|record| cache.see(record));
    let kept = (0..20).filter(|&record| cache.read(record)).count();
    assert!(kept >= 15, "a scan drove {} of 20 out", 20 - kept);
}

#[test]
fn clock_takes_the_coldest_of_a_window() {
    let mut cache = Cache::new(Clock, 8);
    (0..8).for_each(|record| cache.see(record));
    for slot in 0..8 {
        cache.words.set_access(slot, Clock.entering(Count::whole(if slot == 5 { 1 } else { 3 }), cache.now));
    }
    assert_eq!(cache.victim(), Some(5));
    // It is touched before it is evicted: another one is found.
    cache.read(5);
    assert_ne!(cache.victim(), Some(5));
}

#[test]
fn lazy_lru_ages_what_nobody_touches_and_the_papers_does_not() {
    fn once_hot<P: Policy>(policy: P) -> bool {
        let mut cache = Cache::new(policy, 4);
        cache.policy.set_thresholds(Thresholds { hot: Count::whole(3), warm: Count::ONE });
        (0..4).for_each(|record| cache.see(record));
        (0..6).for_each(|_| cache.see(0));
        cache.now.tick = 50;
        // All others are touched now, but less than hot.
        (1..4).for_each(|record| cache.see(record));
        cache.victim() == Some(0)
    }
    assert!(once_hot(LazyLru::new(Tier::Dram)));
    assert!(!once_hot(LazyLruPaper::new(Tier::Dram)), "the paper's form should keep it for ever");
}
