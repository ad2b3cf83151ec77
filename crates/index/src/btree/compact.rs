//! Compact inner nodes: what a separator has after the prefix is at most four bytes, and a child's number is four.
//!
//! ```text
//!  word  0          1        2         3       4 .. 7   8 .. 63             64 ..                      .. WORDS
//!       +----------+--------+---------+-------+--------+-------------------+-----------------------+------+--------+
//!       | version  | shape  | link    |       | marks  | heads, 2 a word   | children, 2 a word    | free | fences |
//!       +----------+--------+---------+-------+--------+-------------------+-----------------------+------+--------+
//!  head:  the separator after the prefix, big-endian, padded with zeros, its top bit turned over: compares as an `i32`
//!  mark:  the last head of each LINE of heads, the greatest value where the line isn't full; those of the last line and after
//!         it are not used
//!  child: one more than heads, the first for keys below all separators, as in the link
//! ```
//!
//! # Invariants
//! No separator here ends in a zero byte. So a text is not below a separator exactly if its four bytes, padded, are not: one
//! comparison of integers, no lengths, no heap, and no entry needs a second look.
//!
//! # Thread safety
//! As `packed`.

use super::node::{BODY, Node, Shape, WORDS};
#[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
use super::simd;

/// Marks.
const MARKS: usize = if cfg!(shuttle) { 2 } else { 8 };
/// The first word of the marks.
const MARK: usize = BODY - MARKS / 2;
/// Lines of heads.
const LINES: usize = if cfg!(shuttle) { 2 } else { 7 };
/// Heads of a line of the cache.
const LINE: usize = if cfg!(shuttle) { 2 } else { 16 };
/// Entries of a compact node at most. Few where schedules are explored, so that inner nodes are split there too.
pub(super) const COMPACT_MAX: usize = LINES * LINE;
/// The first word of the children.
const CHILDREN: usize = BODY + COMPACT_MAX / 2;

const TOP: u32 = 1 << 31;

// Whatever a stale shape says, a child is in the node.
const _: () = assert!(LINES <= MARKS && COMPACT_MAX < 128 && (cfg!(shuttle) || CHILDREN + 128 / 2 <= WORDS));

/// Entries that a compact node has room for beside a heap of so many words.
pub(super) fn compact_room(heap: usize) -> usize {
    (2 * (WORDS - CHILDREN).saturating_sub(heap)).saturating_sub(1).min(COMPACT_MAX)
}

/// Whether a compact node may hold a separator that has these bytes after the prefix.
pub(super) fn is_compact(suffix: &[u8]) -> bool {
    suffix.len() <= 4 && suffix.last().is_some_and(|&last| last != 0)
}

/// A head of eight bytes, as compact nodes have it.
#[inline]
pub(super) fn compact_head(head: u64) -> i32 {
    ((head >> 32) as u32 ^ TOP) as i32
}

impl Node {
    #[inline]
    fn half(&self, first: usize, i: usize) -> u32 {
        (self.load(first + i / 2) >> (i % 2 * 32)) as u32
    }
    fn set_half(&self, first: usize, i: usize, value: u32) {
        let (word, shift) = (first + i / 2, i % 2 * 32);
        let others = self.load(word) & !(u64::from(u32::MAX) << shift);
        self.store(word, others | u64::from(value) << shift);
    }
    #[inline]
    fn compact_head(&self, i: usize) -> i32 {
        self.half(BODY, i) as i32
    }
    /// Four bytes of separator `i` after the prefix, padded with zeros; it ends where they do.
    pub(super) fn compact_bytes(&self, i: usize) -> [u8; 4] {
        (self.compact_head(i) as u32 ^ TOP).to_be_bytes()
    }
    /// Child `i`, of one more than there are entries.
    #[inline]
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(shuttle))))]
    pub(super) fn compact_child(&self, i: usize) -> u32 {
        self.half(CHILDREN, i)
    }
    /// Child `i`, of one more than there are entries.
    #[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
    #[inline]
    pub(super) fn compact_child(&self, i: usize) -> u32 {
        simd::half::<CHILDREN>(self, i)
    }
    /// Entries not above this head.
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(shuttle))))]
    pub(super) fn compact_up_to(&self, count: usize, head: i32) -> usize {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            if self.compact_head(middle) <= head { low = middle + 1 } else { high = middle }
        }
        low
    }
    /// Entries not above this head. No branch depends on the keys.
    #[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
    #[inline]
    pub(super) fn compact_up_to(&self, count: usize, head: i32) -> usize {
        let twice = simd::first_above_of_7::<MARK>(self, head);
        // What follows the last entry is no head. Those before it are in order, so the first one above is among them or none is.
        (twice * (LINE / 2)
            + simd::first_above_of_16::<BODY>(self, twice * (LINE / 2 * size_of::<i32>()), head))
        .min(count)
    }
    /// The line of heads in which a head belongs.
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(shuttle))))]
    pub(super) fn compact_line(&self, head: i32) -> usize {
        (0..LINES - 1).take_while(|&line| self.half(MARK, line) as i32 <= head).count()
    }
    /// The line of heads in which a head belongs.
    #[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
    #[inline]
    pub(super) fn compact_line(&self, head: i32) -> usize {
        simd::first_above_of_7::<MARK>(self, head) / 2
    }
    /// The words that a search which goes to this line of heads reads: the first of the line, and the first and last of its
    /// children.
    #[inline]
    pub(super) fn compact_places(line: usize) -> [usize; 3] {
        let children = CHILDREN + line * LINE / 2;
        [BODY + line * LINE / 2, children, children + LINE / 2]
    }
    /// Makes the marks those of the first `count` heads.
    fn write_marks(&self, count: usize) {
        for line in 0..MARKS {
            let last = LINE * (line + 1) - 1;
            let mark = if last < count { self.compact_head(last) } else { i32::MAX };
            self.set_half(MARK, line, mark as u32);
        }
    }
    /// Writes all entries and the first child.
    pub(super) fn write_compact(&self, first: u32, entries: impl Iterator<Item = (i32, u32)>) {
        self.set_half(CHILDREN, 0, first);
        let mut count = 0;
        for (head, child) in entries {
            self.set_half(BODY, count, head as u32);
            self.set_half(CHILDREN, count + 1, child);
            count += 1;
        }
        self.write_marks(count);
    }
    /// Makes room for an entry at `i` of `shape.count()` entries, and writes it. The count stays.
    pub(super) fn insert_compact(&self, shape: Shape, i: usize, head: i32, child: u32) {
        let count = shape.count();
        debug_assert!(i <= count && count < shape.room());
        for at in (i..count).rev() {
            self.set_half(BODY, at + 1, self.half(BODY, at));
            self.set_half(CHILDREN, at + 2, self.half(CHILDREN, at + 1));
        }
        self.set_half(BODY, i, head as u32);
        self.set_half(CHILDREN, i + 1, child);
        self.write_marks(count + 1);
    }
    /// Replaces entry `i` of `count`.
    pub(super) fn set_compact(&self, i: usize, head: i32, child: u32, count: usize) {
        self.set_half(BODY, i, head as u32);
        self.set_half(CHILDREN, i + 1, child);
        self.write_marks(count);
    }
    /// Closes the gap that entry `i` of `shape.count()` leaves. The count stays.
    pub(super) fn remove_compact(&self, shape: Shape, i: usize) {
        let count = shape.count();
        debug_assert!(i < count);
        for at in i + 1..count {
            self.set_half(BODY, at - 1, self.half(BODY, at));
            self.set_half(CHILDREN, at, self.half(CHILDREN, at + 1));
        }
        self.write_marks(count - 1);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::node::Kind;
    use super::*;
    use crate::memory;

    #[test]
    fn compact_arrays_behave_as_a_vector() {
        let nodes = memory::allocate::<Node>(1);
        // SAFETY: one node was allocated, and it is freed at the end.
        let node = unsafe { &*nodes };
        const ROOM: usize = COMPACT_MAX;
        assert_eq!(compact_room(2), ROOM);
        let empty = Shape::new(1, 0, Kind::Compact, ROOM, WORDS - 2);
        node.write_compact(7, std::iter::empty());
        let mut model: Vec<(i32, u32)> = Vec::new();
        let mut seed = 7u64;
        for step in 0..6000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let shape = empty.with_count(model.len());
            // Few values, the greatest and the smallest among them.
            let head = match seed >> 60 {
                0 => i32::MAX,
                1 => i32::MIN,
                _ => (seed >> 32) as i32 & -(1 << 24),
            };
            let grow = (seed >> 20) % 100 < if step / 1000 % 2 == 0 { 70 } else { 30 };
            let at = model.partition_point(|entry| entry.0 < head);
            if grow && model.len() < ROOM && model.get(at).is_none_or(|entry| entry.0 != head) {
                node.insert_compact(shape, at, head, seed as u32);
                model.insert(at, (head, seed as u32));
            } else if !model.is_empty() {
                node.remove_compact(shape, at % model.len());
                model.remove(at % model.len());
            }
            assert_eq!(node.compact_child(0), 7);
            for (i, &(head, child)) in model.iter().enumerate() {
                assert_eq!((node.compact_head(i), node.compact_child(i + 1)), (head, child), "{step}");
            }
            let around = model.iter().flat_map(|entry| [-1, 0, 1].map(|by| entry.0.saturating_add(by)));
            for head in around.chain([i32::MIN, 0, i32::MAX]) {
                let expected = model.partition_point(|entry| entry.0 <= head);
                assert_eq!(node.compact_up_to(model.len(), head), expected, "step {step}, head {head}");
            }
        }
        // SAFETY: it came from `allocate(1)`, and `node` is used no more.
        unsafe { memory::free(nodes, 1) };
    }
}
