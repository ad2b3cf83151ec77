//! One bucket: a cache line of six entries and a header.
//!
//! ```text
//!  byte 0        8        ...       48                60        64
//!  +---------+---------+--   --+---------+----------------+---------+
//!  | word 0  | word 1  |  ...  | word 5  | extra 0 ... 5  | header  |
//!  +---------+---------+--   --+---------+----------------+---------+
//!  word:   63 .. 48 tag (upper 16 of the 32 stored hash bits), 47 .. 0 address; 0 = empty
//!  extra:  lower 16 of the 32 stored hash bits
//!  header: 31 .. 4 sequence, 3 LIVE, 2 LINK, 1 EXCLUSIVE, 0 LOCK   (in an overflow bucket: number of the next one, or 0)
//! ```
//!
//! With LINK set, word 5 is the number of the first overflow bucket and no entry.
//!
//! # Thread safety
//! Everything is atomic. Words, extras and LINK change only under the LOCK of the main bucket; anyone may read.
//!
//! # Invariants
//! - An extra is written before its word (release), and read after it (acquire): a reader that sees a word sees its extra
//!   or a later one.
//! - An overflow bucket's words are always entries or 0, whichever chain it belongs to: a reader that strays into a
//!   recycled one meets real addresses only.

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::Address;
use crate::memory::Zeroed;
use crate::sync::{AtomicU16, AtomicU32, AtomicU64};

/// Entries in a bucket.
pub(super) const SLOTS: usize = 6;
/// The slot that holds the link once there is an overflow bucket.
pub(super) const LINK_SLOT: usize = SLOTS - 1;

/// Header bit: a writer is inside.
pub(super) const LOCK: u32 = 1;
/// Header bit: readers wait, too.
pub(super) const EXCLUSIVE: u32 = 2;
/// Header bit: slot 5 is a link.
pub(super) const LINK: u32 = 4;
/// Header bit: in use. Only buckets that the table began with are in use without it.
pub(super) const LIVE: u32 = 8;
/// One step of the sequence number; odd while entries move.
pub(super) const SEQUENCE: u32 = 16;

const ADDRESS_MASK: u64 = (1 << Address::BITS) - 1;

/// The part of a hash that an entry stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    /// The upper 16 bits, where a word has them.
    high: u64,
    /// The lower 16 bits.
    low: u16,
}

impl Tag {
    /// The 32 bits of `hash` above the lowest `base_bits`.
    #[inline]
    pub(super) fn new(hash: u64, base_bits: u32) -> Self {
        let stored = (hash >> base_bits) as u32;
        Self { high: u64::from(stored >> 16) << Address::BITS, low: stored as u16 }
    }
}

/// What a slot holds. `word` 0 is an empty slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    word: u64,
    extra: u16,
}

impl Entry {
    /// An entry of a key with this tag.
    pub(super) fn new(tag: Tag, address: Address) -> Self {
        Self { word: tag.high | address.raw(), extra: tag.low }
    }
    /// The address, if the slot is in use.
    #[inline]
    pub(super) fn address(self) -> Option<Address> {
        let raw = self.word & ADDRESS_MASK;
        if raw == 0 { None } else { Some(Address::new(raw)) }
    }
    /// The tag of an entry in use.
    pub(super) fn tag(self) -> Tag {
        Tag { high: self.word & !ADDRESS_MASK, low: self.extra }
    }
    /// Bit `bit` (0 to 31) of the stored hash bits.
    pub(super) fn hash_bit(self, bit: u32) -> bool {
        let stored = (self.word >> Address::BITS) << 16 | u64::from(self.extra);
        stored >> bit & 1 == 1
    }
}

/// A cache line of entries.
#[repr(C, align(64))]
pub(super) struct Bucket {
    words: [AtomicU64; SLOTS],
    extras: [AtomicU16; SLOTS],
    pub(super) header: AtomicU32,
}

// Segments are allocated as zeroed memory, and an all-zero bucket is an empty, unlocked one.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);

impl Bucket {
    /// The address in a slot, if the slot is in use and its 32 stored bits are `tag`'s.
    #[inline]
    pub(super) fn matching(&self, slot: usize, tag: Tag) -> Option<Address> {
        let word = self.words[slot].load(Acquire);
        if (word ^ tag.high) > ADDRESS_MASK || self.extras[slot].load(Acquire) != tag.low {
            return None;
        }
        Entry { word, extra: tag.low }.address()
    }
    /// The slots of which at least the upper 16 stored bits are `tag`'s, as a bit mask; an empty slot may be among them, and
    /// word 5 only if the caller says that it is an entry. Six comparisons without a branch: which slot it is can't
    /// be predicted.
    #[inline]
    pub(super) fn similar(&self, tag: Tag, linked: bool) -> u32 {
        let similar =
            |slot: usize| u32::from((self.words[slot].load(Acquire) ^ tag.high) <= ADDRESS_MASK) << slot;
        let line = similar(0) | similar(1) | similar(2) | similar(3) | similar(4) | similar(5);
        line & !(u32::from(linked) << LINK_SLOT)
    }
    /// A slot's content. Consistent only under the lock.
    pub(super) fn entry(&self, slot: usize) -> Entry {
        let word = self.words[slot].load(Acquire);
        Entry { word, extra: self.extras[slot].load(Acquire) }
    }
    /// Whether a slot is empty. Needs the lock.
    #[inline]
    pub(super) fn is_free(&self, slot: usize) -> bool {
        self.words[slot].load(Acquire) == 0
    }
    /// Writes an entry. Needs the lock.
    #[inline]
    pub(super) fn set(&self, slot: usize, entry: Entry) {
        debug_assert!(entry.address().is_some());
        self.extras[slot].store(entry.extra, Release);
        self.words[slot].store(entry.word, Release);
    }
    /// Empties a slot. Needs the lock.
    pub(super) fn clear(&self, slot: usize) {
        self.words[slot].store(0, Release);
    }
    /// Whether no slot is in use. Needs the lock, and no link in slot 5.
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Acquire) == 0)
    }
    /// Word 5 as a link. Meaningful only where the header, read before and after, is the same and has LINK.
    pub(super) fn link(&self) -> u64 {
        self.words[LINK_SLOT].load(Acquire)
    }
    /// Writes word 5 as a link (0: no entry, no link). Needs the lock and an odd sequence.
    pub(super) fn set_link(&self, overflow: u32) {
        self.words[LINK_SLOT].store(u64::from(overflow), Release);
    }
    /// In an overflow bucket, the number of the next one; 0 at the end.
    pub(super) fn next(&self) -> u32 {
        self.header.load(Acquire)
    }
    /// In an overflow bucket, sets the next one.
    pub(super) fn set_next(&self, overflow: u32) {
        self.header.store(overflow, Release);
    }
}

// SAFETY: it consists of atomic integers; zeroes are an empty, unlocked one.
unsafe impl Zeroed for Bucket {
    #[cfg(shuttle)]
    fn zeroed() -> Self {
        Self {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            extras: std::array::from_fn(|_| AtomicU16::new(0)),
            header: AtomicU32::new(0),
        }
    }
    #[cfg(shuttle)]
    fn reset(&self) {
        self.words.iter().for_each(|word| word.store(0, Release));
        self.extras.iter().for_each(|extra| extra.store(0, Release));
        self.header.store(0, Release);
    }
}
