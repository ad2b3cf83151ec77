//! Records whose keys can't be read, beside an index that keeps keys.
//!
//! A damaged record poisons its hash: whoever asks for that key must be told, though nobody can say any more what the key
//! was. A hash table finds such a record as it finds every other. For an index that keeps keys it is a *stray*: it goes into
//! a small hash table of its own, which every look-up that the index can't answer consults, as long as there is one.
//!
//! # Thread safety
//! The strays' critical section encloses the index's: an update that replaces a stray publishes the new entry in the index
//! first and takes the stray away after. A get asks in the other order, strays first, so that it can't miss both.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::sync::AtomicU32;
use crate::{Address, Change, Clht, Index, Key, KeyVisitor, Lookup, OrderedIndex, Verdict};

/// An index that keeps keys ([`Index::NEEDS_KEY`]), and strays beside it: what a store's engine takes.
///
/// Costs one load an operation as long as no record was damaged.
pub struct WithStrays<I> {
    index: I,
    strays: Clht,
    /// 1 once there was a stray. Strays come while a store is opened, before anybody else uses the index.
    any: AtomicU32,
}

impl<I: Index> WithStrays<I> {
    /// An index without strays.
    pub fn new(index: I) -> Self {
        const { assert!(I::NEEDS_KEY, "an index that knows hashes alone needs no strays") };
        Self { index, strays: Clht::with_min_buckets(1), any: AtomicU32::new(0) }
    }

    fn none(&self) -> bool {
        self.any.load(Acquire) == 0
    }

    /// The key whose entry is this address. Walks the whole index.
    fn key_at(&self, db: u8, address: Address) -> Option<Vec<u8>> {
        let mut key = None;
        self.index.visit_keys(&mut |of, bytes, at| {
            if (of, at) == (db, address) {
                key = Some(bytes.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        key
    }
}

/// What is to become of the stray, and what of the index, given whose entry was found.
fn divide(stray: bool, change: Change) -> (Change, Change) {
    match (stray, change) {
        (false, change) => (Change::Keep, change),
        (true, Change::Keep) => (Change::Keep, Change::Keep),
        (true, Change::Remove) => (Change::Remove, Change::Keep),
        (true, change) => (Change::Remove, change),
    }
}

/// What counts where the index and the strays were asked; `true` if it is the stray.
fn either(found: Lookup, stray: Lookup) -> (Lookup, bool) {
    match (found, stray) {
        (Lookup::Absent, Lookup::Found(_) | Lookup::Unread(_)) => (stray, true),
        _ => (found, false),
    }
}

impl<I: Index> Index for WithStrays<I> {
    const NEEDS_KEY: bool = true;

    #[inline]
    fn get(&self, key: &Key<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        if self.none() {
            return self.index.get(key, verify);
        }
        let stray = self.strays.get(key, &mut verify);
        either(self.index.get(key, verify), stray).0
    }

    #[inline]
    fn prefetch(&self, key: &Key<'_>) {
        self.index.prefetch(key);
    }

    #[inline]
    fn candidates(&self, key: &Key<'_>, visit: impl FnMut(Address)) {
        self.index.candidates(key, visit);
    }

    #[inline]
    fn touch_batch<'k>(&self, count: usize, key: impl Fn(usize) -> Key<'k>, touch: impl FnMut(Address)) {
        self.index.touch_batch(count, key, touch);
    }

    fn get_batch(
        &self,
        keys: &[Key<'_>],
        touch: impl FnMut(Address),
        mut verify: impl FnMut(usize, Address) -> Verdict,
        out: &mut [Lookup],
    ) {
        if self.none() {
            return self.index.get_batch(keys, touch, verify, out);
        }
        assert!(out.len() >= keys.len(), "one answer for each key");
        for (i, key) in keys.iter().enumerate() {
            out[i] = self.get(key, |address| verify(i, address));
        }
    }

    fn update<R>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R {
        if self.none() {
            return self.index.update(key, verify, decide);
        }
        let verify = RefCell::new(verify);
        let ask = |address| verify.borrow_mut()(address);
        self.strays.update(key, ask, |stray| {
            self.index.update(key, ask, |found| {
                let (lookup, is_stray) = either(found, stray);
                let (change, result) = decide(lookup);
                let (to_stray, to_index) = divide(is_stray, change);
                (to_index, (to_stray, result))
            })
        })
    }

    fn update_many<R>(
        &self,
        keys: &[Key<'_>],
        verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R {
        if self.none() {
            return self.index.update_many(keys, verify, decide);
        }
        let verify = RefCell::new(verify);
        let ask = |i, address| verify.borrow_mut()(i, address);
        self.strays.update_many(keys, ask, |strays, stray_changes| {
            self.index.update_many(keys, ask, |found, changes| {
                let both: Vec<_> = found.iter().zip(strays).map(|(&f, &s)| either(f, s)).collect();
                let lookups: Vec<Lookup> = both.iter().map(|(lookup, _)| *lookup).collect();
                let result = decide(&lookups, changes);
                for (i, (_, is_stray)) in both.into_iter().enumerate() {
                    (stray_changes[i], changes[i]) = divide(is_stray, changes[i]);
                }
                result
            })
        })
    }

    fn contains(&self, key: &Key<'_>, address: Address) -> bool {
        self.index.contains(key, address) || (!self.none() && self.strays.contains(key, address))
    }

    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        self.index.replace(key, from, to) || (!self.none() && self.strays.replace(key, from, to))
    }

    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        self.index.remove(key, address) || (!self.none() && self.strays.remove(key, address))
    }

    fn insert_unreadable(&self, key: &Key<'_>, address: Address) {
        self.any.store(1, Release);
        self.strays.update(key, |_| Verdict::Differs, |_| (Change::Set(address), ()));
    }

    fn replace_unreadable(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        if !self.none() && self.strays.replace(key, from, to) {
            return true;
        }
        let bytes = self.key_at(key.db, from);
        bytes.is_some_and(|bytes| self.index.replace(&Key { bytes: &bytes, ..*key }, from, to))
    }

    fn remove_unreadable(&self, key: &Key<'_>, address: Address) -> bool {
        if !self.none() && self.strays.remove(key, address) {
            return true;
        }
        let bytes = self.key_at(key.db, address);
        bytes.is_some_and(|bytes| self.index.remove(&Key { bytes: &bytes, ..*key }, address))
    }

    fn visit_keys(&self, visit: &mut KeyVisitor<'_>) {
        self.index.visit_keys(visit);
    }

    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        let next = self.index.scan(cursor, out)?;
        if cursor == 0 && !self.none() {
            self.strays.for_each(&mut |address| out.push(address));
        }
        Some(next)
    }

    fn for_each(&self, visit: &mut dyn FnMut(Address)) {
        self.index.for_each(visit);
        self.strays.for_each(visit);
    }

    fn len(&self) -> u64 {
        self.index.len() + self.strays.len()
    }

    fn memory_bytes(&self) -> u64 {
        self.index.memory_bytes() + self.strays.memory_bytes()
    }

    fn name(&self) -> &'static str {
        self.index.name()
    }

    fn ordered(&self) -> Option<&dyn OrderedIndex> {
        self.index.ordered()
    }
}
