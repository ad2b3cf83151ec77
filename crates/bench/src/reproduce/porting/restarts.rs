//! P4 and P5: a store ends as if it had been killed, and is opened again.

use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, each, shared_memory};
use super::bed::{Bed, Engine, NO_DELAYS};
use super::redis;

/// Keys, from a twentieth of the largest number on.
const RECORDS: u32 = 2_000_000;
const PARTS: [f64; 4] = [0.05, 0.2, 0.5, 1.0];
/// Runs, at most.
const RUNS_MAX: u32 = 3;
/// Records that are stored before a crash, at the largest of four points.
const CRASHED_RECORDS: u32 = 100_000;
/// The paper's crashes, in seconds from the start, of the last of them.
const CRASHES: [f64; 4] = [2.5 / 15.0, 5.0 / 15.0, 10.0 / 15.0, 1.0];

const KEPT: [Engine; 2] = [Engine::Hybrid, Engine::Persistent];

/// P4.
pub(super) fn figures_17_and_18(settings: &Settings) -> anyhow::Result<Outcome> {
    const WHAT: &str = "restart of heap-hybrid / heap-persistent, time to the first get";
    // At 10 million keys.
    const PAPER: f64 = 28.5 / 4.0;
    if let Some(outcome) = shared_memory::outcome_without("P4", WHAT, PAPER, Kind::Measured) {
        return Ok(outcome);
    }
    let sizes = PARTS.map(|part| (f64::from(settings.records(RECORDS)) * part).max(100.0) as u64);
    let runs = settings.runs.min(RUNS_MAX) as usize;
    let items: Vec<(Engine, u64)> =
        sizes.iter().flat_map(|size| KEPT.map(|engine| (engine, *size))).collect();
    // Seconds of each run.
    let seconds = each("P4", 1, &items, |(engine, records)| {
        let mut bed = Bed::new(*engine, *records, NO_DELAYS)?;
        bed.insert_timed(*records, |_| {})?;
        let mut seconds = Vec::with_capacity(runs);
        for _ in 0..runs {
            let (again, took) = bed.restart()?;
            bed = again;
            seconds.push(took.as_secs_f64());
        }
        Ok(seconds)
    })?;
    let of = |engine: usize| -> Vec<(f64, &Vec<f64>)> {
        sizes
            .iter()
            .zip(seconds.iter().skip(engine).step_by(KEPT.len()))
            .map(|(x, y)| (*x as f64, y))
            .collect()
    };
    let (hybrid, persistent) = (of(0), of(1));
    let setting = format!(
        "{} to {} records, killed, the time until a get is answered; in shared memory, no delays; two threads recover heap-hybrid",
        sizes[0], sizes[3]
    );
    let row = |what: String, paper: Figure, ours: Interval, holds: Holds| Row {
        id: "P4",
        what,
        setting: setting.clone(),
        paper,
        ours: ours.into(),
        kind: Kind::Measured,
        holds,
    };
    let mut rows = Vec::new();
    let largest = Interval::of_ratios(hybrid[3].1, persistent[3].1);
    rows.push(row(
        format!("{WHAT}, {} records", sizes[3]),
        PAPER.into(),
        largest,
        Holds::Judged(largest.mean >= PAPER),
    ));
    for ((engine, points), paper) in KEPT.into_iter().zip([&hybrid, &persistent]).zip([28.5, 4.0]) {
        let (most, least) = (Interval::of(points[3].1), Interval::of(points[0].1));
        rows.push(row(
            format!("{}, seconds; the paper's at 10,000,000 records", engine.name()),
            paper.into(),
            most,
            Holds::NotJudged("times depend on the machine and on the number of records".into()),
        ));
        rows.push(row(
            format!("{}, time with 20 times the records / time; a flat line: below 2", engine.name()),
            Figure::None,
            Interval::of(&[most.mean / least.mean]),
            match engine {
                Engine::Persistent => Holds::Judged(most.mean / least.mean < 2.0),
                Engine::Hybrid | Engine::Objects | Engine::Dram => {
                    Holds::NotJudged("it reads every record".into())
                }
            },
        ));
    }
    let line = |points: &[(f64, &Vec<f64>)]| {
        points
            .iter()
            .map(|(x, y)| (*x, Interval::of(&y.iter().map(|y| y * 1000.0).collect::<Vec<_>>())))
            .collect()
    };
    let series = vec![
        (Engine::Hybrid.name().to_owned(), line(&hybrid)),
        (Engine::Persistent.name().to_owned(), line(&persistent)),
    ];
    let plot = Plot {
        file: "P4-restarts".into(),
        title: "From the start to the first get, after a kill".into(),
        y: "ms".into(),
        shape: Shape::Lines { x: "records".into(), series },
    };
    Ok(Outcome { rows, plots: vec![plot] })
}

/// P5.
pub(super) fn section_6_5(settings: &Settings) -> anyhow::Result<Outcome> {
    if let Some(outcome) = shared_memory::outcome_without(
        "P5",
        "records that were answered and are lost",
        "at most 1",
        Kind::Deterministic,
    ) {
        return Ok(outcome);
    }
    let records = f64::from(settings.records(CRASHED_RECORDS));
    let points = CRASHES.map(|part| (records * part) as u64);
    let items: Vec<(Engine, u64)> =
        KEPT.into_iter().flat_map(|engine| points.map(|point| (engine, point))).collect();
    let lost = each("P5", 1, &items, |(engine, records)| {
        let mut bed = Bed::new(*engine, *records, NO_DELAYS)?;
        bed.insert_timed(*records, |_| {})?;
        let (mut bed, _) = bed.restart()?;
        let mut lost = 0;
        for record in 0..*records {
            lost += u64::from(!bed.has(record)?);
        }
        Ok(lost)
    })?;
    let mut rows: Vec<Row> = KEPT
        .into_iter()
        .zip(lost.chunks(points.len()))
        .map(|(engine, lost)| {
            let lost: u64 = lost.iter().sum();
            Row {
                id: "P5",
                what: format!("{}, records that were answered and are lost, in all", engine.name()),
                setting: format!("sync; killed after {points:?} records; all are asked for"),
                paper: "at most 1 a crash".into(),
                ours: (lost as f64).into(),
                kind: Kind::Deterministic,
                holds: Holds::Judged(lost == 0),
            }
        })
        .collect();
    rows.extend(redis::lost(settings)?);
    Ok(Outcome { rows, plots: Vec::new() })
}
