//! T6 from the engine: how often background steps stand in each other's way, with one partition and with one for each thread.

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
/// Background threads, and partitions.
const SETTINGS: [(usize, usize); 3] = [(1, 1), (2, 1), (2, 2)];

const FEW_CORES: &str =
    "not judged: on so few processors, one of them the client's, nothing can grow with the workers";

pub(super) fn rows(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let records = match bed::records(settings, RECORDS, (Drive::Timed, hits::SHARES)) {
        Ok(records) => records,
        Err(reason) => {
            let what = "engine, partitions / one, throughput, WH";
            rows.push(Row::not_measured("T6", what, Figure::None, Kind::Emulated, reason));
            return Ok(rows);
        }
    };
    let mut items = Vec::new();
    for seed in settings.seeds().take(settings.runs.min(RUNS_MAX) as usize) {
        items.extend(SETTINGS.map(|(background_threads, partitions)| Plan {
            drive: Drive::Timed,
            choices: Choices { partitions, ..Choices::default() },
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
    let of = |setting: usize, figure: fn(&Counted) -> f64| -> Vec<f64> {
        all.iter().skip(setting).step_by(SETTINGS.len()).map(figure).collect()
    };
    let setting = format!(
        "engine, WH, {DISTRIBUTION}, {records} records, DRAM for 8% and PMem for 64% of them, profile {PROFILE}; clock/beats; one client, batches of 16, SSD: where temporary files are"
    );
    let mut row = |what: String, paper: Figure, ours: Interval| {
        let (setting, kind) = (setting.clone(), Kind::Emulated);
        let holds = Holds::NotJudged(FEW_CORES.into());
        rows.push(Row { id: "T6", what, setting, paper, ours: ours.into(), kind, holds });
    };
    let rate = |run: &Counted| run.rate;
    row(
        "two background threads on two partitions / on one, throughput".into(),
        "above 1, growing with the workers".into(),
        Interval::of_ratios(&of(2, rate), &of(1, rate)),
    );
    row(
        "two background threads on one partition / one, throughput".into(),
        Figure::None,
        Interval::of_ratios(&of(1, rate), &of(0, rate)),
    );
    for (at, (threads, partitions)) in SETTINGS.into_iter().enumerate() {
        let who = match (threads, partitions) {
            (1, _) => "one background thread".to_owned(),
            (_, 1) => format!("{threads} of them, one partition"),
            _ => format!("{threads} of them, {partitions} partitions"),
        };
        let mut count = |what: &str, figure: fn(&Counted) -> f64| {
            row(format!("{who}: {what}"), Figure::None, Interval::of(&of(at, figure)));
        };
        count("steps that found nothing free, and went on, an access", |run| run.steps_refused);
        if partitions > 1 {
            count("steps beside another one, an access", |run| run.steps_aside);
            count("slots taken from another partition than the session's, an access", |run| run.slots_stolen);
        }
        count("waits to land a page, an access", |run| run.landings_delayed);
        count("time of those waits, % of all", |run| run.waited);
    }
    Ok(rows)
}
