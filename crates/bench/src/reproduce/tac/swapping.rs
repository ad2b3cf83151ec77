//! T4 from the engine: what it brings that a read from the SSD lets up all that is worth it of its buf.
//!
//! Hits, moves and reads are counted in stores in memory; throughput is timed in turn, over emulated PMem and a real SSD.

use std::fmt::Write;

use terrace::{Eviction, Swap};
use terrace_space_slab::Choices;

use super::super::{Figure, Holds, Interval, Kind, Row, Settings, each};
use super::bed::{self, Counted, Drive, PROFILE, Plan};
use super::eviction::with_interval;
use super::hits;
use crate::Distribution;
use crate::trace::Shares;

/// For many runs, and for runs that are timed.
const RECORDS: u32 = 20_000;
const TIMED_RECORDS: u32 = 40_000;
/// Runs, at most.
const RUNS_MAX: u32 = 3;
/// Accesses before those that are counted or timed, and these, in numbers of records.
const COUNTED: [f64; 2] = [3.0, 1.5];
const TIMED: [f64; 2] = [2.0, 1.5];
/// YCSB's generator, which the paper's figures look like.
const DISTRIBUTION: Distribution = Distribution::Ycsb;
/// Of all records, percent in DRAM and in PMem: 1 : 8 as in the paper, whose own size is the last.
const SIZES: [Shares; 3] = [Shares { dram: 1.0, pmem: 8.0 }, Shares { dram: 5.0, pmem: 40.0 }, hits::SHARES];
const POLICIES: [&str; 2] = ["clock/beats", "lazy-lru-paper/hot"];
const WORKLOADS: [(&str, f64); 3] = [("RO", 0.0), ("RH", 5.0), ("WH", 50.0)];
/// What the paper says of throughput.
const PAPER: [&str; 3] = ["above 1", "above 1", "about 1"];

const NO_FIGURE: &str = "the paper has throughput only";
const FEWER: &str = "fewer: that is its reason";

/// The runs of one workload, policy and size: by tuple, by buf.
type Pair = [Vec<Counted>; 2];
/// A figure of a run.
type Read = fn(&Counted) -> f64;

fn of(runs: &[Counted], figure: Read) -> Vec<f64> {
    runs.iter().map(figure).collect()
}
fn difference([tuple, buf]: &Pair, figure: Read) -> Interval {
    Interval::of_differences(&of(buf, figure), &of(tuple, figure))
}
fn ratio([tuple, buf]: &Pair, figure: Read) -> Interval {
    Interval::of_ratios(&of(buf, figure), &of(tuple, figure))
}

/// All of it.
pub(super) fn rows(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let mut rows = counted(settings)?;
    rows.extend(timed(settings)?);
    Ok(rows)
}

fn plan(drive: Drive, policy: &str, swap: Swap, sets_percent: f64) -> anyhow::Result<Plan> {
    let eviction: Eviction = policy.parse().map_err(anyhow::Error::msg)?;
    let [warm, measured] = if drive == Drive::Counted { COUNTED } else { TIMED };
    Ok(Plan {
        drive,
        choices: Choices { eviction, swap, ..Choices::default() },
        distribution: DISTRIBUTION,
        records: 0,
        shares: hits::SHARES,
        sets_percent,
        warm,
        measured,
        shifted: 0.0,
        seed: 0,
        background_threads: 1,
    })
}

/// Runs each plan with each seed by tuple and by buf, in turn.
fn pairs(settings: &Settings, name: &str, plans: &[Plan]) -> anyhow::Result<Vec<Pair>> {
    let runs = settings.runs.min(RUNS_MAX) as usize;
    let mut items = Vec::new();
    for plan in plans {
        for seed in settings.seeds().take(runs) {
            items.extend(Swap::ALL.map(|(_, swap)| Plan {
                choices: Choices { swap, ..plan.choices },
                seed,
                ..*plan
            }));
        }
    }
    // What is timed has the machine for itself.
    let is_timed = plans.iter().any(|plan| plan.drive == Drive::Timed);
    let all = each(name, if is_timed { 1 } else { settings.threads }, &items, bed::run)?;
    let by_swap = |runs: &[Counted], at: usize| runs.iter().skip(at).step_by(2).copied().collect();
    Ok(all.chunks(2 * runs).map(|runs| [by_swap(runs, 0), by_swap(runs, 1)]).collect())
}

fn counted(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let records = match bed::records(settings, RECORDS, (Drive::Counted, SIZES[0])) {
        Ok(records) => records,
        Err(reason) => {
            let what = "engine, buf and tuple, hits, moves and reads of the SSD";
            return Ok(vec![Row::not_measured("T4", what, Figure::None, Kind::Deterministic, reason)]);
        }
    };
    let mut plans = Vec::new();
    for policy in POLICIES {
        for (_, sets) in WORKLOADS {
            for shares in SIZES {
                plans.push(Plan { records, shares, ..plan(Drive::Counted, policy, Swap::Tuple, sets)? });
            }
        }
    }
    let all = pairs(settings, "T4 engine", &plans)?;
    let mut all = all.chunks(SIZES.len());
    let mut rows = Vec::new();
    for policy in POLICIES {
        for (workload, _) in WORKLOADS {
            let Some(pairs) = all.next() else { anyhow::bail!("a run is missing") };
            let setting = format!("engine, {workload}, {DISTRIBUTION}, {records} records; {policy}");
            figures(&mut rows, &setting, workload, pairs);
        }
    }
    Ok(rows)
}

/// `1+8%: FIGURE, ..`
fn at_sizes(pairs: &[Pair], figure: impl Fn(&Pair) -> String) -> String {
    let mut text = String::new();
    for (Shares { dram, pmem }, pair) in SIZES.iter().zip(pairs) {
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{dram}+{pmem}%: {}", figure(pair));
    }
    text
}

fn figures(rows: &mut Vec<Row>, setting: &str, workload: &str, pairs: &[Pair]) {
    let mut row = |what: &str, paper: &str, ours: String, holds: Holds| {
        let paper = if paper.is_empty() { Figure::None } else { paper.into() };
        let (what, setting, kind) = (what.to_owned(), setting.to_owned(), Kind::Deterministic);
        rows.push(Row { id: "T4", what, setting, paper, ours: ours.into(), kind, holds });
    };
    let not_judged = || Holds::NotJudged(NO_FIGURE.into());
    let both: Read = |run| run.dram_hits + run.pmem_hits;
    let mean = |runs: &[Counted], figure: Read| Interval::of(&of(runs, figure)).mean;
    row(
        "tuple: hits in DRAM / DRAM + PMem, % of gets",
        "",
        at_sizes(pairs, |[tuple, _]| {
            format!("{:.1} / {:.1}", mean(tuple, |run| run.dram_hits), mean(tuple, both))
        }),
        not_judged(),
    );
    for (what, figure) in [
        ("buf less tuple: hits in DRAM, points", (|run| run.dram_hits) as Read),
        ("buf less tuple: hits in DRAM + PMem, points", both),
    ] {
        row(what, "", at_sizes(pairs, |pair| with_interval(difference(pair, figure), 2)), not_judged());
    }
    let moves: Read = |run| run.moves;
    row(
        "tuple: records that change tiers, an access",
        "",
        at_sizes(pairs, |[tuple, _]| format!("{:.3}", mean(tuple, moves))),
        not_judged(),
    );
    let along: Read = |run| run.along;
    row(
        "buf: records that came along, an access",
        "",
        at_sizes(pairs, |[_, buf]| with_interval(Interval::of(&of(buf, along)), 4)),
        not_judged(),
    );
    let reads: Read = |run| run.ssd_reads;
    let is_claimed = workload != "WH";
    row(
        "buf / tuple: reads of the SSD, an access",
        if is_claimed { FEWER } else { "" },
        at_sizes(pairs, |pair| with_interval(ratio(pair, reads), 3)),
        if is_claimed {
            Holds::Judged(pairs.iter().all(|pair| ratio(pair, reads).high() < 1.0))
        } else {
            not_judged()
        },
    );
    for (what, figure, digits) in [
        ("buf / tuple: bytes read from the SSD", (|run| run.ssd_read) as Read, 2),
        ("buf / tuple: records that change tiers", moves, 2),
    ] {
        row(what, "", at_sizes(pairs, |pair| with_interval(ratio(pair, figure), digits)), not_judged());
    }
}

fn timed(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let what = |workload: &str| format!("engine, buf / tuple, throughput, {workload}, profile {PROFILE}");
    let records = match bed::records(settings, TIMED_RECORDS, (Drive::Timed, hits::SHARES)) {
        Ok(records) => records,
        Err(reason) => {
            let missing = |((workload, _), paper): ((&str, f64), &str)| {
                Row::not_measured("T4", what(workload), paper, Kind::Emulated, reason.clone())
            };
            return Ok(WORKLOADS.into_iter().zip(PAPER).map(missing).collect());
        }
    };
    let plans = WORKLOADS
        .map(|(_, sets)| Ok(Plan { records, ..plan(Drive::Timed, POLICIES[0], Swap::Tuple, sets)? }))
        .into_iter()
        .collect::<anyhow::Result<Vec<_>>>()?;
    let pairs = pairs(settings, "T4 timed", &plans)?;
    let row = |(((workload, _), paper), pair): (((&str, f64), &str), &Pair)| {
        let ours = ratio(pair, |run| run.rate);
        let holds = if workload == "WH" { (0.9..1.1).contains(&ours.mean) } else { ours.low() > 1.0 };
        Row {
            id: "T4",
            what: what(workload),
            setting: format!(
                "{DISTRIBUTION}, {records} records, DRAM for 8% and PMem for 64% of them; {}; one client, batches of 16, one background thread, SSD: where temporary files are",
                POLICIES[0]
            ),
            paper: paper.into(),
            ours: ours.into(),
            kind: Kind::Emulated,
            holds: Holds::Judged(holds),
        }
    };
    Ok(WORKLOADS.into_iter().zip(PAPER).zip(&pairs).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(dram_hits: f64, ssd_reads: f64) -> Counted {
        Counted {
            dram_hits,
            pmem_hits: 20.0,
            moves: 0.1,
            along: 0.01,
            ssd_reads,
            ssd_read: 4096.0 * ssd_reads,
            pmem_written: 1.0,
            ssd_written: 1.0,
            rate: 1.0,
            steps_refused: 0.0,
            steps_aside: 0.0,
            slots_stolen: 0.0,
            landings_delayed: 0.0,
            waited: 0.0,
            held: hits::SHARES,
            lent: 0.0,
            back_after: None,
        }
    }

    #[test]
    fn the_claim_is_about_reads_at_every_size() {
        let fewer: Pair = [vec![run(50.0, 0.2), run(51.0, 0.2)], vec![run(50.5, 0.1), run(51.5, 0.1)]];
        let more: Pair = [fewer[1].clone(), fewer[0].clone()];
        let told = |pairs: &[Pair], workload: &str| {
            let mut rows = Vec::new();
            figures(&mut rows, "", workload, pairs);
            let find = |word: &str| rows.iter().find(|row| row.what.contains(word)).unwrap().clone();
            (find("reads of the SSD").holds.name(), find("hits in DRAM, points").ours.to_string())
        };
        let (holds, hits) = told(&[fewer.clone(), fewer.clone(), fewer.clone()], "RO");
        assert_eq!(holds, "yes");
        assert_eq!(hits, "1+8%: 0.50 ± 0.00, 5+40%: 0.50 ± 0.00, 8+64%: 0.50 ± 0.00");
        assert_eq!(told(&[fewer.clone(), more, fewer.clone()], "RH").0, "no");
        assert_eq!(told(&[fewer.clone(), fewer.clone(), fewer], "WH").0, "n/a");
    }
}
