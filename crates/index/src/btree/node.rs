//! A node: a block of words, and what its header says about the rest.
//!
//! ```text
//!  word  0          1        2         3 .. 7    8 ..         ..            .. heap ..               WORDS
//!       +----------+--------+---------+---------+------------+-------------+------ - ------+--------+
//!       | version  | shape  | link    | hints   | heads      | payloads    | free | heap  | fences |
//!       +----------+--------+---------+---------+------------+-------------+------ - ------+--------+
//!        '------------ one cache line ---------'
//!  version:  63 .. 2 count of changes, 1 CHANGING, 0 LOCK                          (`lock`)
//!  shape:    63 .. 44 bytes of prefix, 43 .. 38 PLAIN length, 37 .. 30 words of the heap in use, 29 .. 22 where the heap
//!            begins, 21 .. 15 room for entries, 14 COMPACT, 13 .. 7 level, 6 .. 0 entries
//!  link:     63 .. 48 high, 47 .. 32 low: lengths of the fences (`heap`); 31 .. 0 in a leaf the next leaf, 0 at the end,
//!            in an inner node the child for keys below the first separator
//!  hint:     the last head of each BLOCK of heads, all ones where the block isn't full; the last block needs none
//!  head:     the first 8 bytes of an entry's key after the prefix, big-endian, padded with zeros
//!  payload:  plain leaf, 48 bits: address
//!            other leaf, 64 bits: slot (16), address (48)
//!            inner,      64 bits: slot (16), child (48); one whose separators are short is laid out otherwise (`compact`)
//!  slot:     15 .. 9 word of the heap, 8 .. 0 bytes of the key after the prefix; LONG: that word says (`heap`)
//!  fences:   low, the smallest key that belongs here, at the very end; high, the smallest that doesn't any more, before it
//! ```
//!
//! The prefix is what all keys from `low` on and below `high` share, so every key that may ever come here begins with it.
//! It is the beginning of `low` and stored nowhere else. In a *plain* leaf all keys are equally long, and alike after the
//! head: what comes there is stored once. Level 0 is a leaf. An entry of an inner node is a separator and the child for keys not below it.
//!
//! A search reads the first line, the block that the hints name (12 heads in two lines), and one payload: four lines of
//! sixteen, and no branch depends on the keys.
//!
//! # Thread safety
//! Everything is atomic: words are loaded relaxed and mean something only once the version is confirmed (`lock`).
//! A reader that lost its race reads words of another time, or of another use of the node: whatever they are, no access
//! leaves the node, and no number of a node is followed before the version is confirmed.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::memory::{self, Zeroed};
use crate::sync::AtomicU64;

/// Words of a node. Small where schedules are explored, so that few keys fill one.
pub(super) const WORDS: usize = if cfg!(shuttle) { 16 } else { 128 };
/// Word: lock and version.
pub(super) const VERSION: usize = 0;
/// Word: counts, see [`Shape`].
pub(super) const SHAPE: usize = 1;
/// Word: next leaf, or first child; lengths of the fences.
pub(super) const LINK: usize = 2;
/// The first hint.
pub(super) const HINT: usize = 3;
/// Hints: with them the header fills a line.
pub(super) const HINTS: usize = if cfg!(shuttle) { 2 } else { 5 };
/// The first head.
pub(super) const BODY: usize = HINT + HINTS;
/// Heads that a hint stands for.
pub(super) const BLOCK: usize = if cfg!(shuttle) { 2 } else { 12 };

/// Entries for which there are hints.
pub(super) const ROOM_MAX: usize = (HINTS + 1) * BLOCK;

// Every entry is in a block that has a hint or is the last: no entry takes less than a head and 48 bits.
const _: () = assert!((WORDS - BODY) * 4 / 7 <= ROOM_MAX);

/// Words that a key's bytes after the head, or a fence, may take in a node; longer ones are in overflow nodes.
pub(super) const INLINE_WORDS: usize = if cfg!(shuttle) { 1 } else { 5 };

/// The low bits of a payload: an address or a child.
pub(super) const MASK_48: u64 = (1 << 48) - 1;

/// The longest prefix that a node may cut off; what keys share beyond it stays in each.
pub(super) const PREFIX_MAX: usize = (1 << 20) - 1;

const _: () = assert!(8 + 8 * INLINE_WORDS < NOT_PLAIN as usize && ROOM_MAX < 128);

// A plain leaf has room for a block of heads beside its fences and what its keys have in common.
const _: () = assert!((WORDS - BODY - 3 * INLINE_WORDS) * 4 / 7 >= BLOCK);

const NOT_PLAIN: u64 = 63;
/// Bit of a compact inner node.
const COMPACT: u64 = 1 << 14;

/// What the arrays of a node hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Heads of 64 bits, payloads of 48. A leaf whose keys all have this length after the prefix, and are alike after the head.
    Plain(usize),
    /// Heads and payloads of 64 bits.
    Wide,
    /// Heads and children of 32 bits (`compact`). An inner node.
    Compact,
}

impl Kind {
    /// Words that the arrays of `count` entries take.
    pub(super) fn array_words(self, count: usize) -> usize {
        match self {
            Self::Plain(_) => count + payload_words(false, count),
            Self::Wide => count + payload_words(true, count),
            Self::Compact => count + 1,
        }
    }
}

/// A block of words.
#[cfg_attr(not(shuttle), repr(C, align(64)))]
pub(super) struct Node {
    words: [AtomicU64; WORDS],
}

// Nodes are allocated as zeroed memory.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Node>() == 1024 && align_of::<Node>() == 64 && BODY == 8);

impl Node {
    /// A node's word as an atomic.
    #[inline]
    pub(super) fn at(&self, word: usize) -> &AtomicU64 {
        // The mask is no change for a position that is in order, and keeps a stale one inside.
        &self.words[word & (WORDS - 1)]
    }
    /// These words; none if they aren't all in the node.
    #[inline]
    pub(super) fn words(&self, range: Range<usize>) -> &[AtomicU64] {
        self.words.get(range).unwrap_or_default()
    }
    /// Reads a word.
    #[inline]
    pub(super) fn load(&self, word: usize) -> u64 {
        self.at(word).load(Relaxed)
    }
    /// Writes a word.
    #[inline]
    pub(super) fn store(&self, word: usize, value: u64) {
        debug_assert!(word < WORDS && word != VERSION);
        self.at(word).store(value, Relaxed);
    }
    /// Starts loading the line of a word.
    #[inline]
    pub(super) fn prefetch_word(&self, word: usize) {
        memory::prefetch(std::ptr::from_ref(self.at(word)));
    }
    /// What the header says.
    #[inline]
    pub(super) fn shape(&self) -> Shape {
        Shape(self.load(SHAPE))
    }
}

// SAFETY: it consists of atomic integers.
unsafe impl Zeroed for Node {
    #[cfg(shuttle)]
    fn zeroed() -> Self {
        Self { words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
    #[cfg(shuttle)]
    fn reset(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
    }
}

/// The counts of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape(u64);

impl Shape {
    /// A node without entries.
    pub(super) fn new(level: u8, prefix: usize, kind: Kind, room: usize, heap: usize) -> Self {
        debug_assert!(prefix <= PREFIX_MAX && room < 128 && heap <= WORDS && level < 128);
        let kind = match kind {
            Kind::Plain(length) => {
                debug_assert!(level == 0 && length <= 8 + 8 * INLINE_WORDS);
                (length as u64) << 38
            }
            Kind::Compact => {
                debug_assert!(level > 0);
                NOT_PLAIN << 38 | COMPACT
            }
            Kind::Wide => NOT_PLAIN << 38,
        };
        let used = (WORDS - heap) as u64;
        Self(
            (prefix as u64) << 44
                | kind
                | used << 30
                | (heap as u64) << 22
                | (room as u64) << 15
                | u64::from(level) << 7,
        )
    }
    /// As stored.
    pub(super) fn raw(self) -> u64 {
        self.0
    }
    /// Entries.
    #[inline]
    pub(super) fn count(self) -> usize {
        (self.0 & 127) as usize
    }
    /// With another number of entries.
    pub(super) fn with_count(self, count: usize) -> Self {
        debug_assert!(count <= self.room());
        Self(self.0 & !127 | count as u64)
    }
    /// Levels below this one.
    #[inline]
    pub(super) fn level(self) -> u8 {
        (self.0 >> 7) as u8 & 127
    }
    /// Whether this is a leaf.
    #[inline]
    pub(super) fn is_leaf(self) -> bool {
        self.level() == 0
    }
    /// Entries that the arrays have room for.
    #[inline]
    pub(super) fn room(self) -> usize {
        (self.0 >> 15 & 127) as usize
    }
    /// The first word of the heap.
    #[inline]
    pub(super) fn heap(self) -> usize {
        (self.0 >> 22 & 255) as usize
    }
    /// Words of the heap that hold something.
    pub(super) fn heap_used(self) -> usize {
        (self.0 >> 30 & 255) as usize
    }
    /// With `words` more in the heap, taken from the free words.
    pub(super) fn with_more_heap(self, words: usize) -> Self {
        Self(self.0 + ((words as u64) << 30) - ((words as u64) << 22))
    }
    /// With `words` of the heap in use no more. They are free again once the node is laid out anew.
    pub(super) fn with_less_heap(self, words: usize) -> Self {
        Self(self.0 - ((words as u64) << 30))
    }
    /// The length of all keys after the prefix, in a plain leaf; what comes after 8 bytes is where the heap begins.
    #[inline]
    pub(super) fn plain(self) -> Option<usize> {
        let length = self.plain_length();
        if length == NOT_PLAIN as usize { None } else { Some(length) }
    }
    /// The length of all keys after the prefix in a plain leaf, more than a key of such a leaf may have in other nodes.
    #[inline]
    pub(super) fn plain_length(self) -> usize {
        (self.0 >> 38 & 63) as usize
    }
    /// Bytes of the prefix.
    #[inline]
    pub(super) fn prefix(self) -> usize {
        (self.0 >> 44) as usize
    }
    /// Whether payloads have 64 bits, else 48. Not of a compact node.
    #[inline]
    pub(super) fn wide(self) -> bool {
        self.plain().is_none()
    }
    /// Whether this is a compact inner node.
    #[inline]
    pub(super) fn compact(self) -> bool {
        self.0 & COMPACT != 0
    }
    /// What the arrays hold.
    pub(super) fn kind(self) -> Kind {
        match self.plain() {
            Some(length) => Kind::Plain(length),
            None if self.compact() => Kind::Compact,
            None => Kind::Wide,
        }
    }
    /// The first word of the payloads of a node that isn't compact.
    #[inline]
    pub(super) fn payloads(self) -> usize {
        BODY + self.room()
    }
    /// Free words between payloads and heap.
    pub(super) fn free(self) -> usize {
        self.heap().saturating_sub(BODY + self.kind().array_words(self.room()))
    }
}

/// Words that `count` payloads take.
#[inline]
pub(super) fn payload_words(wide: bool, count: usize) -> usize {
    if wide { count } else { (3 * count).div_ceil(4) }
}
