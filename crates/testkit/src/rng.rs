//! Seeded randomness: the same seed gives the same test on every machine and in every version.

/// SplitMix64: small, fast, good enough to choose test cases.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that repeats itself for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number below `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is below 0");
        // The bias of a remainder is far below what a test could notice.
        self.next_u64() % bound
    }
    /// A number from `low` to `high`, both included.
    ///
    /// # Panics
    /// If `low` is above `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "{low} to {high} is empty");
        low + self.below(high - low + 1)
    }
    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    /// One of `choices`.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
    /// Another generator, so that one consumer's appetite doesn't change what another one gets.
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_itself_and_covers_its_range() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..1000).map(|_| rng.between(3, 7)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        for wanted in 3..=7 {
            assert!(draw(1).contains(&wanted));
        }
        assert!(draw(1).iter().all(|n| (3..=7).contains(n)));
    }
}
