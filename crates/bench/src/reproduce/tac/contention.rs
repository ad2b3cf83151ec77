//! T6 from the engine: how often its background steps stand in each other's way. There is one partition: one step at a time.

use terrace_space_slab::Choices;

use super::super::{Figure, Holds, Interval, Kind, Row, Settings, each};
use super::bed::{self, Counted, Drive, PROFILE, Plan};
use super::hits;
use crate::Distribution;

/// Few, so that there is time for several runs.
const RECORDS: u32 = 40_000;
/// Runs, at most.
const RUNS_MAX: u32 = 3;
/// Accesses before those that are timed, and these, in numbers of records.
const WARM: f64 = 1.0;
const TIMED: f64 = 2.0;
const DISTRIBUTION: Distribution = Distribution::Ycsb;
/// Background threads.
const WORKERS: [usize; 2] = [1, 2];

const ONE_LOCK: &str = "not judged: background steps have one lock instead of partitions, and two cores show no scaling either way";
const NO_PARTITIONS: &str =
    "not measured: the engine has no partitions, its background steps run one at a time";

pub(super) fn rows(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let mut rows = vec![Row::not_measured(
        "T6",
        "128 partitions / 1, throughput, WH, many workers",
        "above 1, growing with the workers",
        Kind::Measured,
        NO_PARTITIONS,
    )];
    let records = match bed::records(settings, RECORDS, (Drive::Timed, hits::SHARES)) {
        Ok(records) => records,
        Err(reason) => {
            let what = "engine, one partition: waits for its lock";
            rows.push(Row::not_measured("T6", what, Figure::None, Kind::Emulated, reason));
            return Ok(rows);
        }
    };
    let mut items = Vec::new();
    for seed in settings.seeds().take(settings.runs.min(RUNS_MAX) as usize) {
        items.extend(WORKERS.map(|background_threads| Plan {
            drive: Drive::Timed,
            choices: Choices::default(),
            distribution: DISTRIBUTION,
            records,
            shares: hits::SHARES,
            sets_percent: 50.0,
            warm: WARM,
            measured: TIMED,
            shifted: 0.0,
            seed,
            background_threads,
        }));
    }
    let all = each("T6", 1, &items, bed::run)?;
    let of = |workers: usize, figure: fn(&Counted) -> f64| -> Vec<f64> {
        all.iter().skip(workers).step_by(WORKERS.len()).map(figure).collect()
    };
    let setting = format!(
        "engine, one partition, WH, {DISTRIBUTION}, {records} records, DRAM for 8% and PMem for 64% of them, profile {PROFILE}; clock/beats; one client, batches of 16, SSD: where temporary files are"
    );
    let mut row = |what: String, ours: Interval| {
        let (setting, paper, kind) = (setting.clone(), Figure::None, Kind::Emulated);
        let holds = Holds::NotJudged(ONE_LOCK.into());
        rows.push(Row { id: "T6", what, setting, paper, ours: ours.into(), kind, holds });
    };
    let rate = |run: &Counted| run.rate;
    row("two background threads / one, throughput".into(), Interval::of_ratios(&of(1, rate), &of(0, rate)));
    for (at, workers) in WORKERS.into_iter().enumerate() {
        let threads =
            if workers == 1 { "one background thread".into() } else { format!("{workers} of them") };
        row(
            format!("{threads}: steps that found the lock taken, and went on, an access"),
            Interval::of(&of(at, |run| run.steps_refused)),
        );
        row(
            format!("{threads}: waits for the lock, to land a page, an access"),
            Interval::of(&of(at, |run| run.landings_delayed)),
        );
        row(format!("{threads}: time of those waits, % of all"), Interval::of(&of(at, |run| run.waited)));
    }
    Ok(rows)
}
