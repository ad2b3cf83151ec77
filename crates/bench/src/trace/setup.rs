//! Names of placements, policies and gates, and how a name becomes a type.

use std::fmt;
use std::str::FromStr;

use terrace_policy::{
    Alru, Beats, Clock, Everyone, Gate, Hot, LazyLru, LazyLruPaper, Lru, Policy, S3Fifo, SampledLru, Sieve,
    Tier,
};

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

/// Something that can be done with any policy and gate.
pub(super) trait Visitor {
    type Out;
    fn visit<P: Policy, G: Gate + Copy>(self, policy: fn(Tier) -> P, gate: G) -> Self::Out;
}

impl Setup {
    /// Calls the visitor with this setup's types.
    pub(super) fn with_types<V: Visitor>(&self, visitor: V) -> V::Out {
        match self.policy {
            LazyLru::NAME => self.with_policy(LazyLru::new, visitor),
            LazyLruPaper::NAME => self.with_policy(LazyLruPaper::new, visitor),
            Lru::NAME => self.with_policy(|_| Lru, visitor),
            Alru::NAME => self.with_policy(|_| Alru, visitor),
            SampledLru::NAME => self.with_policy(|_| SampledLru, visitor),
            S3Fifo::NAME => self.with_policy(|_| S3Fifo, visitor),
            Sieve::NAME => self.with_policy(|_| Sieve, visitor),
            _ => self.with_policy(|_| Clock, visitor),
        }
    }
    fn with_policy<P: Policy, V: Visitor>(&self, policy: fn(Tier) -> P, visitor: V) -> V::Out {
        match self.gate {
            Hot::NAME => visitor.visit(policy, Hot),
            Beats::NAME => visitor.visit(policy, Beats),
            _ => visitor.visit(policy, Everyone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names;
    impl Visitor for Names {
        type Out = (&'static str, &'static str);
        fn visit<P: Policy, G: Gate + Copy>(self, _policy: fn(Tier) -> P, _gate: G) -> Self::Out {
            (P::NAME, G::NAME)
        }
    }

    #[test]
    fn every_name_is_read_printed_and_becomes_its_type() {
        let mut seen = 0;
        for policy in POLICIES {
            for gate in GATES {
                let name = format!("tac/{policy}/{gate}");
                let Ok(setup) = name.parse::<Setup>() else { continue };
                assert_eq!(setup.to_string(), name);
                assert_eq!(setup.with_types(Names), (policy, gate));
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
