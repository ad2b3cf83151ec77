//! scc's TreeIndex: a B+tree that readers walk without locks. While it splits a leaf, changes made in place (through an atomic
//! value) get lost, so every change here is an upsert under the key's lock.

use std::ops::Bound;

use super::map::{Map, OrderedMap, Page};
use crate::{Address, Direction};

/// The map of the index `scc-tree`.
#[derive(Default)]
pub struct SccTree(scc::TreeIndex<Box<[u8]>, Address>);

impl Map for SccTree {
    const NAME: &'static str = "scc-tree";
    const ENTRY_BYTES: u64 = 56;

    fn get(&self, name: &[u8]) -> Option<Address> {
        self.0.peek_with(name, |_, &address| address)
    }
    fn set(&self, name: &[u8], address: Address) {
        self.0.upsert_sync(name.into(), address);
    }
    fn remove(&self, name: &[u8]) {
        self.0.remove_sync(name);
    }
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], Address)) {
        self.0.iter(&scc::Guard::new()).for_each(|(name, &address)| visit(name, address));
    }
    fn ordered(&self) -> Option<&dyn OrderedMap> {
        Some(self)
    }
}

impl OrderedMap for SccTree {
    fn page(&self, from: Bound<&[u8]>, direction: Direction, page: &mut Page) {
        let guard = scc::Guard::new();
        match direction {
            Direction::Forward => {
                let range: (Bound<&[u8]>, Bound<&[u8]>) = (from, Bound::Unbounded);
                let _ = self.0.range::<[u8], _>(range, &guard).all(|(name, &a)| page.push(name, a));
            }
            Direction::Backward => {
                let range: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, from);
                let _ = self.0.range::<[u8], _>(range, &guard).rev().all(|(name, &a)| page.push(name, a));
            }
        }
    }
}
