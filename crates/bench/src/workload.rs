//! What is done to the records, and how often.

use std::str::FromStr;

use crate::rng::Rng;

/// A mix of operations. The letters are YCSB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Inserts the records, nothing else.
    Load,
    /// Half reads, half updates.
    A,
    /// 95% reads, 5% updates.
    B,
    /// Reads only.
    C,
    /// 95% reads of the latest, 5% inserts.
    D,
    /// Scans: needs an ordered index.
    E,
    /// Half reads, half read-modify-writes.
    F,
    /// As [`Workload::A`], by the papers' name.
    WriteHeavy,
    /// As [`Workload::B`], by the papers' name.
    ReadHeavy,
    /// As [`Workload::C`], by the papers' name.
    ReadOnly,
}

/// What an operation does to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Reads the value.
    Get,
    /// Replaces the value of a record that is there.
    Set,
    /// Writes a record that is not there.
    Insert,
    /// Reads the value, then replaces it: a get and a set next to each other in one batch, counted as one operation.
    ReadModifyWrite,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Get, Self::Set, Self::Insert, Self::ReadModifyWrite];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::Insert => "insert",
            Self::ReadModifyWrite => "read_modify_write",
        }
    }
    /// Whether it reads a value.
    pub fn reads(self) -> bool {
        matches!(self, Self::Get | Self::ReadModifyWrite)
    }
    /// Whether it writes a value.
    pub fn writes(self) -> bool {
        self != Self::Get
    }
}

const NAMES: [(&str, Workload); 10] = [
    ("load", Workload::Load),
    ("a", Workload::A),
    ("b", Workload::B),
    ("c", Workload::C),
    ("d", Workload::D),
    ("e", Workload::E),
    ("f", Workload::F),
    ("wh", Workload::WriteHeavy),
    ("rh", Workload::ReadHeavy),
    ("ro", Workload::ReadOnly),
];

impl Workload {
    /// The workloads that run, for messages.
    pub fn names() -> String {
        NAMES.iter().filter(|(_, w)| *w != Self::E).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, workload)| *workload == self).map_or("", |(name, _)| name)
    }

    /// The share of reads, and what the rest is.
    fn mix(self) -> (f64, Kind) {
        match self {
            Self::Load => (0.0, Kind::Insert),
            Self::A | Self::WriteHeavy => (0.5, Kind::Set),
            Self::B | Self::ReadHeavy => (0.95, Kind::Set),
            Self::C | Self::ReadOnly | Self::E => (1.0, Kind::Get),
            Self::D => (0.95, Kind::Insert),
            Self::F => (0.5, Kind::ReadModifyWrite),
        }
    }

    /// The kind of the next operation.
    #[inline]
    pub fn draw(self, rng: &mut Rng) -> Kind {
        let (reads, other) = self.mix();
        if rng.unit() < reads { Kind::Get } else { other }
    }
}

impl FromStr for Workload {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, workload)| *workload)
            .ok_or_else(|| format!("{text:?}: expected one of {}", Self::names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_as_named() {
        let share = |name: &str, kind| {
            let workload: Workload = name.parse().unwrap();
            assert_eq!(workload.name(), name);
            let mut rng = Rng::new(1, 0);
            (0..100_000).filter(|_| workload.draw(&mut rng) == kind).count() as f64 / 100_000.0
        };
        for (name, kind, expected) in [
            ("a", Kind::Set, 0.5),
            ("wh", Kind::Get, 0.5),
            ("b", Kind::Set, 0.05),
            ("rh", Kind::Get, 0.95),
            ("c", Kind::Get, 1.0),
            ("ro", Kind::Get, 1.0),
            ("d", Kind::Insert, 0.05),
            ("f", Kind::ReadModifyWrite, 0.5),
            ("load", Kind::Insert, 1.0),
        ] {
            assert!((share(name, kind) - expected).abs() < 0.01, "{name}");
        }
        assert!("g".parse::<Workload>().unwrap_err().contains("wh, rh, ro"));
    }
}
