//! T1: hits of placements at DRAM : PMem : data = 4 : 32 : 50, simulated.

use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Row, Settings, Shape, each};
use super::{DISTRIBUTIONS, file_part, placed};
use crate::Distribution;
use crate::trace::{self, Setup, Shares};

/// The paper's 50 million, a fiftieth.
const RECORDS: u32 = 1_000_000;
/// 4 : 32 : 50.
pub(super) const SHARES: Shares = Shares { dram: 8.0, pmem: 64.0 };
/// Of the figures beside table 3; of bufs, which are many simulations.
const FEWER_RECORDS: u32 = 200_000;
const BUF_RECORDS: u32 = 50_000;
/// Accesses after the hot set has moved, in N.
pub(super) const SHIFTED: f64 = 4.0;

/// What is simulated: name, setup, and the paper's hits in DRAM and PMem.
const PLACEMENTS: [(&str, &str, Option<[f64; 2]>); 4] = [
    ("TaC", "tac/lazy-lru-paper/hot", Some([61.4, 21.0])),
    ("Anti-2", "anti-2/lazy-lru-paper/hot", Some([9.1, 76.3])),
    ("Anti-NVM", "anti-nvm/lazy-lru-paper/hot", Some([59.8, 18.8])),
    ("our default", "tac/clock/beats", None),
];
const TAC: usize = 0;
const ANTI_2: usize = 1;
const ANTI_NVM: usize = 2;
const OURS: usize = 3;

const DEPENDS: &str = "a hit ratio depends on the number of records and on the generator, and the paper does not name its \
     generator: compare differences, and shares of the static optimum";

const THROUGHPUT: &str = "the paper has throughput only. In the simulator whatever a read makes warm goes up at once, and what \
     goes down is not warm, so a buf rarely has anything else to bring; the engine fetches later, or not at all";

/// A figure of a simulation.
type Read = fn(&trace::Row) -> f64;

/// The runs of one distribution: for each seed a row for each setup.
struct Runs(Vec<Vec<trace::Row>>);

impl Runs {
    fn of(&self, setup: usize, figure: impl Fn(&trace::Row) -> f64) -> Vec<f64> {
        self.0.iter().filter_map(|rows| rows.get(setup)).map(figure).collect()
    }
    fn interval(&self, setup: usize, figure: impl Fn(&trace::Row) -> f64) -> Interval {
        Interval::of(&self.of(setup, figure))
    }
    fn difference(&self, a: usize, b: usize, figure: impl Fn(&trace::Row) -> f64) -> Interval {
        Interval::of_differences(&self.of(a, &figure), &self.of(b, &figure))
    }
    /// When it was back at 95%; text if it was not in each run.
    fn back(&self, setup: usize) -> Result<Interval, String> {
        let back: Vec<f64> =
            self.0.iter().filter_map(|rows| rows.get(setup)).filter_map(|row| row.back_after).collect();
        if back.len() == self.0.len() && !back.is_empty() {
            Ok(Interval::of(&back))
        } else {
            Err(format!("not within {SHIFTED} N in {} of {} runs", self.0.len() - back.len(), self.0.len()))
        }
    }
}

fn dram(row: &trace::Row) -> f64 {
    row.dram_hits
}
fn pmem(row: &trace::Row) -> f64 {
    row.pmem_hits
}
fn both(row: &trace::Row) -> f64 {
    row.dram_hits + row.pmem_hits
}
fn moves(row: &trace::Row) -> f64 {
    row.moves_up + row.moves_down
}

/// What is simulated beside the seeds.
struct Workload<'a> {
    name: &'a str,
    setups: &'a [&'a str],
    records: u32,
    shares: Shares,
    sets_percent: f64,
    shifted: f64,
}

fn simulate(settings: &Settings, workload: &Workload<'_>) -> anyhow::Result<Vec<(Distribution, Runs)>> {
    let setups = workload.setups.iter().map(|name| name.parse::<Setup>().map_err(anyhow::Error::msg));
    let setups = setups.collect::<anyhow::Result<Vec<_>>>()?;
    let items: Vec<(Distribution, u64)> =
        DISTRIBUTIONS.iter().flat_map(|&d| settings.seeds().map(move |seed| (d, seed))).collect();
    let rows = each(workload.name, settings.threads, &items, |&(distribution, seed)| {
        trace::run_quietly(&trace::Options {
            setups: setups.clone(),
            records: settings.records(workload.records),
            distributions: vec![distribution],
            sets_percent: workload.sets_percent,
            shares: vec![workload.shares],
            shifted: workload.shifted,
            seed,
            ..trace::Options::default()
        })
    })?;
    let mut rows = rows.into_iter();
    Ok(DISTRIBUTIONS
        .iter()
        .map(|&distribution| (distribution, Runs(rows.by_ref().take(settings.runs as usize).collect())))
        .collect())
}

/// T1.
pub(super) fn table_3(settings: &Settings) -> anyhow::Result<Outcome> {
    let workload = Workload {
        name: "T1",
        setups: &PLACEMENTS.map(|(_, setup, _)| setup),
        records: RECORDS,
        shares: SHARES,
        sets_percent: 5.0,
        shifted: SHIFTED,
    };
    let mut outcome = Outcome::default();
    for (distribution, runs) in simulate(settings, &workload)? {
        let setting = format!(
            "RH, {distribution}, {} records; TaC, Anti-2, Anti-NVM: lazy-lru-paper/hot, our default: tac/clock/beats",
            settings.records(RECORDS)
        );
        let rows = Rows { runs: &runs, setting };
        rows.hits(&mut outcome.rows);
        rows.bounds(&mut outcome.rows);
        rows.claims(&mut outcome.rows);
        rows.aims(&mut outcome.rows, distribution);
        outcome.plots.push(plot(distribution, &runs));
    }
    outcome.rows.extend(placed::rows(settings)?);
    Ok(outcome)
}

struct Rows<'a> {
    runs: &'a Runs,
    setting: String,
}

impl Rows<'_> {
    fn row(&self, what: &str, paper: impl Into<Figure>, ours: impl Into<Figure>, holds: Holds) -> Row {
        let (what, setting) = (what.to_owned(), self.setting.clone());
        Row { id: "T1", what, setting, paper: paper.into(), ours: ours.into(), kind: Kind::Simulated, holds }
    }

    fn hits(&self, rows: &mut Vec<Row>) {
        for (i, (name, _, paper)) in PLACEMENTS.iter().enumerate() {
            let of_paper = |tier: usize| paper.map_or(Figure::None, |paper| paper[tier].into());
            let holds =
                || Holds::NotJudged(if paper.is_some() { DEPENDS } else { "not in the paper" }.into());
            let part = |what: &str| format!("{name}: {what}");
            let runs = self.runs;
            rows.push(self.row(
                &part("hits in DRAM, % of gets"),
                of_paper(0),
                runs.interval(i, dram),
                holds(),
            ));
            rows.push(self.row(
                &part("hits in PMem, % of gets"),
                of_paper(1),
                runs.interval(i, pmem),
                holds(),
            ));
            let ours = |what: &str, ours: Figure| {
                self.row(&part(what), Figure::None, ours, Holds::NotJudged("the paper has no figure".into()))
            };
            rows.push(ours("records that change tiers, an access", runs.interval(i, moves).into()));
            let back = runs.back(i).map_or_else(Figure::from, Figure::from);
            rows.push(ours("N accesses until 95% of DRAM hits are back after the hot set moved", back));
        }
    }

    fn bounds(&self, rows: &mut Vec<Row>) {
        let bounds: [(&str, Read); 4] = [
            ("static optimum (the hottest records stay): hits in DRAM, % of gets", |row| row.optimum_dram),
            ("static optimum: hits in DRAM + PMem, % of gets", |row| row.optimum_both),
            ("Belady's bound (knows the future): hits in DRAM, % of gets", |row| row.belady_dram),
            ("Belady's bound: hits in DRAM + PMem, % of gets", |row| row.belady_both),
        ];
        for (what, figure) in bounds {
            let holds = Holds::NotJudged("a bound, not in the paper".into());
            let ours = self.runs.interval(TAC, figure);
            // The static optimum is computed, not simulated.
            let ours = if ours.half == Some(0.0) { ours.mean.into() } else { Figure::from(ours) };
            rows.push(self.row(what, Figure::None, ours, holds));
        }
    }

    /// What the paper's table says beyond its absolute numbers.
    fn claims(&self, rows: &mut Vec<Row>) {
        let claims: [(&str, usize, f64, Read); 4] = [
            ("TaC less Anti-NVM: hits in DRAM, points", ANTI_NVM, 1.6, dram),
            ("TaC less Anti-NVM: hits in DRAM + PMem, points", ANTI_NVM, 3.8, both),
            ("TaC less Anti-2: hits in DRAM, points", ANTI_2, 52.3, dram),
            ("TaC less Anti-2: hits in DRAM + PMem, points", ANTI_2, -3.0, both),
        ];
        for (what, other, paper, figure) in claims {
            let ours = self.runs.difference(TAC, other, figure);
            rows.push(self.row(what, paper, ours, Holds::Judged(same_sign(paper, ours))));
        }
    }

    /// What the default is meant to reach.
    fn aims(&self, rows: &mut Vec<Row>, distribution: Distribution) {
        let runs = self.runs;
        let both_aim = if distribution == Distribution::Ycsb { 97.5 } else { 98.5 };
        let of_dram = runs.interval(OURS, |row| 100.0 * row.dram_hits / row.optimum_dram);
        let of_both = runs.interval(OURS, |row| 100.0 * both(row) / row.optimum_both);
        let ratio = Interval::of_ratios(&runs.of(OURS, moves), &runs.of(TAC, moves));
        let mut aim = |what: &str, ours: Figure, holds: bool| {
            rows.push(self.row(what, Figure::None, ours, Holds::Judged(holds)));
        };
        aim(
            "our default: % of the static optimum's hits in DRAM (aim: 97)",
            of_dram.into(),
            of_dram.mean >= 97.0,
        );
        aim(
            &format!("our default: % of the static optimum's hits in DRAM + PMem (aim: {both_aim})"),
            of_both.into(),
            of_both.mean >= both_aim,
        );
        aim("our default / TaC: records that change tiers (aim: at most 1)", ratio.into(), ratio.mean <= 1.0);
        let back = runs.back(OURS);
        let holds = back.as_ref().is_ok_and(|back| back.mean <= 2.0);
        aim(
            "our default: N accesses until 95% of DRAM hits are back (aim: at most 2)",
            back.map_or_else(Figure::from, Figure::from),
            holds,
        );
    }
}

/// Whether the whole interval lies on the paper's side of 0.
fn same_sign(paper: f64, ours: Interval) -> bool {
    if paper > 0.0 { ours.low() > 0.0 } else { ours.high() < 0.0 }
}

fn plot(distribution: Distribution, runs: &Runs) -> Plot {
    let mut groups = Vec::new();
    for (i, (name, _, paper)) in PLACEMENTS.iter().enumerate() {
        if let Some(paper) = paper {
            groups.push((format!("{name}\npaper"), paper.to_vec()));
        }
        groups.push((
            format!("{name}\nsimulated"),
            vec![runs.interval(i, dram).mean, runs.interval(i, pmem).mean],
        ));
    }
    let optimum =
        [runs.interval(TAC, |row| row.optimum_dram).mean, runs.interval(TAC, |row| row.optimum_both).mean];
    groups.push(("static\noptimum".into(), vec![optimum[0], optimum[1] - optimum[0]]));
    Plot {
        file: format!("T1-table3-{}", file_part(distribution)),
        title: format!("Hits by placement, DRAM : PMem : data = 4 : 32 : 50, 95/5, {distribution}"),
        y: "hits, % of gets".into(),
        shape: Shape::Bars { parts: vec!["DRAM".into(), "PMem".into()], groups },
    }
}

/// T3: how many hits Anti-2 has in DRAM when half of the operations are sets.
pub(super) fn anti_2_under_writes(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (gigabytes, paper) in [(2.0, 9.1), (8.0, 24.5)] {
        let workload = Workload {
            name: "T3",
            setups: &[PLACEMENTS[ANTI_2].1],
            records: FEWER_RECORDS,
            shares: Shares { dram: gigabytes * 2.0, pmem: 64.0 },
            sets_percent: 50.0,
            shifted: 0.0,
        };
        for (distribution, runs) in simulate(settings, &workload)? {
            rows.push(Row {
                id: "T3",
                what: format!("Anti-2: hits in DRAM, % of gets, DRAM {gigabytes} GB + PMem 32 GB for 50 GB"),
                setting: format!(
                    "WH, {distribution}, {} records; lazy-lru-paper/hot",
                    settings.records(FEWER_RECORDS)
                ),
                paper: paper.into(),
                ours: runs.interval(0, dram).into(),
                kind: Kind::Simulated,
                holds: Holds::NotJudged(DEPENDS.into()),
            });
        }
    }
    Ok(rows)
}

/// T4: what it changes that a read from the SSD brings in what lies with a warm record.
pub(super) fn of_whole_bufs(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    const SETUPS: [&str; 2] = ["tac-buf/lazy-lru-paper/hot", "tac/lazy-lru-paper/hot"];
    let mut rows = Vec::new();
    for (name, sets_percent) in [("RO", 0.0), ("RH", 5.0), ("WH", 50.0)] {
        let records = BUF_RECORDS;
        let workload =
            Workload { name: "T4", setups: &SETUPS, records, shares: SHARES, sets_percent, shifted: 0.0 };
        for (distribution, runs) in simulate(settings, &workload)? {
            let reads = |row: &trace::Row| 100.0 - both(row);
            let figures: [(&str, Interval); 4] = [
                ("hybrid less tuple-level swapping: hits in DRAM, points", runs.difference(0, 1, dram)),
                (
                    "hybrid less tuple-level swapping: hits in DRAM + PMem, points",
                    runs.difference(0, 1, both),
                ),
                (
                    "hybrid / tuple-level swapping: gets that read the SSD",
                    Interval::of_ratios(&runs.of(0, reads), &runs.of(1, reads)),
                ),
                (
                    "hybrid / tuple-level swapping: records that change tiers",
                    Interval::of_ratios(&runs.of(0, moves), &runs.of(1, moves)),
                ),
            ];
            for (what, ours) in figures {
                rows.push(Row {
                    id: "T4",
                    what: what.into(),
                    setting: format!(
                        "{name}, {distribution}, {} records; lazy-lru-paper/hot",
                        settings.records(records)
                    ),
                    paper: Figure::None,
                    ours: ours.into(),
                    kind: Kind::Simulated,
                    holds: Holds::NotJudged(THROUGHPUT.into()),
                });
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_across_0_bears_nothing_out() {
        let interval = |mean, half| Interval { mean, half: Some(half), runs: 3 };
        assert!(same_sign(1.6, interval(0.5, 0.4)) && same_sign(-3.0, interval(-0.5, 0.4)));
        assert!(!same_sign(1.6, interval(0.5, 0.6)) && !same_sign(-3.0, interval(-0.5, 0.6)));
        assert!(!same_sign(1.6, interval(-2.0, 0.1)) && !same_sign(-3.0, interval(2.0, 0.1)));
    }

    #[test]
    fn setups_are_there() {
        for (_, setup, _) in PLACEMENTS {
            assert!(setup.parse::<Setup>().is_ok(), "{setup}");
        }
    }
}
