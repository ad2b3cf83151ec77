//! What histories reached: a sweep that never sealed a block proves nothing about sealing.

use std::collections::BTreeMap;
use std::fmt;

use terrace_engine::Stats;

/// Counts by label.
#[derive(Clone, Debug, Default)]
pub struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    /// Counts `n` more.
    pub fn add(&mut self, label: &'static str, n: u64) {
        if n > 0 {
            *self.0.entry(label).or_default() += n;
        }
    }
    /// How often `label` was reached.
    pub fn get(&self, label: &str) -> u64 {
        self.0.get(label).copied().unwrap_or(0)
    }
    /// Every label that was reached, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(label, n)| (*label, *n))
    }
    /// Adds another's counts.
    pub fn merge(&mut self, other: &Coverage) {
        other.iter().for_each(|(label, n)| self.add(label, n));
    }

    /// Takes over what a store counted in its life.
    pub(super) fn take(&mut self, stats: &Stats) {
        self.add("expired in background", stats.expired);
        self.add("stalls", stats.stalls);
        if let Some(recovery) = stats.recovery {
            self.add("recoveries", 1);
            self.add("records from the log", recovery.from_log);
        }
        for (label, n) in &stats.engine_details {
            if !matches!(*label, "page_bytes" | "pages" | "pages_free" | "blocks" | "blocks_free") {
                self.add(label, *n);
            }
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (label, n)) in self.0.iter().enumerate() {
            write!(f, "{}{label} {n}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
