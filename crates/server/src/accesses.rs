//! When keys were last used, for clients that ask (memcached's `h`, `l`, `me`, `lru_crawler metadump`; Redis's `OBJECT IDLETIME`):
//! records don't keep it.
//!
//! A table of fixed size in DRAM, by the hash of the key and the number of its database. It is made when the first client asks, and forgotten with the
//! process. Two keys may share an entry, and then the later one has it; of a key that has none, nothing is known but that it
//! was not used since the table was made, or that another has taken its place. So answers are approximate.
//!
//! # Thread safety
//! An entry is one word, read and written relaxed: it publishes nothing but itself, and a lost update is a lost observation.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Entries; 1 MiB in all.
const ENTRIES: usize = 1 << 17;

/// Set in every entry that is used.
const USED: u64 = 1 << 33;
/// The key was read since it was written.
const FETCHED: u64 = 1 << 32;
/// The low bits: when, in seconds since the table was made.
const WHEN: u64 = FETCHED - 1;

/// See the module.
pub(crate) struct Accesses {
    entries: Box<[AtomicU64]>,
    hasher: RandomState,
    made_ms: u64,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// It was read since it was written.
    pub fetched: bool,
    /// Seconds since it was last used; at least so many.
    pub idle: u64,
}

impl Accesses {
    /// An empty table.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            entries: (0..ENTRIES).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            made_ms: now_ms,
        }
    }

    /// A key was read.
    pub(crate) fn fetched(&self, db: u8, key: &[u8], now_ms: u64) {
        self.note((db, key), FETCHED, now_ms);
    }

    /// A key was written.
    pub(crate) fn wrote(&self, db: u8, key: &[u8], now_ms: u64) {
        self.note((db, key), 0, now_ms);
    }

    /// What is known of a key.
    pub(crate) fn of(&self, db: u8, key: &[u8], now_ms: u64) -> Access {
        let (entry, tag) = self.entry((db, key));
        let found = entry.load(Relaxed);
        let now = self.seconds(now_ms);
        if found & !(FETCHED | WHEN) != tag {
            return Access { fetched: false, idle: now };
        }
        Access { fetched: found & FETCHED != 0, idle: now.saturating_sub(found & WHEN) }
    }

    fn note(&self, key: (u8, &[u8]), fetched: u64, now_ms: u64) {
        let (entry, tag) = self.entry(key);
        entry.store(tag | fetched | self.seconds(now_ms).min(WHEN), Relaxed);
    }

    /// A key's entry, and the bits that tell the key from others there.
    fn entry(&self, key: (u8, &[u8])) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(key);
        (&self.entries[hash as usize % ENTRIES], hash & !(USED | FETCHED | WHEN) | USED)
    }

    fn seconds(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.made_ms) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known() {
        let accesses = Accesses::new(1_000_000);
        assert_eq!(accesses.of(0, b"a", 1_005_000), Access { fetched: false, idle: 5 }, "nothing");
        accesses.wrote(0, b"a", 1_005_000);
        assert_eq!(accesses.of(0, b"a", 1_005_999), Access { fetched: false, idle: 0 });
        accesses.fetched(0, b"a", 1_007_000);
        assert_eq!(accesses.of(0, b"a", 1_010_000), Access { fetched: true, idle: 3 });
        accesses.wrote(0, b"a", 1_010_000);
        assert_eq!(accesses.of(0, b"a", 1_010_000), Access { fetched: false, idle: 0 }, "another value");
        assert_eq!(accesses.of(1, b"a", 1_010_000).idle, 10, "another database");
        assert_eq!(accesses.of(0, b"a", 0), Access { fetched: false, idle: 0 }, "the clock went back");
    }

    #[test]
    fn keys_that_share_an_entry_are_told_apart() {
        let accesses = Accesses::new(0);
        let key = |i: u32| i.to_le_bytes();
        let known = |i| accesses.of(3, &key(i), 0).fetched;
        for i in 0..ENTRIES as u32 * 2 {
            assert!(!known(i), "never used");
            accesses.fetched(3, &key(i), 0);
            assert!(known(i));
        }
        assert!((0..ENTRIES as u32 * 2).filter(|&i| known(i)).count() <= ENTRIES);
    }
}
