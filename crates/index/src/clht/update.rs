//! Changes of one key and of several.
//!
//! # Thread safety
//! `verify` and `decide` run under the lock of the key's bucket; a panic in them unlocks with nothing changed.
//! [`Clht::change_many`] locks its buckets in ascending order, so two of them never wait for each other in a circle; nobody
//! else holds more than one published bucket. Readers are shut out from just before `decide` until all is changed.
//!
//! # Invariants
//! A table grows or shrinks only after every lock was given back.

use std::sync::atomic::Ordering::Acquire;

use super::Clht;
use super::bucket::Entry;
use super::chain::{Chain, Slot};
use crate::linear::bucket_of;
use crate::{Address, Change, Key, Lookup, Verdict};

impl Clht {
    /// Locks the bucket of a hash and returns its number, too.
    #[inline]
    pub(super) fn lock_bucket_of(&self, hash: u64) -> (u64, Chain<'_>) {
        loop {
            let buckets = self.buckets.load(Acquire);
            let number = bucket_of(hash, buckets);
            let Some(chain) = Chain::lock(&self.segments, number, &self.pool) else { continue };
            // A split or merge that took this hash away had this lock, so it can't be overlooked here.
            let now = self.buckets.load(Acquire);
            if now == buckets || bucket_of(hash, now) == number {
                return (number, chain);
            }
        }
    }

    #[inline]
    pub(super) fn change<R>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R {
        let (_, mut chain) = self.lock_bucket_of(key.hash);
        let (lookup, slot) = chain.look_up(self.tag(key.hash), verify);
        let (change, result) = decide(lookup);
        let resize = self.apply(&mut chain, key.hash, slot, change);
        drop(chain);
        if resize {
            self.resize();
        }
        result
    }

    /// Applies a change to what was found in `slot`; `true` if [`resize`](Self::resize) should be called
    /// once no bucket is locked.
    #[inline]
    fn apply<'a>(&'a self, chain: &mut Chain<'a>, hash: u64, slot: Option<Slot<'a>>, change: Change) -> bool {
        match (change, slot) {
            (Change::Keep, _) => false,
            (Change::Set(address), Some(slot)) => {
                chain.replace(slot, Entry::new(self.tag(hash), address));
                false
            }
            (Change::Set(address), None) | (Change::Insert(address), _) => {
                chain.insert(Entry::new(self.tag(hash), address));
                self.count_insert()
            }
            (Change::Remove, Some(slot)) => {
                chain.remove(slot);
                self.count_remove()
            }
            (Change::Remove, None) => panic!("decide answered Remove where nothing was found"),
        }
    }

    pub(super) fn change_many<R>(
        &self,
        keys: &[Key<'_>],
        mut verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R {
        let (mut chains, chain_of) = self.lock_buckets_of(keys);
        let mut lookups = Vec::with_capacity(keys.len());
        for (i, key) in keys.iter().enumerate() {
            let chain = &chains[chain_of[i]];
            lookups.push(chain.look_up(self.tag(key.hash), |address| verify(i, address)).0);
        }
        let mut changes = vec![Change::Keep; keys.len()];
        chains.iter_mut().for_each(Chain::exclude_readers);
        let result = decide(&lookups, &mut changes);
        let impossible =
            lookups.iter().zip(&changes).any(|(l, c)| (*l, *c) == (Lookup::Absent, Change::Remove));
        assert!(!impossible, "decide answered Remove where nothing was found");

        let mut resize = false;
        for (i, key) in keys.iter().enumerate() {
            let chain = &mut chains[chain_of[i]];
            // An earlier key's change may have moved this one's entry, or (two keys with one unread candidate) taken it.
            let slot = match lookups[i] {
                Lookup::Absent => None,
                Lookup::Found(address) | Lookup::Unread(address) => chain.find(self.tag(key.hash), address),
            };
            if slot.is_some() || changes[i] != Change::Remove {
                resize |= self.apply(chain, key.hash, slot, changes[i]);
            }
        }
        drop(chains);
        if resize {
            self.resize();
        }
        result
    }

    /// Locks the buckets of all keys, each once, and says which is whose.
    fn lock_buckets_of(&self, keys: &[Key<'_>]) -> (Vec<Chain<'_>>, Vec<usize>) {
        loop {
            let buckets = self.buckets.load(Acquire);
            let numbers: Vec<u64> = keys.iter().map(|key| bucket_of(key.hash, buckets)).collect();
            let mut distinct = numbers.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let lock = |&number: &u64| Chain::lock(&self.segments, number, &self.pool);
            let Some(chains) = distinct.iter().map(lock).collect::<Option<Vec<_>>>() else { continue };
            let buckets = self.buckets.load(Acquire);
            if keys.iter().zip(&numbers).all(|(key, &number)| bucket_of(key.hash, buckets) == number) {
                let chain_of =
                    numbers.iter().map(|number| distinct.partition_point(|n| n < number)).collect();
                return (chains, chain_of);
            }
        }
    }
}
