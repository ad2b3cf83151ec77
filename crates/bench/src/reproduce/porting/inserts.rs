//! P1, P2 and P3: a store is filled, record by record, in runs that alternate.

use hdrhistogram::Histogram;

use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, each, shared_memory};
use super::bed::{Bed, Engine, PROFILE};
use super::redis;

const RECORDS: u32 = 300_000;
/// Runs of each engine, at most.
const RUNS_MAX: u32 = 3;
/// Latencies in nanoseconds, to three digits; longer ones count as so long.
pub(super) const NS_MAX: u64 = 60_000_000_000;
pub(super) const DIGITS: u8 = 3;
/// A tail of ours is short if it is at most so many times the median.
const SHORT_TAIL: f64 = 20.0;
/// Table 4's columns.
pub(super) const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// What a run gave.
struct Filled {
    /// Records a second.
    rate: f64,
    latencies: Histogram<u64>,
}

/// The runs of each engine, in the order of [`Engine::ALL`].
fn fill(id: &str, settings: &Settings) -> anyhow::Result<[Vec<Filled>; Engine::ALL.len()]> {
    let records = u64::from(settings.records(RECORDS));
    let items: Vec<Engine> = (0..settings.runs.min(RUNS_MAX)).flat_map(|_| Engine::ALL).collect();
    // What is timed has the machine for itself.
    let filled = each(id, 1, &items, |engine| {
        let mut latencies = Histogram::new_with_bounds(1, NS_MAX, DIGITS)?;
        let mut bed = Bed::new(*engine, records, PROFILE)?;
        let took = bed.insert_timed(records, |took| {
            latencies.saturating_record((took.as_nanos() as u64).max(1));
        })?;
        Ok(Filled { rate: records as f64 / took.as_secs_f64(), latencies })
    })?;
    let mut all: [Vec<Filled>; Engine::ALL.len()] = std::array::from_fn(|_| Vec::new());
    filled.into_iter().enumerate().for_each(|(i, run)| all[i % Engine::ALL.len()].push(run));
    Ok(all)
}

fn rates(runs: &[Filled]) -> Vec<f64> {
    runs.iter().map(|run| run.rate).collect()
}

fn setting(settings: &Settings) -> String {
    let records = settings.records(RECORDS);
    format!(
        "inserts of {records} records, keys 4 to 11 B, values 5 to 13 B; one client that waits for each answer; sync; profile {PROFILE}"
    )
}

fn row(id: &'static str, settings: &Settings, what: &str, paper: impl Into<Figure>, ours: Interval) -> Row {
    Row {
        id,
        what: what.into(),
        setting: setting(settings),
        paper: paper.into(),
        ours: ours.into(),
        kind: Kind::Emulated,
        holds: Holds::NotJudged("the paper has no figure".into()),
    }
}

/// P1.
pub(super) fn figure_7(settings: &Settings) -> anyhow::Result<Outcome> {
    const WHAT: &str = "heap-hybrid / heap-persistent, throughput (Memcached, slabs)";
    const REDIS: &str = "heap-hybrid --heap object / heap-persistent, throughput (Redis, one allocation a record; the second has slabs)";
    if let Some(outcome) = shared_memory::outcome_without("P1", WHAT, 1.45, Kind::Emulated) {
        return Ok(outcome);
    }
    let [dram, hybrid, objects, persistent] = fill("P1", settings)?;
    let mean_ns = |runs: &[Filled]| runs.iter().map(|run| run.latencies.mean()).collect::<Vec<_>>();
    let faster = Interval::of_ratios(&rates(&hybrid), &rates(&persistent));
    let faster_objects = Interval::of_ratios(&rates(&objects), &rates(&persistent));
    let quicker = Interval::of_ratios(&mean_ns(&persistent), &mean_ns(&hybrid));
    let rows = vec![
        Row { holds: Holds::Judged(faster.mean >= 1.45), ..row("P1", settings, WHAT, 1.45, faster) },
        Row {
            holds: Holds::Judged(quicker.mean >= 7.0),
            ..row("P1", settings, "heap-persistent / heap-hybrid, average latency (Memcached)", 7.0, quicker)
        },
        Row {
            holds: Holds::Judged(faster_objects.mean >= 1.8),
            ..row("P1", settings, REDIS, 1.8, faster_objects)
        },
        row(
            "P1",
            settings,
            "heap-persistent / dram, throughput",
            Figure::None,
            Interval::of_ratios(&rates(&persistent), &rates(&dram)),
        ),
    ];
    Ok(Outcome { rows, plots: Vec::new() })
}

/// P2.
pub(super) fn section_6_1(settings: &Settings) -> anyhow::Result<Outcome> {
    const WHAT: &str = "heap-hybrid / dram, throughput (Memcached)";
    const PAPER: &str = "0.82";
    if let Some(outcome) = shared_memory::outcome_without("P2", WHAT, PAPER, Kind::Emulated) {
        return Ok(outcome);
    }
    let [dram, hybrid, ..] = fill("P2", settings)?;
    let ours = Interval::of_ratios(&rates(&hybrid), &rates(&dram));
    let row = Row { holds: Holds::Judged(ours.mean >= 0.82), ..row("P2", settings, WHAT, PAPER, ours) };
    Ok(Outcome { rows: vec![row], plots: Vec::new() })
}

fn at(runs: &[Filled], percentile: f64) -> anyhow::Result<u64> {
    let mut all = Histogram::<u64>::new_with_bounds(1, NS_MAX, DIGITS)?;
    runs.iter().try_for_each(|run| all.add(&run.latencies))?;
    Ok(all.value_at_percentile(percentile))
}

/// P3.
pub(super) fn table_4(settings: &Settings) -> anyhow::Result<Outcome> {
    // The columns of table 4 for the base, hybrid and fully persistent Redis, in microseconds.
    const PAPER: [&str; 3] = ["1 1 2 3 16", "6 8 10 18 528", "8 32 41 64 624"];
    let papers = [Some(PAPER[0]), None, Some(PAPER[1]), Some(PAPER[2])];
    if let Some(outcome) =
        shared_memory::outcome_without("P3", "percentiles of inserts", PAPER[2], Kind::Emulated)
    {
        return Ok(outcome);
    }
    let all = fill("P3", settings)?;
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for ((engine, runs), paper) in Engine::ALL.into_iter().zip(&all).zip(papers) {
        let us = |percentile| anyhow::Ok(at(runs, percentile)? as f64 / 1000.0);
        let found: Vec<String> = PERCENTILES
            .into_iter()
            .map(|percentile| Ok(format!("{:.2}", us(percentile)?)))
            .collect::<anyhow::Result<_>>()?;
        let what = format!("{}, percentiles 50, 90, 99, 99.9, 99.99 in us", engine.name());
        rows.push(Row {
            ours: found.join(" ").into(),
            holds: Holds::NotJudged("times depend on the machine".into()),
            ..row("P3", settings, &what, paper.map_or(Figure::None, Figure::from), Interval::of(&[0.0]))
        });
        if engine != Engine::Dram {
            let paper = match engine {
                Engine::Objects => Figure::Number(88.0),
                Engine::Persistent => Figure::Number(78.0),
                Engine::Hybrid | Engine::Dram => Figure::None,
            };
            let tails: Vec<f64> = runs
                .iter()
                .map(|run| {
                    let at = |percentile| run.latencies.value_at_percentile(percentile) as f64;
                    at(99.99) / at(50.0)
                })
                .collect();
            let ours = Interval::of(&tails);
            let what = format!("{}, p99.99 / p50; short: at most {SHORT_TAIL}", engine.name());
            rows.push(Row {
                holds: Holds::Judged(ours.mean <= SHORT_TAIL),
                ..row("P3", settings, &what, paper, ours)
            });
        }
        let points = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];
        let points: Vec<(f64, Interval)> = points
            .into_iter()
            .map(|percentile| Ok((us(percentile)?, Interval::of(&[percentile]))))
            .collect::<anyhow::Result<_>>()?;
        series.push((engine.name().to_owned(), points));
    }
    rows.extend(redis::percentiles(settings)?);
    let plot = Plot {
        file: "P3-latencies".into(),
        title: format!("Inserts that took no longer, {PROFILE} (emulated)"),
        y: "%".into(),
        shape: Shape::Lines { x: "us".into(), series },
    };
    Ok(Outcome { rows, plots: vec![plot] })
}
