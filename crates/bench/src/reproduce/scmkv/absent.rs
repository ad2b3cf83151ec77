//! S4: look-ups of keys that are not in a bucket of 16, and the records that are read for them. Counted.

use terrace_space_scm_log::absent::entries_read;

use super::super::{Holds, Interval, Kind, Outcome, Row, Settings, each};

/// The paper's bucket.
const ELEMENTS: usize = 16;
/// Look-ups of a run: enough that chance is a thirtieth of what is counted, at any scale.
const LOOKUPS: u64 = 4_000_000;
const PAPER: f64 = 0.00024;
/// More than the paper's is too much.
const MOST: f64 = 0.0003;

/// S4.
pub(super) fn section_3_3(settings: &Settings) -> anyhow::Result<Outcome> {
    let seeds: Vec<u64> = settings.seeds().collect();
    let means = each("S4", settings.threads, &seeds, |seed| {
        Ok(entries_read(ELEMENTS, LOOKUPS, *seed)? as f64 / LOOKUPS as f64)
    })?;
    let ours = Interval::of(&means);
    let row = Row {
        id: "S4",
        what: format!(
            "records read for a look-up of a key that is not in a bucket of {ELEMENTS}; at most {MOST}"
        ),
        setting: format!(
            "{LOOKUPS} look-ups a run through the index, whatever the scale; tags of 16 bits; each run hashes with another seed"
        ),
        paper: PAPER.into(),
        ours: ours.into(),
        kind: Kind::Deterministic,
        holds: Holds::Judged(ours.mean <= MOST),
    };
    Ok(Outcome { rows: vec![row], plots: Vec::new() })
}
