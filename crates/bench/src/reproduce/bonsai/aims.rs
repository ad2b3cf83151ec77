//! What is asked of ours, in one run: beside the tree that has an entry a record and the log, over memory that adds nothing.

use super::super::{Figure, Holds, Interval, Kind, Outcome, Row, Settings, shared_memory};
use super::bed::{Job, NO_DELAYS, Phase, of_load, of_phase, rates};
use super::memory::dram_told;
use super::systems::System;

/// Gets beside hetermm's with btree, scans of 100 beside its, puts beside scmkv's; its DRAM in hetermm's.
const GETS: f64 = 1.0;
const SCANS: f64 = 1.5;
const PUTS: f64 = 0.7;
const DRAM: f64 = 0.25;
/// Pairs a second of a restart on one thread.
const RESTART: f64 = 5e6;

/// See the module.
pub(super) fn in_one_run(settings: &Settings) -> anyhow::Result<Outcome> {
    const ORDERED: &[Phase] = &[Phase::Gets, Phase::Scans, Phase::Updates];
    const LOG: &[Phase] = &[Phase::Updates];
    let mut rows = dram(settings)?;
    if let Some(reason) = shared_memory::missing() {
        let what = format!("gets: bonsai / hetermm with btree, throughput; at least {GETS}");
        rows.push(Row::not_measured("aim", what, Figure::None, Kind::Emulated, reason));
        return Ok(Outcome { rows, plots: Vec::new() });
    }
    let job = |system, phases| Job::new(system, NO_DELAYS, phases, settings);
    let ours = Job { restarts: true, ..job(System::Bonsai, ORDERED) };
    let runs = rates("aim", settings, &[ours, job(System::Tree, ORDERED), job(System::Log, LOG)])?;
    let [bonsai, tree, log] = &runs[..] else { anyhow::bail!("a job was lost") };
    let mut row = |what: String, ours: Interval, holds: Holds| {
        rows.push(Row {
            id: "aim",
            what,
            setting: job(System::Bonsai, &[]).setting(),
            paper: Figure::None,
            ours: ours.into(),
            kind: Kind::Emulated,
            holds,
        });
    };
    let ratios = [
        ("gets", System::Tree, GETS, of_phase(bonsai, 0), of_phase(tree, 0)),
        ("scans of 100", System::Tree, SCANS, of_phase(bonsai, 1), of_phase(tree, 1)),
        ("puts of new keys", System::Log, PUTS, of_load(bonsai), of_load(log)),
        ("puts of keys that are there", System::Log, PUTS, of_phase(bonsai, 2), of_phase(log, 0)),
    ];
    for (name, rival, least, ours, theirs) in ratios {
        let found = Interval::of_ratios(&ours, &theirs);
        let what = format!("{name}: bonsai / {}, throughput; at least {least}", rival.name());
        row(what, found, Holds::Judged(found.mean >= least));
        let millions = Interval::of(&ours.iter().map(|rate| rate / 1e6).collect::<Vec<_>>());
        row(
            format!("{name}: bonsai, million a second"),
            millions,
            Holds::NotJudged("rates depend on the machine".into()),
        );
    }
    let restarts: Vec<f64> = bonsai.iter().map(|rates| rates.restart / 1e6).collect();
    let found = Interval::of(&restarts);
    row(
        format!(
            "restart of bonsai after a kill, million pairs a second on one thread; at least {}",
            RESTART / 1e6
        ),
        found,
        Holds::Judged(found.mean * 1e6 >= RESTART),
    );
    Ok(Outcome { rows, plots: Vec::new() })
}

fn dram(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let [ours, tree, index] = dram_told(settings)?;
    let row = |what: String, ours: f64, holds: Holds| Row {
        id: "aim",
        what,
        setting: format!(
            "{} pairs of 8 + 8 B, as the stores tell it; in the process's memory",
            super::pairs(settings)
        ),
        paper: Figure::None,
        ours: ours.into(),
        kind: Kind::Deterministic,
        holds,
    };
    Ok(vec![
        row(
            format!("DRAM: bonsai / hetermm with btree, a quarter of the records counted; at most {DRAM}"),
            ours / tree,
            Holds::Judged(ours / tree <= DRAM),
        ),
        row(
            "DRAM: bonsai / the tree of hetermm alone".into(),
            ours / index,
            Holds::NotJudged("the aim is of all that the store has".into()),
        ),
    ])
}
