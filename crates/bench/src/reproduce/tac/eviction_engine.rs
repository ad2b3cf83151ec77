//! T5 from the engine: its policies of DRAM under gets alone, beside the trace simulator with the same accesses and as many
//! records in DRAM; and their throughput.

use terrace::Eviction;

use super::super::{Figure, Holds, Interval, Kind, Row, Settings, each};
use super::DISTRIBUTIONS;
use super::caches::{Counted, InMemory, OnDisk};
use super::eviction::{at_sizes, with_interval};
use crate::Distribution;
use crate::trace::accesses::Trace;
use crate::trace::{self, Setup, Shares};

/// Fewer than are simulated: a store takes longer than a simulation.
const RECORDS: u32 = 25_000;
/// Runs, at most.
const RUNS_MAX: u32 = 3;
/// Accesses before those that are counted, and these, in numbers of records.
const WARM: f64 = 3.0;
const COUNTED: f64 = 1.0;
/// DRAM that a store can be opened with holds so many records.
const LEAST_IN_DRAM: f64 = 230.0;
/// Sizes of DRAM, percent of the records.
const SIZES: [f64; 5] = [1.0, 5.0, 10.0, 25.0, 50.0];
/// Points by which engine and simulator may differ.
const POINTS: f64 = 2.0;

/// Policies and gates: insert-all as in the paper's figure, Lazy LRU as TaC has it, and our default.
const CASES: [&str; 9] = [
    "lru/all",
    "alru/all",
    "sampled-lru/all",
    "lazy-lru-paper/all",
    "lazy-lru-paper/hot",
    "lazy-lru/hot",
    "s3-fifo/all",
    "sieve/all",
    "clock/beats",
];
/// Whom the paper compares Lazy LRU with.
const RIVALS: [&str; 3] = ["lru/all", "alru/all", "sampled-lru/all"];
const LAZY: [&str; 3] = ["lazy-lru-paper/all", "lazy-lru-paper/hot", "lazy-lru/hot"];

/// Of records of two kilobytes, so that a per cent of them is a DRAM: where reads are timed.
const TIMED_RECORDS: u32 = 60_000;
const TIMED_WARM: f64 = 0.75;
const TIMED: f64 = 0.25;
const TIMED_SIZES: [f64; 2] = [2.0, 25.0];
const TIMED_CASES: [&str; 5] =
    ["lru/all", "alru/all", "sampled-lru/all", "lazy-lru-paper/all", "clock/beats"];
const TIMED_LAZY: &str = "lazy-lru-paper/all";
/// The least DRAM for records that a store on disk can be opened with.
const TIMED_DRAM_MIN: f64 = 2.2e6;

fn parse(name: &str) -> anyhow::Result<Eviction> {
    name.parse().map_err(anyhow::Error::msg)
}

/// A run of the engine, and what the simulator makes of the same accesses; that of the first seed alone.
struct Run {
    engine: Counted,
    simulated: Option<f64>,
}

/// The runs of one distribution: for each seed all sizes, of each all cases.
struct Runs<'a>(&'a [Vec<Run>]);

impl Runs<'_> {
    fn of(&self, case: &str, size: usize, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        let Some(at) = CASES.iter().position(|name| *name == case) else { return Vec::new() };
        self.0.iter().filter_map(|runs| runs.get(size * CASES.len() + at)).map(figure).collect()
    }
    fn hits(&self, case: &str, size: usize) -> Vec<f64> {
        self.of(case, size, |run| run.engine.hits)
    }
    /// How far a case is ahead of the best rival.
    fn lead(&self, case: &str, size: usize) -> Interval {
        let rivals = RIVALS.map(|rival| self.hits(rival, size));
        let best =
            |run: usize| rivals.iter().filter_map(|hits| hits.get(run)).copied().fold(f64::MIN, f64::max);
        let best: Vec<f64> = (0..self.0.len()).map(best).collect();
        Interval::of_differences(&self.hits(case, size), &best)
    }
    fn best(&self, size: usize) -> (&'static str, f64) {
        let mean = |case: &&'static str| (*case, Interval::of(&self.hits(case, size)).mean);
        CASES.iter().map(mean).fold(("", f64::MIN), |best, next| if next.1 > best.1 { next } else { best })
    }
    /// How far the engine's hits are from the simulator's, in the run that was simulated, too.
    fn less(&self, case: &str, size: usize) -> f64 {
        let less = |run: &Run| run.simulated.map_or(f64::NAN, |simulated| run.engine.hits - simulated);
        self.of(case, size, less).first().copied().unwrap_or(f64::NAN)
    }
}

/// Hits and moves, counted.
pub(super) fn counted(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let records = settings.records(RECORDS);
    if f64::from(records) * SIZES[0] / 100.0 < LEAST_IN_DRAM {
        let reason = format!("not measured: of {records} records {}% is less than a store's DRAM", SIZES[0]);
        let what = "the same from the engine";
        return Ok(vec![Row::not_measured("T5", what, Figure::None, Kind::Deterministic, reason)]);
    }
    let runs = settings.runs.min(RUNS_MAX);
    let items: Vec<(Distribution, u64)> = DISTRIBUTIONS
        .iter()
        .flat_map(|&d| settings.seeds().take(runs as usize).map(move |seed| (d, seed)))
        .collect();
    let all = each("T5 engine", settings.threads, &items, |&(distribution, seed)| {
        run(records, distribution, seed, seed == settings.seed)
    })?;
    let mut rows = Vec::new();
    for (distribution, runs) in DISTRIBUTIONS.into_iter().zip(all.chunks(runs as usize)) {
        let runs = Runs(runs);
        let held = |size| runs.of("clock/beats", size, |run| run.engine.held);
        let setting = format!(
            "engine, RO, {distribution}, {records} records; under clock/beats DRAM held, percent: {}",
            at_sizes(&SIZES, |size| format!("{:.1}", Interval::of(&held(size)).mean))
        );
        let from = rows.len();
        claims(&runs, &mut rows);
        figures(&runs, &mut rows);
        rows[from..].iter_mut().for_each(|row: &mut Row| row.setting.clone_from(&setting));
    }
    Ok(rows)
}

/// All sizes and cases with one seed.
fn run(records: u32, distribution: Distribution, seed: u64, simulates: bool) -> anyhow::Result<Vec<Run>> {
    let lengths = |lengths: f64| (lengths * f64::from(records)) as usize;
    let warm = lengths(WARM);
    let trace = Trace::draw(distribution, records, 0.0, warm + lengths(COUNTED), 0, seed);
    let loaded = InMemory::new(records, seed)?;
    let mut runs = Vec::new();
    for size in SIZES {
        let dram = loaded.dram_for((f64::from(records) * size / 100.0) as u32)?;
        for case in CASES {
            let engine = loaded.count(parse(case)?, dram, &trace, warm)?;
            let simulated = if simulates {
                Some(simulate(records, distribution, seed, case, engine.held)?)
            } else {
                None
            };
            runs.push(Run { engine, simulated });
        }
    }
    Ok(runs)
}

fn simulate(
    records: u32,
    distribution: Distribution,
    seed: u64,
    case: &str,
    held: f64,
) -> anyhow::Result<f64> {
    let rows = trace::run_quietly(&trace::Options {
        setups: vec![format!("tac/{case}").parse::<Setup>().map_err(anyhow::Error::msg)?],
        records,
        distributions: vec![distribution],
        sets_percent: 0.0,
        shares: vec![Shares { dram: held, pmem: 0.0 }],
        warm: WARM,
        measured: COUNTED,
        shifted: 0.0,
        seed,
        ..trace::Options::default()
    })?;
    rows.first().map(|row| row.dram_hits).ok_or_else(|| anyhow::anyhow!("nothing was simulated"))
}

fn row(what: String, paper: &str, ours: String, kind: Kind, holds: Holds) -> Row {
    let paper = if paper.is_empty() { Figure::None } else { paper.into() };
    Row {
        id: "T5",
        what: format!("engine, {what}"),
        setting: String::new(),
        paper,
        ours: ours.into(),
        kind,
        holds,
    }
}

fn claims(runs: &Runs<'_>, rows: &mut Vec<Row>) {
    for case in LAZY {
        let leads: Vec<Interval> = (0..SIZES.len()).map(|size| runs.lead(case, size)).collect();
        rows.push(row(
            format!("{case} less the best of LRU, ALRU and sampled LRU: hits, points"),
            "above 0 at every size",
            at_sizes(&SIZES, |size| with_interval(leads[size], 1)),
            Kind::Deterministic,
            Holds::Judged(leads.iter().all(|lead| lead.low() > 0.0)),
        ));
    }
    rows.push(row(
        "best policy of all".to_owned(),
        "Lazy LRU at every size",
        at_sizes(&SIZES, |size| {
            let (case, hits) = runs.best(size);
            format!("{case} {hits:.1}")
        }),
        Kind::Deterministic,
        Holds::Judged((0..SIZES.len()).all(|size| LAZY.contains(&runs.best(size).0))),
    ));
}

fn figures(runs: &Runs<'_>, rows: &mut Vec<Row>) {
    let not_judged = |why: &str| Holds::NotJudged(why.into());
    for case in CASES {
        rows.push(row(
            format!("{case}: hits, % of gets"),
            "",
            at_sizes(&SIZES, |size| with_interval(Interval::of(&runs.hits(case, size)), 1)),
            Kind::Deterministic,
            not_judged("the paper only draws it"),
        ));
        rows.push(row(
            format!("{case}: records brought in, an access"),
            "",
            at_sizes(&SIZES, |size| {
                with_interval(Interval::of(&runs.of(case, size, |run| run.engine.brought_in)), 3)
            }),
            Kind::Deterministic,
            not_judged("the paper has no figure"),
        ));
        let less: Vec<f64> = (0..SIZES.len()).map(|size| runs.less(case, size)).collect();
        rows.push(row(
            format!("{case}: hits less the simulator's with as many records in DRAM, points (aim: within {POINTS})"),
            "",
            at_sizes(&SIZES, |size| format!("{:.1}", less[size])),
            Kind::Deterministic,
            Holds::Judged(less.iter().all(|less| less.abs() <= POINTS)),
        ));
    }
}

/// Throughput, timed.
pub(super) fn timed(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    const WHAT: &str = "Lazy LRU against LRU, ALRU and sampled LRU: throughput";
    const PAPER: &str = "best at every size";
    let records = settings.records(TIMED_RECORDS);
    let dram = |size: f64| size / 100.0 * f64::from(records) * OnDisk::IN_DRAM as f64;
    if dram(TIMED_SIZES[0]) < TIMED_DRAM_MIN {
        let reason =
            format!("not measured: of {records} records {}% is less than a store's DRAM", TIMED_SIZES[0]);
        return Ok(vec![Row::not_measured("T5", format!("engine, {WHAT}"), PAPER, Kind::Measured, reason)]);
    }
    let distribution = DISTRIBUTIONS[0];
    let seeds: Vec<u64> = settings.seeds().take(settings.runs.min(RUNS_MAX) as usize).collect();
    let lengths = |lengths: f64| (lengths * f64::from(records)) as usize;
    // What is timed has the machine for itself; policies take turns.
    let loaded = OnDisk::new(records, settings.seed)?;
    let runs = each("T5 timed", 1, &seeds, |&seed| {
        let trace = Trace::draw(distribution, records, 0.0, lengths(TIMED_WARM) + lengths(TIMED), 0, seed);
        let mut rates = Vec::new();
        for size in TIMED_SIZES {
            for case in TIMED_CASES {
                rates.push(loaded.time(parse(case)?, dram(size) as u64, &trace, lengths(TIMED_WARM))?);
            }
        }
        Ok(rates)
    })?;
    Ok(rates(
        &runs,
        &format!(
            "RO, {distribution}, {records} records of 2 kB, one client, batches of 16, one background thread, SSD: where temporary files are"
        ),
    ))
}

/// `runs`: for each seed all sizes, of each all cases.
fn rates(runs: &[Vec<f64>], setting: &str) -> Vec<Row> {
    let of = |case: &str, size: usize| -> Vec<f64> {
        let at = TIMED_CASES.iter().position(|name| *name == case).unwrap_or(usize::MAX);
        runs.iter()
            .filter_map(|rates| rates.get((size * TIMED_CASES.len()).saturating_add(at)))
            .copied()
            .collect()
    };
    let mut rows = Vec::new();
    for rival in RIVALS {
        let ratio = |size| Interval::of_ratios(&of(TIMED_LAZY, size), &of(rival, size));
        rows.push(row(
            format!("{TIMED_LAZY} / {rival}, throughput"),
            "above 1 at every size",
            at_sizes(&TIMED_SIZES, |size| with_interval(ratio(size), 2)),
            Kind::Measured,
            Holds::Judged((0..TIMED_SIZES.len()).all(|size| ratio(size).low() > 1.0)),
        ));
    }
    for case in TIMED_CASES {
        rows.push(row(
            format!("{case}: throughput, thousand gets a second"),
            "",
            at_sizes(&TIMED_SIZES, |size| {
                let rates: Vec<f64> = of(case, size).iter().map(|rate| rate / 1000.0).collect();
                with_interval(Interval::of(&rates), 1)
            }),
            Kind::Measured,
            Holds::NotJudged("on other hardware".into()),
        ));
    }
    rows.iter_mut().for_each(|row| setting.clone_into(&mut row.setting));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_named_can_be_run() {
        for case in CASES {
            assert!(parse(case).is_ok() && format!("tac/{case}").parse::<Setup>().is_ok(), "{case}");
        }
        for case in RIVALS.iter().chain(&LAZY) {
            assert!(CASES.contains(case), "{case}");
        }
        assert!(RIVALS.iter().chain([&TIMED_LAZY]).all(|case| TIMED_CASES.contains(case)));
    }

    #[test]
    fn the_engine_hits_as_often_as_the_simulator_and_as_often_the_second_time() {
        let (records, seed, distribution) = (4000, 3, Distribution::Zipfian(0.99));
        let trace = Trace::draw(distribution, records, 0.0, 12_000, 0, seed);
        let loaded = InMemory::new(records, seed).unwrap();
        let dram = loaded.dram_for(800).unwrap();
        for case in ["lru/all", "lazy-lru-paper/hot", "clock/beats"] {
            let count = || loaded.count(parse(case).unwrap(), dram, &trace, 8000).unwrap();
            let (first, second) = (count(), count());
            // Behind the gate for what is hot DRAM need not be full.
            let least = if case.ends_with("/hot") { 5.0 } else { 15.0 };
            assert!((least..25.0).contains(&first.held), "{case}: {first:?}");
            assert_eq!((first.hits, first.brought_in), (second.hits, second.brought_in), "{case}");
            assert!((50.0..95.0).contains(&first.hits) && first.brought_in > 0.0, "{case}: {first:?}");
        }
    }

    #[test]
    fn a_claim_holds_if_it_does_at_every_size() {
        // Two sizes of five cases; Lazy LRU is the fourth.
        let run = |lazy: [f64; 2]| {
            lazy.iter().flat_map(|&lazy| [50.0, 60.0, 40.0, lazy, 70.0]).collect::<Vec<f64>>()
        };
        let holds = |runs: &[Vec<f64>]| {
            rates(runs, "").iter().take(3).map(|row| row.holds.name()).collect::<Vec<_>>()
        };
        let ahead = run([61.0, 62.0]);
        assert_eq!(holds(&[ahead.clone(), ahead.clone()]), ["yes"; 3]);
        let behind = run([61.0, 55.0]);
        assert_eq!(holds(&[behind.clone(), behind]), ["yes", "no", "yes"]);
        let runs: Vec<Vec<Run>> = (0..2)
            .map(|_| {
                let of = |hits| Run {
                    engine: Counted { hits, brought_in: 0.1, held: 1.0 },
                    simulated: Some(hits - 1.0),
                };
                SIZES
                    .iter()
                    .flat_map(|_| (0..CASES.len()).map(|case| of(if case == 3 { 80.0 } else { 70.0 })))
                    .collect()
            })
            .collect();
        let mut rows = Vec::new();
        claims(&Runs(&runs), &mut rows);
        let holds: Vec<_> = rows.iter().map(|row| row.holds.name()).collect();
        assert_eq!(holds, ["yes", "no", "no", "yes"]);
        assert_eq!(Runs(&runs).less("lru/all", 2), 1.0);
    }
}
