//! crossbeam-skiplist: a lock-free skip list. Inserting over an entry first removes it, which readers would see, so values are
//! atomics that change in place: entries of a skip list never move.

use std::ops::Bound;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map::Entry;

use super::map::{Map, OrderedMap, Page};
use crate::{Address, Direction};

/// The map of the index `skiplist`.
#[derive(Default)]
pub struct SkipList(SkipMap<Box<[u8]>, AtomicU64>);

fn address(entry: &Entry<'_, Box<[u8]>, AtomicU64>) -> Address {
    Address::new(entry.value().load(Acquire))
}

impl Map for SkipList {
    const NAME: &'static str = "skiplist";
    const ENTRY_BYTES: u64 = 48;

    fn get(&self, name: &[u8]) -> Option<Address> {
        self.0.get(name).as_ref().map(address)
    }
    fn set(&self, name: &[u8], address: Address) {
        match self.0.get(name) {
            Some(entry) => entry.value().store(address.raw(), Release),
            None => drop(self.0.insert(name.into(), AtomicU64::new(address.raw()))),
        }
    }
    fn remove(&self, name: &[u8]) {
        self.0.remove(name);
    }
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], Address)) {
        self.0.iter().for_each(|entry| visit(entry.key(), address(&entry)));
    }
    fn ordered(&self) -> Option<&dyn OrderedMap> {
        Some(self)
    }
}

impl OrderedMap for SkipList {
    fn page(&self, from: Bound<&[u8]>, direction: Direction, page: &mut Page) {
        let mut push = |entry: Entry<'_, Box<[u8]>, AtomicU64>| page.push(entry.key(), address(&entry));
        let _ = match direction {
            Direction::Forward => self.0.range::<[u8], _>((from, Bound::Unbounded)).all(&mut push),
            Direction::Backward => self.0.range::<[u8], _>((Bound::Unbounded, from)).rev().all(&mut push),
        };
    }
}
