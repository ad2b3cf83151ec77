//! H4: what the operation log costs: the same store with it and without. Timed, over an emulated device.

use std::time::Duration;

use terrace::engine::Durability;

use super::super::sheet::Sheet;
use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Settings, Shape};
use super::bed::{Job, OPTANE, System, rates, timed};
use crate::workload::Workload;

/// The paper's, at most, percent.
const PAPER: f64 = 45.0;
const INDEX: &str = "clht";
/// Without the log, and with it.
const MODES: [Durability; 3] =
    [Durability::None, Durability::Batch(Duration::from_millis(100)), Durability::Sync];
const WORKLOADS: [Workload; 2] = [Workload::WriteHeavy, Workload::ReadHeavy];
/// Operations that are answered together: a group of the log is a batch's.
const BATCHES: [usize; 2] = [1, 16];

/// H4.
pub(super) fn figure_15(settings: &Settings) -> anyhow::Result<Outcome> {
    let mut jobs = Vec::new();
    for (workload, batch) in WORKLOADS.into_iter().flat_map(|workload| BATCHES.map(|batch| (workload, batch)))
    {
        jobs.extend(
            MODES.map(|mode| Job {
                batch,
                ..Job::new(System::Hetermm(mode, OPTANE), INDEX, workload, settings)
            }),
        );
    }
    let runs = timed("H4", settings, &jobs)?;
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for (jobs, runs) in jobs.chunks(MODES.len()).zip(runs.chunks(MODES.len())) {
        let (job, without) = (jobs[0], rates(&runs[0]));
        let name = job.workload.name().to_uppercase();
        let setting = format!("{}, emulated: profile {OPTANE}; index {INDEX}", job.setting());
        let mut sheet = Sheet::new("H4", Kind::Emulated, setting);
        for (mode, runs) in MODES.into_iter().zip(runs).skip(1) {
            let lost: Vec<f64> = rates(runs)
                .iter()
                .zip(&without)
                .map(|(with, without)| 100.0 * (1.0 - with / without))
                .collect();
            let ours = Interval::of(&lost);
            let what =
                format!("{name}, {} together: throughput lost by the log, {mode} against none, %", job.batch);
            // The paper answers when the entry is persistent.
            let is_papers = mode == Durability::Sync && job.workload == Workload::WriteHeavy;
            if is_papers {
                let what = format!("{what}; at most {PAPER}");
                sheet.row(what, format!("at most {PAPER}"), ours, Holds::Judged(ours.mean <= PAPER));
            } else {
                sheet.row(what, Figure::None, ours, Holds::NotJudged("the paper has no figure".into()));
            }
        }
        rows.extend(sheet.into_rows());
        for (mode, runs) in MODES.into_iter().zip(runs) {
            let millions = Interval::of(&rates(runs)).mean / 1e6;
            groups.push((format!("{name} {}\n{mode}", job.batch), vec![millions]));
        }
    }
    let plot = Plot {
        file: "H4-log".into(),
        title: format!("With and without the log, 1 and 16 together, profile {OPTANE} (emulated)"),
        y: "million a second".into(),
        shape: Shape::Bars { parts: vec!["operations".into()], groups },
    };
    Ok(Outcome { rows, plots: vec![plot] })
}
