//! Random operations against a map from the standard library, on keys of every awkward kind.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, ControlFlow};

use crate::common::{collect, key, scan};
use proptest::prelude::*;
use terrace_index::{Address, BTree, Change, Direction, Index, Lookup, OrderedIndex, Verdict};

/// A database and a key.
type Name = (u8, Vec<u8>);

/// The keys that may come up: number `n` of kind `kind`.
fn name(kind: u8, n: u16) -> Name {
    let n = usize::from(n);
    match kind % 10 {
        // Empty, zeros, and prefixes of each other.
        0 => (0, vec![0; n % 40]),
        1 => (1, vec![255; n % 40]),
        // Eight bytes, as numbers.
        2 => (0, (n as u64 * 0x0101_0300_0007).to_be_bytes().to_vec()),
        // Long shared prefixes, differing in the last byte, or in length.
        3 => (2, [&b"a long prefix that many keys do share/"[..], &[n as u8]].concat()),
        4 => (2, [&b"a long prefix that many keys do share/"[..], &vec![7; n % 70]].concat()),
        // 24 bytes, digits.
        5 => (15, format!("user{:020}", crate::common::mix(n as u64) >> 20).into_bytes()),
        // Just shorter and longer than what fits in heads and heaps.
        6 => (0, vec![b'x'; 40 + n % 30]),
        // 24 bytes, most of them alike at the end, and some that aren't or are shorter: leaves turn plain and back.
        7 => {
            let mut bytes = crate::common::mix(n as u64 / 2).to_be_bytes().to_vec();
            bytes.resize(24, b'.');
            match n % 30 {
                0 => bytes[23] = b'/',
                2 => bytes[12] = b'-',
                4 => bytes.truncate(23),
                _ => bytes[0] &= 15,
            }
            (4, bytes)
        }
        // Up to 64 KiB, equal but for the end.
        8 => (3, [&vec![b'y'; 65_000][..], &n.to_be_bytes()[4..]].concat()),
        // Up to 64 KiB, differing at the beginning and in length.
        _ => (3, [&n.to_le_bytes()[..2], &vec![b'z'; (n * 977) % 65_534]].concat()),
    }
}

fn any_name(kinds: std::ops::Range<u8>) -> impl Strategy<Value = Name> {
    (kinds, 0..300u16).prop_map(|(kind, n)| name(kind, n))
}

#[derive(Clone, Debug)]
enum Step {
    Set(Name),
    Remove(Name),
    Keep(Name),
    Get(Name),
    Batch(Vec<Name>),
    Many(BTreeMap<Name, bool>),
    Swing(Name),
    RemoveExact(Name),
    Range(Name, u8, bool, usize),
    Nearest(Name),
    Clear(usize),
}

fn step(kinds: std::ops::Range<u8>) -> impl Strategy<Value = Step> {
    let name = || any_name(kinds.clone());
    prop_oneof![
        30 => name().prop_map(Step::Set),
        6 => name().prop_map(Step::Remove),
        2 => name().prop_map(Step::Keep),
        6 => name().prop_map(Step::Get),
        2 => prop::collection::vec(name(), 0..40).prop_map(Step::Batch),
        2 => prop::collection::btree_map(name(), any::<bool>(), 0..12).prop_map(Step::Many),
        2 => name().prop_map(Step::Swing),
        2 => name().prop_map(Step::RemoveExact),
        3 => (name(), 0..3u8, any::<bool>(), 1..60usize).prop_map(|(n, b, d, l)| Step::Range(n, b, d, l)),
        3 => name().prop_map(Step::Nearest),
        1 => (0..1000usize).prop_map(Step::Clear),
    ]
}

/// The tree under test, the model, and the records: whose each address is.
struct World {
    tree: BTree,
    model: BTreeMap<Name, Address>,
    records: HashMap<Address, Name>,
    next: u64,
}

impl World {
    fn new() -> Self {
        Self { tree: BTree::new(), model: BTreeMap::new(), records: HashMap::new(), next: 0 }
    }
    /// A new record. The addresses are wide.
    fn record(&mut self, name: &Name) -> Address {
        self.next += 0x1_0000_0107;
        let address = Address::new((self.next << 5 | 1) & ((1 << 48) - 1));
        self.records.insert(address, name.clone());
        address
    }
    fn verdict(&self, name: &Name, address: Address) -> Verdict {
        if &self.records[&address] == name { Verdict::Match } else { Verdict::Differs }
    }
    fn expected(&self, name: &Name) -> Lookup {
        self.model.get(name).map_or(Lookup::Absent, |&address| Lookup::Found(address))
    }
    fn get(&self, name: &Name) -> Lookup {
        self.tree.get(&key(name.0, &name.1), |address| self.verdict(name, address))
    }
    fn update(&self, name: &Name, change: impl FnOnce(Lookup) -> Change) -> Lookup {
        self.tree.update(&key(name.0, &name.1), |a| self.verdict(name, a), |l| (change(l), l))
    }
    fn run(&mut self, step: &Step) {
        match step {
            Step::Set(name) => {
                let address = self.record(name);
                assert_eq!(self.update(name, |_| Change::Set(address)), self.expected(name));
                self.model.insert(name.clone(), address);
            }
            Step::Remove(name) => {
                let change = |l| if l == Lookup::Absent { Change::Keep } else { Change::Remove };
                assert_eq!(self.update(name, change), self.expected(name));
                self.model.remove(name);
            }
            Step::Keep(name) => {
                assert_eq!(self.update(name, |_| Change::Keep), self.expected(name));
                let there = self.model.contains_key(name);
                let unread = self.tree.get(&key(name.0, &name.1), |_| Verdict::NeedsRead);
                assert_eq!(matches!(unread, Lookup::Unread(_)), there);
                let stale = self.tree.get(&key(name.0, &name.1), |_| Verdict::Differs);
                assert_eq!(stale, Lookup::Absent);
            }
            Step::Get(name) => {
                assert_eq!(self.get(name), self.expected(name));
                let mut candidates = Vec::new();
                self.tree.prefetch(&key(name.0, &name.1));
                self.tree.candidates(&key(name.0, &name.1), |a| candidates.push(a));
                assert_eq!(candidates, self.model.get(name).copied().into_iter().collect::<Vec<_>>());
            }
            Step::Batch(names) => {
                let batch: Vec<_> = names.iter().map(|name| key(name.0, &name.1)).collect();
                let mut out = vec![Lookup::Unread(Address::new(1)); names.len()];
                let mut touched = Vec::new();
                self.tree.get_batch(&batch, |a| touched.push(a), |i, a| self.verdict(&names[i], a), &mut out);
                for (name, &found) in names.iter().zip(&out) {
                    assert_eq!(found, self.expected(name));
                    assert!(self.model.get(name).is_none_or(|address| touched.contains(address)));
                }
            }
            Step::Many(names) => self.many(names),
            Step::Swing(name) => {
                let to = self.record(name);
                let key = key(name.0, &name.1);
                assert!(!self.tree.replace(&key, to, to), "never inserted");
                if let Some(&from) = self.model.get(name) {
                    assert!(self.tree.replace(&key, from, to));
                    assert!(!self.tree.contains(&key, from) && self.tree.contains(&key, to));
                    self.model.insert(name.clone(), to);
                }
            }
            Step::RemoveExact(name) => {
                let key = key(name.0, &name.1);
                if let Some(address) = self.model.remove(name) {
                    assert!(self.tree.contains(&key, address));
                    assert!(self.tree.remove(&key, address));
                    assert!(!self.tree.remove(&key, address));
                }
            }
            Step::Range(name, bound, forward, limit) => self.range(name, *bound, *forward, *limit),
            Step::Nearest(name) => self.nearest(name),
            Step::Clear(from) => {
                let names: Vec<Name> =
                    self.model.keys().skip(from % (self.model.len() + 1)).take(90).cloned().collect();
                names.into_iter().for_each(|name| self.run(&Step::Remove(name)));
            }
        }
        assert_eq!(self.tree.len(), self.model.len() as u64);
    }
    fn many(&mut self, names: &BTreeMap<Name, bool>) {
        // In an order that is not the tree's.
        let names: Vec<(Name, bool)> = names.iter().rev().map(|(name, &set)| (name.clone(), set)).collect();
        let batch: Vec<_> = names.iter().map(|(name, _)| key(name.0, &name.1)).collect();
        let fresh: Vec<Address> = names.iter().map(|(name, _)| self.record(name)).collect();
        let lookups = self.tree.update_many(
            &batch,
            |i, a| self.verdict(&names[i].0, a),
            |lookups, changes| {
                for (i, &(_, set)) in names.iter().enumerate() {
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
        for (i, (name, set)) in names.iter().enumerate() {
            assert_eq!(lookups[i], self.expected(name));
            if *set {
                self.model.insert(name.clone(), fresh[i]);
            } else {
                self.model.remove(name);
            }
        }
    }
    fn range(&self, name: &Name, bound: u8, forward: bool, limit: usize) {
        let (db, bytes) = name;
        let from = match bound {
            0 => Bound::Included(&bytes[..]),
            1 => Bound::Excluded(&bytes[..]),
            _ => Bound::Unbounded,
        };
        let of_db = self.model.iter().filter(|((of, _), _)| of == db).map(|((_, key), &a)| (key, a));
        let expected: Vec<(&Vec<u8>, Address)> = if forward {
            let inside = |key: &[u8]| match bound {
                0 => key >= &bytes[..],
                1 => key > &bytes[..],
                _ => true,
            };
            of_db.filter(|(key, _)| inside(key)).take(limit).collect()
        } else {
            let inside = |key: &[u8]| match bound {
                0 => key <= &bytes[..],
                1 => key < &bytes[..],
                _ => true,
            };
            of_db.rev().filter(|(key, _)| inside(key)).take(limit).collect()
        };
        let direction = if forward { Direction::Forward } else { Direction::Backward };
        let mut seen = Vec::new();
        self.tree.range(*db, from, direction, &mut |key, address| {
            seen.push((key.to_vec(), address));
            if seen.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let seen: Vec<(&Vec<u8>, Address)> = seen.iter().map(|(key, address)| (key, *address)).collect();
        assert_eq!(seen, expected);
    }
    fn nearest(&self, (db, bytes): &Name) {
        let mut found = vec![1, 2, 3];
        let key = |entry: Option<(&Name, &Address)>| entry.map(|((_, key), &address)| (key.clone(), address));
        let floor = self.model.range((*db, Vec::new())..=(*db, bytes.clone())).next_back();
        let address = self.tree.floor(*db, bytes, &mut found);
        assert_eq!(address.map(|address| (found.clone(), address)), key(floor));
        let ceiling = self.model.range((*db, bytes.clone())..(*db + 1, Vec::new())).next();
        let address = self.tree.ceiling(*db, bytes, &mut found);
        assert_eq!(address.map(|address| (found.clone(), address)), key(ceiling));
    }
    fn check(&self) {
        for name in self.model.keys() {
            assert_eq!(self.get(name), self.expected(name));
        }
        for db in 0..16 {
            let mut expected: Vec<(Vec<u8>, Address)> = self
                .model
                .iter()
                .filter(|((of, _), _)| *of == db)
                .map(|((_, key), &a)| (key.clone(), a))
                .collect();
            assert!(collect(&self.tree, db, Bound::Unbounded, Direction::Forward) == expected);
            expected.reverse();
            assert!(collect(&self.tree, db, Bound::Unbounded, Direction::Backward) == expected);
        }
        let expected: Vec<Address> = self.model.values().copied().collect();
        assert_eq!(scan(&self.tree), expected, "a scan returns every entry once");
        let mut visited = Vec::new();
        self.tree.for_each(&mut |address| visited.push(address));
        assert_eq!(visited, expected);
    }
    /// Removes everything; the tree must give back what it took for it.
    fn empty(&mut self, backward: bool) {
        let mut names: Vec<Name> = self.model.keys().cloned().collect();
        if backward {
            names.reverse();
        }
        names.iter().for_each(|name| self.run(&Step::Remove(name.clone())));
        assert!(self.tree.is_empty());
        assert_eq!(scan(&self.tree), []);
    }
}

fn play(steps: &[Step]) {
    let mut world = World::new();
    for step in steps {
        world.run(step);
    }
    world.check();
    world.empty(steps.len().is_multiple_of(2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_map(steps in prop::collection::vec(step(0..8), 1..900)) {
        play(&steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_map_with_very_long_keys(steps in prop::collection::vec(step(0..10), 1..300)) {
        play(&steps);
    }
}

#[test]
fn every_key_comes_and_goes() {
    let mut world = World::new();
    for round in 0..4 {
        for n in 0..300 {
            for kind in 0..if round == 0 { 10 } else { 8 } {
                world.run(&Step::Set(name(kind, if round % 2 == 0 { n } else { 299 - n })));
            }
        }
        world.check();
        world.empty(round >= 2);
    }
}
