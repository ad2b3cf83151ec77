//! Access words of records that have no slot, by hash: what the paper keeps in its meta tuples.
//!
//! ```text
//!   hash, 32 bits --> bucket of four entries of 8 bytes: | hash:32 | access word:32 |       0: free
//! ```
//!
//! A record that is not in it was not touched of late: its word is zero. Where a bucket is full, the least count goes.
//!
//! *Thread safety*: any thread may do anything at once; all is relaxed, and of two that meet in one bucket one may be lost: a
//! touch, or an entry. *Invariants*: an entry is in the bucket of its hash; two records of one hash share a word.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::Access;

const WAYS: usize = 4;
/// Entries grow in number once more than this part, in fourths, is taken: fuller buckets overflow.
const FULL_FOURTHS: usize = 3;

/// See the module.
#[derive(Debug)]
pub struct Table {
    /// Buckets one after the other; a power of two of them.
    entries: Box<[AtomicU64]>,
    taken: AtomicUsize,
}

impl Table {
    /// A table of at least so many entries.
    pub fn new(entries: usize) -> Self {
        let count = entries.next_power_of_two().max(WAYS);
        Self { entries: (0..count).map(|_| AtomicU64::new(0)).collect(), taken: AtomicUsize::new(0) }
    }
    /// Bytes of DRAM.
    pub fn bytes(&self) -> usize {
        self.entries.len() * 8
    }
    /// How many entries there are room for.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }
    /// Whether it had better be [`doubled`](Self::doubled).
    pub fn is_full(&self) -> bool {
        self.taken.load(Relaxed) * 4 > self.entries.len() * FULL_FOURTHS
    }
    /// The same with room for twice as many.
    pub fn doubled(&self) -> Self {
        let table = Self::new(self.entries.len() * 2);
        for entry in &self.entries {
            let entry = entry.load(Relaxed);
            if entry != 0 {
                table.set((entry >> 32) as u32, Access::from_bits(entry as u32));
            }
        }
        table
    }

    fn bucket(&self, hash: u32) -> &[AtomicU64] {
        let first = hash as usize & (self.entries.len() / WAYS - 1);
        &self.entries[first * WAYS..][..WAYS]
    }
    fn find(&self, hash: u32) -> Option<(&AtomicU64, u64)> {
        let entries = self.bucket(hash).iter().map(|entry| (entry, entry.load(Relaxed)));
        entries.into_iter().find(|(_, known)| *known != 0 && (known >> 32) as u32 == hash)
    }
    /// The word of a record.
    pub fn get(&self, hash: u32) -> Access {
        self.find(hash).map_or_else(Access::default, |(_, entry)| Access::from_bits(entry as u32))
    }
    /// Gives a record another word.
    pub fn set(&self, hash: u32, access: Access) {
        let new = u64::from(hash) << 32 | u64::from(access.to_bits());
        if new == 0 {
            return;
        }
        if let Some((entry, _)) = self.find(hash) {
            entry.store(new, Relaxed);
            return;
        }
        // A free one counts less than any.
        let count = |entry: &&AtomicU64| match entry.load(Relaxed) {
            0 => 0,
            known => 1 + Access::from_bits(known as u32).raw_count().in_sixteenths(),
        };
        if let Some(entry) = self.bucket(hash).iter().min_by_key(count)
            && entry.swap(new, Relaxed) == 0
        {
            self.taken.fetch_add(1, Relaxed);
        }
    }
    /// Forgets a record. Its word.
    pub fn remove(&self, hash: u32) -> Option<Access> {
        let (entry, known) = self.find(hash)?;
        if entry.swap(0, Relaxed) != 0 {
            self.taken.fetch_sub(1, Relaxed);
        }
        Some(Access::from_bits(known as u32))
    }
    /// The word of the entry with this number, if it is taken.
    pub fn nth(&self, number: usize) -> Option<Access> {
        let entry = self.entries.get(number)?.load(Relaxed);
        (entry != 0).then(|| Access::from_bits(entry as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Count;
    use super::*;

    fn hash(i: u32) -> u32 {
        i.wrapping_mul(0x9E37_79B1) ^ 0x5bd1
    }

    #[test]
    fn words_are_found_until_they_are_taken_out_however_it_grows() {
        let mut table = Table::new(1);
        for i in 0..2000 {
            if table.is_full() {
                table = table.doubled();
            }
            table.set(hash(i), Access::new(i, Count::whole(i % 200 + 1)));
        }
        let known = (0..2000).filter(|&i| table.get(hash(i)) == Access::new(i, Count::whole(i % 200 + 1)));
        let known = known.count();
        // A bucket may overflow before a fourth of all entries is free no more.
        assert!(known > 1600, "{known} of 2000");
        assert_eq!((0..table.capacity()).filter_map(|number| table.nth(number)).count(), known);
        assert_eq!(table.remove(hash(1999)), Some(Access::new(1999, Count::whole(200))));
        assert_eq!((table.remove(hash(1999)), table.get(hash(1999))), (None, Access::default()));
        assert_eq!(table.bytes(), table.capacity() * 8);
    }

    #[test]
    fn where_there_is_no_room_the_least_count_goes() {
        let table = Table::new(WAYS);
        for (i, count) in [5, 3, 9, 7, 1].into_iter().enumerate() {
            table.set(hash(i as u32), Access::new(0, Count::whole(count)));
        }
        let known: Vec<_> = (0..5).map(|i| table.get(hash(i)).raw_count()).collect();
        assert_eq!(known, [5, 0, 9, 7, 1].map(Count::whole));
    }
}
