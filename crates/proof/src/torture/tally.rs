//! What a run has done so far, in all its jobs.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::cut::Cut;
use super::plan::Moment;

/// Counts of all jobs.
#[derive(Default)]
pub struct Totals {
    cuts: [AtomicU64; Moment::ALL.len()],
    acknowledged: AtomicU64,
    unanswered: AtomicU64,
    units: AtomicU64,
    groups: AtomicU64,
    failures: AtomicU64,
}

/// One job's hand on them.
pub struct Tally<'a> {
    totals: &'a Totals,
    mine: Cell<u64>,
    show: &'a (dyn Fn() + Sync),
}

impl Totals {
    /// For one store; `show` is called after each cut.
    pub fn tally<'a>(&'a self, show: &'a (dyn Fn() + Sync)) -> Tally<'a> {
        Tally { totals: self, mine: Cell::new(0), show }
    }
    /// Cuts so far.
    pub fn cuts(&self) -> u64 {
        self.cuts.iter().map(|count| count.load(Relaxed)).sum()
    }
    /// A store failed.
    pub fn failed(&self) {
        self.failures.fetch_add(1, Relaxed);
    }
    /// Stores that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let by_moment = Moment::ALL.iter().zip(&self.cuts);
        let by_moment: Vec<_> =
            by_moment.map(|(moment, count)| format!("{} {}", count.load(Relaxed), moment.name())).collect();
        write!(
            f,
            "{} power cuts ({}), {} operations acknowledged, {} cut off without an answer, {} words or sectors in {} lines or \
             pages differed, {} lost or wrong",
            self.cuts(),
            by_moment.join(", "),
            self.acknowledged.load(Relaxed),
            self.unanswered.load(Relaxed),
            self.units.load(Relaxed),
            self.groups.load(Relaxed),
            self.failures()
        )
    }
}

impl Tally<'_> {
    /// Cuts of this store.
    pub fn mine(&self) -> u64 {
        self.mine.get()
    }
    /// A cut was made.
    pub fn cut(&self, moment: Moment, cut: &Cut) {
        if let Some(at) = Moment::ALL.iter().position(|known| *known == moment) {
            self.totals.cuts[at].fetch_add(1, Relaxed);
        }
        self.totals.units.fetch_add(cut.units, Relaxed);
        self.totals.groups.fetch_add(cut.groups, Relaxed);
        self.mine.set(self.mine() + 1);
        (self.show)();
    }
    /// A load has ended.
    pub fn operations(&self, acknowledged: u64, unanswered: u64) {
        self.totals.acknowledged.fetch_add(acknowledged, Relaxed);
        self.totals.unanswered.fetch_add(unanswered, Relaxed);
    }
}
