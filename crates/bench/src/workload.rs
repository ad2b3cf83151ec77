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
    /// 95% scans, 5% inserts: needs an ordered index.
    E,
    /// Half reads, half read-modify-writes.
    F,
    /// As [`Workload::A`], by the papers' name.
    WriteHeavy,
    /// As [`Workload::B`], by the papers' name.
    ReadHeavy,
    /// As [`Workload::C`], by the papers' name.
    ReadOnly,
    /// 95% scans, 5% updates, by the papers' name: needs an ordered index.
    ScanHeavy,
}

/// The longest scan, in records; lengths are uniform from 1 on (HeterMM section 6.1, YCSB's default).
pub const SCAN_RECORDS_MAX: u64 = 100;

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
    /// Reads up to [`SCAN_RECORDS_MAX`] records in the order of their keys, from that of its record on.
    Scan,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Get, Self::Set, Self::Insert, Self::ReadModifyWrite, Self::Scan];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::Insert => "insert",
            Self::ReadModifyWrite => "read_modify_write",
            Self::Scan => "scan",
        }
    }
    /// Whether it reads a value.
    pub fn reads(self) -> bool {
        matches!(self, Self::Get | Self::ReadModifyWrite)
    }
    /// Whether it writes a value.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::Scan)
    }
}

const NAMES: [(&str, Workload); 11] = [
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
    ("sh", Workload::ScanHeavy),
];

impl Workload {
    /// All of them, for messages.
    pub fn names() -> String {
        NAMES.map(|(name, _)| name).join(", ")
    }

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, workload)| *workload == self).map_or("", |(name, _)| name)
    }

    /// The kind that is drawn with this share, and what the rest is.
    fn mix(self) -> (Kind, f64, Kind) {
        match self {
            Self::Load => (Kind::Get, 0.0, Kind::Insert),
            Self::A | Self::WriteHeavy => (Kind::Get, 0.5, Kind::Set),
            Self::B | Self::ReadHeavy => (Kind::Get, 0.95, Kind::Set),
            Self::C | Self::ReadOnly => (Kind::Get, 1.0, Kind::Get),
            Self::D => (Kind::Get, 0.95, Kind::Insert),
            Self::E => (Kind::Scan, 0.95, Kind::Insert),
            Self::F => (Kind::Get, 0.5, Kind::ReadModifyWrite),
            Self::ScanHeavy => (Kind::Scan, 0.95, Kind::Set),
        }
    }

    /// Whether it scans.
    pub fn scans(self) -> bool {
        self.mix().0 == Kind::Scan
    }

    /// The kind of the next operation.
    #[inline]
    pub fn draw(self, rng: &mut Rng) -> Kind {
        let (most, share, other) = self.mix();
        if rng.unit() < share { most } else { other }
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
            ("e", Kind::Scan, 0.95),
            ("e", Kind::Insert, 0.05),
            ("f", Kind::ReadModifyWrite, 0.5),
            ("sh", Kind::Scan, 0.95),
            ("sh", Kind::Set, 0.05),
            ("load", Kind::Insert, 1.0),
        ] {
            assert!((share(name, kind) - expected).abs() < 0.01, "{name}");
        }
        assert!("g".parse::<Workload>().unwrap_err().contains("wh, rh, ro, sh"));
    }
}
