//! The eviction of DRAM as users name it: a policy, and the gate by which records enter.
//!
//! ```text
//!   clock/beats          the default
//!   lazy-lru/hot         the paper's, corrected            lazy-lru-paper/hot   as printed
//!   lru, alru, sampled-lru, s3-fifo, sieve: /all           what they are compared with, each as it is known
//! ```
//!
//! Any policy goes with any gate, but for ALRU: it keeps no counts, so that nothing is hot and nobody beats anybody.
//!
//! It is about DRAM alone. A middle tier has CLOCK and `beats`, whatever DRAM has: its slots hold a flag of a bit and no access
//! word. Of a store it is no property: each opening may name another one.

use std::fmt;
use std::str::FromStr;

use terrace_policy::{
    Alru, Beats, Clock, Count, Everyone, Gate, Hot, LazyLru, LazyLruPaper, Lru, Policy, S3Fifo, SampledLru,
    Sieve,
};

/// Which record leaves DRAM next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PolicyName {
    #[default]
    Clock,
    LazyLru,
    LazyLruPaper,
    Lru,
    Alru,
    SampledLru,
    S3Fifo,
    Sieve,
}

/// Who enters DRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GateName {
    All,
    Hot,
    #[default]
    Beats,
}

/// Each policy with its name, and the gate that it is known with.
const POLICIES: [(&str, PolicyName, GateName); 8] = [
    (Clock::NAME, PolicyName::Clock, GateName::Beats),
    (LazyLru::NAME, PolicyName::LazyLru, GateName::Hot),
    (LazyLruPaper::NAME, PolicyName::LazyLruPaper, GateName::Hot),
    (Lru::NAME, PolicyName::Lru, GateName::All),
    (Alru::NAME, PolicyName::Alru, GateName::All),
    (SampledLru::NAME, PolicyName::SampledLru, GateName::All),
    (S3Fifo::NAME, PolicyName::S3Fifo, GateName::All),
    (Sieve::NAME, PolicyName::Sieve, GateName::All),
];
const GATES: [(&str, GateName); 3] =
    [(Everyone::NAME, GateName::All), (Hot::NAME, GateName::Hot), (Beats::NAME, GateName::Beats)];

/// A policy of DRAM and its gate, such as `clock` or `lru/hot`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    pub(crate) policy: PolicyName,
    pub(crate) gate: GateName,
}

impl Eviction {
    /// Every policy, each with the gate that it is known with.
    pub fn all() -> impl Iterator<Item = Self> {
        POLICIES.into_iter().map(|(_, policy, gate)| Self { policy, gate })
    }
    /// TaC's own, as printed.
    pub fn of_the_paper() -> Self {
        Self { policy: PolicyName::LazyLruPaper, gate: GateName::Hot }
    }
    /// Whether it goes by thresholds of temperature. Then words are kept of records below DRAM, too: thresholds are quantiles of
    /// all counts, and 4 bits don't hold counts that age by fractions.
    pub(crate) fn asks_for_thresholds(self) -> bool {
        self.gate == GateName::Hot || matches!(self.policy, PolicyName::LazyLru | PolicyName::LazyLruPaper)
    }
}

impl Eviction {
    /// What a record counts of which no word is kept. In the paper's form, which ages nothing that is not touched, the put that
    /// each had once; a threshold below that would end promotion for good.
    pub(crate) fn count_of_the_unread(self) -> Count {
        if self.policy == PolicyName::LazyLruPaper { Count::ONE } else { Count::default() }
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy =
            POLICIES.iter().find(|(_, policy, _)| *policy == self.policy).map_or("", |found| found.0);
        let gate = GATES.iter().find(|(_, gate)| *gate == self.gate).map_or("", |found| found.0);
        write!(f, "{policy}/{gate}")
    }
}

impl FromStr for Eviction {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (policy, gate) = text.split_once('/').map_or((text, None), |(policy, gate)| (policy, Some(gate)));
        let known = POLICIES.iter().find(|(name, ..)| *name == policy);
        let (_, policy, standard) = known.ok_or_else(|| {
            let names = POLICIES.map(|(name, ..)| name).join(" or ");
            format!("there is no policy {policy:?}: expected {names}, and if you like /all, /hot or /beats after it")
        })?;
        let gate = match gate {
            None => *standard,
            Some(gate) => {
                GATES.iter().find(|(name, _)| *name == gate).map(|(_, gate)| *gate).ok_or_else(|| {
                    let names = GATES.map(|(name, _)| name).join(" or ");
                    format!("there is no gate {gate:?}: expected {names}")
                })?
            }
        };
        if *policy == PolicyName::Alru && gate != GateName::All {
            return Err(format!("{} keeps no counts: it goes with gate {} only", Alru::NAME, Everyone::NAME));
        }
        Ok(Self { policy: *policy, gate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_and_without_a_gate() {
        for eviction in Eviction::all() {
            let name = eviction.to_string();
            assert_eq!(name.parse(), Ok(eviction));
            assert_eq!(name.split('/').next().unwrap_or_default().parse(), Ok(eviction));
        }
        assert_eq!(Eviction::default().to_string(), "clock/beats");
        assert_eq!("lru/hot".parse::<Eviction>().map(|eviction| eviction.to_string()), Ok("lru/hot".into()));
    }

    #[test]
    fn wrong_names_are_told_with_those_there_are() {
        for (name, word) in [
            ("clok", "clock or lazy-lru"),
            ("lru/some", "all or hot or beats"),
            ("alru/hot", "no counts"),
            ("", "sieve"),
        ] {
            let error = name.parse::<Eviction>().unwrap_err();
            assert!(error.contains(word), "{name}: {error}");
        }
    }
}
