//! Seeded draws: numbers, and ranks of a Zipf distribution.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x9E37_79B9_7F4A_7C15))
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }
    /// In `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// Spreads every bit over all.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Which key an operation is about: a rank of a Zipf distribution, moved round the keys as the hot set moves.
pub struct Popularity {
    cumulative: Vec<f64>,
    keys: u32,
}

/// Ranks beyond so many are drawn alike within their bucket: it keeps the table small.
const RANKS: u32 = 1 << 16;

impl Popularity {
    pub fn new(keys: u32, exponent: f64) -> Self {
        let buckets = keys.min(RANKS);
        let mut sum = 0.0;
        let cumulative = (0..buckets)
            .map(|bucket| {
                // A bucket's ranks, weighed by their first: with one rank a bucket it is exact.
                let (from, to) = bounds(bucket, buckets, keys);
                sum += f64::from(to - from) * f64::from(from + 1).powf(-exponent);
                sum
            })
            .collect();
        Self { cumulative, keys }
    }

    /// A key, the hot set having moved on by so many keys.
    pub fn draw(&self, random: &mut Random, moved: u32) -> u32 {
        let total = self.cumulative.last().copied().unwrap_or(1.0);
        let at = random.unit() * total;
        let buckets = self.cumulative.len() as u32;
        let bucket = (self.cumulative.partition_point(|&sum| sum <= at) as u32).min(buckets - 1);
        let (from, to) = bounds(bucket, buckets, self.keys);
        let rank = from + random.below(u64::from(to - from)) as u32;
        // Neighbours in rank are no neighbours in number; a step coprime to any count of keys below it.
        ((u64::from(rank) * 2_654_435_761 + u64::from(moved)) % u64::from(self.keys)) as u32
    }
}

/// The ranks of a bucket.
fn bounds(bucket: u32, buckets: u32, keys: u32) -> (u32, u32) {
    let at = |bucket: u32| (u64::from(bucket) * u64::from(keys) / u64::from(buckets)) as u32;
    (at(bucket), at(bucket + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_ranks_are_drawn_more_and_all_keys_are_reached() {
        let popularity = Popularity::new(100, 1.0);
        let mut random = Random::new(1);
        let mut drawn = [0u32; 100];
        (0..100_000).for_each(|_| drawn[popularity.draw(&mut random, 0) as usize] += 1);
        assert!(drawn.iter().all(|&times| times > 0));
        let most = drawn.iter().max().unwrap();
        // 1 / H(100) of all draws.
        assert!((18_000..21_000).contains(most), "{most}");
    }
}
