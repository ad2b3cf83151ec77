//! A true Zipf distribution, drawn exactly and in O(1) without tables.
//!
//! Rejection-inversion after W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996: the histogram's bars are covered by an integrable hat, whose integral is inverted;
//! a draw that falls between hat and bar is rejected (rarely: about 1.1 tries a draw).

use crate::rng::Rng;

/// Ranks 1 to `n`, rank k with probability proportional to `k^-exponent`.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    exponent: f64,
    integral_1: f64,
    integral_n: f64,
    /// Draws nearer to their rank than this are accepted without evaluating the hat.
    shortcut: f64,
}

impl Zipf {
    /// A Zipf distribution over the ranks 1 to `n`. Costs the same for any `n`.
    ///
    /// # Panics
    /// If `n` is 0 or the exponent negative.
    pub fn new(n: u64, exponent: f64) -> Self {
        assert!(n > 0 && exponent >= 0.0, "Zipf needs a rank and an exponent of at least 0");
        Self {
            n,
            exponent,
            integral_1: integral(1.5, exponent) - 1.0,
            integral_n: integral(n as f64 + 0.5, exponent),
            shortcut: 2.0 - integral_inverse(integral(2.5, exponent) - hat(2.0, exponent), exponent),
        }
    }

    /// A rank.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.integral_n + rng.unit() * (self.integral_1 - self.integral_n);
            let x = integral_inverse(u, self.exponent);
            let k = (x + 0.5).clamp(1.0, self.n as f64).floor();
            if k - x <= self.shortcut || u >= integral(k + 0.5, self.exponent) - hat(k, self.exponent) {
                return k as u64;
            }
        }
    }
}

fn hat(x: f64, exponent: f64) -> f64 {
    (-exponent * x.ln()).exp()
}

/// The integral of the hat from 1 to `x`, exact near exponent 1 too.
fn integral(x: f64, exponent: f64) -> f64 {
    let log = x.ln();
    expm1_over((1.0 - exponent) * log) * log
}

fn integral_inverse(y: f64, exponent: f64) -> f64 {
    // Rounding may push the argument just below the pole at -1.
    let t = (y * (1.0 - exponent)).max(-1.0);
    (ln1p_over(t) * y).exp()
}

/// (e^x - 1) / x.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0) }
}

/// ln(1 + x) / x.
fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-squared of the first ranks and the rest against the exact probabilities.
    fn chi_squared(n: u64, exponent: f64, draws: u32) -> f64 {
        const BINS: usize = 20;
        let zipf = Zipf::new(n, exponent);
        let mut rng = Rng::new(3, 0);
        let mut counts = [0u32; BINS + 1];
        for _ in 0..draws {
            let rank = zipf.draw(&mut rng);
            assert!((1..=n).contains(&rank));
            counts[(rank as usize - 1).min(BINS)] += 1;
        }
        let weight = |k: u64| (k as f64).powf(-exponent);
        let total: f64 = (1..=n).map(weight).sum();
        let rest: f64 = (BINS as u64 + 1..=n).map(weight).sum();
        counts.iter().enumerate().fold(0.0, |sum, (i, &count)| {
            let weight = if i < BINS { weight(i as u64 + 1) } else { rest };
            let expected = f64::from(draws) * weight / total;
            sum + (f64::from(count) - expected).powi(2) / expected
        })
    }

    #[test]
    fn ranks_come_as_often_as_they_should() {
        // 20 degrees of freedom: over 45.3 has probability 0.001. The seed is fixed, so the outcome is too.
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.5, 3.0] {
            let chi = chi_squared(1000, exponent, 200_000);
            assert!(chi < 45.3, "exponent {exponent}: chi squared {chi}");
        }
    }

    #[test]
    fn one_rank_and_huge_ranges_work() {
        let mut rng = Rng::new(1, 0);
        assert_eq!(Zipf::new(1, 0.99).draw(&mut rng), 1);
        let zipf = Zipf::new(10_000_000_000, 0.99);
        assert!((0..1000).all(|_| (1..=10_000_000_000).contains(&zipf.draw(&mut rng))));
    }
}
