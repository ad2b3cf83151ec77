//! congee: an adaptive radix tree with optimistic lock coupling, for keys of exactly 8 bytes. One tree a database holds those;
//! keys of other lengths (and databases above 15) lie in a `BTreeMap` behind a reader-writer lock, so every operation works
//! with every key, but only 8-byte keys are fast. congee walks forwards only: going backwards probes windows of keys.

use std::collections::BTreeMap;
use std::ops::Bound;

use congee::Congee;
use parking_lot::RwLock;

use super::map::{Map, OrderedMap, Page};
use crate::{Address, Direction};

const DATABASES: usize = 16;

/// The fewest keys a window going backwards spans: so many fit the buffer however dense they lie.
const WINDOW: u64 = 64;

/// The map of the index `congee`.
#[derive(Default)]
pub struct CongeeMap {
    trees: [Congee<usize, usize>; DATABASES],
    others: RwLock<BTreeMap<Box<[u8]>, Address>>,
}

impl CongeeMap {
    /// The tree and the key in it, if this name is one for a tree.
    fn place(&self, name: &[u8]) -> Option<(&Congee<usize, usize>, usize)> {
        let (&db, bytes) = name.split_first()?;
        let tree = self.trees.get(usize::from(db))?;
        Some((tree, usize::from_be_bytes(bytes.try_into().ok()?)))
    }
}

impl Map for CongeeMap {
    const NAME: &'static str = "congee";
    const ENTRY_BYTES: u64 = 81;

    fn get(&self, name: &[u8]) -> Option<Address> {
        match self.place(name) {
            Some((tree, key)) => tree.get(&key, &tree.pin()).map(address),
            None => self.others.read().get(name).copied(),
        }
    }
    fn set(&self, name: &[u8], address: Address) {
        match self.place(name) {
            Some((tree, key)) => {
                let set = tree.insert(key, address.raw() as usize, &tree.pin());
                assert!(set.is_ok(), "out of memory for a tree node");
            }
            None => drop(self.others.write().insert(name.into(), address)),
        }
    }
    fn remove(&self, name: &[u8]) {
        match self.place(name) {
            Some((tree, key)) => drop(tree.remove(&key, &tree.pin())),
            None => drop(self.others.write().remove(name)),
        }
    }
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], Address)) {
        let mut page = Page::new(128);
        for (db, tree) in self.trees.iter().enumerate() {
            let mut from = Some(0);
            while let Some(lo) = from {
                page.clear();
                forward(tree, db as u8, lo, &mut page);
                page.iter().for_each(|(name, address)| visit(name, address));
                from = if page.is_full() { after(page.get(page.len() - 1).0) } else { None };
            }
        }
        self.others.read().iter().for_each(|(name, &address)| visit(name, address));
    }
    fn ordered(&self) -> Option<&dyn OrderedMap> {
        Some(self)
    }
}

impl OrderedMap for CongeeMap {
    fn page(&self, from: Bound<&[u8]>, direction: Direction, page: &mut Page) {
        let most = page.room();
        let (mut in_trees, mut others) = (Page::new(most), Page::new(most));
        {
            let map = self.others.read();
            let _ = match direction {
                Direction::Forward => {
                    map.range::<[u8], _>((from, Bound::Unbounded)).all(|(name, &a)| others.push(name, a))
                }
                Direction::Backward => {
                    let range = map.range::<[u8], _>((Bound::Unbounded, from));
                    range.rev().all(|(name, &a)| others.push(name, a))
                }
            };
        }
        match direction {
            Direction::Forward => self.forward(from, &mut in_trees),
            Direction::Backward => self.backward(from, &mut in_trees),
        }
        // The first of both together are among the first of each.
        let (mut a, mut b) = (in_trees.iter().peekable(), others.iter().peekable());
        while !page.is_full() {
            let from_a = match (a.peek(), b.peek()) {
                (Some((a, _)), Some((b, _))) => (a < b) == (direction == Direction::Forward),
                (a, _) => a.is_some(),
            };
            let Some((name, address)) = (if from_a { a.next() } else { b.next() }) else { return };
            page.push(name, address);
        }
    }
}

impl CongeeMap {
    fn forward(&self, from: Bound<&[u8]>, page: &mut Page) {
        let (db, mut lo) = match from {
            Bound::Unbounded => (0, Some(0)),
            Bound::Included([db, bytes @ ..]) if bytes.len() <= 8 => (*db, Some(padded(bytes))),
            Bound::Excluded([db, bytes @ ..]) if bytes.len() < 8 => (*db, Some(padded(bytes))),
            // Longer than the keys that it begins with, or not wanted itself.
            Bound::Included([db, bytes @ ..]) | Bound::Excluded([db, bytes @ ..]) => {
                (*db, padded(bytes).checked_add(1))
            }
            Bound::Included([]) | Bound::Excluded([]) => (0, Some(0)),
        };
        for (number, tree) in self.trees.iter().enumerate().skip(usize::from(db)) {
            if let Some(lo) = lo {
                forward(tree, number as u8, lo, page);
            }
            if page.is_full() {
                return;
            }
            lo = Some(0);
        }
    }
    fn backward(&self, from: Bound<&[u8]>, page: &mut Page) {
        // The bound above, itself not wanted; `None` is above all keys.
        let (db, mut hi) = match from {
            Bound::Unbounded => (u8::MAX, None),
            Bound::Excluded([db, bytes @ ..]) if bytes.len() <= 8 => (*db, Some(padded(bytes))),
            Bound::Included([db, bytes @ ..]) if bytes.len() < 8 => (*db, Some(padded(bytes))),
            Bound::Included([db, bytes @ ..]) | Bound::Excluded([db, bytes @ ..]) => {
                (*db, padded(bytes).checked_add(1))
            }
            Bound::Included([]) | Bound::Excluded([]) => return,
        };
        for (number, tree) in self.trees.iter().enumerate().rev() {
            if number > usize::from(db) {
                continue;
            }
            if number < usize::from(db) {
                hi = None;
            }
            backward(tree, number as u8, hi, page);
            if page.is_full() {
                return;
            }
        }
    }
}

/// The smallest 8-byte key that these bytes begin, or their first 8.
fn padded(bytes: &[u8]) -> usize {
    let mut key = [0; 8];
    let len = bytes.len().min(8);
    key[..len].copy_from_slice(&bytes[..len]);
    usize::from_be_bytes(key)
}

fn after(name: &[u8]) -> Option<usize> {
    padded(&name[1..]).checked_add(1)
}

fn address(value: usize) -> Address {
    Address::new(value as u64)
}

fn push(page: &mut Page, db: u8, (key, value): (usize, usize)) {
    let mut name = [db; 9];
    name[1..].copy_from_slice(&key.to_be_bytes());
    page.push(&name, address(value));
}

/// Keys of a tree from `lo` on, until the page is full.
fn forward(tree: &Congee<usize, usize>, db: u8, lo: usize, page: &mut Page) {
    let guard = tree.pin();
    let mut found = vec![(0, 0); page.room()];
    // The end of a range is not in it, so the greatest key of all needs a look of its own.
    let count = tree.range(&lo, &usize::MAX, &mut found, &guard);
    found[..count].iter().for_each(|&entry| push(page, db, entry));
    if !page.is_full()
        && let Some(value) = tree.get(&usize::MAX, &guard)
    {
        push(page, db, (usize::MAX, value));
    }
}

/// Keys of a tree below `hi`, greatest first, until the page is full.
fn backward(tree: &Congee<usize, usize>, db: u8, hi: Option<usize>, page: &mut Page) {
    let guard = tree.pin();
    let mut hi = hi.unwrap_or_else(|| {
        if let Some(value) = tree.get(&usize::MAX, &guard) {
            push(page, db, (usize::MAX, value));
        }
        usize::MAX
    });
    let mut found = [(0, 0); WINDOW as usize + 1];
    let mut width = WINDOW as usize;
    while hi > 0 && !page.is_full() {
        let lo = hi.saturating_sub(width);
        let count = tree.range(&lo, &hi, &mut found, &guard);
        if count == found.len() {
            width = (width / 8).max(WINDOW as usize);
            continue;
        }
        for &entry in found[..count].iter().rev() {
            if page.is_full() {
                return;
            }
            push(page, db, entry);
        }
        hi = lo;
        if count < found.len() / 8 {
            width = width.saturating_mul(8);
        }
    }
}
