//! B4: what it is worth to store many records of the log together. Ours does so with those of a batch.

use terrace_media::CountersSnapshot;

use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, each, shared_memory};
use super::bed::{Job, OPTANE, Phase, of_phase, rates};
use super::counted::{Counted, Tools};
use super::pairs;
use super::systems::System;
use crate::distribution::{Distribution, Generator};
use crate::rng::Rng;

/// Records that are stored together: 64 of them are about the paper's 2 KiB.
const PACKED: [usize; 4] = [1, 4, 16, 64];
const MOST: usize = 64;
/// Of so many pairs one is there where writes are counted.
const COUNTED_PART: u64 = 10;

type Count = fn(&CountersSnapshot) -> u64;

fn count(batch: usize, pairs: u64, seed: u64) -> anyhow::Result<CountersSnapshot> {
    let mut tools = Tools::new(seed)?;
    let mut store = Counted::new(System::Bonsai, pairs, 2 * pairs, seed)?;
    store.load(&mut tools)?;
    let generator = Generator::new(Distribution::Uniform, pairs, seed, 0, 1);
    let mut rng = Rng::new(seed, 1);
    let took = store.writes(&mut tools, batch, MOST, (0..pairs).map(|_| generator.draw(&mut rng)))?;
    store.end()?;
    Ok(took)
}

/// B4.
pub(super) fn figure_11a(settings: &Settings) -> anyhow::Result<Outcome> {
    let mut outcome = timed(settings)?;
    outcome.rows.extend(counted(settings)?);
    Ok(outcome)
}

fn timed(settings: &Settings) -> anyhow::Result<Outcome> {
    let what = format!("updates, {MOST} records of the log together / each by itself, throughput; up to");
    if let Some(outcome) = shared_memory::outcome_without("B4", what.as_str(), 5.15, Kind::Emulated) {
        return Ok(outcome);
    }
    let one = Job::new(System::Bonsai, OPTANE, &[Phase::Updates], settings);
    let jobs = PACKED.map(|batch| Job { batch, ..one });
    let runs = rates("B4", settings, &jobs)?;
    let rates: Vec<Vec<f64>> = runs.iter().map(|runs| of_phase(runs, 0)).collect();
    let millions = |rates: &[f64]| Interval::of(&rates.iter().map(|rate| rate / 1e6).collect::<Vec<_>>());
    let row = Row {
        id: "B4",
        what,
        setting: format!("{}; batches as said", one.setting()),
        paper: 5.15.into(),
        ours: Interval::of_ratios(&rates[PACKED.len() - 1], &rates[0]).into(),
        kind: Kind::Emulated,
        holds: Holds::NotJudged(
            "the paper packs what waits, with 12 threads that write and 6 that checkpoint; ours packs a batch, which saves more than bursts".into(),
        ),
    };
    let points = PACKED.iter().zip(&rates).map(|(batch, rates)| (*batch as f64, millions(rates))).collect();
    let plot = Plot {
        file: "B4-packing".into(),
        title: format!("Updates of bonsai, profile {OPTANE} (emulated)"),
        y: "million a second".into(),
        shape: Shape::Lines {
            x: "records stored together".into(),
            series: vec![("bonsai, sync".into(), points)],
        },
    };
    Ok(Outcome { rows: vec![row], plots: vec![plot] })
}

fn counted(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let pairs = (pairs(settings) / COUNTED_PART).max(1000);
    let found = each("B4", settings.threads, &PACKED, |batch| count(*batch, pairs, settings.seed))?;
    let shown = |of: Count| {
        let each = found.iter().map(|took| format!("{:.3}", of(took) as f64 / pairs as f64));
        Figure::Text(each.collect::<Vec<_>>().join(" "))
    };
    let together = PACKED.map(|batch| batch.to_string()).join(", ");
    let counts: [(&str, Count); 3] = [
        ("fences", |took| took.fences),
        ("cache lines flushed", |took| took.lines_flushed),
        ("bytes written", |took| took.write_bytes),
    ];
    let row = |(name, of): (&str, Count)| Row {
        id: "B4",
        what: format!("{name} an update, checkpoints among them, {together} together"),
        setting: format!(
            "{pairs} pairs of 8 + 8 B, as many uniform updates, background work after every {MOST}; in the process's memory, a clock that \
             stands still"
        ),
        paper: Figure::None,
        ours: shown(of),
        kind: Kind::Deterministic,
        holds: Holds::NotJudged("the paper has no figure".into()),
    };
    Ok(counts.map(row).into())
}
