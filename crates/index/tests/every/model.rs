//! Random operations on hard keys, against a `BTreeMap`.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use crate::each;
use crate::keys::{address, hard, is, key, owner};
use proptest::prelude::*;
use terrace_index::catalogue::Visitor;
use terrace_index::{Address, Change, Direction, Index, Key, Lookup, Verdict};

const DATABASES: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Set(usize),
    Remove(usize),
    Keep(usize),
    Get(usize),
    Batch(Vec<usize>),
    Many(Vec<(usize, bool)>),
    Swing(usize),
    RemoveExact(usize),
    Unread(usize),
    Range(usize, u8, bool, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let keys = hard().len() * DATABASES;
    let key = move || 0..keys;
    prop_oneof![
        8 => key().prop_map(Step::Set),
        3 => key().prop_map(Step::Remove),
        1 => key().prop_map(Step::Keep),
        2 => key().prop_map(Step::Get),
        1 => prop::collection::vec(key(), 0..20).prop_map(Step::Batch),
        2 => prop::collection::btree_map(key(), any::<bool>(), 0..12)
            .prop_map(|keys| Step::Many(keys.into_iter().collect())),
        1 => key().prop_map(Step::Swing),
        1 => key().prop_map(Step::RemoveExact),
        1 => key().prop_map(Step::Unread),
        3 => (key(), 0..3u8, any::<bool>(), 1..200usize).prop_map(|(k, b, f, n)| Step::Range(k, b, f, n)),
    ]
}

/// The index under test and the model. A key's number says database and bytes.
struct World<I> {
    index: I,
    keys: Vec<Vec<u8>>,
    model: BTreeMap<(u8, Vec<u8>), Address>,
    versions: u64,
}

impl<I: Index> World<I> {
    fn new(index: I) -> Self {
        Self { index, keys: hard(), model: BTreeMap::new(), versions: 0 }
    }
    fn name(&self, number: usize) -> (u8, Vec<u8>) {
        let db = [0, 1, 15][number % DATABASES];
        (db, self.keys[number / DATABASES].clone())
    }
    fn record(&mut self, number: usize) -> Address {
        self.versions += 1;
        address(number, self.versions)
    }
    fn expected(&self, number: usize) -> Lookup {
        self.model.get(&self.name(number)).map_or(Lookup::Absent, |&address| Lookup::Found(address))
    }
    fn run(&mut self, step: &Step) {
        match *step {
            Step::Batch(ref numbers) => return self.batch(numbers),
            Step::Many(ref keys) => return self.many(keys),
            Step::Range(number, bound, forward, count) => return self.range(number, bound, forward, count),
            _ => {}
        }
        let (Step::Set(number)
        | Step::Remove(number)
        | Step::Keep(number)
        | Step::Get(number)
        | Step::Swing(number)
        | Step::RemoveExact(number)
        | Step::Unread(number)) = *step
        else {
            return;
        };
        let name = self.name(number);
        let key = key(name.0, &name.1);
        let expected = self.expected(number);
        let fresh = self.record(number);
        let there = self.model.get(&name).copied();
        match step {
            Step::Set(_) => {
                let before = self.index.update(&key, is(number), |l| (Change::Set(fresh), l));
                assert_eq!(before, expected);
                self.model.insert(name, fresh);
            }
            Step::Remove(_) => {
                let change = |l| if l == Lookup::Absent { Change::Keep } else { Change::Remove };
                assert_eq!(self.index.update(&key, is(number), |l| (change(l), l)), expected);
                self.model.remove(&name);
            }
            Step::Keep(_) => {
                assert_eq!(self.index.update(&key, is(number), |l| (Change::Keep, l)), expected);
            }
            Step::Swing(_) => {
                assert!(!self.index.replace(&key, fresh, fresh), "never inserted");
                if let Some(from) = there {
                    assert!(self.index.replace(&key, from, fresh));
                    assert!(!self.index.contains(&key, from) && self.index.contains(&key, fresh));
                    self.model.insert(name, fresh);
                }
            }
            Step::RemoveExact(_) => {
                assert!(!self.index.remove(&key, fresh), "never inserted");
                if let Some(address) = there {
                    assert!(self.index.remove(&key, address) && !self.index.remove(&key, address));
                    self.model.remove(&name);
                }
            }
            Step::Unread(_) => self.unread(number, &key, there),
            _ => {
                assert_eq!(self.index.get(&key, is(number)), expected);
                let mut candidates = Vec::new();
                self.index.candidates(&key, |address| candidates.push(address));
                assert!(there.is_none_or(|address| candidates.contains(&address)));
                let mut touched = Vec::new();
                self.index.touch_batch(1, |_| key, |address| touched.push(address));
                // Of two that look alike the likelier one may be told alone.
                assert!(there.is_none_or(|address| touched.contains(&address) || candidates.len() > 1));
                assert!(
                    touched.iter().all(|address| candidates.contains(address)),
                    "{touched:?}, {candidates:?}"
                );
            }
        }
    }
    fn unread(&mut self, number: usize, key: &Key<'_>, there: Option<Address>) {
        match self.index.get(key, |_| Verdict::NeedsRead) {
            Lookup::Unread(address) => assert!(self.index.contains(key, address)),
            other => assert_eq!((other, there), (Lookup::Absent, None)),
        }
        let mixed = |a| if owner(a) == number { Verdict::Match } else { Verdict::NeedsRead };
        if let Some(address) = there {
            assert_eq!(self.index.get(key, mixed), Lookup::Found(address), "a match wins");
        }
    }
    fn batch(&mut self, numbers: &[usize]) {
        let names: Vec<_> = numbers.iter().map(|&number| self.name(number)).collect();
        let keys: Vec<_> = names.iter().map(|(db, bytes)| key(*db, bytes)).collect();
        let (mut touched, mut out) = (Vec::new(), vec![Lookup::Absent; keys.len()]);
        self.index.get_batch(&keys, |a| touched.push(a), |i, a| is(numbers[i])(a), &mut out);
        for (i, &number) in numbers.iter().enumerate() {
            assert_eq!(out[i], self.expected(number));
            assert!(self.model.get(&names[i]).is_none_or(|address| touched.contains(address)));
        }
    }
    fn many(&mut self, numbers: &[(usize, bool)]) {
        let names: Vec<_> = numbers.iter().map(|&(number, _)| self.name(number)).collect();
        let keys: Vec<_> = names.iter().map(|(db, bytes)| key(*db, bytes)).collect();
        let fresh: Vec<_> = numbers.iter().map(|&(number, _)| self.record(number)).collect();
        let lookups = self.index.update_many(
            &keys,
            |i, address| is(numbers[i].0)(address),
            |lookups, changes| {
                for (i, &(_, set)) in numbers.iter().enumerate() {
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
        for (i, &(number, set)) in numbers.iter().enumerate() {
            assert_eq!(lookups[i], self.expected(number));
            if set {
                self.model.insert(names[i].clone(), fresh[i]);
            } else {
                self.model.remove(&names[i]);
            }
        }
    }
    fn range(&self, number: usize, bound: u8, forward: bool, count: usize) {
        let Some(ordered) = self.index.ordered() else { return };
        let (db, bytes) = self.name(number);
        let from = match bound {
            0 => Bound::Unbounded,
            1 => Bound::Included(&bytes[..]),
            _ => Bound::Excluded(&bytes[..]),
        };
        let all = self.model.iter().filter(|((of, _), _)| *of == db);
        let all = all.map(|((_, bytes), &address)| (bytes.clone(), address));
        let inside = |bytes: &[u8]| match (from, forward) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(from), true) => bytes >= from,
            (Bound::Excluded(from), true) => bytes > from,
            (Bound::Included(from), false) => bytes <= from,
            (Bound::Excluded(from), false) => bytes < from,
        };
        let mut expected: Vec<_> = all.filter(|(bytes, _)| inside(bytes)).collect();
        let direction = if forward { Direction::Forward } else { Direction::Backward };
        if !forward {
            expected.reverse();
        }
        expected.truncate(count);
        let mut seen = Vec::new();
        ordered.range(db, from, direction, &mut |bytes, address| {
            seen.push((bytes.to_vec(), address));
            if seen.len() == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(seen, expected, "{direction:?} from {from:?}");
        let mut found = b"left over".to_vec();
        let nearest = ordered.nearest(db, &bytes, direction, &mut found);
        if matches!(from, Bound::Included(_)) {
            assert_eq!(nearest.map(|address| (found, address)).as_ref(), expected.first());
        }
    }
    fn check(&self) {
        assert_eq!(self.index.len(), self.model.len() as u64);
        assert_eq!(self.index.is_empty(), self.model.is_empty());
        assert!(self.index.memory_bytes() > 0);
        for number in 0..self.keys.len() * DATABASES {
            let (db, bytes) = self.name(number);
            assert_eq!(self.index.get(&key(db, &bytes), is(number)), self.expected(number));
        }
        for db in 0..DATABASES {
            self.range(db, 0, true, usize::MAX);
            self.range(db, 0, false, usize::MAX);
        }
        let mut expected: Vec<_> = self.model.values().copied().collect();
        expected.sort_unstable();
        let mut seen = Vec::new();
        self.index.for_each(&mut |address| seen.push(address));
        seen.sort_unstable();
        assert_eq!(seen, expected, "for_each visits every entry");
        let (mut cursor, mut seen) = (0, Vec::new());
        while let Some(next) = self.index.scan(cursor, &mut seen) {
            cursor = next;
            if cursor == 0 {
                seen.sort_unstable();
                assert_eq!(seen, expected, "a scan returns every entry once");
                return;
            }
        }
        assert!(seen.is_empty() && self.index.ordered().is_none(), "what is in order has cursors");
    }
}

#[derive(Clone)]
struct Steps(Vec<Step>);

impl Visitor for Steps {
    type Out = ();
    fn visit<I: Index>(self, new: fn(u64) -> I) {
        let mut world = World::new(new(0));
        for step in &self.0 {
            world.run(step);
        }
        world.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_map(steps in prop::collection::vec(step(), 1..400)) {
        each(Steps(steps));
    }
}

#[test]
fn every_key_comes_and_goes() {
    let all = 0..hard().len() * DATABASES;
    let come: Vec<_> = all.clone().map(Step::Set).collect();
    each(Steps(come.clone()));
    each(Steps(
        come.iter().cloned().rev().chain(all.clone().map(|k| Step::Range(k, 1, k % 2 == 0, 3))).collect(),
    ));
    each(Steps(come.into_iter().chain(all.map(Step::Remove)).collect()));
}
