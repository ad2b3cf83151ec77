//! Names of placements, policies and gates, and what they name.

use std::fmt;
use std::str::FromStr;

use terrace_policy::{
    Alru, Beats, Clock, Everyone, Gate, Hot, LazyLru, LazyLruPaper, Lru, Policy, S3Fifo, SampledLru, Sieve,
    Tier,
};

use super::policy::{AnyGate, AnyPolicy, of_slots};

const PLACEMENTS: [&str; 5] = ["tac", "tac-homes", "tac-buf", "anti-2", "anti-nvm"];
const POLICIES: [&str; 8] = [
    Clock::NAME,
    LazyLru::NAME,
    LazyLruPaper::NAME,
    Lru::NAME,
    Alru::NAME,
    SampledLru::NAME,
    S3Fifo::NAME,
    Sieve::NAME,
];
const GATES: [&str; 3] = [Everyone::NAME, Hot::NAME, Beats::NAME];

/// What one row simulates: `PLACEMENT/POLICY/GATE`, and `/sketch` or `/table` if the counts of records on the SSD should
/// be kept otherwise than the policy's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub(super) placement: &'static str,
    pub(super) policy: &'static str,
    pub(super) gate: &'static str,
    pub(super) sketch: bool,
}

impl Setup {
    /// The paper's rows, the default and the others worth comparing.
    pub fn standard() -> Vec<Self> {
        [
            "tac/lazy-lru-paper/hot",
            "anti-2/lazy-lru-paper/hot",
            "anti-nvm/lazy-lru-paper/hot",
            "tac/lazy-lru/hot",
            "tac/clock/beats",
            "tac/lru/beats",
            "tac/sieve/beats",
            "tac/s3-fifo/beats",
            "tac/clock/all",
            "tac/lru/all",
            "tac/sieve/all",
            "tac/s3-fifo/all",
            "tac/lazy-lru/all",
            "tac/lazy-lru-paper/all",
            "tac/alru/all",
            "tac/sampled-lru/all",
        ]
        .into_iter()
        .filter_map(|name| name.parse().ok())
        .collect()
    }
}

/// Policies whose counts only a word can hold.
fn needs_table(policy: &str) -> bool {
    [LazyLru::NAME, LazyLruPaper::NAME, Alru::NAME].contains(&policy)
}

impl Setup {
    /// Whether anything depends on thresholds.
    pub(super) fn uses_thresholds(&self) -> bool {
        self.gate == Hot::NAME || [LazyLru::NAME, LazyLruPaper::NAME].contains(&self.policy)
    }
}

impl FromStr for Setup {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('/');
        let mut one_of = |what: &str, names: &[&'static str]| {
            let part = parts.next().unwrap_or_default();
            names.iter().find(|name| **name == part).copied().ok_or_else(|| {
                format!("{text:?}: {part:?} is no {what}: expected one of {}", names.join(", "))
            })
        };
        let placement = one_of("placement", &PLACEMENTS)?;
        let policy = one_of("policy", &POLICIES)?;
        let gate = one_of("gate", &GATES)?;
        let sketch = match parts.next() {
            None => !needs_table(policy),
            Some("sketch") if policy != Alru::NAME => true,
            Some("table") => false,
            Some(other) => return Err(format!("{text:?}: {other:?}: expected sketch or table")),
        };
        if policy == Alru::NAME && gate != Everyone::NAME {
            return Err(format!(
                "{text:?}: {policy} keeps no counts, so it goes with gate {} only",
                Everyone::NAME
            ));
        }
        Ok(Self { placement, policy, gate, sketch })
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.placement, self.policy, self.gate)?;
        match (self.sketch, needs_table(self.policy)) {
            (true, true) => f.write_str("/sketch"),
            (false, false) => f.write_str("/table"),
            _ => Ok(()),
        }
    }
}

impl Setup {
    /// A policy for a tier of so many slots.
    pub(super) fn policy(&self, tier: Tier, slots: u32) -> Box<dyn AnyPolicy> {
        match self.policy {
            LazyLru::NAME => of_slots(LazyLru::new(tier), slots),
            LazyLruPaper::NAME => of_slots(LazyLruPaper::new(tier), slots),
            Lru::NAME => of_slots(Lru, slots),
            Alru::NAME => of_slots(Alru, slots),
            SampledLru::NAME => of_slots(SampledLru, slots),
            S3Fifo::NAME => of_slots(S3Fifo, slots),
            Sieve::NAME => of_slots(Sieve, slots),
            _ => of_slots(Clock, slots),
        }
    }
    /// The gate.
    pub(super) fn gate(&self) -> AnyGate {
        match self.gate {
            Hot::NAME => AnyGate::Hot,
            Beats::NAME => AnyGate::Beats,
            _ => AnyGate::Everyone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_printed_and_has_its_gate() {
        let mut seen = 0;
        for policy in POLICIES {
            for gate in GATES {
                let name = format!("tac/{policy}/{gate}");
                let Ok(setup) = name.parse::<Setup>() else { continue };
                assert_eq!(setup.to_string(), name);
                assert_eq!(setup.gate().compares(), gate == Beats::NAME);
                let every = setup.policy(Tier::Dram, 4).accessed_every();
                assert_eq!(every > 0, [Lru::NAME, SampledLru::NAME].contains(&policy), "{name}");
                seen += 1;
            }
        }
        assert_eq!(seen, 8 * 3 - 2, "all but alru with counts");
        assert_eq!(Setup::standard().len(), 16, "a name in the list is wrong");
        assert_eq!("tac/clock/beats/table".parse::<Setup>().unwrap().to_string(), "tac/clock/beats/table");
    }

    #[test]
    fn wrong_names_are_told_with_those_there_are() {
        for (name, word) in [
            ("tic/clock/all", "anti-nvm"),
            ("tac/clok/all", "s3-fifo"),
            ("tac/clock/none", "beats"),
            ("tac/clock/all/disk", "sketch or table"),
            ("tac/alru/hot", "no counts"),
            ("tac", "clock"),
        ] {
            let error = name.parse::<Setup>().unwrap_err();
            assert!(error.contains(word), "{name}: {error}");
        }
    }
}
