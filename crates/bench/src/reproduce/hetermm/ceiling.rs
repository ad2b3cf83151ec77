//! H6: beside the same index with everything in DRAM, which no store over slower memory passes: how near ours comes.
//!
//! ```text
//!   one operation at a time, sync     as the paper's: over memory as fast as DRAM, and over a device, with its bound
//!   batches, the default durability   over memory as fast as DRAM: the engine's own cost, for which there are aims
//! ```

use terrace::engine::Durability;
use terrace_media::Profile;

use super::super::sheet::Sheet;
use super::super::{Figure, Holds, Interval, Kind, Outcome, Plot, Settings, Shape};
use super::bed::{Job, NO_DELAYS, OPTANE, System, Timed, rates, timed};
use crate::workload::Workload;

/// Those of all indexes, and what ordered ones have beside them.
const WORKLOADS: [Workload; 3] = [Workload::ReadOnly, Workload::ReadHeavy, Workload::WriteHeavy];
const ORDERED: Workload = Workload::ScanHeavy;
/// The paper's, and ours for its LFHT.
const INDEXES: [(&str, bool); 3] = [("clht", false), ("lockfree", false), ("btree", true)];
/// Operations of a batch.
const BATCH: usize = 16;
/// Runs of a case.
const JOBS: usize = 5;

/// In batches over memory as fast as DRAM, with the default index.
fn aim(index: &str, workload: Workload) -> Option<f64> {
    match (index, workload) {
        ("clht", Workload::WriteHeavy) => Some(0.45),
        ("clht", Workload::ReadHeavy | Workload::ReadOnly) => Some(0.7),
        _ => None,
    }
}

/// What is run of an index and a workload: everything in DRAM, and ours over either profile; the first and the second
/// in batches.
fn jobs(index: &'static str, workload: Workload, settings: &Settings) -> [Job; JOBS] {
    let hetermm = |durability, profile| System::Hetermm(durability, profile);
    let one = |system| Job::new(system, index, workload, settings);
    let many = |system| Job { batch: BATCH, ..one(system) };
    [
        one(System::Dram),
        one(hetermm(Durability::Sync, NO_DELAYS)),
        one(hetermm(Durability::Sync, OPTANE)),
        many(System::Dram),
        many(hetermm(Durability::default(), NO_DELAYS)),
    ]
}

/// Gets of this share of the operations.
fn gets_share(workload: Workload) -> Option<f64> {
    match workload {
        Workload::ReadOnly => Some(1.0),
        Workload::ReadHeavy => Some(0.95),
        Workload::WriteHeavy => Some(0.5),
        _ => None,
    }
}

/// What the device makes an operation wait for at least, in seconds: a read of each get below DRAM, one granule's write
/// of each set.
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
    let mut all = Vec::new();
    for (index, is_ordered) in INDEXES {
        for workload in WORKLOADS.into_iter().chain(is_ordered.then_some(ORDERED)) {
            all.extend(jobs(index, workload, settings));
        }
    }
    let runs = timed("H6", settings, &all)?;
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for (jobs, runs) in all.chunks(JOBS).zip(runs.chunks(JOBS)) {
        let ([job, .., batched], [dram, fast, slow, dram_batched, batches]) = (jobs, runs) else {
            anyhow::bail!("a job was lost")
        };
        let workload = job.workload.name().to_uppercase();
        let name = format!("{}, {workload}", job.index);
        let setting =
            |job: &Job, durability| format!("{}, hetermm under {durability}, emulated", job.setting());
        let mut sheet = Sheet::new("H6", Kind::Emulated, setting(job, Durability::Sync));
        let curves = || Holds::NotJudged("the paper shows curves, without numbers".into());
        for (profile, runs) in [(NO_DELAYS, fast), (OPTANE, slow)] {
            let what = format!("{name}: hetermm / dram, throughput, profile {profile}");
            sheet.row(what, "below 1", Interval::of_ratios(&rates(runs), &rates(dram)), curves());
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
        let mut sheet = Sheet::new("H6", Kind::Emulated, setting(batched, Durability::default()));
        let ours = Interval::of_ratios(&rates(batches), &rates(dram_batched));
        let what = format!("{name}, batches: hetermm / dram, throughput, profile {NO_DELAYS}");
        match aim(job.index, job.workload) {
            None => sheet.row(what, Figure::None, ours, Holds::NotJudged("the paper has no batches".into())),
            Some(aim) => sheet.row(
                format!("{what}; at least {aim}"),
                Figure::None,
                ours,
                Holds::Judged(ours.mean >= aim),
            ),
        }
        rows.extend(sheet.into_rows());
        let slow = Interval::of_ratios(&rates(slow), &rates(dram));
        groups.push((format!("{}\n{workload}", job.index), vec![100.0 * slow.mean]));
    }
    let plot = Plot {
        file: "H6-ceiling".into(),
        title: format!("hetermm beside dram with the same index, profile {OPTANE} (emulated)"),
        y: "% of the throughput of dram".into(),
        shape: Shape::Bars { parts: vec!["throughput".into()], groups },
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
