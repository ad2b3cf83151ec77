//! Seeded bijections of `0..n` without tables: ranks onto records, record numbers onto keys.

use crate::rng::mix;

/// A bijection of `0..n`.
///
/// Multiplying by an odd number, adding, and xoring with a right shift are each invertible on `0..2^bits`, so their chain is.
/// Results of `n` or more walk on along their cycle, which must come back below `n`, since it started there.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); 4],
}

impl Permutation {
    /// The bijection of `0..n` that belongs to a seed.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn new(n: u64, seed: u64) -> Self {
        assert!(n > 0, "a permutation needs at least one element");
        let bits = (u64::BITS - (n - 1).leading_zeros()).max(1);
        let round = |i: u64| (mix(seed ^ (2 * i + 1)) | 1, mix(seed.wrapping_add(2 * i + 2)));
        Self {
            n,
            mask: u64::MAX >> (u64::BITS - bits),
            shift: bits.div_ceil(2),
            rounds: [round(0), round(1), round(2), round(3)],
        }
    }

    /// The bijection of all numbers of `bits` bits (1 to 64) that belongs to a seed.
    ///
    /// # Panics
    /// If `bits` is out of range.
    pub fn of_bits(bits: u32, seed: u64) -> Self {
        assert!((1..=64).contains(&bits), "1 to 64 bits");
        let n = if bits == 64 { u64::MAX } else { 1 << bits };
        // All 2^64 numbers don't fit `n`; nothing walks then, because every number is below or at u64::MAX.
        Self { n, ..Self::new(n, seed) }
    }

    /// Where `x` goes.
    #[inline]
    pub fn apply(&self, x: u64) -> u64 {
        debug_assert!(x <= self.mask, "{x} is outside of the domain");
        let mut x = x;
        loop {
            for (factor, offset) in self.rounds {
                x = x.wrapping_mul(factor).wrapping_add(offset) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n || self.n == u64::MAX {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_one_image() {
        for n in [1, 2, 3, 7, 64, 65, 1000, 4097] {
            for seed in [0, 1, 42] {
                let permutation = Permutation::new(n, seed);
                let mut seen = vec![false; n as usize];
                for x in 0..n {
                    let y = permutation.apply(x) as usize;
                    assert!(!std::mem::replace(&mut seen[y], true), "{y} twice for n {n} seed {seed}");
                }
            }
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        let permutation = Permutation::new(1 << 20, 1);
        let near = (0..10_000u64)
            .filter(|&x| permutation.apply(x).abs_diff(permutation.apply(x + 1)) < 1 << 10)
            .count();
        // Uniformly random images lie this near with probability 2^-9.
        assert!(near < 60, "{near} of 10000 neighbours stayed near each other");
        assert_ne!(Permutation::new(1 << 20, 2).apply(5), permutation.apply(5));
    }

    #[test]
    fn whole_words_are_bijected_too() {
        let permutation = Permutation::of_bits(64, 9);
        let images: std::collections::HashSet<u64> = (0..10_000).map(|x| permutation.apply(x)).collect();
        assert_eq!(images.len(), 10_000);
        assert!(Permutation::of_bits(16, 9).apply(65_535) < 65_536);
    }
}
