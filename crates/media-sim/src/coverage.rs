//! What the histories reached: a sweep that never sealed a block proves nothing about sealing.
//!
//! # Thread safety
//! One global table behind a lock; drivers call [`reach`] at rare events, not at each operation.

use std::collections::BTreeMap;

use parking_lot::Mutex;

static REACHED: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Counts one more time that something worth testing happened ("flush", "seal", "reuse", "expiry", "recovery").
pub fn reach(label: &'static str) {
    reach_many(label, 1);
}

/// Counts `n` more times.
pub fn reach_many(label: &'static str, n: u64) {
    *REACHED.lock().entry(label).or_default() += n;
}

/// How often `label` was reached in this process.
pub fn reached(label: &str) -> u64 {
    REACHED.lock().get(label).copied().unwrap_or(0)
}

/// Every label reached in this process and how often, by name.
pub fn coverage() -> Vec<(&'static str, u64)> {
    REACHED.lock().iter().map(|(label, n)| (*label, *n)).collect()
}
