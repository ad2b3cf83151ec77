//! An ordered index that is correct because it is simple: the standard library's `BTreeMap` behind one lock.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use parking_lot::RwLock;
use terrace_index::{Address, Change, Direction, Index, Key, Lookup, OrderedIndex, Verdict};

type Map = BTreeMap<(u8, Vec<u8>), Address>;

/// The oracle for ordered indexes, and what engines are tested with where the index doesn't matter. Updates and look-ups
/// exclude each other; a range takes what it visits out first.
#[derive(Default)]
pub struct ReferenceIndex(RwLock<Map>);

fn place(key: &Key<'_>) -> (u8, Vec<u8>) {
    (key.db, key.bytes.to_vec())
}

fn look_up(map: &Map, key: &Key<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
    match map.get(&place(key)) {
        None => Lookup::Absent,
        Some(&address) => match verify(address) {
            Verdict::Match => Lookup::Found(address),
            Verdict::Differs => Lookup::Absent,
            Verdict::NeedsRead => Lookup::Unread(address),
        },
    }
}

fn apply(map: &mut Map, key: &Key<'_>, change: Change) {
    match change {
        Change::Keep => {}
        Change::Set(address) | Change::Insert(address) => {
            map.insert(place(key), address);
        }
        Change::Remove => {
            let removed = map.remove(&place(key));
            assert!(removed.is_some(), "decide answered Remove where nothing was found");
        }
    }
}

impl Index for ReferenceIndex {
    const NEEDS_KEY: bool = true;

    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup {
        look_up(&self.0.read(), key, verify)
    }
    fn prefetch(&self, _key: &Key<'_>) {}
    fn candidates(&self, key: &Key<'_>, visit: impl FnMut(Address)) {
        self.0.read().get(&place(key)).copied().into_iter().for_each(visit);
    }
    fn update<R>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R {
        let mut map = self.0.write();
        let (change, result) = decide(look_up(&map, key, verify));
        apply(&mut map, key, change);
        result
    }
    fn update_many<R>(
        &self,
        keys: &[Key<'_>],
        mut verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R {
        let mut map = self.0.write();
        let looked: Vec<Lookup> = keys
            .iter()
            .enumerate()
            .map(|(i, key)| look_up(&map, key, |address| verify(i, address)))
            .collect();
        let mut changes = vec![Change::Keep; keys.len()];
        let result = decide(&looked, &mut changes);
        keys.iter().zip(changes).for_each(|(key, change)| apply(&mut map, key, change));
        result
    }
    fn contains(&self, key: &Key<'_>, address: Address) -> bool {
        self.0.read().get(&place(key)) == Some(&address)
    }
    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        let mut map = self.0.write();
        let entry = map.get_mut(&place(key)).filter(|address| **address == from);
        entry.map(|address| *address = to).is_some()
    }
    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        let mut map = self.0.write();
        let there = map.get(&place(key)) == Some(&address);
        there && map.remove(&place(key)).is_some()
    }
    /// One step is the whole iteration.
    fn scan(&self, _cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        out.extend(self.0.read().values());
        Some(0)
    }
    fn len(&self) -> u64 {
        self.0.read().len() as u64
    }
    fn memory_bytes(&self) -> u64 {
        self.0.read().keys().map(|(_, key)| key.len() as u64 + 64).sum()
    }
    fn name(&self) -> &'static str {
        "reference"
    }
    fn ordered(&self) -> Option<&dyn OrderedIndex> {
        Some(self)
    }
}

impl OrderedIndex for ReferenceIndex {
    fn range(
        &self,
        db: u8,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) {
        let inside = |key: &[u8]| match (from, direction) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(from), Direction::Forward) => key >= from,
            (Bound::Included(from), Direction::Backward) => key <= from,
            (Bound::Excluded(from), Direction::Forward) => key > from,
            (Bound::Excluded(from), Direction::Backward) => key < from,
        };
        let map = self.0.read();
        let all = map.range((db, Vec::new())..).take_while(|((of, _), _)| *of == db);
        let mut entries: Vec<(Vec<u8>, Address)> = all
            .filter(|((_, key), _)| inside(key))
            .map(|((_, key), address)| (key.clone(), *address))
            .collect();
        drop(map);
        if direction == Direction::Backward {
            entries.reverse();
        }
        for (key, address) in entries {
            if visit(&key, address).is_break() {
                return;
            }
        }
    }
}
