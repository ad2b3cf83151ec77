//! Random operations against a map from the standard library, on keys whose hashes collide in every way there is.

use std::collections::{BTreeMap, HashMap};

use crate::common::{Subject, scan_all, with_hash};
use crate::on_every_index;
use proptest::prelude::*;
use terrace_index::{Address, Change, Lookup, Verdict};

const KEYS: u64 = 96;
const BASE_BITS: u32 = 2;

/// Hashes that collide in all 64 bits, in the 32 stored bits, in the bucket only (for ever), or not at all.
fn hash(key: u64) -> u64 {
    let spread = crate::common::mix(key);
    match key % 4 {
        0 => 0x0123_4567_89ab_cdef,
        1 => 0xffff_0000_0000_0000_u64.wrapping_add(key << 40) & !(u64::MAX << 60) | 0xabc,
        2 => spread << 20 | 0b01,
        _ => spread,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(u64),
    Remove(u64),
    Keep(u64),
    Get(u64),
    Batch(Vec<u64>),
    Many(Vec<(u64, bool)>),
    Swing(u64),
    RemoveExact(u64),
    Unread(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS;
    prop_oneof![
        6 => key().prop_map(Step::Set),
        3 => key().prop_map(Step::Remove),
        1 => key().prop_map(Step::Keep),
        3 => key().prop_map(Step::Get),
        1 => prop::collection::vec(key(), 0..20).prop_map(Step::Batch),
        2 => prop::collection::btree_map(key(), any::<bool>(), 0..12)
            .prop_map(|keys| Step::Many(keys.into_iter().collect())),
        1 => key().prop_map(Step::Swing),
        1 => key().prop_map(Step::RemoveExact),
        2 => key().prop_map(Step::Unread),
    ]
}

/// The index under test, the model, and the records: whose each address is.
struct World<I> {
    index: I,
    model: BTreeMap<u64, Address>,
    records: HashMap<Address, u64>,
    next: u64,
}

impl<I: Subject> World<I> {
    fn new() -> Self {
        let index = I::with_buckets(1 << BASE_BITS);
        Self { index, model: BTreeMap::new(), records: HashMap::new(), next: 0 }
    }
    /// A new record. The low bits cross 32 bits, to try wide addresses.
    fn record(&mut self, key: u64) -> Address {
        self.next += 0x1_0000_0107;
        let address = Address::new(self.next);
        self.records.insert(address, key);
        address
    }
    fn verdict(&self, key: u64, address: Address) -> Verdict {
        if self.records[&address] == key { Verdict::Match } else { Verdict::Differs }
    }
    fn expected(&self, key: u64) -> Lookup {
        self.model.get(&key).map_or(Lookup::Absent, |&address| Lookup::Found(address))
    }
    fn run(&mut self, step: &Step) {
        match *step {
            Step::Set(key) => {
                let address = self.record(key);
                let before = self.index.update(
                    &with_hash(hash(key)),
                    |a| self.verdict(key, a),
                    |l| (Change::Set(address), l),
                );
                assert_eq!(before, self.expected(key));
                self.model.insert(key, address);
            }
            Step::Remove(key) => {
                let change = |l| if l == Lookup::Absent { Change::Keep } else { Change::Remove };
                let before =
                    self.index.update(&with_hash(hash(key)), |a| self.verdict(key, a), |l| (change(l), l));
                assert_eq!(before, self.expected(key));
                self.model.remove(&key);
            }
            Step::Keep(key) => {
                let found =
                    self.index.update(&with_hash(hash(key)), |a| self.verdict(key, a), |l| (Change::Keep, l));
                assert_eq!(found, self.expected(key));
            }
            Step::Get(key) => {
                let found = self.index.get(&with_hash(hash(key)), |a| self.verdict(key, a));
                assert_eq!(found, self.expected(key));
                let mut candidates = Vec::new();
                self.index.candidates(&with_hash(hash(key)), |a| candidates.push(a));
                assert!(self.model.get(&key).is_none_or(|address| candidates.contains(address)));
            }
            Step::Batch(ref keys) => {
                let batch: Vec<_> = keys.iter().map(|&key| with_hash(hash(key))).collect();
                let mut out = vec![Lookup::Absent; keys.len()];
                let mut touched = Vec::new();
                self.index.get_batch(&batch, |a| touched.push(a), |i, a| self.verdict(keys[i], a), &mut out);
                for (&key, &found) in keys.iter().zip(&out) {
                    assert_eq!(found, self.expected(key));
                    // Where hashes collide, another key's record may be the likeliest.
                    let alone = key % 4 >= 2;
                    assert!(self.model.get(&key).is_none_or(|address| !alone || touched.contains(address)));
                }
            }
            Step::Many(ref keys) => self.many(keys),
            Step::Swing(key) => {
                let to = self.record(key);
                let from = self.model.get(&key).copied();
                assert!(!self.index.replace(&with_hash(hash(key)), to, to), "never inserted");
                if let Some(from) = from {
                    assert!(self.index.replace(&with_hash(hash(key)), from, to));
                    assert!(
                        !self.index.contains(&with_hash(hash(key)), from)
                            && self.index.contains(&with_hash(hash(key)), to)
                    );
                    self.model.insert(key, to);
                }
            }
            Step::RemoveExact(key) => {
                if let Some(address) = self.model.remove(&key) {
                    assert!(self.index.contains(&with_hash(hash(key)), address));
                    assert!(self.index.remove(&with_hash(hash(key)), address));
                    assert!(!self.index.remove(&with_hash(hash(key)), address));
                }
            }
            Step::Unread(key) => self.unread(key),
        }
    }
    fn many(&mut self, keys: &[(u64, bool)]) {
        let batch: Vec<_> = keys.iter().map(|&(key, _)| with_hash(hash(key))).collect();
        let fresh: Vec<Address> = keys.iter().map(|&(key, _)| self.record(key)).collect();
        let lookups = self.index.update_many(
            &batch,
            |i, a| self.verdict(keys[i].0, a),
            |lookups, changes| {
                for (i, &(_, set)) in keys.iter().enumerate() {
                    assert_eq!(changes[i], Change::Keep);
                    changes[i] = match (set, lookups[i]) {
                        (true, _) => Change::Set(fresh[i]),
                        (false, Lookup::Absent) => Change::Keep,
                        (false, _) => Change::Remove,
                    };
                }
                lookups.to_vec()
            },
        );
        for (i, &(key, set)) in keys.iter().enumerate() {
            assert_eq!(lookups[i], self.expected(key));
            if set {
                self.model.insert(key, fresh[i]);
            } else {
                self.model.remove(&key);
            }
        }
    }
    /// Every record is on a device: candidates are unread; a chained insert is settled afterwards.
    fn unread(&mut self, key: u64) {
        let there = self.model.get(&key).copied();
        let found = self.index.get(&with_hash(hash(key)), |_| Verdict::NeedsRead);
        match found {
            Lookup::Unread(address) => assert!(self.index.contains(&with_hash(hash(key)), address)),
            Lookup::Absent => assert_eq!(there, None),
            Lookup::Found(_) => panic!("nothing was verified"),
        }
        let mixed = |a: Address| {
            if self.records[&a] == key { Verdict::Match } else { Verdict::NeedsRead }
        };
        if let Some(address) = there {
            assert_eq!(self.index.get(&with_hash(hash(key)), mixed), Lookup::Found(address), "a match wins");
        }
        let fresh = self.record(key);
        self.index.update(
            &with_hash(hash(key)),
            |_| Verdict::NeedsRead,
            |lookup| {
                assert_eq!(matches!(lookup, Lookup::Unread(_)), found != Lookup::Absent);
                (Change::Insert(fresh), ())
            },
        );
        if let Some(old) = there {
            assert!(self.index.contains(&with_hash(hash(key)), old), "inserted beside, not over");
            assert!(self.index.remove(&with_hash(hash(key)), old));
        }
        self.model.insert(key, fresh);
    }
    fn check(&self) {
        assert_eq!(self.index.len(), self.model.len() as u64);
        assert_eq!(self.index.is_empty(), self.model.is_empty());
        for key in 0..KEYS {
            assert_eq!(self.index.get(&with_hash(hash(key)), |a| self.verdict(key, a)), self.expected(key));
        }
        let mut seen = scan_all(&self.index, || {});
        seen.sort_unstable();
        let mut expected: Vec<_> = self.model.values().copied().collect();
        expected.sort_unstable();
        assert_eq!(seen, expected, "a scan returns every entry once");
    }
}

on_every_index!(behaves_as_a_map, every_key_comes_and_goes_however_long_the_chains);

fn behaves_as_a_map<I: Subject>() {
    let config = ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..400))| {
        let mut world = World::<I>::new();
        for step in &steps {
            world.run(step);
        }
        world.check();
    });
}

#[test]
fn the_hashes_collide_as_described() {
    let bucket_for_ever = (BASE_BITS + 32..64).fold(0u64, |mask, bit| mask | 1 << bit);
    let stored = |key: u64| (hash(key) >> BASE_BITS) as u32;
    assert_eq!(hash(0), hash(4));
    assert!(hash(1) != hash(5) && stored(1) == stored(5) && (hash(1) ^ hash(5)) & !bucket_for_ever == 0);
    assert!(stored(2) != stored(6) && hash(2) & 0xfff == hash(6) & 0xfff);
}

fn every_key_comes_and_goes_however_long_the_chains<I: Subject>() {
    let mut world = World::<I>::new();
    for round in 0..3 {
        for key in 0..KEYS {
            world.run(&Step::Set(key));
        }
        world.check();
        for key in 0..KEYS {
            world.run(&if round % 2 == 0 { Step::Remove(key) } else { Step::RemoveExact(KEYS - 1 - key) });
        }
        world.check();
    }
}
