//! One bucket: a cache line of six entries and a header.
//!
//! ```text
//!  byte 0        8        ...       48                60        64
//!  +---------+---------+--   --+---------+----------------+---------+
//!  | word 0  | word 1  |  ...  | word 5  | extra 0 ... 5  | header  |
//!  +---------+---------+--   --+---------+----------------+---------+
//!  word:   63 .. 48 tag (lower 16 of the 32 stored hash bits), 47 .. 0 address; 0 = empty
//!  extra:  upper 16 of the 32 stored hash bits, which tell entries apart in a large table too; 0 where the word is
//!  header: 31 .. 4 sequence, 3 LIVE, 2 LINK, 1 EXCLUSIVE, 0 LOCK   (in an overflow bucket: number of the next one, or 0)
//! ```
//!
//! With LINK set, word 5 is the number of the first overflow bucket and no entry.
//!
//! # Thread safety
//! Everything is atomic. Words, extras and LINK change only under the LOCK of the main bucket; anyone may read.
//!
//! # Invariants
//! - An extra is written before its word (release), and confirmed after it (acquire): a reader that sees a word sees its extra
//!   or a later one. The extras are also what a search begins with, all six at once; what it misses thereby, because an entry
//!   came meanwhile, the header tells.
//! - An overflow bucket's words are always entries or 0, whichever chain it belongs to: a reader that strays into a
//!   recycled one meets real addresses only.

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::Address;
use crate::memory::Zeroed;
use crate::sync::{AtomicU32, AtomicU64};

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

/// 1 in each 16 bits.
const LANES: u64 = 0x0001_0001_0001_0001;

/// The part of a hash that an entry stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    /// The lower 16 bits, where a word has them.
    word: u64,
    /// The upper 16 bits, four times.
    extra: u64,
}

impl Tag {
    /// The 32 bits of `hash` above the lowest `base_bits`.
    #[inline]
    pub(super) fn new(hash: u64, base_bits: u32) -> Self {
        let stored = (hash >> base_bits) as u32;
        Self { word: u64::from(stored) << Address::BITS, extra: u64::from(stored >> 16) * LANES }
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
        Self { word: tag.word | address.raw(), extra: tag.extra as u16 }
    }
    /// The address, if the slot is in use.
    #[inline]
    pub(super) fn address(self) -> Option<Address> {
        Address::from_raw(self.word & ADDRESS_MASK)
    }
    /// The tag of an entry in use.
    pub(super) fn tag(self) -> Tag {
        Tag { word: self.word & !ADDRESS_MASK, extra: u64::from(self.extra) * LANES }
    }
    /// Bit `bit` (0 to 31) of the stored hash bits.
    pub(super) fn hash_bit(self, bit: u32) -> bool {
        self.stored() >> bit & 1 == 1
    }
    /// The 32 stored hash bits.
    pub(super) fn stored(self) -> u64 {
        u64::from(self.extra) << 16 | self.word >> Address::BITS
    }
    /// Bytes of an entry that is saved.
    pub(super) const BYTES: usize = 10;
    /// Its bytes.
    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.word.to_le_bytes());
        bytes[8..].copy_from_slice(&self.extra.to_le_bytes());
        bytes
    }
    /// The entry of such bytes, if they are one's.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (word, extra) = bytes.split_at_checked(8)?;
        let entry = Self {
            word: u64::from_le_bytes(word.try_into().ok()?),
            extra: u16::from_le_bytes(extra.try_into().ok()?),
        };
        entry.address().map(|_| entry)
    }
}

/// Slots of a bucket, as a set: slot `i` has the bits `2 * i` and `2 * i + 1`.
#[derive(Clone, Copy)]
pub(super) struct Slots(u32);

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() as usize / 2;
        self.0 &= !(3 << (2 * slot));
        Some(slot)
    }
}

/// A cache line of entries.
#[repr(C, align(64))]
pub(super) struct Bucket {
    words: [AtomicU64; SLOTS],
    /// Extras 0 to 3, extra 0 lowest.
    extras: AtomicU64,
    /// Extras 4 and 5.
    last_extras: AtomicU32,
    pub(super) header: AtomicU32,
}

// Segments are allocated as zeroed memory, and an all-zero bucket is an empty, unlocked one.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);

impl Bucket {
    /// The address in a slot, if the slot is in use and its 32 stored bits are `tag`'s.
    #[inline]
    pub(super) fn matching(&self, slot: usize, tag: Tag) -> Option<Address> {
        // What remains of the word is the address, unless its tag differs.
        let address = Address::from_raw(self.words[slot].load(Acquire) ^ tag.word)?;
        (self.extra(slot) == tag.extra as u16).then_some(address)
    }
    /// The first slot whose extra is `tag`'s, and its address; whether the word's bits of the tag are the same, the record will
    /// tell.
    ///
    /// It takes few instructions that wait for the line, and no branch for each slot: which one it is can't be predicted,
    /// and the processor looks ahead to the next look-up only as far as it finds room for what waits.
    #[inline]
    pub(super) fn first(&self, tag: Tag) -> Option<(usize, Address)> {
        let slot = self.similar(tag).next()?;
        let address = Address::from_raw(self.words.get(slot)?.load(Acquire) & ADDRESS_MASK)?;
        Some((slot, address))
    }
    /// The slots whose extra is `tag`'s, link and empty ones perhaps among them.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn similar(&self, tag: Tag) -> Slots {
        use core::arch::x86_64::{_mm_cmpeq_epi16, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi64x};
        let (low, high) = (self.extras.load(Acquire), u64::from(self.last_extras.load(Acquire)));
        // SAFETY: every processor of this architecture has SSE2, and these instructions touch no memory.
        let equal = unsafe {
            let extras = _mm_set_epi64x(high as i64, low as i64);
            _mm_movemask_epi8(_mm_cmpeq_epi16(extras, _mm_set1_epi64x(tag.extra as i64)))
        };
        Slots(equal as u32 & ((1 << (2 * SLOTS)) - 1))
    }
    /// The slots whose extra is `tag`'s, link and empty ones perhaps among them.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    pub(super) fn similar(&self, tag: Tag) -> Slots {
        Slots((0..SLOTS).map(|slot| u32::from(self.extra(slot) == tag.extra as u16) << (2 * slot)).sum())
    }
    #[inline]
    fn extra(&self, slot: usize) -> u16 {
        if slot < 4 {
            (self.extras.load(Acquire) >> (16 * slot)) as u16
        } else {
            (self.last_extras.load(Acquire) >> (16 * (slot - 4))) as u16
        }
    }
    /// Needs the lock, so that nobody else writes the extras beside it.
    #[inline]
    fn set_extra(&self, slot: usize, extra: u16) {
        if slot < 4 {
            let others = self.extras.load(Acquire) & !(0xffff << (16 * slot));
            self.extras.store(others | u64::from(extra) << (16 * slot), Release);
        } else {
            let others = self.last_extras.load(Acquire) & !(0xffff << (16 * (slot - 4)));
            self.last_extras.store(others | u32::from(extra) << (16 * (slot - 4)), Release);
        }
    }
    /// A slot's content. Consistent only under the lock.
    pub(super) fn entry(&self, slot: usize) -> Entry {
        let word = self.words[slot].load(Acquire);
        Entry { word, extra: self.extra(slot) }
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
        self.set_extra(slot, entry.extra);
        self.words[slot].store(entry.word, Release);
    }
    /// Empties a slot. Needs the lock.
    pub(super) fn clear(&self, slot: usize) {
        self.words[slot].store(0, Release);
        self.set_extra(slot, 0);
    }
    /// Whether no slot is in use. Needs the lock, and no link in slot 5.
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Acquire) == 0)
    }
    /// Word 5 as a link. Meaningful only where the header, read before and after, is the same and has LINK.
    #[inline]
    pub(super) fn link(&self) -> u64 {
        self.words[LINK_SLOT].load(Acquire)
    }
    /// Writes word 5 as a link (0: no entry, no link). Needs the lock and an odd sequence.
    pub(super) fn set_link(&self, overflow: u32) {
        self.words[LINK_SLOT].store(u64::from(overflow), Release);
    }
    /// In an overflow bucket, the number of the next one; 0 at the end.
    #[inline]
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
            extras: AtomicU64::new(0),
            last_extras: AtomicU32::new(0),
            header: AtomicU32::new(0),
        }
    }
    #[cfg(shuttle)]
    fn reset(&self) {
        self.words.iter().for_each(|word| word.store(0, Release));
        self.extras.store(0, Release);
        self.last_extras.store(0, Release);
        self.header.store(0, Release);
    }
}
