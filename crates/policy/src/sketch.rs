//! Counts of records that have no slot: 4 bits a record, by hash.
//!
//! ```text
//!   hash --> two counters of the same array; a touch raises the lower one, the estimate is the lower one
//! ```
//!
//! *Thread safety*: any thread may touch, ask and halve at once; all is relaxed, and a count that races may be off by the
//! raced touch. *Invariants*: without races an estimate is never below the touches since the last halving, up to 15.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Count;

const PER_WORD: u64 = 16;
const MAX: u64 = 15;
const HALVED: u64 = 0x7777_7777_7777_7777;

/// See the module.
#[derive(Debug)]
pub struct Sketch {
    /// A power of two.
    words: Box<[AtomicU64]>,
}

impl Sketch {
    /// A sketch of at least so many counters: one for each record that may be counted.
    pub fn new(counters: usize) -> Self {
        let words = counters.div_ceil(PER_WORD as usize).next_power_of_two();
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The same with twice the counters: every estimate stays what it was.
    pub fn doubled(&self) -> Self {
        let copy = || self.words.iter().map(|word| AtomicU64::new(word.load(Relaxed)));
        Self { words: copy().chain(copy()).collect() }
    }

    /// Bytes of DRAM.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// The two counters: word and shift.
    #[inline]
    fn places(&self, hash: u64) -> [(usize, u32); 2] {
        let mask = self.words.len() - 1;
        let second = hash.rotate_left(32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // The counter within a word by the top bits, the word by the low ones: doubling adds a word bit.
        [hash, second ^ second >> 29].map(|hash| (hash as usize & mask, (hash >> 60) as u32 * 4))
    }

    fn at(&self, (word, shift): (usize, u32)) -> u64 {
        self.words[word].load(Relaxed) >> shift & MAX
    }

    fn raise_to(&self, place: (usize, u32), count: u64) {
        let word = &self.words[place.0];
        let old = word.load(Relaxed);
        if old >> place.1 & MAX < count {
            word.store(old & !(MAX << place.1) | count << place.1, Relaxed);
        }
    }

    /// About how often the record was touched; at most 15.
    #[inline]
    pub fn count(&self, hash: u64) -> Count {
        let [a, b] = self.places(hash);
        Count::whole(self.at(a).min(self.at(b)) as u32)
    }

    /// One touch more; gives the count after it.
    #[inline]
    pub fn touch(&self, hash: u64) -> Count {
        let count = self.count(hash).in_sixteenths() / 16 + 1;
        self.raise(hash, Count::whole(count));
        Count::whole(count.min(MAX as u32))
    }

    /// The record comes here with this count: of fractions and of what is above 15 nothing is kept.
    pub fn raise(&self, hash: u64, count: Count) {
        let count = u64::from(count.in_sixteenths() / 16).min(MAX);
        for place in self.places(hash) {
            self.raise_to(place, count);
        }
    }

    /// Halves every counter. To be done every N touches; a part at a time is as good (`part` of `parts`).
    pub fn halve(&self, part: usize, parts: usize) {
        let bounds = |part: usize| self.words.len() * part / parts;
        for word in &self.words[bounds(part)..bounds(part + 1)] {
            word.store(word.load(Relaxed) >> 1 & HALVED, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash(i: u64) -> u64 {
        let x = i.wrapping_add(1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB)
    }

    proptest! {
        #[test]
        fn never_too_low_and_halved_by_half(touches in prop::collection::vec(0u64..50, 0..400)) {
            let sketch = Sketch::new(64);
            let mut exact = [0u32; 50];
            for &record in &touches {
                sketch.touch(hash(record));
                exact[record as usize] += 1;
            }
            for record in 0..50 {
                prop_assert!(sketch.count(hash(record)) >= Count::whole(exact[record as usize].min(15)));
                prop_assert_eq!(sketch.doubled().count(hash(record)), sketch.count(hash(record)));
            }
            let before: Vec<_> = (0..50).map(|record| sketch.count(hash(record)).in_sixteenths() / 16).collect();
            (0..3).for_each(|part| sketch.halve(part, 3));
            for record in 0..50 {
                prop_assert_eq!(sketch.count(hash(record)), Count::whole(before[record as usize] / 2));
            }
        }
    }

    #[test]
    fn a_full_sketch_is_mostly_right() {
        let sketch = Sketch::new(1 << 12);
        assert_eq!(sketch.bytes(), 1 << 11);
        // Half of the records twice, the others never.
        for record in (0..2 << 10).chain(0..2 << 10) {
            sketch.touch(hash(record));
        }
        let wrong =
            (2 << 10..4 << 10).filter(|&record| sketch.count(hash(record)) > Count::default()).count();
        assert!(wrong < 1024, "{wrong} of 2048 untouched records count as touched");
    }
}
