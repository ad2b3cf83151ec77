//! What a sweep tried and found.

use std::collections::BTreeSet;
use std::fmt;

use terrace_media_sim::point::Statistics;

use super::coverage::Coverage;

/// A sweep's result. Its `Display` is one paragraph.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Crash points and images.
    pub statistics: Statistics,
    /// Of crashes inside a recovery or soon after one.
    pub nested: Statistics,
    /// Places in the source that made something durable.
    pub sites: BTreeSet<String>,
    /// Histories given up because a full store refused what others had built on.
    pub void: u64,
    /// What is wrong.
    pub failures: Vec<SweepFailure>,
    /// What was reached.
    pub coverage: Coverage,
}

/// A history that failed.
#[derive(Clone, Debug)]
pub struct SweepFailure {
    /// Its seed: a sweep of one history from this seed runs it again.
    pub seed: u64,
    /// The crash, what survived of it and what is wrong.
    pub error: String,
    /// The steps that matter, if it was reduced.
    pub steps: Vec<String>,
}

impl Summary {
    pub(super) fn merge(&mut self, other: Summary) {
        self.statistics += other.statistics;
        self.nested += other.nested;
        self.sites.extend(other.sites);
        self.void += other.void;
        self.failures.extend(other.failures);
        self.coverage.merge(&other.coverage);
    }
    /// Histories that ran, the void and the failed ones included.
    pub fn histories(&self) -> u64 {
        self.statistics.histories + self.void
    }
    /// Crash images judged.
    pub fn images(&self) -> u64 {
        self.statistics.images + self.nested.images
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { statistics, nested, sites, void, failures, coverage } = self;
        write!(
            f,
            "{} histories, {} images ({} of them of a second crash) at {} crash points, {} sites, {} failures",
            statistics.histories,
            self.images(),
            nested.images,
            statistics.points + nested.points,
            sites.len(),
            failures.len(),
        )?;
        if *void > 0 {
            write!(f, ", {void} histories given up on a full store")?;
        }
        write!(f, "; reached: {coverage}")
    }
}

impl fmt::Display for SweepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "history {}: {}", self.seed, self.error)?;
        for step in &self.steps {
            writeln!(f, "    {step}")?;
        }
        Ok(())
    }
}
