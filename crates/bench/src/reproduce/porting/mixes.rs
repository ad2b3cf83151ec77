//! P7: YCSB's mixes, and operations a second beside the paper's.

use terrace::engine::Durability;
use terrace::{Place, Size, TierSpec};

use super::super::{Figure, Holds, Interval, Kind, Outcome, Row, Settings, each, shared_memory};
use super::bed::{Engine, PROFILE};
use crate::{Config, Workload};

const RECORDS: u32 = 50_000;
/// Operations, in numbers of records.
const OPERATIONS: u64 = 3;
/// Runs, at most.
const RUNS_MAX: u32 = 3;
/// YCSB's records.
const VALUE_BYTES: usize = 1000;
/// PMem for a record.
const PMEM_BYTES: u64 = 2048;
const PMEM_LEAST: u64 = 64 << 20;
/// The gap that the paper has, at most.
const GAP_MAX: f64 = 1.4;

const MIXES: [Workload; 5] = [Workload::A, Workload::B, Workload::C, Workload::D, Workload::F];

fn rate((engine, workload, seed): (Engine, Workload, u64), records: u64) -> anyhow::Result<f64> {
    let is_kept = engine != Engine::Dram;
    let bytes = PMEM_LEAST + records * PMEM_BYTES;
    let (name, heap) = engine.options();
    let config = Config {
        engine: name.into(),
        heap,
        workload,
        records,
        operations: records * OPERATIONS,
        threads: 1,
        batch: 1,
        value_bytes: VALUE_BYTES,
        dram: Some(Size::Bytes(bytes)),
        pmem: is_kept.then(|| TierSpec {
            size: Size::Bytes(bytes),
            place: Some(Place::Path(shared_memory::PATH.into())),
        }),
        profile: is_kept.then(|| PROFILE.into()),
        durability: is_kept.then_some(Durability::Sync),
        seed,
        ..Config::default()
    };
    let report = crate::run(&config)?;
    anyhow::ensure!(report.errors.is_empty(), "{} refused operations: {:?}", engine.name(), report.errors);
    Ok(report.ops_per_second)
}

/// P7.
pub(super) fn figures_13_and_14(settings: &Settings) -> anyhow::Result<Outcome> {
    const PAPER: &str = "1.1 to 1.4 (8 clients)";
    if let Some(outcome) = shared_memory::outcome_without(
        "P7",
        "heap-hybrid / heap-persistent, throughput of YCSB's mixes",
        PAPER,
        Kind::Emulated,
    ) {
        return Ok(outcome);
    }
    let records = u64::from(settings.records(RECORDS));
    let runs = settings.runs.min(RUNS_MAX) as usize;
    let items: Vec<(Engine, Workload, u64)> = MIXES
        .into_iter()
        .flat_map(|mix| settings.seeds().take(runs).map(move |seed| (mix, seed)).collect::<Vec<_>>())
        .flat_map(|(mix, seed)| Engine::ALL.map(|engine| (engine, mix, seed)))
        .collect();
    let rates = each("P7", 1, &items, |item| rate(*item, records))?;
    let of = |engine: Engine, mix: Workload| -> Vec<f64> {
        let both = items.iter().zip(&rates);
        both.filter(|((of, in_mix, _), _)| (*of, *in_mix) == (engine, mix)).map(|(_, rate)| *rate).collect()
    };
    let row = |what: String, paper: Figure, ours: Figure, holds: Holds| Row {
        id: "P7",
        what,
        setting: format!(
            "YCSB, {records} records of {VALUE_BYTES} B, Zipf 0.99 (D: the latest); one client that waits for each answer; sync; profile \
             {PROFILE}"
        ),
        paper,
        ours,
        kind: Kind::Emulated,
        holds,
    };
    let mut rows = Vec::new();
    let hybrids = [Engine::Hybrid, Engine::Objects];
    for (mix, hybrid) in MIXES.into_iter().flat_map(|mix| hybrids.map(|hybrid| (mix, hybrid))) {
        let ours = Interval::of_ratios(&of(hybrid, mix), &of(Engine::Persistent, mix));
        let name = hybrid.name();
        rows.push(row(
            format!("{name} / heap-persistent, throughput, {mix:?}; no more than the paper's gap"),
            PAPER.into(),
            ours.into(),
            Holds::Judged(ours.mean <= GAP_MAX),
        ));
    }
    let papers =
        ["450,000 (Redis)", "82,826 (Memcached)", "126,510 (Redis)", "68,828 (Redis) 56,747 (Memcached)"];
    for (engine, paper) in Engine::ALL.into_iter().zip(papers) {
        let mean = Interval::of(&of(engine, Workload::A)).mean;
        rows.push(row(
            format!("{}, operations a second, A; the paper's are inserts", engine.name()),
            paper.into(),
            format!("{mean:.0}").into(),
            Holds::NotJudged("the paper's go through a protocol, and rates depend on the machine".into()),
        ));
    }
    rows.push(Row::not_measured(
        "P7",
        "Redis with a value threshold, with its AOF on PMem; Lenovo's Memcached, operations a second",
        "233744 144466 66546",
        Kind::Measured,
        "other programs, which are not started",
    ));
    Ok(Outcome { rows, plots: Vec::new() })
}
