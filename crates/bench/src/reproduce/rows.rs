//! Rows: a paper's figure and ours, side by side.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::stats::Interval;

/// Where a figure of ours comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Counted in a run of the engine that depends on nothing but its options.
    Deterministic,
    /// From the trace simulator: no store, no byte, no clock; the same everywhere.
    Simulated,
    /// Timed on the hardware that was there.
    Measured,
    /// Timed over an emulated device.
    Emulated,
}

impl Kind {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deterministic => "deterministic",
            Self::Simulated => "simulated",
            Self::Measured => "measured",
            Self::Emulated => "emulated",
        }
    }
    /// How it was found.
    pub fn how(self) -> &'static str {
        match self {
            Self::Deterministic | Self::Simulated => self.name(),
            Self::Measured | Self::Emulated => "timed",
        }
    }
    /// Whether a device is emulated that its time depends on.
    pub fn is_emulated(self) -> bool {
        self == Self::Emulated
    }
}

/// What a paper states, or what was found.
#[derive(Clone, PartialEq, Debug)]
pub enum Figure {
    /// It states nothing; we have nothing.
    None,
    /// A number.
    Number(f64),
    /// Found in several runs.
    Mean(Interval),
    /// More than a number.
    Text(String),
}

impl From<f64> for Figure {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Interval> for Figure {
    fn from(interval: Interval) -> Self {
        Self::Mean(interval)
    }
}

impl From<&str> for Figure {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Figure {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// As many digits as matter: hit ratios to hundredths, moves an operation to ten thousandths, what is rarer to millionths.
fn digits(number: f64) -> usize {
    match number.abs() {
        0.0 => 2,
        below if below < 0.002 => 6,
        below if below < 0.2 => 4,
        _ => 2,
    }
}

fn shown(number: f64) -> String {
    format!("{number:.*}", digits(number))
}

/// Half of an interval, to the digits of its mean.
fn half_shown(interval: &Interval) -> Option<String> {
    interval.half.map(|half| format!("{half:.*}", digits(interval.mean)))
}

/// [`shown`], as a number.
fn rounded(number: f64) -> f64 {
    shown(number).parse().unwrap_or(number)
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("-"),
            Self::Number(number) => f.write_str(&shown(*number)),
            Self::Mean(interval) => {
                f.write_str(&shown(interval.mean))?;
                half_shown(interval).map_or(Ok(()), |half| write!(f, " ± {half}"))
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_none(),
            Self::Number(number) => serializer.serialize_f64(rounded(*number)),
            Self::Mean(interval) => serializer.serialize_f64(rounded(interval.mean)),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// Whether ours bears out the paper's statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Holds {
    /// It was judged.
    Judged(bool),
    /// It was measured, and there is nothing to judge: why.
    NotJudged(String),
    /// It was not measured: why.
    NotMeasured(String),
}

impl Holds {
    /// `yes`, `no` or `n/a`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Judged(true) => "yes",
            Self::Judged(false) => "no",
            Self::NotJudged(_) | Self::NotMeasured(_) => "n/a",
        }
    }
    /// Why it is `n/a`.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Judged(_) => None,
            Self::NotJudged(reason) | Self::NotMeasured(reason) => Some(reason),
        }
    }
}

impl Serialize for Holds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Judged(holds) => serializer.serialize_bool(*holds),
            Self::NotJudged(reason) | Self::NotMeasured(reason) => {
                serializer.serialize_str(&format!("n/a: {reason}"))
            }
        }
    }
}

/// One statement and what became of it. As JSON: `id`, `what`, `paper`, `ours`, `kind`, `holds`.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The table or figure, such as `T1`.
    pub id: &'static str,
    /// What the figures are of, with unit.
    pub what: String,
    /// Workload, sizes and what else rows have in common: in JSON a part of `what`. May be empty.
    pub setting: String,
    /// The paper's.
    pub paper: Figure,
    /// Ours.
    pub ours: Figure,
    /// Where ours comes from; of a row that was not measured: would come from.
    pub kind: Kind,
    /// Whether the statement holds.
    pub holds: Holds,
}

impl Row {
    /// A row that can't be filled yet. It has no figure of ours.
    pub fn not_measured(
        id: &'static str,
        what: impl Into<String>,
        paper: impl Into<Figure>,
        kind: Kind,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            id,
            what: what.into(),
            setting: String::new(),
            paper: paper.into(),
            ours: Figure::None,
            kind,
            holds: Holds::NotMeasured(reason.into()),
        }
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 6)?;
        row.serialize_field("id", self.id)?;
        let mut what = self.what.clone();
        if !self.setting.is_empty() {
            what = format!("{what}; {}", self.setting);
        }
        // The number alone is in `ours`; how sure it is, is said where the setting is said.
        if let Figure::Mean(interval) = &self.ours
            && let Some(half) = half_shown(interval)
        {
            what = format!("{what}; mean of {} runs, 95% interval ± {half}", interval.runs);
        }
        row.serialize_field("what", &what)?;
        row.serialize_field("paper", &self.paper)?;
        row.serialize_field("ours", &self.ours)?;
        row.serialize_field("kind", self.kind.name())?;
        row.serialize_field("holds", &self.holds)?;
        row.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_six_keys() {
        let row = Row {
            id: "T9",
            what: "hits".into(),
            setting: "RO".into(),
            paper: Figure::None,
            ours: Interval::of(&[1.0, 2.0, 3.0]).into(),
            kind: Kind::Simulated,
            holds: Holds::Judged(true),
        };
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"id":"T9","what":"hits; RO; mean of 3 runs, 95% interval ± 2.48","paper":null,"ours":2.0,"kind":"simulated","holds":true}"#
        );
        let row = Row::not_measured("T9", "hits", 0.06127, Kind::Emulated, "no engine");
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"id":"T9","what":"hits","paper":0.0613,"ours":null,"kind":"emulated","holds":"n/a: no engine"}"#
        );
    }

    #[test]
    fn what_is_rare_is_shown_with_more_digits() {
        let shown: Vec<String> =
            [0.0, 61.4, 0.06127, 0.00024].map(|number| Figure::Number(number).to_string()).to_vec();
        assert_eq!(shown, ["0.00", "61.40", "0.0613", "0.000240"]);
    }
}
