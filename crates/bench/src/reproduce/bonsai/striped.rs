//! B6: nodes that are striped over six devices, beside memory that is interleaved in pages. Timed, over emulated devices.

use super::super::{Holds, Interval, Kind, Outcome, Row, Settings, shared_memory};
use super::bed::{Job, Memory, OPTANE, Phase, SCANNED, of_phase, rates};
use super::systems::System;

/// What is asked of ours.
const AIM: f64 = 1.4;
/// The paper's: on the whole, and of the bandwidth that is used.
const PAPER: f64 = 1.427;
const PAPER_BANDWIDTH: f64 = 1.49;
/// Bytes of a key: of one that is in its node, and the paper's, whose records are elsewhere.
const KEY_BYTES: [usize; 2] = [8, 24];

/// B6.
pub(super) fn figure_12a(settings: &Settings) -> anyhow::Result<Outcome> {
    let what = format!("scans of {SCANNED}: strips / pages, throughput");
    if let Some(outcome) = shared_memory::outcome_without("B6", what.as_str(), PAPER, Kind::Emulated) {
        return Ok(outcome);
    }
    let of = |key_bytes, memory| Job {
        key_bytes,
        memory,
        ..Job::new(System::Bonsai, OPTANE, &[Phase::Scans], settings)
    };
    let jobs: Vec<Job> = KEY_BYTES
        .iter()
        .flat_map(|bytes| [Memory::Striped, Memory::Interleaved].map(|memory| of(*bytes, memory)))
        .collect();
    let runs = rates("B6", settings, &jobs)?;
    let mut rows = Vec::new();
    for (i, bytes) in KEY_BYTES.into_iter().enumerate() {
        let ours = Interval::of_ratios(&of_phase(&runs[2 * i], 0), &of_phase(&runs[2 * i + 1], 0));
        let is_papers = bytes == KEY_BYTES[1];
        let (paper, holds) = match is_papers {
            true => (PAPER.into(), Holds::NotJudged("the paper's rival is another system, PACTree".into())),
            false => (super::super::Figure::None, Holds::Judged(ours.mean >= AIM)),
        };
        let aim = if is_papers { String::new() } else { format!("; at least {AIM}") };
        rows.push(Row {
            id: "B6",
            what: format!("{what}, keys of {bytes} B{aim}"),
            setting: jobs[2 * i].setting(),
            paper,
            ours: ours.into(),
            kind: Kind::Emulated,
            holds,
        });
        if is_papers {
            rows.push(Row {
                id: "B6",
                what: "the same, bandwidth used: both read the same bytes".into(),
                setting: jobs[2 * i].setting(),
                paper: PAPER_BANDWIDTH.into(),
                ours: ours.into(),
                kind: Kind::Emulated,
                holds: Holds::NotJudged("the paper's rival is another system, PACTree".into()),
            });
        }
    }
    Ok(Outcome { rows, plots: Vec::new() })
}
