//! What histories reached: a sweep that never sealed a block proves nothing about sealing.

use std::collections::BTreeMap;
use std::fmt;

use terrace_engine::{SnapshotUse, Stats};
use terrace_media_sim::{Model, QueueOrder};

use super::plan::Manner;

/// What a long sweep must have reached; listed even if it was not.
pub const ASKED: &[&str] = &[
    "clean stops",
    "evicted keys",
    "expired keys",
    "extents",
    "flushes",
    "keys that fell back",
    "log reclaims",
    "multi-key groups",
    "operations",
    "process kills",
    "reclamations",
    "records moved",
    "records restored from the log",
    "recoveries",
    "recoveries crashed",
    "recoveries crashed two deep",
    "recoveries from crashes",
    "recoveries repeated",
    "refusals",
    "reuses",
    "seals",
    "snapshots used",
    "tombstones dropped",
];

/// Engines' own words for what all of them do, in everybody's.
const NEUTRAL: &[(&str, &[&str])] = &[
    // A page is sealed as it is flushed.
    ("blocks_sealed", &["seals", "flushes"]),
    ("pages_written", &["seals", "flushes"]),
    ("blocks_reused", &["reuses"]),
    ("pages_reused", &["reuses"]),
    ("blocks_reclaimed", &["reclamations"]),
    ("pages_emptied", &["reclamations"]),
    ("blocks_purged", &["purges of dead keys"]),
    ("records_moved", &["records moved"]),
    ("tombstones_dropped", &["tombstones dropped"]),
    ("extents_written", &["extents"]),
];

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
    /// What [`ASKED`] names and nobody reached.
    pub fn missing(&self) -> Vec<&'static str> {
        ASKED.iter().copied().filter(|label| self.get(label) == 0).collect()
    }
    /// Adds another's counts.
    pub fn merge(&mut self, other: &Coverage) {
        other.iter().for_each(|(label, n)| self.add(label, n));
    }

    /// How a history behaved.
    pub(super) fn manner(&mut self, manner: &Manner) {
        self.add("histories that begin with a new store", manner.fresh.into());
        self.add("histories in which any subset of words survives", (manner.model == Model::Strict).into());
        self.add("histories of a cache", manner.evict.into());
        self.add("histories of three sessions", (manner.sessions == 3).into());
        self.add("histories with background work in between", (manner.slip > 0).into());
        self.add("histories with reads out of order", (manner.order != QueueOrder::InOrder).into());
    }

    /// What a clean stop saved.
    pub(super) fn saved(&mut self, stats: &Stats) {
        let details = stats.engine_details.iter().filter(|(detail, _)| detail.starts_with("snapshots_"));
        details.for_each(|(detail, n)| self.add(detail, *n));
    }

    /// What an opening made of a snapshot.
    pub(super) fn snapshot(&mut self, made: SnapshotUse) {
        self.add("snapshots used", (made == SnapshotUse::Used).into());
        self.add("snapshots refused", (made == SnapshotUse::Refused).into());
    }

    /// Takes over what a store counted in its life.
    pub(super) fn take(&mut self, stats: &Stats) {
        self.add("keys purged by background work", stats.expired);
        self.add("evicted keys", stats.evicted);
        self.add("stalls", stats.stalls);
        if let Some(recovery) = stats.recovery {
            self.add("recoveries", 1);
            self.add("records restored from the log", recovery.from_log);
            self.add("recoveries in several passes", (recovery.passes > 1).into());
            self.snapshot(recovery.snapshot);
        }
        for (detail, n) in &stats.engine_details {
            match NEUTRAL.iter().find(|(name, _)| name == detail) {
                Some((_, labels)) => labels.iter().for_each(|label| self.add(label, *n)),
                None if matches!(
                    *detail,
                    "page_bytes"
                        | "pages"
                        | "pages_free"
                        | "pages_to_move"
                        | "blocks"
                        | "blocks_free"
                        | "slab_bytes"
                        | "slabs"
                        | "slabs_free"
                        | "pmem_slabs"
                        | "pmem_slabs_free"
                ) => {}
                None => self.add(detail, *n),
            }
        }
    }
}

impl fmt::Display for Coverage {
    /// One line a label, those that are missing included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: BTreeMap<&str, u64> = ASKED.iter().map(|label| (*label, 0)).collect();
        all.extend(self.iter());
        for (label, n) in all {
            writeln!(f, "  {n:>12}  {label}")?;
        }
        Ok(())
    }
}
