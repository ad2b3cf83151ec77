//! P6: throughput while the table grows, in windows of so many inserts.

use super::super::{
    Figure, Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, each, median, shared_memory,
};
use super::bed::{Bed, Engine, PROFILE};

/// The paper's first writes.
const RECORDS: u32 = 100_000;
/// Windows that they are looked at in.
const WINDOWS: usize = 50;
/// Runs of each engine: of each window the fastest run counts, for what the machine did besides is not the table's.
const RUNS: usize = 5;
/// A dip of ours is small if it is at most so deep.
const SMALL: f64 = 15.0;

const KEPT: [Engine; 2] = [Engine::Hybrid, Engine::Persistent];

/// What a run found in each window.
struct Windows {
    /// Inserts a second.
    rates: Vec<f64>,
    /// Bytes written to PMem, and fences, an insert.
    written: Vec<f64>,
    fences: Vec<f64>,
}

fn run(engine: Engine, records: u64) -> anyhow::Result<Windows> {
    let mut bed = Bed::new(engine, records, PROFILE)?;
    let window = (records / WINDOWS as u64).max(1);
    let mut found = Windows { rates: Vec::new(), written: Vec::new(), fences: Vec::new() };
    let counted = |bed: &Bed| {
        let stats = bed.stats();
        let media = stats.tiers.iter().find(|tier| tier.tier == "pmem").map(|tier| tier.media);
        media.map_or((0, 0), |media| (media.write_bytes, media.fences))
    };
    let mut record = 0;
    while record + window <= records {
        let before = counted(&bed);
        let start = std::time::Instant::now();
        for one in record..record + window {
            bed.insert(one)?;
        }
        let took = start.elapsed();
        let after = counted(&bed);
        let each = |before: u64, after: u64| (after - before) as f64 / window as f64;
        found.rates.push(window as f64 / took.as_secs_f64());
        found.written.push(each(before.0, after.0));
        found.fences.push(each(before.1, after.1));
        record += window;
    }
    // In the first one the store's memory is touched for the first time.
    for list in [&mut found.rates, &mut found.written, &mut found.fences] {
        list.remove(0);
    }
    Ok(found)
}

/// How far the worst window is below the median, in percent of that.
fn dip(rates: &[f64]) -> f64 {
    let worst = rates.iter().copied().fold(f64::MAX, f64::min);
    100.0 * (1.0 - worst / median(rates))
}

/// P6.
pub(super) fn figures_8_and_9(settings: &Settings) -> anyhow::Result<Outcome> {
    if let Some(outcome) = shared_memory::outcome_without(
        "P6",
        "heap-persistent, dip of the throughput while the table grows, %",
        "73 (Redis) 19 (Memcached)",
        Kind::Emulated,
    ) {
        return Ok(outcome);
    }
    let records = u64::from(settings.records(RECORDS));
    let runs = if settings.runs == 1 { 1 } else { RUNS };
    let items: Vec<Engine> = (0..runs).flat_map(|_| KEPT).collect();
    let all = each("P6", 1, &items, |engine| run(*engine, records))?;
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for (i, (engine, paper)) in
        KEPT.into_iter().zip(["15 (Redis) 7 (Memcached)", "73 (Redis) 19 (Memcached)"]).enumerate()
    {
        let of: Vec<&Windows> = all.iter().skip(i).step_by(KEPT.len()).collect();
        let count = of[0].rates.len();
        let fastest: Vec<f64> =
            (0..count).map(|at| of.iter().map(|run| run.rates[at]).fold(0.0, f64::max)).collect();
        let row = |what: &str, paper: Figure, ours: f64, holds: Holds| Row {
            id: "P6",
            what: format!("{}, {what}", engine.name()),
            setting: format!(
                "{records} inserts in {WINDOWS} windows, each the fastest of {runs} runs; one client that waits for each answer; sync; \
                 profile {PROFILE}"
            ),
            paper,
            ours: ours.into(),
            kind: Kind::Emulated,
            holds,
        };
        let found = dip(&fastest);
        rows.push(row(
            &format!("slowest window below the median, %; small: at most {SMALL}"),
            paper.into(),
            found,
            Holds::Judged(found <= SMALL),
        ));
        let unstated = || Holds::NotJudged("the paper has no figure".into());
        let most = |list: &[f64]| list.iter().copied().fold(0.0, f64::max) / median(list);
        let lists: [(&str, &Vec<f64>); 2] =
            [("bytes written to PMem", &of[0].written), ("fences", &of[0].fences)];
        for (what, list) in lists {
            let what = format!("{what} an insert, the window with most / the median");
            rows.push(row(&what, Figure::None, most(list), unstated()));
        }
        let window = records as f64 / WINDOWS as f64;
        let points = fastest
            .iter()
            .enumerate()
            .map(|(at, rate)| ((at + 2) as f64 * window, Interval::of(&[rate / 1000.0])))
            .collect();
        series.push((engine.name().to_owned(), points));
    }
    let plot = Plot {
        file: "P6-growth".into(),
        title: format!("Throughput of inserts while the table grows, {PROFILE} (emulated)"),
        y: "1000 inserts a second".into(),
        shape: Shape::Lines { x: "records".into(), series },
    };
    Ok(Outcome { rows, plots: vec![plot] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dip_is_told_in_percent_of_the_median() {
        assert!((dip(&[10.0, 10.0, 4.0, 10.0, 11.0]) - 60.0).abs() < 1e-9);
        assert!(dip(&[10.0; 5]).abs() < 1e-9);
    }
}
