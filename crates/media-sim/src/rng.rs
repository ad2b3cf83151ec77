//! A small generator (SplitMix64): the same seed gives the same history on every machine and version. Or the choices come from
//! bytes that somebody else chose, a fuzzer for one.

use std::collections::VecDeque;

/// A stream of pseudo-random numbers; not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
    /// Draws come from these, where there are any to draw from.
    bytes: Option<VecDeque<u8>>,
}

impl Rng {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed, bytes: None }
    }
    /// A stream that is these bytes, then zeros. A draw takes as few bytes as its bound allows, so that a changed byte changes
    /// one choice.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { state: 0, bytes: Some(bytes.iter().copied().collect()) }
    }
    /// Whether all bytes are drawn; never of a seeded stream.
    pub fn is_used_up(&self) -> bool {
        self.bytes.as_ref().is_some_and(VecDeque::is_empty)
    }
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        if let Some(bytes) = &mut self.bytes {
            return take(bytes, 8);
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number below `bound`, all nearly equally likely.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a number below 0 was asked for");
        if let Some(bytes) = &mut self.bytes {
            let count = (u64::BITS - (bound - 1).leading_zeros()).div_ceil(8);
            return take(bytes, count) % bound;
        }
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
    /// True once in `n` calls on average; never for `n` = 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        // Of bytes the last number says yes: zeros are the ordinary case.
        let yes = if self.bytes.is_some() { n.saturating_sub(1) } else { 0 };
        n > 0 && self.below(n) == yes
    }
    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// So many bytes as a number, zeros for those that are not there.
fn take(bytes: &mut VecDeque<u8>, count: u32) -> u64 {
    (0..count).fold(0, |number, i| number | u64::from(bytes.pop_front().unwrap_or(0)) << (8 * i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_drawn_in_turn_and_then_zeros() {
        let mut rng = Rng::from_bytes(&[7, 0x34, 0x12, 9]);
        assert_eq!((rng.below(200), rng.below(0x10000)), (7, 0x1234));
        assert!(!rng.is_used_up());
        assert!(rng.one_in(10) && rng.is_used_up());
        assert_eq!((rng.below(3), rng.bits(), rng.one_in(2), rng.one_in(0)), (0, 0, false, false));
        assert_eq!(Rng::from_bytes(&[1, 2]).below(1), 0);
    }

    #[test]
    fn a_seed_repeats_itself() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..100).map(|_| rng.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(!Rng::new(1).is_used_up());
    }
}
