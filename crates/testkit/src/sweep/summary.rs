//! What a sweep tried and found.

use std::collections::BTreeMap;
use std::fmt;

use terrace_media_sim::SiteUse;
use terrace_media_sim::point::Statistics;

use super::coverage::Coverage;

/// A sweep's result. Its `Display` is one line.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Crash points and images.
    pub statistics: Statistics,
    /// Of crashes inside a recovery or soon after one.
    pub nested: Statistics,
    /// Places in the source that made something durable, and what they were good for.
    pub sites: BTreeMap<String, SiteUse>,
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
    /// Adds another sweep's result.
    pub fn merge(&mut self, other: Summary) {
        self.statistics += other.statistics;
        self.nested += other.nested;
        for (site, used) in other.sites {
            *self.sites.entry(site).or_default() += used;
        }
        self.failures.extend(other.failures);
        self.coverage.merge(&other.coverage);
    }
    /// Histories that ran, failed ones included.
    pub fn histories(&self) -> u64 {
        self.statistics.histories
    }
    /// Crash images judged.
    pub fn images(&self) -> u64 {
        self.statistics.images + self.nested.images
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redundant: u64 = self.sites.values().map(|used| used.redundant).sum();
        let useless = self.sites.values().filter(|used| used.redundant == used.runs).count();
        write!(
            f,
            "{} histories, {} images ({} of them of a second crash), {} crash points, {} sites, \
             {redundant} redundant flushes ({useless} sites always), {} failures",
            self.histories(),
            self.images(),
            self.nested.images,
            self.statistics.points + self.nested.points,
            self.sites.len(),
            self.failures.len(),
        )
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
