//! Counts of records that lie on the SSD.

use terrace_policy::{Access, Count, Now, Sketch};

use super::policy::AnyPolicy;
use super::tier::hash;

/// How they are kept.
pub(super) enum Cold {
    /// A word a record, as in the paper's meta tuples.
    Table(Vec<Access>),
    /// 4 bits a record.
    Sketch(Sketch),
}

impl Cold {
    pub(super) fn table(records: u32) -> Self {
        Self::Table(vec![Access::default(); records as usize])
    }
    pub(super) fn sketch(records: u32) -> Self {
        Self::Sketch(Sketch::new(records as usize))
    }
    /// Counts a read; gives the word with which the record enters a tier.
    pub(super) fn touched(&mut self, policy: &dyn AnyPolicy, record: u32, now: Now) -> Access {
        match self {
            Self::Table(words) => {
                let word = &mut words[record as usize];
                *word = policy.touched(*word, now);
                word.with_seen(0)
            }
            Self::Sketch(sketch) => policy.entering(sketch.touch(hash(record)), now),
        }
    }
    /// The word with which the record would enter a tier, though nobody has read it.
    pub(super) fn word(&self, policy: &dyn AnyPolicy, record: u32, now: Now) -> Access {
        match self {
            Self::Table(words) => words[record as usize].with_seen(0),
            Self::Sketch(sketch) => policy.entering(sketch.count(hash(record)), now),
        }
    }
    pub(super) fn count(&self, policy: &dyn AnyPolicy, record: u32, now: Now) -> Count {
        match self {
            Self::Table(words) => policy.count(words[record as usize], now),
            Self::Sketch(sketch) => sketch.count(hash(record)),
        }
    }
    /// The record comes down from a tier where it had this word.
    pub(super) fn arrived(&mut self, policy: &dyn AnyPolicy, record: u32, access: Access, now: Now) {
        match self {
            Self::Table(words) => words[record as usize] = access.with_seen(0),
            Self::Sketch(sketch) => sketch.raise(hash(record), policy.count(access, now)),
        }
    }
    /// An epoch has ended.
    pub(super) fn halve(&mut self) {
        if let Self::Sketch(sketch) = self {
            sketch.halve(0, 1);
        }
    }
}
