//! T5: eviction alone, one tier over the SSD, read-only, simulated; what the engine does is in `eviction_engine.rs`.

use std::fmt::Write;

use super::super::{Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, each};
use super::{DISTRIBUTIONS, eviction_engine, file_part};
use crate::Distribution;
use crate::trace::{self, Setup, Shares};

/// Fewer than for the hits: policies differ at every number of records, and these are many simulations.
const RECORDS: u32 = 50_000;
/// Sizes of the cache, percent of the records.
const SIZES: [f64; 6] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0];

/// Insert-all, then admit-hot, then the default's gate. ALRU keeps no counts, so nothing can be hot under it.
const SETUPS: [&str; 16] = [
    "tac/lru/all",
    "tac/alru/all",
    "tac/sampled-lru/all",
    "tac/lazy-lru-paper/all",
    "tac/lazy-lru/all",
    "tac/sieve/all",
    "tac/s3-fifo/all",
    "tac/clock/all",
    "tac/lru/hot",
    "tac/sampled-lru/hot",
    "tac/lazy-lru-paper/hot",
    "tac/lazy-lru/hot",
    "tac/sieve/hot",
    "tac/s3-fifo/hot",
    "tac/clock/hot",
    "tac/clock/beats",
];
/// Whom the paper compares Lazy LRU with.
const RIVALS: [&str; 3] = ["tac/lru/all", "tac/alru/all", "tac/sampled-lru/all"];
/// Lazy LRU as printed and as corrected, with every miss inserted and with the hot ones.
const LAZY: [&str; 4] =
    ["tac/lazy-lru-paper/all", "tac/lazy-lru-paper/hot", "tac/lazy-lru/all", "tac/lazy-lru/hot"];
/// Whose moves are told.
const MOVERS: [&str; 5] =
    ["tac/lru/all", "tac/s3-fifo/all", "tac/lazy-lru-paper/all", "tac/lazy-lru-paper/hot", "tac/clock/beats"];
/// What is drawn.
const DRAWN: [&str; 8] = [
    "tac/lru/all",
    "tac/alru/all",
    "tac/sampled-lru/all",
    "tac/lazy-lru-paper/all",
    "tac/lazy-lru-paper/hot",
    "tac/sieve/all",
    "tac/s3-fifo/all",
    "tac/clock/beats",
];

/// Policy and gate: there is one placement only.
fn short(setup: &str) -> &str {
    setup.strip_prefix("tac/").unwrap_or(setup)
}

/// A figure of a simulation.
type Read = fn(&trace::Row) -> f64;

/// The runs of one distribution: for each seed all rows, sizes first.
struct Runs(Vec<Vec<trace::Row>>);

impl Runs {
    /// A figure of each run.
    fn of(&self, setup: &str, size: usize, figure: impl Fn(&trace::Row) -> f64) -> Vec<f64> {
        let Some(at) = SETUPS.iter().position(|name| *name == setup) else { return Vec::new() };
        self.0.iter().filter_map(|rows| rows.get(size * SETUPS.len() + at)).map(figure).collect()
    }
    fn hits(&self, setup: &str, size: usize) -> Vec<f64> {
        self.of(setup, size, |row| row.dram_hits)
    }
    /// How far a setup is ahead of the best rival.
    fn lead(&self, setup: &str, size: usize) -> Interval {
        let rivals = RIVALS.map(|rival| self.hits(rival, size));
        let best: Vec<f64> = (0..self.0.len())
            .map(|run| rivals.iter().map(|hits| hits[run]).fold(f64::MIN, f64::max))
            .collect();
        Interval::of_differences(&self.hits(setup, size), &best)
    }
    fn best(&self, size: usize) -> (&'static str, f64) {
        let mean = |setup: &&'static str| (*setup, Interval::of(&self.hits(setup, size)).mean);
        SETUPS.iter().map(mean).fold(("", f64::MIN), |best, next| if next.1 > best.1 { next } else { best })
    }
}

/// `1%: FIGURE, 2%: FIGURE, ..`
pub(super) fn at_sizes(sizes: &[f64], figure: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for (i, size) in sizes.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{size}%: {}", if i > 0 { ", " } else { "" }, figure(i));
    }
    text
}

pub(super) fn with_interval(interval: Interval, digits: usize) -> String {
    match interval.half {
        Some(half) => format!("{:.digits$} ± {half:.digits$}", interval.mean),
        None => format!("{:.digits$}", interval.mean),
    }
}

/// T5.
pub(super) fn figure_12(settings: &Settings) -> anyhow::Result<Outcome> {
    let setups = SETUPS.iter().map(|name| name.parse::<Setup>().map_err(anyhow::Error::msg));
    let setups = setups.collect::<anyhow::Result<Vec<_>>>()?;
    let items: Vec<(Distribution, u64)> =
        DISTRIBUTIONS.iter().flat_map(|&d| settings.seeds().map(move |seed| (d, seed))).collect();
    let rows = each("T5", settings.threads, &items, |&(distribution, seed)| {
        trace::run_quietly(&trace::Options {
            setups: setups.clone(),
            records: settings.records(RECORDS),
            distributions: vec![distribution],
            sets_percent: 0.0,
            shares: SIZES.map(|dram| Shares { dram, pmem: 0.0 }).to_vec(),
            shifted: 0.0,
            seed,
            ..trace::Options::default()
        })
    })?;
    let (mut rows, mut outcome) = (rows.into_iter(), Outcome::default());
    for distribution in DISTRIBUTIONS {
        let runs = Runs(rows.by_ref().take(settings.runs as usize).collect());
        let setting = format!("RO, {distribution}, {} records", settings.records(RECORDS));
        let from = outcome.rows.len();
        claims(&runs, &mut outcome.rows);
        figures(&runs, &mut outcome.rows);
        outcome.rows[from..].iter_mut().for_each(|row| row.setting.clone_from(&setting));
        outcome.plots.push(plot(distribution, &runs));
    }
    outcome.rows.extend(eviction_engine::counted(settings)?);
    outcome.rows.extend(eviction_engine::timed(settings)?);
    Ok(outcome)
}

fn row(what: String, paper: &str, ours: String, holds: Holds) -> Row {
    let paper = if paper.is_empty() { super::super::Figure::None } else { paper.into() };
    Row { id: "T5", what, setting: String::new(), paper, ours: ours.into(), kind: Kind::Simulated, holds }
}

fn claims(runs: &Runs, rows: &mut Vec<Row>) {
    for setup in LAZY {
        let leads: Vec<Interval> = (0..SIZES.len()).map(|size| runs.lead(setup, size)).collect();
        rows.push(row(
            format!("{} less the best of LRU, ALRU and sampled LRU: hits, points", short(setup)),
            "above 0 at every size",
            at_sizes(&SIZES, |size| with_interval(leads[size], 1)),
            Holds::Judged(leads.iter().all(|lead| lead.low() > 0.0)),
        ));
    }
}

fn figures(runs: &Runs, rows: &mut Vec<Row>) {
    let drawn_only = || Holds::NotJudged("the paper only draws it".into());
    rows.push(row(
        "best policy of all".to_owned(),
        "Lazy LRU at every size",
        at_sizes(&SIZES, |size| {
            let (setup, hits) = runs.best(size);
            format!("{} {hits:.1}", short(setup))
        }),
        Holds::Judged((0..SIZES.len()).all(|size| LAZY.contains(&runs.best(size).0))),
    ));
    for setup in SETUPS {
        rows.push(row(
            format!("{}: hits, % of gets", short(setup)),
            "",
            at_sizes(&SIZES, |size| with_interval(Interval::of(&runs.hits(setup, size)), 1)),
            drawn_only(),
        ));
    }
    for setup in MOVERS {
        let moves = |size| Interval::of(&runs.of(setup, size, |row| row.moves_up));
        rows.push(row(
            format!("{}: records brought in, an access", short(setup)),
            "",
            at_sizes(&SIZES, |size| format!("{:.4}", moves(size).mean)),
            Holds::NotJudged("the paper has no figure".into()),
        ));
    }
    let bounds: [(&str, Read); 2] =
        [("static optimum", |row| row.optimum_dram), ("Belady's bound", |row| row.belady_dram)];
    for (name, figure) in bounds {
        rows.push(row(
            format!("{name}: hits, % of gets"),
            "",
            at_sizes(&SIZES, |size| format!("{:.1}", Interval::of(&runs.of(SETUPS[0], size, figure)).mean)),
            Holds::NotJudged("a bound, not in the paper".into()),
        ));
    }
}

fn plot(distribution: Distribution, runs: &Runs) -> Plot {
    let points = |setup: &str| {
        SIZES.iter().enumerate().map(|(i, &size)| (size, Interval::of(&runs.hits(setup, i)))).collect()
    };
    Plot {
        file: format!("T5-figure12a-{}", file_part(distribution)),
        title: format!("Hits by cache size, eviction alone, read-only, {distribution}"),
        y: "hits, % of gets".into(),
        shape: Shape::Lines {
            x: "cache, % of the records".into(),
            series: DRAWN.iter().map(|setup| (short(setup).to_owned(), points(setup))).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_named_is_simulated() {
        for setup in SETUPS {
            assert!(setup.parse::<Setup>().is_ok(), "{setup}");
        }
        for setup in RIVALS.iter().chain(&LAZY).chain(&MOVERS).chain(&DRAWN) {
            assert!(SETUPS.contains(setup), "{setup}");
        }
    }
}
