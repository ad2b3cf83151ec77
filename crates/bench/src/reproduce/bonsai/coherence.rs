//! B8: cache lines that copies on other NUMA nodes cost, by how they stop to count. Counted.

use anyhow::ensure;
use terrace::Coherence;
use terrace_engine::{Durability, Stats};
use terrace_space_scm_log::Geometry;

use super::super::in_memory::{Making, PAGE_BYTES, detail, finish, make, take_a_turn};
use super::super::plot::{Plot, Shape};
use super::super::{Figure, Holds, Interval, Kind, Outcome, Row, Settings, each, shared_memory};
use super::bed::{Job, Memory, OPTANE, Phase, of_phase, rates};
use super::counted::BATCH;
use super::systems::System;
use super::{WORD_BYTES, pairs};
use crate::Verify;
use crate::client::{Client, Local, Work};
use crate::content::Content;
use crate::distribution::{Distribution, Generator, YCSB_EXPONENT};
use crate::latency::Tally;
use crate::plan::Planned;
use crate::rng::Rng;
use crate::workload;

/// NUMA nodes, with a client on each.
const NODES: u32 = 2;
/// Of a hundred operations, those that are reads.
const READS: [u64; 7] = [100, 99, 95, 75, 50, 25, 5];
const HOW: [Coherence; 3] = [Coherence::SelfInvalidate, Coherence::Invalidate, Coherence::Update];
/// What the engine tells, by where lines are.
const COUNTED: [(&str, &[&str]); 4] = [
    ("DRAM at home", &["bonsai_copy_lines_dram_read", "bonsai_copy_lines_dram_written"]),
    ("DRAM of another node", &["bonsai_copy_lines_far_dram_read", "bonsai_copy_lines_far_dram_written"]),
    ("PMem at home", &["bonsai_copy_reads", "bonsai_copies_made"]),
    ("PMem of another node", &["bonsai_far_reads", "bonsai_copy_lines_far_pmem_written"]),
];

fn name(how: Coherence) -> &'static str {
    match how {
        Coherence::SelfInvalidate => "WoSI",
        Coherence::Invalidate => "write-invalidate",
        Coherence::Update => "write-update",
        Coherence::None => "no copies",
    }
}

/// Lines, by where they are, as in [`COUNTED`].
type Lines = [u64; COUNTED.len()];

fn lines(stats: &Stats) -> anyhow::Result<Lines> {
    let mut lines = [0; COUNTED.len()];
    for (sum, (_, names)) in lines.iter_mut().zip(COUNTED) {
        for name in names {
            *sum += detail(stats, name)?;
        }
    }
    Ok(lines)
}

/// The lines that so many operations took on each node, `reads` of a hundred of them reads.
fn count((reads, how): (u64, Coherence), pairs: u64, seed: u64) -> anyhow::Result<Lines> {
    let content = Content::new(WORD_BYTES, WORD_BYTES, false, seed);
    let geometry =
        Geometry { page_bytes: PAGE_BYTES, buckets: 0, bytes: System::pmem_bytes(3 * pairs, WORD_BYTES) };
    let store = make(&Making {
        is_ordered: true,
        geometry,
        dram_bytes: System::bonsai_dram_bytes(pairs),
        durability: Durability::Sync,
        seed,
        nodes: Some((NODES, how)),
    })?;
    let mut tally = Tally::new()?;
    let mut clients =
        (0..NODES).map(|_| Ok(Local::new(store.session()?, 1))).collect::<anyhow::Result<Vec<_>>>()?;
    let mut nonce = 0;
    let mut run = |client: &mut Local, operations: &[Planned]| {
        let work = Work { operations, content: &content, verify: Verify::All, nonce, due: None };
        nonce += operations.len() as u64;
        client.run(&work, &mut tally)?;
        take_a_turn(&*store);
        anyhow::Ok(())
    };
    let mut operations = Vec::with_capacity(BATCH);
    for first in (0..pairs).step_by(BATCH) {
        let node = (first / BATCH as u64) as u32 % NODES;
        terrace_media::settle(node);
        operations.clear();
        let records = first..(first + BATCH as u64).min(pairs);
        operations.extend(records.map(|record| Planned::new(workload::Kind::Insert, record)));
        run(&mut clients[node as usize], &operations)?;
    }
    finish(&*store);
    let before = lines(&store.stats())?;
    let generator = Generator::new(Distribution::Zipfian(YCSB_EXPONENT), pairs, seed, 0, 1);
    let mut rng = Rng::new(seed, 1);
    for _ in (0..pairs).step_by(BATCH) {
        for (node, client) in (0..).zip(&mut clients) {
            terrace_media::settle(node);
            operations.clear();
            for _ in 0..BATCH {
                let kind = match rng.below(100) < reads {
                    true => workload::Kind::Get,
                    false => workload::Kind::Set,
                };
                operations.push(Planned::new(kind, generator.draw(&mut rng)));
            }
            run(client, &operations)?;
        }
    }
    finish(&*store);
    ensure!(tally.errors.is_empty() && tally.wrong == 0 && tally.misses == 0, "answers are wrong");
    let after = lines(&store.stats())?;
    drop(clients);
    Ok(std::array::from_fn(|i| after[i] - before[i]))
}

/// Gets with copies beside gets without them, timed over emulated devices.
fn gets(settings: &Settings) -> anyhow::Result<Row> {
    let what = "gets, Zipf 0.99, once entries are copied: with copies / without, throughput";
    if let Some(reason) = shared_memory::missing() {
        return Ok(Row::not_measured("B8", what, Figure::None, Kind::Emulated, reason));
    }
    const PHASES: &[Phase] = &[Phase::HotGets, Phase::HotGets];
    let job = |coherence| Job {
        memory: Memory::OnNodes(coherence),
        ..Job::new(System::Bonsai, OPTANE, PHASES, settings)
    };
    let jobs = [job(Coherence::SelfInvalidate), job(Coherence::None)];
    let runs = rates("B8", settings, &jobs)?;
    Ok(Row {
        id: "B8",
        what: what.into(),
        setting: jobs[0].setting(),
        paper: Figure::None,
        ours: Interval::of_ratios(&of_phase(&runs[0], 1), &of_phase(&runs[1], 1)).into(),
        kind: Kind::Emulated,
        holds: Holds::NotJudged("the paper has no figure of it alone".into()),
    })
}

/// B8.
pub(super) fn figure_12b(settings: &Settings) -> anyhow::Result<Outcome> {
    let pairs = pairs(settings);
    let asked: Vec<_> = READS.iter().flat_map(|reads| HOW.map(|how| (*reads, how))).collect();
    let found = each("B8", settings.threads, &asked, |asked| count(*asked, pairs, settings.seed))?;
    let operations = (u64::from(NODES) * pairs) as f64;
    let setting = format!(
        "{pairs} pairs of 8 + 8 B on {NODES} NUMA nodes (emulated), {pairs} operations of a client on each, Zipf 0.99, in batches of \
         {BATCH} by turns; lines of copies, of stamps, of the sketch, and of entries of another node that are read; in the process's memory"
    );
    let mut rows = Vec::new();
    let total = |lines: &Lines| lines.iter().sum::<u64>() as f64;
    let of = |mix: usize, how: usize| &found[mix * HOW.len() + how];
    for (other, beside) in HOW.into_iter().enumerate().skip(1) {
        for (mix, reads) in READS.iter().enumerate() {
            let ours = total(of(mix, 0)) / total(of(mix, other)).max(1.0);
            let holds = match reads {
                100 => Holds::NotJudged("nothing is written, so that all are alike".into()),
                _ => Holds::Judged(ours < 1.0),
            };
            rows.push(Row {
                id: "B8",
                what: format!(
                    "cache lines read and written, WoSI / {}, {reads}% reads; below 1",
                    name(beside)
                ),
                setting: setting.clone(),
                paper: "below 1".into(),
                ours: ours.into(),
                kind: Kind::Deterministic,
                holds,
            });
        }
    }
    for (how, coherence) in HOW.into_iter().enumerate() {
        let each = READS.iter().enumerate().map(|(mix, reads)| {
            let parts = of(mix, how).map(|lines| format!("{:.3}", lines as f64 / operations));
            format!("{reads}%: {}", parts.join(" "))
        });
        rows.push(Row {
            id: "B8",
            what: format!(
                "{}: lines an operation, {}",
                name(coherence),
                COUNTED.map(|(name, _)| name).join(", ")
            ),
            setting: setting.clone(),
            paper: Figure::None,
            ours: each.collect::<Vec<_>>().join("; ").into(),
            kind: Kind::Deterministic,
            holds: Holds::NotJudged("the paper draws them".into()),
        });
    }
    let groups = asked.iter().zip(&found).map(|((reads, how), lines)| {
        let a_thousand = lines.map(|lines| lines as f64 / operations);
        (format!("{reads}% {}", name(*how)), a_thousand.to_vec())
    });
    let plot = Plot {
        file: "B8-coherence".into(),
        title: format!("Cache lines of copies on {NODES} NUMA nodes (emulated), counted"),
        y: "lines an operation".into(),
        shape: Shape::Bars {
            parts: COUNTED.iter().map(|(name, _)| (*name).to_owned()).collect(),
            groups: groups.collect(),
        },
    };
    rows.push(gets(settings)?);
    Ok(Outcome { rows, plots: vec![plot] })
}
