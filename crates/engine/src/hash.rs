//! Hashes of keys: one for the index, and a second, independent one that recovery identifies keys by.

use terrace_index::Key;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// The seed of a store's key hashes: random for each store and kept in its superblock, so that nobody outside can
/// choose keys that collide.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    seed: u64,
    /// Bits of the hash that differ between keys.
    mask: u64,
}

impl KeyHasher {
    /// A hasher with the store's seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed, mask: u64::MAX }
    }
    /// One whose hashes have so few bits that keys collide all the time, for tests of what happens then. What tells keys apart
    /// beyond their hash is as good as ever.
    pub fn with_few_bits(seed: u64, bits: u32) -> Self {
        Self { seed, mask: u64::MAX >> 64u32.saturating_sub(bits).min(63) }
    }
    /// The key with its hash.
    #[inline]
    pub fn key<'a>(&self, db: u8, bytes: &'a [u8]) -> Key<'a> {
        // Databases are folded in through the seed, so that the same name in two of them is two unrelated keys.
        let seed = self.seed.wrapping_add(u64::from(db).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Key { hash: xxh3_64_with_seed(bytes, seed) & self.mask, db, bytes }
    }
    /// 32 more bits about a key. Together with the hash they stand for the key while recovery compares versions: two
    /// keys of a billion agree in all 96 with a probability of 6e-12.
    pub fn check(&self, db: u8, bytes: &[u8]) -> u32 {
        let seed = !self.seed ^ u64::from(db) << 56;
        (xxh3_128_with_seed(bytes, seed) >> 64) as u32
    }
}
