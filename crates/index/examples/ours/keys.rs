//! Keys, their hashes, and streams of keys to look up.

/// How keys are drawn.
#[derive(Clone, Copy)]
pub enum Distribution {
    /// Each as likely as any other.
    Uniform,
    /// YCSB's scrambled Zipf with exponent 0.99.
    Zipf,
}

/// A well-mixed hash (SplitMix64's finaliser).
#[inline]
pub fn hash(key: u64) -> u64 {
    let mut z = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The key of a record: a bijection, so that keys differ.
#[inline]
pub fn key(record: u64) -> u64 {
    (record + 1).wrapping_mul(0xd134_2543_de82_ef95)
}

/// The bytes of `count` keys of records below `records`.
pub fn draw(distribution: Distribution, records: u64, count: usize, seed: u64) -> Vec<[u8; 8]> {
    let zipf = Zipf::new(records);
    (0..count as u64)
        .map(|i| {
            let random = hash(seed.wrapping_mul(0x1_0000_0001).wrapping_add(i));
            let unit = (random >> 11) as f64 / (1u64 << 53) as f64;
            let record = match distribution {
                Distribution::Uniform => (unit * records as f64) as u64,
                // Scatters the popular keys; ranks that collide thereby are few.
                Distribution::Zipf => hash(zipf.rank(unit)) % records,
            };
            key(record).to_ne_bytes()
        })
        .collect()
}

/// Gray's generator (Quickly Generating Billion-Record Synthetic Databases, 1994), as YCSB has it.
struct Zipf {
    records: f64,
    zeta: f64,
    eta: f64,
}

const EXPONENT: f64 = 0.99;

impl Zipf {
    fn new(records: u64) -> Self {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-EXPONENT)).sum::<f64>();
        let (all, two) = (zeta(records), zeta(2));
        let eta = (1.0 - (2.0 / records as f64).powf(1.0 - EXPONENT)) / (1.0 - two / all);
        Self { records: records as f64, zeta: all, eta }
    }
    /// The rank, from 0, of a number from 0 to 1.
    fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(EXPONENT) {
            return 1;
        }
        let rank = self.records * (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - EXPONENT));
        (rank as u64).min(self.records as u64 - 1)
    }
}
