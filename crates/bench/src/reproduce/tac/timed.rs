//! T2 and T3 from the engine: throughput of placements over an emulated device, in runs that alternate, and what they write.

use terrace::Placement;

use super::super::{Figure, Holds, Interval, Kind, Row, Settings, each};
use super::bed::{self, Counted, Drive, PROFILE, Plan};
use super::hits;
use crate::Distribution;
use crate::trace::Shares;

/// Few, so that there is time for several runs.
const RECORDS: u32 = 64_000;
/// Runs of each placement, at most.
const RUNS_MAX: u32 = 3;
/// Accesses before those that are timed, and these, in numbers of records.
const WARM: f64 = 2.0;
const TIMED: f64 = 1.5;
/// YCSB's generator, which the paper's figures look like.
const DISTRIBUTION: Distribution = Distribution::Ycsb;
/// The paper's data.
const DATA_GB: f64 = 50.0;

const OPERATIONS: &str = "one client, batches of 16, one background thread, SSD: where temporary files are";

/// A figure of a run.
type Read = fn(&Counted) -> f64;

/// Runs placements of one workload in turn, over and over; for each placement its runs.
fn alternate<const N: usize>(
    settings: &Settings,
    placements: [Placement; N],
    records: u32,
    (drive, shares, sets_percent): (Drive, Shares, f64),
) -> anyhow::Result<[Vec<Counted>; N]> {
    let runs = settings.runs.min(RUNS_MAX) as usize;
    let items: Vec<(Placement, u64)> =
        settings.seeds().take(runs).flat_map(|seed| placements.map(|placement| (placement, seed))).collect();
    // What is timed has the machine for itself.
    let threads = if drive == Drive::Timed { 1 } else { settings.threads };
    let counted = each("T2, T3", threads, &items, |&(placement, seed)| {
        bed::run(&Plan {
            drive,
            choices: placement.into(),
            distribution: DISTRIBUTION,
            records,
            shares,
            sets_percent,
            warm: WARM,
            measured: TIMED,
            shifted: 0.0,
            seed,
            background_threads: 1,
        })
    })?;
    Ok(std::array::from_fn(|i| counted.iter().skip(i).step_by(N).copied().collect()))
}

fn ratio(a: &[Counted], b: &[Counted], figure: Read) -> Interval {
    let of = |runs: &[Counted]| runs.iter().map(figure).collect::<Vec<_>>();
    Interval::of_ratios(&of(a), &of(b))
}

fn setting(records: u32, workload: &str, shares: Shares) -> String {
    format!(
        "{workload}, {DISTRIBUTION}, {records} records, DRAM for {}% and PMem for {}% of them; clock/beats",
        shares.dram, shares.pmem
    )
}

/// T2: half of the operations are sets.
pub(super) fn write_heavy(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    const SETS: f64 = 50.0;
    const WHAT: &str = "tac / anti-2, throughput, WH, profile optane-200";
    let shares = hits::SHARES;
    let records = match bed::records(settings, RECORDS, (Drive::Timed, shares)) {
        Ok(records) => records,
        Err(reason) => return Ok(vec![missing("T2", WHAT, "at least 1.48".into(), reason)]),
    };
    let placements = [Placement::Tac, Placement::Anti2];
    let [tac, anti_2] = alternate(settings, placements, records, (Drive::Timed, shares, SETS))?;
    let ours = ratio(&tac, &anti_2, |run| run.rate);
    let mut rows = vec![Row {
        id: "T2",
        what: WHAT.into(),
        setting: format!("{}; {OPERATIONS}", setting(records, "WH", shares)),
        paper: "at least 1.48".into(),
        ours: ours.into(),
        kind: Kind::Emulated,
        holds: Holds::Judged(ours.mean >= 1.48),
    }];
    let [tac, anti_2] = alternate(settings, placements, records, (Drive::Counted, shares, SETS))?;
    let figures: [(&str, Read); 3] = [
        ("bytes written to PMem (its log, too) and SSD", |run| run.pmem_written + run.ssd_written),
        ("bytes written to the SSD", |run| run.ssd_written),
        ("reads of the SSD", |run| run.ssd_reads),
    ];
    for (what, figure) in figures {
        rows.push(Row {
            id: "T2",
            what: format!("tac / anti-2, {what}, WH"),
            setting: setting(records, "WH", shares),
            paper: Figure::None,
            ours: ratio(&tac, &anti_2, figure).into(),
            kind: Kind::Deterministic,
            holds: Holds::NotJudged("the paper has no figure".into()),
        });
    }
    Ok(rows)
}

/// T3: gets alone, at two sizes of memory.
pub(super) fn read_only(settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (gigabytes, pmem, less_nvm, less_2) in [(2.0, 16.0, 1.5, 1.04), (8.0, 64.0, 1.27, 1.44)] {
        let what = |other: &str| {
            let sizes = format!("DRAM {gigabytes} GB + PMem {pmem} GB for {DATA_GB} GB");
            format!("tac / {other}, throughput, RO, profile {PROFILE}, {sizes}")
        };
        let others = [("anti-nvm", less_nvm), ("anti-2", less_2)];
        let shares = Shares { dram: 100.0 * gigabytes / DATA_GB, pmem: 100.0 * pmem / DATA_GB };
        let records = match bed::records(settings, RECORDS, (Drive::Timed, shares)) {
            Ok(records) => records,
            Err(reason) => {
                let missing =
                    |(other, paper): (&str, f64)| missing("T3", &what(other), paper.into(), reason.clone());
                rows.extend(others.map(missing));
                continue;
            }
        };
        let placements = [Placement::Tac, Placement::AntiNvm, Placement::Anti2];
        let [tac, nvm, anti_2] = alternate(settings, placements, records, (Drive::Timed, shares, 0.0))?;
        for ((other, paper), runs) in others.into_iter().zip([nvm, anti_2]) {
            let ours = ratio(&tac, &runs, |run| run.rate);
            rows.push(Row {
                id: "T3",
                what: what(other),
                setting: format!("{}; {OPERATIONS}", setting(records, "RO", shares)),
                paper: paper.into(),
                ours: ours.into(),
                kind: Kind::Emulated,
                holds: Holds::Judged(ours.low() > 1.0),
            });
        }
    }
    Ok(rows)
}

fn missing(id: &'static str, what: &str, paper: Figure, reason: String) -> Row {
    Row::not_measured(id, what, paper, Kind::Emulated, reason)
}
