//! An outage at a chosen fence or sync: openings and stops are short, and a kill from outside rarely meets the moments that
//! matter in them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts fences and syncs, and ends the process at one of them, before it makes anything durable.
#[derive(Debug, Default)]
pub struct Outage {
    passed: AtomicU64,
    /// 0 for never.
    at: AtomicU64,
}

impl Outage {
    /// An outage at the fence or sync of this number, counted from 1; none for 0.
    pub fn at(number: u64) -> Self {
        Self { passed: AtomicU64::new(0), at: AtomicU64::new(number) }
    }
    /// An outage after so many more fences and syncs.
    pub fn within(&self, more: u64) {
        self.at.store(self.passed() + more.max(1), Relaxed);
    }
    /// Fences and syncs so far.
    pub fn passed(&self) -> u64 {
        self.passed.load(Relaxed)
    }
    /// A fence or sync begins.
    pub(super) fn pass(&self) {
        if self.passed.fetch_add(1, Relaxed) + 1 == self.at.load(Relaxed) {
            // Nothing is written, unwound or waited for.
            std::process::abort();
        }
    }
}
