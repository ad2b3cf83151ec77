//! The index as the machine sees it: what is in DRAM, in front of the hash table.
//!
//! A write changes the front alone. The keeper makes the table lead to a record once that is settled, and then takes it from the front: so
//! who does not find a key there finds it in the table.

use std::sync::Arc;

use terrace_index::linear::{depth_of, next_cursor};
use terrace_index::{Address, Change, Clht, Index, Key, Lookup, Verdict};
use terrace_media::ByteRegion;

use crate::dram::{Dram, is_in_dram};
use crate::table::PmTable;

/// See the module.
pub struct ScmIndex<R> {
    pub front: Arc<Clht>,
    pub table: Arc<PmTable<R>>,
    pub dram: Arc<Dram>,
}

/// What becomes of the front where a change was decided over what the table has: that changes when the front's record reaches it.
fn of_front(change: Change, is_in_table: bool) -> Change {
    match change {
        Change::Remove if is_in_table => Change::Keep,
        other => other,
    }
}

impl<R: ByteRegion> Index for ScmIndex<R> {
    const NEEDS_KEY: bool = false;

    #[inline]
    fn get(&self, key: &Key<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        match self.front.get(key, &mut verify) {
            Lookup::Absent => self.table.get(key.hash, verify),
            found => found,
        }
    }
    fn prefetch(&self, key: &Key<'_>) {
        self.front.prefetch(key);
        self.table.prefetch(key.hash);
    }
    fn candidates(&self, key: &Key<'_>, mut visit: impl FnMut(Address)) {
        let mut is_there = false;
        self.front.candidates(key, |address| {
            is_there = true;
            visit(address);
        });
        if !is_there {
            self.table.candidates(key.hash, visit);
        }
    }
    fn touch_batch<'k>(&self, count: usize, key: impl Fn(usize) -> Key<'k>, mut touch: impl FnMut(Address)) {
        if !self.front.is_empty() {
            self.front.touch_batch(count, &key, &mut touch);
        }
        self.table.touch_batch(count, |i| key(i).hash, touch);
    }
    fn update<T>(
        &self,
        key: &Key<'_>,
        mut verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, T),
    ) -> T {
        let asked = std::cell::RefCell::new(&mut verify);
        self.front.update(
            key,
            |address| (asked.borrow_mut())(address),
            |looked| match looked {
                Lookup::Absent => {
                    let looked = self.table.get(key.hash, |address| (asked.borrow_mut())(address));
                    let (change, result) = decide(looked);
                    (of_front(change, looked != Lookup::Absent), result)
                }
                found => decide(found),
            },
        )
    }
    fn update_many<T>(
        &self,
        keys: &[Key<'_>],
        mut verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> T,
    ) -> T {
        let asked = std::cell::RefCell::new(&mut verify);
        self.front.update_many(
            keys,
            |i, address| (asked.borrow_mut())(i, address),
            |looked, changes| {
                let mut all = looked.to_vec();
                for (i, found) in all.iter_mut().enumerate().filter(|(_, found)| **found == Lookup::Absent) {
                    *found = self.table.get(keys[i].hash, |address| (asked.borrow_mut())(i, address));
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
        if is_in_dram(address) {
            self.front.contains(key, address)
        } else {
            self.table.leads_to(key.hash, address.raw())
        }
    }
    /// The table is changed by its keeper alone.
    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        self.front.replace(key, from, to)
    }
    /// As [`replace`](Self::replace).
    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        self.front.remove(key, address)
    }
    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        let buckets = self.table.buckets();
        let bucket = cursor & (buckets - 1);
        let next = next_cursor(cursor, depth_of(bucket, buckets));
        // Before the table: what leaves the front meanwhile is in the table by then.
        let fresh = self.fresh_of(bucket, cursor, next);
        let (mut bytes, mut key) = (Vec::new(), Vec::new());
        for element in self.table.contents(bucket).elements {
            let is_replaced = !fresh.is_empty()
                && self.table.read_entry(element.at(), &mut bytes).is_some_and(|view| {
                    fresh.iter().any(|address| {
                        let db = self.dram.key_of(*address, &mut key);
                        (db, &key[..]) == (view.head.meta.db(), view.key)
                    })
                });
            if !is_replaced {
                out.extend(Address::from_raw(element.at()));
            }
        }
        out.extend(fresh);
        Some(next)
    }
    fn len(&self) -> u64 {
        self.front.len()
    }
    fn memory_bytes(&self) -> u64 {
        self.front.memory_bytes()
    }
    fn name(&self) -> &'static str {
        "scm"
    }
}

impl<R: ByteRegion> ScmIndex<R> {
    /// What the front has of a bucket of the table, which covers the hashes from one cursor to the next.
    fn fresh_of(&self, bucket: u64, cursor: u64, next: u64) -> Vec<Address> {
        let (mut found, mut key) = (Vec::new(), Vec::new());
        let mut at = cursor;
        while let Some(after) = self.front.scan(at, &mut found) {
            let is_past = after == 0 || next != 0 && after.reverse_bits() >= next.reverse_bits();
            if is_past {
                break;
            }
            at = after;
        }
        // Buckets of the front are no parts of the table's: one may cover several.
        found.retain(|address| {
            let db = self.dram.key_of(*address, &mut key);
            self.table.bucket_of(self.table.hasher.key(db, &key).hash) == bucket
        });
        found
    }
}
