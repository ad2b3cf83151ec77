//! The best hit ratio that a fixed choice of records can reach: what a measured one is to be compared with.

use super::scrambled::{ITEMS, ZETA_ITEMS, record_of};
use super::{Distribution, YCSB_EXPONENT};

/// Items of YCSB's hidden distribution that are counted one by one; the rest is taken as spread evenly.
const ITEMS_MAX: u64 = 1 << 26;

/// The share of gets that a cache of the hottest `share` of `records` records answers, if it always holds just these.
/// `None` where that is not a fixed set ([`Distribution::Latest`]).
///
/// For [`Distribution::Ycsb`] this takes time and memory that grow with the records (8 items a record are hashed, at most
/// 67 million): for several shares ask one [`Optimum`].
pub fn static_optimum(distribution: Distribution, records: u64, share: f64) -> Option<f64> {
    Optimum::new(distribution, records).at(share)
}

/// [`static_optimum`] of one distribution, for several shares.
#[derive(Clone, Debug)]
pub struct Optimum {
    distribution: Distribution,
    records: u64,
    /// Of YCSB's distribution: what the items that were counted give each record, in no order, and all of them together.
    weights: Vec<f32>,
    counted: f64,
}

impl Optimum {
    /// Weighs the records.
    pub fn new(distribution: Distribution, records: u64) -> Self {
        let (mut weights, mut counted) = (Vec::new(), 0.0);
        if distribution == Distribution::Ycsb {
            weights.resize(records as usize, 0f32);
            let items = records.saturating_mul(8).clamp(1 << 20, ITEMS_MAX).min(ITEMS);
            for item in 0..items {
                let weight = (-YCSB_EXPONENT * ((item + 1) as f64).ln()).exp();
                counted += weight;
                weights[record_of(item, records) as usize] += weight as f32;
            }
        }
        Self { distribution, records, weights, counted }
    }
    /// See [`static_optimum`].
    pub fn at(&self, share: f64) -> Option<f64> {
        let share = share.clamp(0.0, 1.0);
        let top = (self.records as f64 * share).round() as u64;
        if top >= self.records {
            return Some(1.0);
        }
        match self.distribution {
            Distribution::Uniform => Some(share),
            Distribution::Latest => None,
            Distribution::Zipfian(exponent) => {
                Some(harmonic(top, exponent) / harmonic(self.records, exponent))
            }
            Distribution::Ycsb => Some(self.scrambled(top as usize)),
        }
    }
    fn scrambled(&self, top: usize) -> f64 {
        let rest = (ZETA_ITEMS - self.counted).max(0.0) * top as f64 / self.records as f64;
        let mut weights = self.weights.clone();
        weights.select_nth_unstable_by(top, |a, b| b.total_cmp(a));
        let hot: f64 = weights[..top].iter().map(|&weight| f64::from(weight)).sum();
        (hot + rest) / ZETA_ITEMS
    }
}

/// The generalised harmonic number H(n, exponent): summed for the first terms, then Euler-Maclaurin.
fn harmonic(n: u64, exponent: f64) -> f64 {
    const EXACT: u64 = 1000;
    let term = |k: f64| k.powf(-exponent);
    let exact: f64 = (1..=n.min(EXACT)).map(|k| term(k as f64)).sum();
    if n <= EXACT {
        return exact;
    }
    let (from, to) = (EXACT as f64, n as f64);
    let integral = if (exponent - 1.0).abs() < 1e-12 {
        (to / from).ln()
    } else {
        (to.powf(1.0 - exponent) - from.powf(1.0 - exponent)) / (1.0 - exponent)
    };
    exact + integral + (term(to) - term(from)) / 2.0 + exponent / 12.0 * (term(from) / from - term(to) / to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmonic_numbers_are_those_that_summing_gives() {
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let summed: f64 = (1..=100_000).map(|k| f64::from(k).powf(-exponent)).sum();
            assert!((harmonic(100_000, exponent) / summed - 1.0).abs() < 1e-9, "exponent {exponent}");
        }
        assert!((harmonic(ITEMS, YCSB_EXPONENT) / ZETA_ITEMS - 1.0).abs() < 1e-9, "YCSB's constant");
    }

    /// Published shares for a million records: the two generators must never be confused.
    #[test]
    fn a_million_records_have_the_known_optimum() {
        let check = |distribution, share, expected: f64| {
            let optimum = 100.0 * static_optimum(distribution, 1_000_000, share).unwrap();
            assert!((optimum - expected).abs() < 1.0, "{distribution} {share}: {optimum}, known {expected}");
        };
        check(Distribution::Zipfian(0.99), 0.25, 89.7);
        check(Distribution::Zipfian(0.99), 0.08, 81.5);
        check(Distribution::Zipfian(0.99), 0.72, 97.6);
        check(Distribution::Ycsb, 0.25, 65.3);
        check(Distribution::Ycsb, 0.08, 52.4);
        check(Distribution::Ycsb, 0.72, 89.1);
    }

    #[test]
    fn the_ends_are_plain() {
        assert_eq!(static_optimum(Distribution::Ycsb, 1000, 1.0), Some(1.0));
        assert_eq!(static_optimum(Distribution::Uniform, 1000, 0.25), Some(0.25));
        assert_eq!(static_optimum(Distribution::Latest, 1000, 0.25), None);
    }
}
