//! The index as the machine sees it: what is in DRAM, in front of the directory.
//!
//! A write changes the front alone. The keeper makes the directory lead to a record once that is settled, and then takes it from the front: so
//! who does not find a key there finds it there.

use std::marker::PhantomData;
use std::sync::Arc;

use terrace_index::{Address, Change, Index, Key, Lookup, OrderedIndex, Verdict};
use terrace_media::ByteRegion;

use crate::directory::Directory;
use crate::dram::{Dram, is_in_dram};

/// See the module.
pub struct ScmIndex<R: ByteRegion, T: Directory<R>> {
    pub front: Arc<T::Front>,
    pub directory: Arc<T>,
    pub dram: Arc<Dram>,
    pub region: PhantomData<R>,
}

/// What becomes of the front where a change was decided over what the table has: that changes when the front's record reaches it.
fn of_front(change: Change, is_in_table: bool) -> Change {
    match change {
        Change::Remove if is_in_table => Change::Keep,
        other => other,
    }
}

impl<R: ByteRegion, T: Directory<R>> Index for ScmIndex<R, T> {
    const NEEDS_KEY: bool = T::Front::NEEDS_KEY;

    #[inline]
    fn get(&self, key: &Key<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        match self.front.get(key, &mut verify) {
            Lookup::Absent => self.directory.get(key, verify),
            found => found,
        }
    }
    fn prefetch(&self, key: &Key<'_>) {
        self.front.prefetch(key);
        self.directory.prefetch(key);
    }
    fn candidates(&self, key: &Key<'_>, mut visit: impl FnMut(Address)) {
        let mut is_there = false;
        self.front.candidates(key, |address| {
            is_there = true;
            visit(address);
        });
        if !is_there {
            self.directory.candidates(key, visit);
        }
    }
    fn touch_batch<'k>(&self, count: usize, key: impl Fn(usize) -> Key<'k>, mut touch: impl FnMut(Address)) {
        if !self.front.is_empty() {
            self.front.touch_batch(count, &key, &mut touch);
        }
        self.directory.touch_batch(count, key, touch);
    }
    fn update<V>(
        &self,
        key: &Key<'_>,
        mut verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, V),
    ) -> V {
        let asked = std::cell::RefCell::new(&mut verify);
        self.front.update(
            key,
            |address| (asked.borrow_mut())(address),
            |looked| match looked {
                Lookup::Absent => {
                    let looked = self.directory.get(key, |address| (asked.borrow_mut())(address));
                    let (change, result) = decide(looked);
                    (of_front(change, looked != Lookup::Absent), result)
                }
                found => decide(found),
            },
        )
    }
    fn update_many<V>(
        &self,
        keys: &[Key<'_>],
        mut verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> V,
    ) -> V {
        let asked = std::cell::RefCell::new(&mut verify);
        self.front.update_many(
            keys,
            |i, address| (asked.borrow_mut())(i, address),
            |looked, changes| {
                let mut all = looked.to_vec();
                for (i, found) in all.iter_mut().enumerate().filter(|(_, found)| **found == Lookup::Absent) {
                    *found = self.directory.get(&keys[i], |address| (asked.borrow_mut())(i, address));
                }
                let result = decide(&all, changes);
                for (i, change) in changes.iter_mut().enumerate() {
                    *change = of_front(*change, looked[i] == Lookup::Absent && all[i] != Lookup::Absent);
                }
                result
            },
        )
    }
    fn contains(&self, key: &Key<'_>, address: Address) -> bool {
        if is_in_dram(address) { self.front.contains(key, address) } else { self.directory.has(key, address) }
    }
    /// The table is changed by its keeper alone.
    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        self.front.replace(key, from, to)
    }
    /// As [`replace`](Self::replace).
    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        self.front.remove(key, address)
    }
    fn insert_unreadable(&self, key: &Key<'_>, address: Address) {
        self.front.insert_unreadable(key, address);
    }
    fn replace_unreadable(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        self.front.replace_unreadable(key, from, to)
    }
    fn remove_unreadable(&self, key: &Key<'_>, address: Address) -> bool {
        self.front.remove_unreadable(key, address)
    }
    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        Some(T::scan(self, cursor, out))
    }
    fn ordered(&self) -> Option<&dyn OrderedIndex> {
        T::ordered(self)
    }
    fn len(&self) -> u64 {
        self.front.len()
    }
    fn memory_bytes(&self) -> u64 {
        self.front.memory_bytes()
    }
    fn name(&self) -> &'static str {
        T::NAME
    }
}
