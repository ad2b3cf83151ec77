//! What a thread measures and counts.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::plan::Planned;
use crate::workload::Kind;

/// Latencies above this are recorded as this.
const NS_MAX: u64 = 600_000_000_000;
/// Three significant digits: values are exact to 0.1%.
const DIGITS: u8 = 3;

/// One thread's measurements of one phase.
pub struct Tally {
    histograms: [Histogram<u64>; Kind::ALL.len()],
    /// Reads that found nothing.
    pub misses: u64,
    /// Records read in all, those of scans among them.
    pub gets: u64,
    /// Writes in all.
    pub sets: u64,
    /// Reads compared with what was written.
    pub verified: u64,
    /// Of these, reads that gave something else.
    pub wrong: u64,
    /// Operations refused, by reason.
    pub errors: BTreeMap<String, u64>,
}

impl Tally {
    /// An empty tally.
    ///
    /// # Errors
    /// If the histograms can't be made.
    pub fn new() -> anyhow::Result<Self> {
        let histogram = || Histogram::new_with_bounds(1, NS_MAX, DIGITS);
        Ok(Self {
            histograms: [histogram()?, histogram()?, histogram()?, histogram()?, histogram()?],
            misses: 0,
            gets: 0,
            sets: 0,
            verified: 0,
            wrong: 0,
            errors: BTreeMap::new(),
        })
    }

    /// Records that `count` operations of a kind took this long.
    #[inline]
    pub fn record(&mut self, kind: Kind, took: Duration, count: u64) {
        if count > 0 {
            let ns = took.as_nanos().clamp(1, u128::from(NS_MAX)) as u64;
            self.histograms[kind as usize].saturating_record_n(ns, count);
        }
    }

    /// Records how long a batch took, for each of its operations.
    pub fn record_batch(&mut self, operations: &[Planned], took: Duration) {
        for kind in Kind::ALL {
            let count = operations.iter().filter(|planned| planned.kind() == kind).count();
            self.record(kind, took, count as u64);
        }
    }

    /// Counts a refused operation.
    pub fn error(&mut self, reason: impl Into<String>) {
        *self.errors.entry(reason.into()).or_default() += 1;
    }

    /// Adds another thread's tally.
    ///
    /// # Errors
    /// If the histograms don't fit each other, which would be a defect here.
    pub fn add(&mut self, other: Self) -> anyhow::Result<()> {
        for (mine, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            mine.add(theirs)?;
        }
        self.misses += other.misses;
        self.gets += other.gets;
        self.sets += other.sets;
        self.verified += other.verified;
        self.wrong += other.wrong;
        for (reason, count) in other.errors {
            *self.errors.entry(reason).or_default() += count;
        }
        Ok(())
    }

    /// The kinds that occurred, with their histograms.
    pub fn histograms(&self) -> impl Iterator<Item = (Kind, &Histogram<u64>)> {
        Kind::ALL.into_iter().zip(&self.histograms).filter(|(_, histogram)| !histogram.is_empty())
    }

    /// One histogram of all kinds, if anything occurred.
    pub fn together(&self) -> Option<Histogram<u64>> {
        let mut kinds = self.histograms().map(|(_, histogram)| histogram);
        let mut all = kinds.next()?.clone();
        // They have the same bounds: none is refused.
        kinds.try_for_each(|histogram| all.add(histogram)).ok()?;
        Some(all)
    }

    /// Operations refused.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}
