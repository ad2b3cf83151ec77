//! A bit for each slot of a slab.

use std::sync::atomic::Ordering::*;

use crate::sync::AtomicU64;

/// Bits that anybody may change at any time, each by itself.
pub struct Bits(Box<[AtomicU64]>);

impl Bits {
    /// So many, all clear.
    pub fn new(bits: usize) -> Self {
        Self((0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }
    /// Whether it is set.
    #[inline]
    pub fn is_set(&self, bit: usize) -> bool {
        self.0[bit / 64].load(Acquire) >> (bit % 64) & 1 == 1
    }
    /// Sets it; whether it was clear. What is set already is not written.
    #[inline]
    pub fn set(&self, bit: usize) -> bool {
        let mask = 1 << (bit % 64);
        !self.is_set(bit) && self.0[bit / 64].fetch_or(mask, AcqRel) & mask == 0
    }
    /// Clears it; whether it was set.
    #[inline]
    pub fn clear(&self, bit: usize) -> bool {
        let mask = 1 << (bit % 64);
        self.0[bit / 64].fetch_and(!mask, AcqRel) & mask != 0
    }
    /// The first clear one before `end`.
    pub fn first_clear(&self, end: usize) -> Option<usize> {
        self.0.iter().enumerate().find_map(|(i, word)| {
            let bit = i * 64 + word.load(Relaxed).trailing_ones() as usize;
            (bit < end && bit < (i + 1) * 64).then_some(bit)
        })
    }
    /// Sets those from one to before another.
    pub fn set_all(&self, from: usize, end: usize) {
        for (word, mask) in masks(from, end) {
            self.0[word].fetch_or(mask, AcqRel);
        }
    }
    /// Clears them.
    pub fn clear_all(&self, from: usize, end: usize) {
        for (word, mask) in masks(from, end) {
            self.0[word].fetch_and(!mask, AcqRel);
        }
    }
    /// The first one that is set, or clear, from `from` to before `end`; `end` if there is none.
    #[inline]
    pub fn next(&self, from: usize, end: usize, set: bool) -> usize {
        let found = masks(from, end).find_map(|(word, mask)| {
            let bits = self.0[word].load(Acquire);
            let bits = if set { bits } else { !bits } & mask;
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        });
        found.unwrap_or(end)
    }
    /// Where those begin that are clear up to before `end`.
    pub fn clear_before(&self, end: usize) -> usize {
        let last = (0..end.div_ceil(64)).rev().find_map(|word| {
            let inside = (end - word * 64).min(64);
            let bits = self.0[word].load(Acquire) & u64::MAX >> (64 - inside);
            (bits != 0).then(|| word * 64 + 64 - bits.leading_zeros() as usize)
        });
        last.unwrap_or(0)
    }
    /// Up to 64 of them, the first one lowest.
    pub fn some(&self, from: usize, count: usize) -> u64 {
        let (word, shift) = (from / 64, from % 64);
        let bit = |word: usize| self.0.get(word).map_or(0, |word| word.load(Acquire));
        let bits = bit(word) >> shift | if shift == 0 { 0 } else { bit(word + 1) << (64 - shift) };
        bits & u64::MAX >> (64 - count.clamp(1, 64))
    }
    /// Bytes of DRAM.
    pub fn bytes(&self) -> usize {
        self.0.len() * 8
    }
}

/// The words that bits lie in, each with a mask of them.
fn masks(from: usize, end: usize) -> impl Iterator<Item = (usize, u64)> {
    (from / 64..end.div_ceil(64)).filter(move |_| from < end).map(move |word| {
        let low = from.saturating_sub(word * 64).min(63);
        let high = (end - word * 64).min(64);
        (word, u64::MAX << low & u64::MAX >> (64 - high))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_their_own() {
        let bits = Bits::new(130);
        assert_eq!(bits.first_clear(130), Some(0));
        assert!((0..129).all(|bit| bits.set(bit)) && !bits.set(70));
        assert_eq!((bits.first_clear(129), bits.first_clear(130)), (None, Some(129)));
        assert!(bits.clear(70) && !bits.clear(70));
        assert!(!bits.is_set(70) && bits.is_set(69) && bits.is_set(71));
        assert_eq!(bits.first_clear(130), Some(70));
    }

    #[test]
    fn runs_of_bits_are_found() {
        let bits = Bits::new(300);
        for (from, end) in [(3, 3), (5, 9), (60, 70), (64, 128), (130, 299)] {
            bits.set_all(from, end);
            assert!((0..300).all(|bit| bits.is_set(bit) == (from..end).contains(&bit)), "{from}..{end}");
            if from < end {
                let (first, behind) = (bits.next(0, 300, true), bits.next(from, 300, false));
                assert_eq!((first, behind, bits.next(from, end, false)), (from, end, end));
                assert_eq!((bits.clear_before(from), bits.clear_before(300)), (0, end));
                assert_eq!(bits.some(from, 48), u64::MAX >> (64 - (end - from).min(48)));
            }
            bits.clear_all(from, end);
        }
        assert_eq!((bits.next(0, 300, true), bits.next(0, 300, false), bits.clear_before(300)), (300, 0, 0));
    }
}
