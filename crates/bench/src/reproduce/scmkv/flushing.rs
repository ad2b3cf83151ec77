//! S1: what flushing costs. Ours can't leave it: what a write flushes under each durability is counted beside the times.

use terrace::engine::Durability;

use super::super::{Figure, Holds, Interval, Kind, Outcome, Row, Settings, each, shared_memory};
use super::bed::{DATA, DISTRIBUTIONS, Data, Job, System, rates, setting, workload};
use super::counted::flushed;
use crate::Distribution;

/// Writes of a burst, for what waiting for each one costs.
const BURST: usize = 16;
/// Skewed writes are as fast as uniform ones if they have this much of their throughput.
const AS_FAST: f64 = 0.9;
/// Records whose flushes are counted.
const COUNTED: u32 = 100_000;

const SAME: &str = "ours flushes the same whatever the durability (crates/space-scm-log/PAPER.md): a group of the log is one run of \
                    non-temporal stores and one fence in any case";

/// The paper's cost, percent.
fn paper(data: Data, distribution: Distribution) -> Figure {
    match (data.name, workload(distribution)) {
        ("small", "skewed") => 40.0.into(),
        ("large", "skewed") => 20.0.into(),
        _ => Figure::None,
    }
}

/// S1.
pub(super) fn figure_8(settings: &Settings) -> anyhow::Result<Outcome> {
    let mut rows = timed(settings)?;
    rows.extend(counted(settings)?);
    Ok(Outcome { rows, plots: Vec::new() })
}

fn timed(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    if let Some(reason) = shared_memory::missing() {
        let what = "writes, throughput lost by flushing, %";
        let paper = "40 (small) 20 (large), skewed";
        return Ok(vec![Row::not_measured("S1", what, paper, Kind::Emulated, reason)]);
    }
    let (sync, none) = (System::Scm(Durability::Sync), System::Scm(Durability::None));
    let mut jobs = Vec::new();
    for data in DATA {
        for distribution in DISTRIBUTIONS {
            let of = |system| Job::new(system, data, distribution, settings);
            jobs.extend([of(sync), of(none), Job { burst: BURST, ..of(sync) }]);
        }
    }
    let rates = rates("S1", settings, &jobs)?;
    let row = |what: String, paper: Figure, ours: Interval, holds: Holds| Row {
        id: "S1",
        what,
        setting: setting(settings, &DATA),
        paper,
        ours: ours.into(),
        kind: Kind::Emulated,
        holds,
    };
    // What is lost of `to` by `from`.
    let lost = |from: &[f64], to: &[f64]| {
        let left: Vec<f64> = from.iter().zip(to).map(|(from, to)| 100.0 * (1.0 - from / to)).collect();
        Interval::of(&left)
    };
    let mut rows = Vec::new();
    for (job, runs) in jobs.chunks(3).zip(rates.chunks(3)) {
        let (name, workload) = (job[0].data.name, workload(job[0].distribution));
        rows.push(row(
            format!("{name}, {workload} writes: throughput lost, sync against none, %"),
            paper(job[0].data, job[0].distribution),
            lost(&runs[0], &runs[1]),
            Holds::NotJudged(SAME.into()),
        ));
        rows.push(row(
            format!(
                "{name}, {workload} writes: throughput lost, a burst for each against one for {BURST}, %"
            ),
            Figure::None,
            lost(&runs[0], &runs[2]),
            Holds::NotJudged("the paper has no bursts; a batch saves more than fences".into()),
        ));
    }
    // Jobs of a kind of data: uniform, then skewed ones.
    for (data, runs) in DATA.into_iter().zip(rates.chunks(6)) {
        let ours = Interval::of_ratios(&runs[3], &runs[0]);
        rows.push(row(
            format!("{}, sync: skewed / uniform writes, throughput; as fast: at least {AS_FAST}", data.name),
            "about 1".into(),
            ours,
            Holds::Judged(ours.mean >= AS_FAST),
        ));
    }
    Ok(rows)
}

fn counted(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    const MODES: [Durability; 3] =
        [Durability::Sync, Durability::Batch(std::time::Duration::from_millis(100)), Durability::None];
    let records = u64::from(settings.records(COUNTED));
    let items: Vec<(Data, Durability)> =
        DATA.into_iter().flat_map(|data| MODES.map(|mode| (data, mode))).collect();
    let found = each("S1", settings.threads, &items, |(data, mode)| {
        flushed(*data, Distribution::Uniform, *mode, (records, settings.seed))
    })?;
    let mut rows = Vec::new();
    for (data, found) in DATA.into_iter().zip(found.chunks(MODES.len())) {
        let shown = |of: fn(&super::counted::Flushed) -> f64| {
            found.iter().map(|found| format!("{:.3}", of(found))).collect::<Vec<_>>().join(" ")
        };
        let fences = shown(|found| found.fences);
        let lines = shown(|found| found.lines);
        for (what, ours) in [("fences", fences), ("cache lines flushed", lines)] {
            rows.push(Row {
                id: "S1",
                what: format!("{}, {what} a write: {}", data.name, MODES.map(|mode| mode.to_string()).join(", ")),
                setting: format!(
                    "{records} records, as many uniform writes, one a burst, rounds of the table among them; in the process's memory, a clock \
                     that stands still"
                ),
                paper: "0 without flushing".into(),
                ours: ours.into(),
                kind: Kind::Deterministic,
                holds: Holds::NotJudged(SAME.into()),
            });
        }
    }
    Ok(rows)
}
