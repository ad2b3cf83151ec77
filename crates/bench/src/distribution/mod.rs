//! Which record an operation is about.
//!
//! ```text
//!   zipfian:Z   true Zipf(Z) over the N records    --> rank --> seeded permutation --> record
//!   ycsb        Zipf(0.99) over 10^10 items        --> item --> FNV-1a modulo N    --> record (much flatter)
//!   uniform     every record alike
//!   latest      Zipf(0.99) counted back from the newest record
//! ```
//!
//! The two Zipf generators are different distributions: a hit ratio means something only with its generator, with N, and
//! with the best that a static placement could reach ([`static_optimum`]).

mod latest;
mod optimum;
mod scrambled;
mod zipf;

use std::fmt;
use std::str::FromStr;

pub use latest::Latest;
pub use optimum::{Optimum, static_optimum};
pub use scrambled::Scrambled;
pub use zipf::Zipf;

use crate::permute::Permutation;
use crate::rng::Rng;

/// YCSB's exponent.
pub const YCSB_EXPONENT: f64 = 0.99;

/// A distribution as users name it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// A true Zipf of this exponent over the records.
    Zipfian(f64),
    /// YCSB's ScrambledZipfian.
    Ycsb,
    /// All alike.
    Uniform,
    /// Skewed to the newest.
    Latest,
}

impl FromStr for Distribution {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "zipfian" => Ok(Self::Zipfian(YCSB_EXPONENT)),
            "ycsb" => Ok(Self::Ycsb),
            "uniform" => Ok(Self::Uniform),
            "latest" => Ok(Self::Latest),
            _ => text
                .strip_prefix("zipfian:")
                .and_then(|exponent| exponent.parse::<f64>().ok())
                .filter(|exponent| (0.0..=10.0).contains(exponent))
                .map(Self::Zipfian)
                .ok_or_else(|| {
                    format!(
                        "{text:?}: expected zipfian:EXPONENT (such as zipfian:0.99), ycsb, uniform or latest"
                    )
                }),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zipfian(exponent) => write!(f, "zipfian:{exponent}"),
            Self::Ycsb => f.write_str("ycsb"),
            Self::Uniform => f.write_str("uniform"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

/// Draws records among those that were loaded, and, for [`Distribution::Latest`], among those inserted since.
#[derive(Clone, Debug)]
pub enum Generator {
    /// See [`Distribution::Zipfian`].
    Zipfian(Zipf, Permutation),
    /// See [`Distribution::Ycsb`].
    Ycsb(Scrambled),
    /// See [`Distribution::Uniform`]: the number of records.
    Uniform(u64),
    /// See [`Distribution::Latest`].
    Latest(Latest),
}

impl Generator {
    /// A generator over `records` records. The seed decides which records are popular, so it must be the same in every
    /// thread of a run; `thread` of `threads` is whose inserts [`Generator::inserted`] will tell of.
    pub fn new(distribution: Distribution, records: u64, seed: u64, thread: u64, threads: u64) -> Self {
        match distribution {
            Distribution::Zipfian(exponent) => {
                Self::Zipfian(Zipf::new(records, exponent), Permutation::new(records, seed))
            }
            Distribution::Ycsb => Self::Ycsb(Scrambled::new(records)),
            Distribution::Uniform => Self::Uniform(records),
            Distribution::Latest => Self::Latest(Latest::new(records, thread, threads)),
        }
    }
    /// The record that the next operation is about.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Zipfian(zipf, permutation) => permutation.apply(zipf.draw(rng) - 1),
            Self::Ycsb(scrambled) => scrambled.draw(rng),
            Self::Uniform(records) => rng.below(*records),
            Self::Latest(latest) => latest.draw(rng),
        }
    }
    /// Tells that this thread has inserted its next record.
    pub fn inserted(&mut self) {
        if let Self::Latest(latest) = self {
            latest.inserted();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for name in ["zipfian:0.99", "zipfian:1.5", "ycsb", "uniform", "latest"] {
            assert_eq!(name.parse::<Distribution>().unwrap().to_string(), name);
        }
        assert_eq!("zipfian".parse(), Ok(Distribution::Zipfian(0.99)));
        for wrong in ["zipf", "zipfian:", "zipfian:-1", "zipfian:nan", ""] {
            assert!(wrong.parse::<Distribution>().unwrap_err().contains("expected"));
        }
    }

    /// The share of draws that the most drawn `share` of the records got.
    fn hottest(distribution: Distribution, records: u64, share: f64, draws: u32) -> f64 {
        let generator = Generator::new(distribution, records, 1, 0, 1);
        let mut rng = Rng::new(1, 1);
        let mut counts = vec![0u32; records as usize];
        for _ in 0..draws {
            counts[generator.draw(&mut rng) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top = (records as f64 * share) as usize;
        counts[..top].iter().map(|&count| f64::from(count)).sum::<f64>() / f64::from(draws)
    }

    #[test]
    fn draws_are_as_skewed_as_the_static_optimum_says() {
        // Few records and many draws, so that sorting by what was drawn finds the truly hottest ones.
        for distribution in [Distribution::Zipfian(0.99), Distribution::Zipfian(1.5), Distribution::Ycsb] {
            for share in [0.08, 0.25, 0.8] {
                let drawn = hottest(distribution, 10_000, share, 2_000_000);
                let exact = static_optimum(distribution, 10_000, share).unwrap();
                assert!(
                    (drawn - exact).abs() < 0.01,
                    "{distribution} {share}: drew {drawn}, computed {exact}"
                );
            }
        }
    }

    #[test]
    fn uniform_prefers_nobody() {
        let drawn = hottest(Distribution::Uniform, 100, 0.25, 200_000);
        assert!((drawn - 0.25).abs() < 0.01, "{drawn}");
    }

    #[test]
    fn popularity_depends_on_the_seed_only() {
        let ranks = |seed, thread| {
            let Generator::Zipfian(_, permutation) =
                Generator::new(Distribution::Zipfian(0.99), 1000, seed, thread, 2)
            else {
                panic!("not a Zipf generator")
            };
            (0..10).map(|rank| permutation.apply(rank)).collect::<Vec<_>>()
        };
        assert_eq!(ranks(1, 0), ranks(1, 1));
        assert_ne!(ranks(1, 0), ranks(2, 0));
    }
}
