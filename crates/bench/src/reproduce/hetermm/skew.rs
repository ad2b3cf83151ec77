//! H7: what Zipf 1.5 does beside Zipf 0.99: to writes, which meet at a few buckets, and to reads.

use terrace::engine::Durability;

use super::super::sheet::Sheet;
use super::super::{Figure, Holds, Interval, Kind, Outcome, Row, Settings};
use super::bed::{Job, OPTANE, System, rates, timed};
use crate::distribution::YCSB_EXPONENT;
use crate::workload::Workload;

const SKEWED: f64 = 1.5;
/// The paper's workers.
const WORKERS: usize = 16;

/// System, index, workload, and whether the paper says that throughput falls (`true`) or rises.
fn cases() -> [(System, &'static str, Workload, Option<bool>); 6] {
    let ours = System::Hetermm(Durability::Sync, OPTANE);
    [
        (ours, "clht", Workload::WriteHeavy, Some(true)),
        (System::Dram, "clht", Workload::WriteHeavy, Some(true)),
        (ours, "lockfree", Workload::WriteHeavy, None),
        (ours, "btree", Workload::WriteHeavy, None),
        (ours, "clht", Workload::ReadOnly, Some(false)),
        (ours, "btree", Workload::ReadOnly, Some(false)),
    ]
}

/// H7.
pub(super) fn section_6_2_2(settings: &Settings) -> anyhow::Result<Outcome> {
    let cores = std::thread::available_parallelism()?.get();
    let threads = cores.clamp(2, WORKERS);
    let mut jobs = Vec::new();
    for (system, index, workload, _) in cases() {
        let job = Job { threads, ..Job::new(system, index, workload, settings) };
        jobs.extend([YCSB_EXPONENT, SKEWED].map(|exponent| Job { exponent, ..job }));
    }
    let runs = timed("H7", settings, &jobs)?;
    let mut sheet = Sheet::new(
        "H7",
        Kind::Emulated,
        format!(
            "{}; this machine has {cores} cores, the paper's {WORKERS}; hetermm under sync, emulated: profile {OPTANE}",
            Job { threads, ..jobs[0] }.setting().replace(&format!("zipfian:{YCSB_EXPONENT}"), "zipfian:Z")
        ),
    );
    for ((system, index, workload, falls), runs) in cases().into_iter().zip(runs.chunks(2)) {
        let ours = Interval::of_ratios(&rates(&runs[1]), &rates(&runs[0]));
        let engine = if system == System::Dram { "dram" } else { "hetermm" };
        let name = workload.name().to_uppercase();
        let what = format!("{engine} with {index}, {name}: Z {SKEWED} / {YCSB_EXPONENT}, throughput");
        let (paper, holds): (Figure, Holds) = match falls {
            None => (Figure::None, Holds::NotJudged("the paper has no figure".into())),
            Some(false) => ("above 1".into(), Holds::Judged(ours.mean > 1.0)),
            Some(true) if cores >= WORKERS => ("far below 1".into(), Holds::Judged(ours.mean < 1.0)),
            Some(true) => {
                let reason = format!("{WORKERS} workers meet in the paper, and {threads} here");
                ("far below 1".into(), Holds::NotJudged(reason))
            }
        };
        sheet.row(what, paper, ours, holds);
    }
    let mut rows = sheet.into_rows();
    rows.push(Row::not_measured(
        "H7",
        format!("hetermm / TIPS with btree, RO, Z {SKEWED}, throughput"),
        "below 1",
        Kind::Emulated,
        super::NO_PEER,
    ));
    Ok(Outcome { rows, plots: Vec::new() })
}
