//! Which of the records that were missed are worth a copy.
//!
//! Until DRAM is full all are. Then those are that were missed often enough of late, twice at least. How often goes by what copies
//! were worth: where most of those that leave were never found, more is asked, and less where most were.

use terrace_policy::{Count, Sketch};

use super::table::Hash;

/// Counters of misses for each entry that the table has; half a byte each.
const COUNTERS_AN_ENTRY: usize = 4;
/// After so many misses for a counter all are halved, in parts of one.
const REMEMBERED: u64 = 4;
const LEAST: u32 = 2;
/// What a counter holds.
const MOST: u32 = 15;

/// See the module.
pub(super) struct Gate {
    misses: Sketch,
    /// Misses since they were halved.
    counted: u64,
    /// Whether pages have left.
    is_full: bool,
    /// Misses that let a record in.
    asked: u32,
    /// Whether any was since misses were halved.
    let_in: bool,
}

impl Gate {
    /// With room for all.
    pub fn new() -> Self {
        Self { misses: Sketch::new(1), counted: 0, is_full: false, asked: LEAST, let_in: false }
    }
    pub fn bytes(&self) -> u64 {
        self.misses.bytes() as u64
    }
    /// Whether there is no room for all any more.
    pub fn is_full(&self) -> bool {
        self.is_full
    }
    /// Whether a record that was missed is let in.
    pub fn admits(&mut self, hash: Hash) -> bool {
        let counters = self.bytes() * 2;
        self.counted += 1;
        if self.counted * REMEMBERED > counters {
            self.misses.halve(0, 1);
            self.counted = 0;
            // Where nobody is let in none leaves either, who could tell that less is to be asked.
            if !std::mem::take(&mut self.let_in) {
                self.asked = (self.asked - 1).max(LEAST);
            }
        }
        let is_let_in = self.misses.touch(hash.raw()) >= Count::whole(self.asked) || !self.is_full;
        self.let_in |= is_let_in;
        is_let_in
    }
    /// So many copies left, or might have; so many of them had been found.
    pub fn left(&mut self, copies: usize, found: usize) {
        self.is_full = true;
        if found * 2 < copies {
            self.asked = (self.asked + 1).min(MOST);
        } else if found * 3 > copies * 2 {
            self.asked = (self.asked - 1).max(LEAST);
        }
    }
    /// The table has so many entries.
    pub fn grow(&mut self, entries: u64) {
        if self.misses.bytes() * 2 < entries as usize * COUNTERS_AN_ENTRY {
            self.misses = self.misses.doubled();
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn hash(i: u64) -> Hash {
        Hash::of(i)
    }

    /// A gate that remembers a thousand misses, with no room for all.
    fn gate() -> Gate {
        let mut gate = Gate::new();
        (0..20).for_each(|_| gate.grow(1000));
        assert!(gate.admits(hash(0)), "there is room for all");
        gate.left(10, 6);
        gate
    }

    #[test]
    fn what_is_missed_again_is_let_in() {
        let mut gate = gate();
        assert!(gate.is_full() && !gate.admits(hash(1)) && gate.admits(hash(1)));
        // Long ago is forgotten.
        assert!(!gate.admits(hash(2)));
        (100..3000).for_each(|i| _ = gate.admits(hash(i)));
        let known = (100..200).filter(|&i| gate.admits(hash(i))).count();
        assert!(known < 50, "{known} of 100");
    }

    #[test]
    fn where_copies_are_not_found_more_is_asked() {
        let mut gate = gate();
        (0..3).for_each(|_| gate.left(100, 10));
        let misses = |gate: &mut Gate, i| (1..).find(|_| gate.admits(hash(i))).unwrap();
        assert_eq!(misses(&mut gate, 1), 5);
        (0..100).for_each(|_| gate.left(100, 10));
        assert_eq!(misses(&mut gate, 2), 15);
        gate.left(100, 60);
        assert_eq!(misses(&mut gate, 3), 15);
        (0..100).for_each(|_| gate.left(100, 90));
        assert_eq!(misses(&mut gate, 4), 2);
    }

    #[test]
    fn a_gate_that_lets_nobody_in_asks_for_less() {
        let mut gate = gate();
        (0..100).for_each(|_| gate.left(100, 10));
        // Each is missed once before misses are halved, again and again.
        let rounds = (0..40).find(|_| (0..1500).any(|i| gate.admits(hash(i))));
        assert!(rounds.is_some(), "nobody comes in any more");
    }
}
