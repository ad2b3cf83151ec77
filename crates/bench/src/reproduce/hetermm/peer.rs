//! H1: beside TIPS, which is another system: our stand-in for it with a hash table is driven instead, and labelled so.
//! Timed.

use super::super::driven::Driven;
use super::super::sheet::Sheet;
use super::super::{Holds, Interval, Kind, Outcome, Row, Settings, each, in_turns};
use super::bed::{Job, OPTANE, RUNS_MAX, System};
use super::stand_in::StandIn;
use super::{KEY_BYTES, VALUE_BYTES};
use crate::Verify;
use crate::client::Client;
use crate::content::Content;
use crate::workload::Workload;
use crate::{plan, workload};
use terrace::engine::Durability;

const INDEX: &str = "clht";
/// The paper's table 2, 16 workers: of CLHT.
const PAPER: [(Workload, f64); 3] =
    [(Workload::WriteHeavy, 3.56), (Workload::ReadHeavy, 4.19), (Workload::ReadOnly, 5.40)];
/// Of the others.
const OTHERS: [(&str, &str); 2] =
    [("LFHT (ours: lockfree)", "WH 3.65, RH 4.64, RO 7.37"), ("btree", "WH 2.06, RH 1.11, RO 1.51, SH 5.60")];
/// What a set of TIPS writes, by the paper.
const PAPER_WRITES: f64 = 5.0;
/// Sets whose writes are counted.
const COUNTED: u32 = 20_000;

/// What is driven.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Ours(Job),
    StandIn(Job),
}

/// The stand-in under the operations that a job has, as a job drives a store: loaded, then timed; operations a second.
fn drive(job: &Job, seed: u64) -> anyhow::Result<f64> {
    let store = StandIn::new(job.records, OPTANE)?;
    let content = Content::new(KEY_BYTES, VALUE_BYTES, false, seed);
    let connect = || Ok(Box::new(store.client()?) as Box<dyn Client>);
    let driven = Driven { connect: &connect, content: &content, records: job.records };
    driven.load(job.batch, job.threads)?;
    let config = job.config(seed);
    let plans = (0..job.threads).map(|thread| plan::measured(&config, thread)).collect();
    let (_, took) = driven.run("run", job.batch, Verify::Sample, plans)?;
    driven.check(job.batch)?;
    Ok(config.operations as f64 / took.as_secs_f64())
}

/// Write bursts of a set of the stand-in, replayed.
fn writes(sets: u64, seed: u64) -> anyhow::Result<f64> {
    let store = StandIn::new(sets, "dram")?;
    let content = Content::new(KEY_BYTES, VALUE_BYTES, false, seed);
    let connect = || Ok(Box::new(store.client()?) as Box<dyn Client>);
    let driven = Driven { connect: &connect, content: &content, records: sets };
    driven.load(1, 1)?;
    let again = (0..sets).map(|record| plan::Planned::new(workload::Kind::Set, record)).collect();
    driven.run("run", 1, Verify::All, vec![again])?;
    driven.check(1)?;
    Ok(store.media(2 * sets).writes as f64 / (2 * sets) as f64)
}

/// H1.
pub(super) fn table_2(settings: &Settings) -> anyhow::Result<Outcome> {
    let ours = System::Hetermm(Durability::Sync, OPTANE);
    let peers: Vec<Peer> = PAPER
        .into_iter()
        .map(|(workload, _)| Job::new(ours, INDEX, workload, settings))
        .flat_map(|job| [Peer::Ours(job), Peer::StandIn(job)])
        .collect();
    let runs = in_turns("H1", settings, RUNS_MAX, &peers, |peer, seed| match peer {
        Peer::Ours(job) => Ok(job.run(seed)?.rate),
        Peer::StandIn(job) => drive(job, seed),
    })?;
    let sets = u64::from(settings.records(COUNTED));
    let bursts = each("H1", 1, &[settings.seed], |seed| writes(sets, *seed))?;
    let is_another = "a stand-in of ours with a hash table, and the paper's is TIPS itself, with 16 workers";
    let mut counted = Sheet::new(
        "H1",
        Kind::Deterministic,
        format!(
            "our stand-in for TIPS: {sets} records loaded and replaced, all of it replayed; in the process's memory"
        ),
    );
    counted.row(
        "our stand-in for TIPS: PMem write bursts for one set",
        PAPER_WRITES,
        bursts.iter().sum::<f64>(),
        Holds::NotJudged("it shows that the stand-in writes what the paper says of TIPS".into()),
    );
    let mut rows = counted.into_rows();
    let setting = Job::new(ours, INDEX, Workload::ReadOnly, settings).setting();
    let mut timed = Sheet::new(
        "H1",
        Kind::Emulated,
        format!(
            "{setting}, emulated: profile {OPTANE}; hetermm under sync; our stand-in: a hash table and all records \
             in PMem, a table in DRAM \
             that leads to every record, operation, undo and allocation logs, one thread that replays; it has no \
             checksums, sessions, expiry or recovery, which ours has"
        ),
    );
    for ((workload, paper), runs) in PAPER.into_iter().zip(runs.chunks(2)) {
        let ours = Interval::of_ratios(&runs[0], &runs[1]);
        let name = workload.name().to_uppercase();
        let what = format!("{name}: hetermm with {INDEX} / our stand-in for TIPS, throughput");
        timed.row(what, paper, ours, Holds::NotJudged(is_another.into()));
    }
    rows.extend(timed.into_rows());
    rows.extend(OTHERS.map(|(index, paper)| {
        let what = format!("hetermm / TIPS, index {index}, throughput");
        Row::not_measured("H1", what, paper, Kind::Emulated, super::NO_PEER)
    }));
    Ok(Outcome { rows, plots: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stand_in_keeps_what_it_is_given_and_writes_five_times_a_set() {
        assert!((writes(5000, 1).unwrap() - PAPER_WRITES).abs() < f64::EPSILON);
        let settings = Settings { scale: 0.01, runs: 1, seed: 1, threads: 1 };
        let job = Job::new(System::Dram, INDEX, Workload::WriteHeavy, &settings);
        assert!(drive(&job, 1).unwrap() > 0.0);
    }
}
