//! YCSB's ScrambledZipfian generator, with its constants.

use super::YCSB_EXPONENT;
use crate::rng::Rng;

/// Items of the hidden Zipf distribution, whatever the number of records.
pub(super) const ITEMS: u64 = 10_000_000_000;

/// zeta(10^10, 0.99), as YCSB has it.
pub(super) const ZETA_ITEMS: f64 = 26.469_028_201_783_02;

/// Draws an item of 10^10 by Gray et al.'s approximation of Zipf 0.99 and hashes it onto the records.
#[derive(Clone, Debug)]
pub struct Scrambled {
    records: u64,
    alpha: f64,
    eta: f64,
    second: f64,
}

impl Scrambled {
    /// YCSB's generator over this many records.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(records: u64) -> Self {
        assert!(records > 0, "no records to draw from");
        let zeta2 = 1.0 + 0.5f64.powf(YCSB_EXPONENT);
        Self {
            records,
            alpha: 1.0 / (1.0 - YCSB_EXPONENT),
            eta: (1.0 - (2.0 / ITEMS as f64).powf(1.0 - YCSB_EXPONENT)) / (1.0 - zeta2 / ZETA_ITEMS),
            second: zeta2,
        }
    }

    /// A record.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        record_of(self.item(rng), self.records)
    }

    fn item(&self, rng: &mut Rng) -> u64 {
        let u = rng.unit();
        let uz = u * ZETA_ITEMS;
        if uz < 1.0 {
            0
        } else if uz < self.second {
            1
        } else {
            (ITEMS as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
        }
    }
}

/// The record onto which an item falls.
#[inline]
pub(super) fn record_of(item: u64, records: u64) -> u64 {
    fnv1a(item) % records
}

/// FNV-1a over the eight bytes, least significant first, made non-negative as YCSB does.
fn fnv1a(value: u64) -> u64 {
    let hash = value.to_le_bytes().iter().fold(0xCBF2_9CE4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
    });
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_items_have_their_zipf_probability() {
        let scrambled = Scrambled::new(1000);
        let mut rng = Rng::new(5, 0);
        const DRAWS: u32 = 400_000;
        let mut firsts = [0u32; 2];
        for _ in 0..DRAWS {
            if let Some(count) = firsts.get_mut(scrambled.item(&mut rng) as usize) {
                *count += 1;
            }
        }
        for (item, count) in firsts.iter().enumerate() {
            let expected = (item as f64 + 1.0).powf(-YCSB_EXPONENT) / ZETA_ITEMS;
            assert!((f64::from(*count) / f64::from(DRAWS) - expected).abs() < 0.001, "item {item}");
        }
    }

    #[test]
    fn hashes_are_fnv1a() {
        // FNV-1a of eight zero bytes is 0xA8C7F832281A39C5, negative as a Java long.
        assert_eq!(fnv1a(0), 0xA8C7_F832_281A_39C5u64.wrapping_neg());
    }
}
