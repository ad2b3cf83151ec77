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
    /// Bytes of DRAM.
    pub fn bytes(&self) -> usize {
        self.0.len() * 8
    }
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
}
