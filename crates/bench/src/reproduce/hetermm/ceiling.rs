//! H6: beside the same index with everything in DRAM, which no store over slower memory passes: how near ours comes.

use terrace::engine::Durability;
use terrace_media::Profile;

use super::super::sheet::Sheet;
use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Settings, Shape};
use super::bed::{Job, NO_DELAYS, OPTANE, System, Timed, rates, timed};
use crate::workload::Workload;

/// Those of all workloads, and what ordered indexes have beside them.
const WORKLOADS: [Workload; 3] = [Workload::ReadOnly, Workload::ReadHeavy, Workload::WriteHeavy];
const ORDERED: Workload = Workload::ScanHeavy;
/// The paper's, and ours for its LFHT.
const INDEXES: [(&str, bool); 3] = [("clht", false), ("lockfree", false), ("btree", true)];
/// Sets are safe when they are answered, as the paper's.
const DURABILITY: Durability = Durability::Sync;
/// Gets of this share of the operations.
fn gets_share(workload: Workload) -> Option<f64> {
    match workload {
        Workload::ReadOnly => Some(1.0),
        Workload::ReadHeavy => Some(0.95),
        Workload::WriteHeavy => Some(0.5),
        _ => None,
    }
}

/// What the device makes an operation wait for at least, in seconds: a read of each get below DRAM, one granule's write of each set.
fn waits(profile: &Profile, dram: &Profile, gets: f64, hits: f64) -> f64 {
    let read = profile.read_random_ns.saturating_sub(dram.read_random_ns) as f64;
    let store = profile.store_ns.saturating_sub(dram.store_ns) as f64;
    let transfer = profile.write_gb_per_s.map_or(0.0, |gigabytes| profile.granule_bytes as f64 / gigabytes);
    1e-9 * (gets * (1.0 - hits) * read + (1.0 - gets) * store.max(transfer))
}

/// The ratio that hits and profile allow, if all else takes as long as without a lower tier.
fn bound(job: &Job, dram: &[Timed], ours: &[Timed]) -> anyhow::Result<Option<Interval>> {
    let Some(gets) = gets_share(job.workload) else { return Ok(None) };
    let (profile, plain) = (Profile::built_in(OPTANE)?, Profile::built_in(NO_DELAYS)?);
    let bounds: Vec<f64> = dram
        .iter()
        .zip(ours)
        .map(|(dram, ours)| {
            let without = job.threads as f64 / dram.rate;
            without / (without + waits(&profile, &plain, gets, ours.hits))
        })
        .collect();
    Ok(Some(Interval::of(&bounds)))
}

/// H6.
pub(super) fn figures_8_and_9(settings: &Settings) -> anyhow::Result<Outcome> {
    let mut jobs = Vec::new();
    for (index, is_ordered) in INDEXES {
        for workload in WORKLOADS.into_iter().chain(is_ordered.then_some(ORDERED)) {
            let systems =
                [System::Dram, System::Hetermm(DURABILITY, NO_DELAYS), System::Hetermm(DURABILITY, OPTANE)];
            jobs.extend(systems.map(|system| Job::new(system, index, workload, settings)));
        }
    }
    let runs = timed("H6", settings, &jobs)?;
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for (jobs, runs) in jobs.chunks(3).zip(runs.chunks(3)) {
        let [job, _, _] = jobs else { anyhow::bail!("a job was lost") };
        let [dram, fast, slow] = runs else { anyhow::bail!("a job was lost") };
        let name = format!("{}, {}", job.index, job.workload.name().to_uppercase());
        let setting = format!("{}, hetermm under {DURABILITY}, emulated", job.setting());
        let mut sheet = Sheet::new("H6", Kind::Emulated, setting);
        let curves = || Holds::NotJudged("the paper shows curves, without numbers".into());
        for (profile, runs) in [(NO_DELAYS, fast), (OPTANE, slow)] {
            let ours = Interval::of_ratios(&rates(runs), &rates(dram));
            let what = format!("{name}: hetermm / dram, throughput, profile {profile}");
            sheet.row(what, "below 1", ours, curves());
            groups.push((format!("{}\n{} {profile}", job.index, job.workload.name()), vec![ours.mean]));
        }
        if let Some(bound) = bound(job, dram, slow)? {
            let hits = 100.0 * Interval::of(&slow.iter().map(|run| run.hits).collect::<Vec<_>>()).mean;
            sheet.row(
                format!("{name}: what DRAM's hits ({hits:.0}%) and {OPTANE} allow of that"),
                Figure::None,
                bound,
                Holds::NotJudged("computed from the rates of dram and the profile's waits".into()),
            );
        }
        rows.extend(sheet.into_rows());
    }
    let plot = Plot {
        file: "H6-ceiling".into(),
        title: "hetermm / dram with the same index (emulated)".into(),
        y: "ratio of throughput".into(),
        shape: Shape::Bars { parts: vec!["ratio".into()], groups },
    };
    Ok(Outcome { rows, plots: vec![plot] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_the_profile() {
        let (profile, dram) = (Profile::built_in(OPTANE).unwrap(), Profile::built_in(NO_DELAYS).unwrap());
        let of = |gets, hits| 1e9 * waits(&profile, &dram, gets, hits);
        assert!(of(1.0, 1.0).abs() < 1e-9);
        assert!((of(1.0, 0.0) - 217.0).abs() < 1e-6);
        assert!((of(0.5, 1.0) - 0.5 * 256.0 / 3.0).abs() < 1e-6);
        assert!(1e9 * waits(&dram, &dram, 0.5, 0.0) < 1e-9);
    }
}
