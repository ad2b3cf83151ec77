//! Thresholds of temperature from a sampled histogram of counts (paper, 4.3).

use super::Count;

const BUCKETS: usize = Count::MAX.in_sixteenths() as usize + 1;

/// Above `hot`, a record belongs in DRAM; above `warm`, in DRAM or PMem.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Thresholds {
    /// THR_hot.
    pub hot: Count,
    /// THR_warm, at most `hot`.
    pub warm: Count,
}

/// Counts of sampled records.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Box<[u32]>,
    samples: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), samples: 0 }
    }
}

impl Histogram {
    /// Adds a sampled record.
    #[inline]
    pub fn add(&mut self, count: Count) {
        self.buckets[count.in_sixteenths() as usize] += 1;
        self.samples += 1;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        self.samples = 0;
    }

    /// The least count such that no more than `share` of the samples are above it.
    fn quantile(&self, share: f64) -> Count {
        let room = (share * self.samples as f64) as u64;
        let mut above = 0;
        for (count, &samples) in self.buckets.iter().enumerate().rev() {
            above += u64::from(samples);
            if above > room {
                return Count::sixteenths(count as u32);
            }
        }
        Count::default()
    }

    /// Thresholds for tiers that hold these shares of all records. THR_warm goes by both together: what is hot is warm.
    pub fn thresholds(&self, dram: f64, pmem: f64) -> Thresholds {
        Thresholds { hot: self.quantile(dram), warm: self.quantile(dram + pmem) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_more_than_the_share_is_above() {
        let mut histogram = Histogram::default();
        for count in 1..=100 {
            histogram.add(Count::whole(count));
        }
        let thresholds = histogram.thresholds(0.1, 0.4);
        assert_eq!(thresholds, Thresholds { hot: Count::whole(90), warm: Count::whole(50) });
        assert_eq!(histogram.thresholds(0.6, 0.4).warm, Count::default(), "everything fits");
        histogram.clear();
        assert_eq!(histogram.thresholds(0.1, 0.4), Thresholds::default());
    }

    proptest! {
        #[test]
        fn thresholds_are_the_least_that_fit(counts in prop::collection::vec(0u32..300, 1..200), share in 0f64..1.0) {
            let mut histogram = Histogram::default();
            counts.iter().for_each(|&count| histogram.add(Count::sixteenths(count)));
            let hot = histogram.thresholds(share, 0.0).hot.in_sixteenths();
            let above = |limit: u32| counts.iter().filter(|&&count| count > limit).count() as f64;
            prop_assert!(above(hot) <= share * counts.len() as f64);
            if hot > 0 {
                prop_assert!(above(hot - 1) > (share * counts.len() as f64).floor());
            }
        }
    }
}
