//! The arrays of a node: hints, heads, and payloads of 48 or 64 bits.
//!
//! Payloads of 48 bits lie side by side, four in three words, the first in the lowest bits.
//!
//! # Invariants
//! Heads between the last entry's and the end of the room are all ones, so that a search may compare a whole block.
//!
//! # Thread safety
//! Writers hold the node's lock and are changing it.

use super::node::{BLOCK, BODY, HINT, HINTS, MASK_48, Node, Shape, payload_words};
#[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
use super::simd;

impl Node {
    /// The head of entry `i`.
    #[inline]
    pub(super) fn head(&self, i: usize) -> u64 {
        self.load(BODY + i)
    }
    /// The payload of entry `i`.
    #[inline]
    pub(super) fn payload(&self, shape: Shape, i: usize) -> u64 {
        if shape.wide() { self.wide_payload(shape, i) } else { self.narrow_payload(shape, i) }
    }
    /// The payload of entry `i`, which has 64 bits.
    #[inline]
    pub(super) fn wide_payload(&self, shape: Shape, i: usize) -> u64 {
        self.load(shape.payloads() + i)
    }
    /// The payload of entry `i`, which has 48 bits.
    #[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
    #[inline]
    pub(super) fn narrow_payload(&self, shape: Shape, i: usize) -> u64 {
        simd::bits_48_before(self, 8 * shape.payloads() + 6 * i + 6)
    }
    /// The payload of entry `i`, which has 48 bits.
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(shuttle))))]
    #[inline]
    pub(super) fn narrow_payload(&self, shape: Shape, i: usize) -> u64 {
        let (word, shift) = (shape.payloads() + i * 3 / 4, (i * 48 % 64) as u32);
        // Both words, whether or not the second has a part of it: a branch here would be as random as the keys.
        (self.load(word) >> shift | self.load(word + 1) << 1 << (63 - shift)) & MASK_48
    }
    /// Replaces the payload of entry `i`.
    pub(super) fn set_payload(&self, shape: Shape, i: usize, payload: u64) {
        let first = shape.payloads();
        if shape.wide() {
            return self.store(first + i, payload);
        }
        debug_assert!(payload <= MASK_48);
        let (word, shift) = (first + i * 3 / 4, (i * 48 % 64) as u32);
        self.store(word, self.load(word) & !(MASK_48 << shift) | payload << shift);
        if shift > 16 {
            let rest = 64 - shift;
            self.store(word + 1, self.load(word + 1) & !(MASK_48 >> rest) | payload >> rest);
        }
    }
    /// Makes the hints those of the first `count` heads.
    pub(super) fn write_hints(&self, count: usize) {
        for hint in 0..HINTS {
            let last = BLOCK * (hint + 1) - 1;
            self.store(HINT + hint, if last < count { self.head(last) } else { u64::MAX });
        }
    }
    /// Makes room for an entry at `i` of `shape.count()` entries, and writes it. The count stays.
    pub(super) fn insert_arrays(&self, shape: Shape, i: usize, head: u64, payload: u64) {
        let count = shape.count();
        debug_assert!(i <= count && count < shape.room());
        for word in (BODY + i..BODY + count).rev() {
            self.store(word + 1, self.load(word));
        }
        self.store(BODY + i, head);
        self.write_hints(count + 1);
        let first = shape.payloads();
        if shape.wide() {
            for word in (first + i..first + count).rev() {
                self.store(word + 1, self.load(word));
            }
        } else if i < count {
            let (from, shift) = (first + i * 3 / 4, i * 48 % 64);
            let last = first + payload_words(false, count + 1) - 1;
            let mut upper = self.load(last);
            for word in (from + 1..=last).rev() {
                let lower = self.load(word - 1);
                self.store(word, upper << 48 | lower >> 16);
                upper = lower;
            }
            // What was above the gap's beginning in its first word: only 16 bits can stay in this word.
            let below = (1u64 << shift) - 1;
            self.store(from, upper & below | if shift == 0 { upper << 48 } else { 0 });
        }
        self.set_payload(shape, i, payload);
    }
    /// Closes the gap that entry `i` of `shape.count()` leaves. The count stays.
    pub(super) fn remove_arrays(&self, shape: Shape, i: usize) {
        let count = shape.count();
        debug_assert!(i < count);
        for word in BODY + i..BODY + count - 1 {
            self.store(word, self.load(word + 1));
        }
        self.store(BODY + count - 1, u64::MAX);
        self.write_hints(count - 1);
        let first = shape.payloads();
        if shape.wide() {
            for word in first + i..first + count - 1 {
                self.store(word, self.load(word + 1));
            }
            return;
        }
        let (from, shift) = (first + i * 3 / 4, i * 48 % 64);
        let last = first + payload_words(false, count) - 1;
        let mut keep = (1u64 << shift) - 1;
        let mut lower = self.load(from);
        for word in from..=last {
            let upper = if word < last { self.load(word + 1) } else { 0 };
            let moved = lower >> 48 | upper << 16;
            self.store(word, lower & keep | moved & !keep);
            (keep, lower) = (0, upper);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::node::Kind;
    use super::*;
    use crate::memory;

    #[test]
    fn arrays_behave_as_a_vector() {
        for kind in [Kind::Plain(8), Kind::Wide] {
            let nodes = memory::allocate::<Node>(1);
            // SAFETY: one node was allocated, and it is freed at the end of this round.
            let node = unsafe { &*nodes };
            let empty = Shape::new(0, 0, kind, 40, 128);
            (0..40).for_each(|i| node.store(BODY + i, u64::MAX));
            let mut model: Vec<(u64, u64)> = Vec::new();
            let mut seed = 7u64;
            for step in 0..4000u64 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let shape = empty.with_count(model.len());
                let at = (seed >> 33) as usize;
                let grow = (seed >> 20) % 100 < if step / 500 % 2 == 0 { 70 } else { 30 };
                if model.is_empty() || (grow && model.len() < 40) {
                    let at = at % (model.len() + 1);
                    let entry = (seed, seed >> 8 & MASK_48);
                    node.insert_arrays(shape, at, entry.0, entry.1);
                    model.insert(at, entry);
                } else {
                    let at = at % model.len();
                    node.remove_arrays(shape, at);
                    model.remove(at);
                }
                for (i, &(head, payload)) in model.iter().enumerate() {
                    assert_eq!(
                        (node.head(i), node.payload(shape, i)),
                        (head, payload),
                        "step {step}, entry {i}"
                    );
                }
                assert!((model.len()..40).all(|i| node.head(i) == u64::MAX), "step {step}");
                for hint in 0..HINTS {
                    let last = model.get(BLOCK * (hint + 1) - 1);
                    assert_eq!(node.load(HINT + hint), last.map_or(u64::MAX, |entry| entry.0), "step {step}");
                }
            }
            // SAFETY: it came from `allocate(1)`, and `node` is used no more.
            unsafe { memory::free(nodes, 1) };
        }
    }
}
