//! Sharded hashbrown: a reader-writer lock and a `HashTable` a shard. It keeps no keys: 48 bits of hash and the address.
//!
//! # Thread safety
//! Readers share a shard's lock, so they wait for writers of the shard, and for its table when it grows. `verify` and `decide`
//! run under the lock. Steps of several keys take their locks in ascending order and hold all until the end.
//!
//! # Invariants
//! An entry lies in the shard that the low bits of its hash say.

use ::hashbrown::HashTable;
use crossbeam_utils::CachePadded;
use parking_lot::{RwLock, RwLockWriteGuard};

use crate::{Address, Change, Index, Key, Lookup, Verdict};

const SHARDS: usize = 1024;

/// 48 bits of hash and 48 of address in 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry([u32; 3]);

/// Hash bits that entries keep. The low ones choose the shard.
const KEPT: u64 = (1 << 48) - 1;

impl Entry {
    fn new(hash: u64, address: Address) -> Self {
        let (hash, address) = (hash & KEPT, address.raw());
        Self([hash as u32, address as u32, (hash >> 32) as u32 | (address >> 32 << 16) as u32])
    }
    fn hash(&self) -> u64 {
        u64::from(self.0[0]) | u64::from(self.0[2] & 0xffff) << 32
    }
    fn address(&self) -> Address {
        Address::new(u64::from(self.0[1]) | u64::from(self.0[2] >> 16) << 32)
    }
    /// hashbrown takes the bucket from the low bits and the tag from the top ones: all 64 must be spread.
    fn spread(hash: u64) -> u64 {
        (hash & KEPT).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

#[derive(Default)]
struct Shard(HashTable<Entry>);

impl Shard {
    fn candidates(&self, hash: u64) -> impl Iterator<Item = Address> {
        let all = self.0.iter_hash(Entry::spread(hash));
        all.filter(move |entry| entry.hash() == hash & KEPT).map(Entry::address)
    }
    fn look_up(&self, hash: u64, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let mut found = Lookup::Absent;
        for address in self.candidates(hash) {
            match verify(address) {
                Verdict::Match => return Lookup::Found(address),
                Verdict::NeedsRead => found = Lookup::Unread(address),
                Verdict::Differs => {}
            }
        }
        found
    }
    fn insert(&mut self, hash: u64, address: Address) {
        let entry = Entry::new(hash, address);
        self.0.insert_unique(Entry::spread(hash), entry, |entry| Entry::spread(entry.hash()));
    }
    fn remove(&mut self, hash: u64, address: Address) -> bool {
        let entry = Entry::new(hash, address);
        match self.0.find_entry(Entry::spread(hash), |other| *other == entry) {
            Ok(found) => {
                found.remove();
                true
            }
            Err(_) => false,
        }
    }
    fn replace(&mut self, hash: u64, from: Address, to: Address) -> bool {
        let entry = Entry::new(hash, from);
        let found = self.0.find_mut(Entry::spread(hash), |other| *other == entry);
        found.map(|found| *found = Entry::new(hash, to)).is_some()
    }
    fn apply(&mut self, hash: u64, lookup: Lookup, change: Change) {
        match (change, lookup) {
            (Change::Keep, _) => {}
            (Change::Insert(address), _) | (Change::Set(address), Lookup::Absent) => {
                self.insert(hash, address);
            }
            (Change::Set(to), Lookup::Found(from) | Lookup::Unread(from)) => {
                // Two keys of one step may share an unread candidate, and the first may have taken it away.
                if !self.replace(hash, from, to) {
                    self.insert(hash, to);
                }
            }
            (Change::Remove, Lookup::Found(from) | Lookup::Unread(from)) => {
                self.remove(hash, from);
            }
            (Change::Remove, Lookup::Absent) => panic!("decide answered Remove where nothing was found"),
        }
    }
}

/// The index `hashbrown`.
pub struct Sharded(Box<[CachePadded<RwLock<Shard>>]>);

impl Default for Sharded {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| CachePadded::new(RwLock::new(Shard::default()))).collect())
    }
}

impl Sharded {
    fn number(key: &Key<'_>) -> usize {
        key.hash as usize % SHARDS
    }
    fn shard(&self, key: &Key<'_>) -> &RwLock<Shard> {
        &self.0[Self::number(key)]
    }
}

impl Index for Sharded {
    const NEEDS_KEY: bool = false;

    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup {
        self.shard(key).read().look_up(key.hash, verify)
    }
    fn prefetch(&self, _key: &Key<'_>) {}
    fn candidates(&self, key: &Key<'_>, visit: impl FnMut(Address)) {
        self.shard(key).read().candidates(key.hash).for_each(visit);
    }
    fn update<R>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, R),
    ) -> R {
        let mut shard = self.shard(key).write();
        let lookup = shard.look_up(key.hash, verify);
        let (change, result) = decide(lookup);
        shard.apply(key.hash, lookup, change);
        result
    }
    fn update_many<R>(
        &self,
        keys: &[Key<'_>],
        mut verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> R,
    ) -> R {
        let mut numbers: Vec<usize> = keys.iter().map(Self::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut shards: Vec<RwLockWriteGuard<'_, Shard>> =
            numbers.iter().map(|&number| self.0[number].write()).collect();
        let place = |key: &Key<'_>| numbers.partition_point(|&number| number < Self::number(key));
        let lookups: Vec<Lookup> = keys
            .iter()
            .enumerate()
            .map(|(i, key)| shards[place(key)].look_up(key.hash, |address| verify(i, address)))
            .collect();
        let mut changes = vec![Change::Keep; keys.len()];
        let result = decide(&lookups, &mut changes);
        let impossible =
            lookups.iter().zip(&changes).any(|(l, c)| (*l, *c) == (Lookup::Absent, Change::Remove));
        assert!(!impossible, "decide answered Remove where nothing was found");
        for (i, key) in keys.iter().enumerate() {
            shards[place(key)].apply(key.hash, lookups[i], changes[i]);
        }
        result
    }
    fn contains(&self, key: &Key<'_>, address: Address) -> bool {
        self.shard(key).read().candidates(key.hash).any(|other| other == address)
    }
    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        self.shard(key).write().replace(key.hash, from, to)
    }
    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        self.shard(key).write().remove(key.hash, address)
    }
    /// A step is a whole shard, for a table that grows gives no smaller part a name that lasts.
    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        let number = cursor as usize % SHARDS;
        out.extend(self.0[number].read().0.iter().map(Entry::address));
        Some(((number + 1) % SHARDS) as u64)
    }
    fn len(&self) -> u64 {
        self.0.iter().map(|shard| shard.read().0.len() as u64).sum()
    }
    fn memory_bytes(&self) -> u64 {
        let tables: usize = self.0.iter().map(|shard| shard.read().0.allocation_size()).sum();
        (size_of::<Self>() + size_of_val(&*self.0) + tables) as u64
    }
    fn name(&self) -> &'static str {
        "hashbrown"
    }
}

impl std::fmt::Debug for Sharded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "hashbrown({} entries)", self.len())
    }
}
