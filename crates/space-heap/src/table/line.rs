//! A line of the index: a bucket, or what overflows one.
//!
//! ```text
//! bucket    entry 0 | entry 1 | .. | entry 5 | link | check           overflow   the chunk's word | entry 1 | .. | entry 5 | link | check
//! entry     63..36 tag: 28 bits of the hash   35..0 where the record's chunk starts, in lines; 0: none
//! link      where the next line starts; 0: none
//! ```
//!
//! # Invariants
//! * The check is the exclusive or of what each word makes: who changes a word changes it by the difference, so that damage elsewhere in
//!   the line stays visible.
//! * The 28 bits begin where the numbers of the first buckets end: a bucket splits without a look at its records.

use crate::layout::LINE_BYTES;

/// Entries of a bucket; an overflow line has one less.
pub const SLOTS: usize = 6;
/// The word that leads on.
pub const LINK: usize = 6;
/// The word that the others make.
pub const CHECK: usize = 7;
/// Bits of the hash in an entry.
pub const TAG_BITS: u32 = 28;
const PLACE_BITS: u32 = 64 - TAG_BITS;
/// Chunks start below.
pub const HEAP_BYTES_MAX: u64 = (LINE_BYTES as u64) << PLACE_BITS;

/// A line's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line(pub [u64; 8]);

/// What of a hash an entry has, where an entry has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(u64);

impl Tag {
    /// Of a table that began with two to the power of `base` buckets.
    #[inline]
    pub fn new(hash: u64, base: u32) -> Self {
        Self(hash >> base << PLACE_BITS)
    }
    /// The entry of a chunk.
    #[inline]
    pub fn entry(self, chunk: u64) -> u64 {
        self.0 | (chunk / LINE_BYTES as u64)
    }
    /// Whether an entry has it.
    #[inline]
    pub fn is_of(self, entry: u64) -> bool {
        (entry ^ self.0) >> PLACE_BITS == 0 && entry != 0
    }
}

/// Where an entry's chunk starts.
#[inline]
pub fn chunk_of(entry: u64) -> u64 {
    (entry & (u64::MAX >> TAG_BITS)) * LINE_BYTES as u64
}

/// As many low bits of the hash as an entry and its bucket tell.
#[inline]
pub fn hash_of(entry: u64, bucket: u64, base: u32) -> u64 {
    entry >> PLACE_BITS << base | (bucket & !(u64::MAX << base))
}

/// What a word adds to its line's check.
#[inline]
pub fn share(slot: usize, word: u64) -> u64 {
    if word == 0 {
        return 0;
    }
    // Every bit of the word changes half of the bits, each place's others: which one flipped can be told.
    let mut mixed = word ^ (slot as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for factor in [0xd6e8_feb8_6659_fd93, 0xc2b2_ae3d_27d4_eb4f] {
        mixed = (mixed ^ mixed >> 32).wrapping_mul(factor);
    }
    mixed ^ mixed >> 32
}

impl Line {
    /// One without entries.
    pub fn empty(seed: u64) -> Self {
        let mut line = Self::default();
        line.0[CHECK] = seed;
        line
    }
    /// The check that belongs to its words, with `seed` of its place. An overflow line's first word has a check of its own.
    pub fn check(&self, first: usize, seed: u64) -> u64 {
        (first..CHECK).fold(seed, |check, slot| check ^ share(slot, self.0[slot]))
    }
    /// Changes a word.
    pub fn set(&mut self, slot: usize, word: u64) {
        self.0[CHECK] ^= share(slot, self.0[slot]) ^ share(slot, word);
        self.0[slot] = word;
    }
    /// Its entries, each with its slot.
    pub fn entries(&self, first: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.0[first..SLOTS]
            .iter()
            .enumerate()
            .map(move |(i, entry)| (first + i, *entry))
            .filter(|(_, entry)| *entry != 0)
    }
    /// A slot without an entry.
    pub fn empty_slot(&self, first: usize) -> Option<usize> {
        (first..SLOTS).find(|slot| self.0[*slot] == 0)
    }
    /// Its bytes.
    pub fn bytes(&self) -> [u8; LINE_BYTES] {
        let mut bytes = [0; LINE_BYTES];
        bytes.copy_from_slice(self.0.map(u64::to_le_bytes).as_flattened());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_tells_its_chunk_and_its_part_of_the_hash() {
        for (hash, base) in [(0x0123_4567_89ab_cdef, 3), (u64::MAX, 14), (5, 14)] {
            let tag = Tag::new(hash, base);
            let entry = tag.entry(64 * 77);
            assert_eq!(chunk_of(entry), 64 * 77);
            assert!(tag.is_of(entry) && !tag.is_of(entry ^ 1 << 63) && !tag.is_of(0));
            let known = u64::MAX >> (64 - base - TAG_BITS);
            assert_eq!(hash_of(entry, hash, base), hash & known);
        }
    }

    #[test]
    fn a_check_follows_changes_and_shows_others() {
        let mut line = Line::empty(99);
        assert_eq!(line.check(0, 99), line.0[CHECK]);
        line.set(2, 1234);
        line.set(LINK, 640);
        line.set(2, 1235);
        assert_eq!(line.check(0, 99), line.0[CHECK]);
        assert_ne!(line.check(0, 98), line.0[CHECK], "another place's");
        line.0[4] ^= 1 << 40;
        assert_ne!(line.check(0, 99), line.0[CHECK]);
        line.set(2, 7);
        assert_ne!(line.check(0, 99), line.0[CHECK], "a later change hides nothing");
    }
}
