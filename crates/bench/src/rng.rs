//! The driver's random numbers: SplitMix64, written out so that a seed means the same operations for ever.

/// A small, fast generator with 64 bits of state.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator for a stream of a seed; different streams are independent for our purposes.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed) ^ mix(stream ^ 0xA076_1D64_78BD_642F))
    }
    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }
    /// A number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// A number below `n` (the bias of at most n / 2^64 does not matter here).
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
}

/// SplitMix64's finalizer: a bijection of 64 bits that spreads every input bit.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_numbers_for_ever() {
        let mut rng = Rng::new(42, 0);
        let first = [rng.next_u64(), rng.next_u64()];
        assert_eq!(first, FIRST_OF_SEED_42, "changing the generator changes every published run");
        assert_ne!(Rng::new(42, 1).next_u64(), first[0]);
    }

    const FIRST_OF_SEED_42: [u64; 2] = [14_736_758_604_125_116_759, 4_574_210_806_424_527_249];

    #[test]
    fn units_and_bounds_stay_inside() {
        let mut rng = Rng::new(7, 0);
        let mut sum = 0.0;
        for _ in 0..10_000 {
            let unit = rng.unit();
            assert!((0.0..1.0).contains(&unit));
            assert!(rng.below(3) < 3);
            sum += unit;
        }
        assert!((sum / 10_000.0 - 0.5).abs() < 0.02);
    }
}
