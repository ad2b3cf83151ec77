//! T1 from the engine: hits of its placements, beside the trace simulator's with the same policy, gate and accesses.

use terrace::Placement;

use super::super::{Figure, Holds, Interval, Kind, Row, Settings, each};
use super::bed::{self, Counted, Drive, Plan};
use super::{DISTRIBUTIONS, hits};
use crate::Distribution;
use crate::trace::{self, Setup};

/// Of the simulator's, few: a store takes longer than a simulation.
const RECORDS: u32 = 60_000;
/// Runs, at most: in time for all the rest.
const RUNS_MAX: u32 = 2;
/// Points by which engine and simulator may differ.
const POINTS: f64 = 2.0;

/// What is run: the placement, what the simulator calls it, and the paper's hits in DRAM and PMem. `tac` is simulated as the
/// paper has it, each record in one place, and as the engine has it, where what comes up from PMem keeps its slot as its home.
const CASES: [(Placement, &[&str], [f64; 2]); 3] = [
    (Placement::Tac, &["tac/clock/beats", "tac-homes/clock/beats"], [61.4, 21.0]),
    (Placement::Anti2, &["anti-2/clock/beats"], [9.1, 76.3]),
    (Placement::AntiNvm, &["anti-nvm/clock/beats"], [59.8, 18.8]),
];

const POLICY: &str = "the paper's figure is of Lazy LRU and of 50 million records";
const CHANCE: &str =
    "the hottest record alone has a fifteenth of the gets, and where it lies in one pool is chance";

/// A run of the engine, and simulations of the same accesses with tiers of as many records as those held.
struct Pair {
    engine: Counted,
    simulated: trace::Row,
    /// With homes in PMem, if the placement has any.
    with_homes: Option<trace::Row>,
}

/// A figure of both: the engine's, the simulator's.
type Read = (fn(&Counted) -> f64, fn(&trace::Row) -> f64);

const DRAM: Read = (|engine| engine.dram_hits, |simulated| simulated.dram_hits);
const PMEM: Read = (|engine| engine.pmem_hits, |simulated| simulated.pmem_hits);

pub(super) fn rows(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let records = match bed::records(settings, RECORDS, (Drive::Counted, hits::SHARES)) {
        Ok(records) => records,
        Err(reason) => {
            let what = "the same from the engine";
            return Ok(vec![Row::not_measured("T1", what, Figure::None, Kind::Deterministic, reason)]);
        }
    };
    let runs = settings.runs.min(RUNS_MAX) as usize;
    let mut items = Vec::new();
    for (placement, setups, _) in CASES {
        for distribution in DISTRIBUTIONS {
            items.extend(settings.seeds().take(runs).map(|seed| (placement, setups, distribution, seed)));
        }
    }
    let pairs = each("T1 engine", settings.threads, &items, |&(placement, setups, distribution, seed)| {
        pair(placement, setups, distribution, records, seed)
    })?;
    let mut pairs = pairs.chunks(runs);
    let mut all = Vec::new();
    for (placement, _, paper) in CASES {
        for distribution in DISTRIBUTIONS {
            let Some(pairs) = pairs.next() else { anyhow::bail!("a run is missing") };
            case(&mut all, (placement, paper), distribution, records, pairs);
        }
    }
    Ok(all)
}

fn pair(
    placement: Placement,
    setups: &[&str],
    distribution: Distribution,
    records: u32,
    seed: u64,
) -> anyhow::Result<Pair> {
    let standard = trace::Options::default();
    // Without a change of the hot set where nobody asks how soon it is over.
    let shifted = if placement == Placement::Tac { hits::SHIFTED } else { 0.0 };
    let engine = bed::run(&Plan {
        drive: Drive::Counted,
        choices: placement.into(),
        distribution,
        records,
        shares: hits::SHARES,
        sets_percent: standard.sets_percent,
        warm: standard.warm,
        measured: standard.measured,
        shifted,
        seed,
        background_threads: 0,
    })?;
    let setups = setups.iter().map(|name| name.parse::<Setup>().map_err(anyhow::Error::msg));
    let mut rows = trace::run_quietly(&trace::Options {
        setups: setups.into_iter().collect::<anyhow::Result<_>>()?,
        records,
        distributions: vec![distribution],
        shares: vec![engine.held],
        shifted,
        seed,
        ..standard
    })?
    .into_iter();
    let simulated = rows.next().ok_or_else(|| anyhow::anyhow!("nothing was simulated"))?;
    Ok(Pair { engine, simulated, with_homes: rows.next() })
}

fn case(
    rows: &mut Vec<Row>,
    (placement, paper): (Placement, [f64; 2]),
    distribution: Distribution,
    records: u32,
    pairs: &[Pair],
) {
    let mean = |figure: fn(&Counted) -> f64| Interval::of(&engines(pairs, figure)).mean;
    let setting = format!(
        "RH, {distribution}, {records} records, of which DRAM held {:.1}% and PMem {:.1}%; clock/beats",
        mean(|engine| engine.held.dram),
        mean(|engine| engine.held.pmem),
    );
    let mut row = |what: &str, paper: Figure, ours: Figure, holds: Holds| {
        let (what, setting) = (format!("engine, {placement}: {what}"), setting.clone());
        rows.push(Row { id: "T1", what, setting, paper, ours, kind: Kind::Deterministic, holds });
    };
    let not_judged = |why: &str| Holds::NotJudged(why.into());
    for (tier, paper, read) in [("DRAM", paper[0], DRAM), ("PMem", paper[1], PMEM)] {
        let ours = Interval::of(&engines(pairs, read.0));
        row(&format!("hits in {tier}, % of gets"), paper.into(), ours.into(), not_judged(POLICY));
    }
    let is_chance = placement == Placement::Anti2 && distribution != Distribution::Ycsb;
    // Of each kind of simulation: its rows, and what is said of it.
    let mut simulations: Vec<(Vec<&trace::Row>, &str)> = Vec::new();
    let with_homes: Vec<&trace::Row> = pairs.iter().filter_map(|pair| pair.with_homes.as_ref()).collect();
    let simulated = pairs.iter().map(|pair| &pair.simulated).collect();
    if with_homes.len() == pairs.len() {
        simulations.push((simulated, ", where each record is in one tier"));
        simulations.push((with_homes, ", where what comes up keeps its slot in PMem"));
    } else {
        simulations.push((simulated, ""));
    }
    let both: Read = (|engine| engine.dram_hits + engine.pmem_hits, |row| row.dram_hits + row.pmem_hits);
    let in_tiers: &[(&str, Read, bool)] =
        &[("DRAM", DRAM, is_chance), ("PMem", PMEM, is_chance), ("DRAM + PMem", both, false)];
    for (simulated, how) in &simulations {
        for (tier, read, is_chance) in in_tiers {
            let simulated: Vec<f64> = simulated.iter().map(|simulated| read.1(simulated)).collect();
            let ours = Interval::of_differences(&engines(pairs, read.0), &simulated);
            let holds =
                if *is_chance { not_judged(CHANCE) } else { Holds::Judged(ours.mean.abs() <= POINTS) };
            let what = format!("hits in {tier} less the simulator's{how}, points (aim: within {POINTS})");
            row(&what, Figure::None, ours.into(), holds);
        }
    }
    let moves = Interval::of(&engines(pairs, |engine| engine.moves));
    let no_figure = || not_judged("the paper has no figure");
    row("records that change tiers, an access", Figure::None, moves.into(), no_figure());
    if placement == Placement::Tac {
        let lent = Interval::of(&engines(pairs, |engine| engine.lent));
        row("homes of records in DRAM, % of PMem's records", Figure::None, lent.into(), no_figure());
        let back: Vec<f64> = pairs.iter().filter_map(|pair| pair.engine.back_after).collect();
        let (ours, holds) = if back.len() == pairs.len() {
            let back = Interval::of(&back);
            (back.into(), back.mean <= 2.0)
        } else {
            let late = pairs.len() - back.len();
            (format!("not within {} N in {late} of {} runs", hits::SHIFTED, pairs.len()).into(), false)
        };
        let what = "N accesses until 95% of DRAM hits are back after the hot set moved (aim: at most 2)";
        row(what, Figure::None, ours, Holds::Judged(holds));
    }
}

fn engines(pairs: &[Pair], figure: fn(&Counted) -> f64) -> Vec<f64> {
    pairs.iter().map(|pair| figure(&pair.engine)).collect()
}

#[cfg(test)]
mod tests {
    use crate::trace::Shares;

    use super::*;

    /// A run of the engine with these hits, and a simulation with 50 and 40; with homes, one with 50 and 39.
    fn pair(dram_hits: f64, pmem_hits: f64, back_after: Option<f64>) -> Pair {
        let held = Shares { dram: 8.0, pmem: 64.0 };
        let (moves, ssd_reads, ssd_read, pmem_written, ssd_written, rate) = (0.1, 0.1, 4096.0, 1.0, 1.0, 1.0);
        let simulated = trace::Row {
            distribution: "ycsb".into(),
            records: 1000,
            sets: 5.0,
            dram_share: 8.0,
            pmem_share: 64.0,
            setup: "tac/clock/beats".into(),
            dram_hits: 50.0,
            pmem_hits: 40.0,
            optimum_dram: 51.0,
            optimum_both: 92.0,
            belady_dram: 60.0,
            belady_both: 95.0,
            moves_up: 0.1,
            moves_down: 0.1,
            back_after,
        };
        let (along, steps_refused, landings_delayed, waited) = (0.0, 0.0, 0.0, 0.0);
        let engine = Counted {
            dram_hits,
            pmem_hits,
            moves,
            along,
            steps_refused,
            steps_aside: 0.0,
            slots_stolen: 0.0,
            landings_delayed,
            waited,
            ssd_reads,
            ssd_read,
            pmem_written,
            ssd_written,
            rate,
            held,
            lent: 5.0,
            back_after,
        };
        let with_homes = trace::Row { pmem_hits: 39.0, ..simulated.clone() };
        Pair { engine, simulated, with_homes: Some(with_homes) }
    }

    fn holds(placement: Placement, distribution: Distribution, pairs: &[Pair], word: &str) -> String {
        let mut rows = Vec::new();
        case(&mut rows, (placement, [61.4, 21.0]), distribution, 1000, pairs);
        let row = rows.iter().find(|row| row.what.contains(word)).unwrap();
        format!("{} {}", row.holds.name(), row.ours)
    }

    #[test]
    fn engine_and_simulator_are_compared_run_by_run() {
        let (tac, ycsb) = (Placement::Tac, Distribution::Ycsb);
        let near = [pair(49.0, 41.5, Some(1.5)), pair(49.0, 41.5, Some(1.5))];
        assert_eq!(holds(tac, ycsb, &near, "DRAM less"), "yes -1.00 ± 0.00");
        assert_eq!(holds(tac, ycsb, &near, "PMem less"), "yes 1.50 ± 0.00");
        assert_eq!(
            holds(tac, ycsb, &near, "in PMem less the simulator's, where what comes"),
            "no 2.50 ± 0.00"
        );
        assert_eq!(holds(tac, ycsb, &near, "homes of records"), "n/a 5.00 ± 0.00");
        assert_eq!(holds(tac, ycsb, &near, "N accesses until"), "yes 1.50 ± 0.00");
        let far = [pair(47.0, 41.5, None), pair(47.0, 41.5, Some(1.5))];
        assert_eq!(holds(tac, ycsb, &far, "DRAM less"), "no -3.00 ± 0.00");
        assert!(holds(tac, ycsb, &far, "N accesses until").starts_with("no not within 4 N in 1 of 2"));
        // Where chance decides nothing is judged, but for both tiers together.
        let (anti_2, zipf) = (Placement::Anti2, Distribution::Zipfian(0.99));
        assert!(holds(anti_2, zipf, &far, "in DRAM less").starts_with("n/a"));
        assert!(holds(anti_2, zipf, &far, "DRAM + PMem less").starts_with("yes"));
    }
}
