//! B1 and B2: bytes of DRAM and of PMem that a pair takes. Counted.

use terrace_engine::Stats;
use terrace_index::dram::metered;

use super::super::in_memory::detail;
use super::super::{Figure, Holds, Kind, Outcome, Plot, Row, Settings, Shape, each};
use super::counted::{BATCH, Counted, Tools};
use super::pairs;
use super::systems::System;

/// DRAM a pair after checkpoints, and in the middle of a load, at most.
const AFTER_MAX: f64 = 4.6;
const BETWEEN_MAX: f64 = 6.0;
/// PMem a pair: the paper's, and ours at most.
const PMEM: f64 = 19.8;
const PMEM_MAX: f64 = 22.0;
/// How often memory is looked at while a load runs: once for so many batches.
const LOOK_BATCHES: usize = 64;
/// Pairs of a store that is made before anything is counted.
const WARM_UP_PAIRS: u64 = 1000;
/// An entry (`docs/formats/scm.md`): a key, a value, and 12 bytes of ours: version, lengths, check.
const ENTRIES: u64 = 40;
const ENTRY_BYTES: u64 = 28;
const NODE_META_BYTES: u64 = 128;
const OURS_BYTES: u64 = 12;

const NO_HOOK: &str = "this program's allocator does not count; that of the terrace command does";
const NO_FIGURE: &str = "the paper has no figure";

/// What the paper's table 3 says of a system of that shape, bytes a pair at 120 million: of DRAM, of PMem.
fn shaped_like(system: System) -> Option<(&'static str, &'static str)> {
    match system {
        System::Tree => Some(("29.9 (FlatStore)", "22.7 (FlatStore)")),
        System::Heap => Some(("41.3 (Viper)", "16.0 (Viper)")),
        System::Bonsai | System::Log => None,
    }
}

fn beside(figure: Option<&str>) -> (Figure, Holds) {
    match figure {
        Some(figure) => {
            (figure.into(), Holds::NotJudged("the paper's is another system of that shape".into()))
        }
        None => (Figure::None, Holds::NotJudged(NO_FIGURE.into())),
    }
}

/// DRAM that a store says it has: its index, and the rest.
fn told(stats: &Stats) -> (u64, u64) {
    (stats.index_bytes, stats.dram_other_bytes)
}

/// DRAM of bonsai by the allocator's hook.
struct Hooked {
    empty: Option<u64>,
    after: Option<u64>,
    stats: Stats,
}

/// What a process takes once, with its first store, is not this one's.
fn warm_up(seed: u64) -> anyhow::Result<()> {
    loaded(System::Bonsai, WARM_UP_PAIRS, seed).map(drop)
}

fn after_checkpoints(pairs: u64, seed: u64) -> anyhow::Result<Hooked> {
    warm_up(seed)?;
    let mut tools = Tools::new(seed)?;
    let (made, after) = metered(|meter| {
        let mut store = Counted::new(System::Bonsai, pairs, pairs, seed)?;
        let empty = meter.taken();
        store.load(&mut tools)?;
        anyhow::Ok((store, empty))
    });
    let (store, empty) = made?;
    let stats = store.stats();
    store.end()?;
    Ok(Hooked { empty, after, stats })
}

fn most_between(pairs: u64, seed: u64) -> anyhow::Result<Option<u64>> {
    let mut tools = Tools::new(seed)?;
    let (most, _) = metered(|meter| {
        let mut store = Counted::new(System::Bonsai, pairs, pairs, seed)?;
        let mut most = meter.taken();
        store.load_beside_thread(&mut tools, |number| {
            if number.is_multiple_of(LOOK_BATCHES) {
                most = most.max(meter.taken());
            }
        })?;
        most = most.max(meter.taken());
        store.end()?;
        anyhow::Ok(most)
    });
    most
}

/// A loaded store, for what it tells of itself.
fn loaded(system: System, pairs: u64, seed: u64) -> anyhow::Result<(Stats, [u64; 2])> {
    let mut tools = Tools::new(seed)?;
    let mut store = Counted::new(system, pairs, pairs, seed)?;
    store.load(&mut tools)?;
    let found = (store.stats(), store.pmem()?);
    store.end()?;
    Ok(found)
}

/// DRAM a pair of bonsai and of an entry a record, as the stores tell it: all of the first, all of the second, its index alone.
pub(super) fn dram_told(settings: &Settings) -> anyhow::Result<[f64; 3]> {
    let pairs = pairs(settings);
    let systems = [System::Bonsai, System::Tree];
    let stats = each("aim", settings.threads, &systems, |system| loaded(*system, pairs, settings.seed))?;
    let ((ours_index, ours_rest), (index, rest)) = (told(&stats[0].0), told(&stats[1].0));
    Ok([ours_index + ours_rest, index + rest, index].map(|bytes| bytes as f64 / pairs as f64))
}

/// B1.
pub(super) fn figure_10(settings: &Settings) -> anyhow::Result<Outcome> {
    let (pairs, seed) = (pairs(settings), settings.seed);
    // One after the other: the hook counts what the whole process takes.
    let Hooked { empty, after, stats } = after_checkpoints(pairs, seed)?;
    let between = most_between(pairs, seed)?;
    let others = &System::ALL[1..];
    let others: Vec<(System, Stats)> = others
        .iter()
        .zip(each("B1", settings.threads, others, |system| loaded(*system, pairs, seed))?)
        .map(|(system, (stats, _))| (*system, stats))
        .collect();
    let a_pair = |bytes: u64| bytes as f64 / pairs as f64;
    let setting = format!(
        "{pairs} pairs of 8 + 8 B, inserted in batches of {BATCH}, bonsai with {} KiB for what was written last (16 MiB at 10 million pairs); \
         in the process's memory",
        System::bonsai_dram_bytes(pairs) >> 10
    );
    let row = |what: String, (paper, holds): (Figure, Holds), ours: Figure, kind: Kind| Row {
        id: "B1",
        what,
        setting: setting.clone(),
        paper,
        ours,
        kind,
        holds,
    };
    let hooked = |what: String, bytes: Option<u64>, paper: Figure, most: Option<f64>, kind: Kind| {
        let Some(bytes) = bytes else {
            let none = Row::not_measured("B1", what, paper, kind, NO_HOOK);
            return Row { setting: setting.clone(), ..none };
        };
        let holds = match most {
            Some(most) => Holds::Judged(a_pair(bytes) <= most),
            None => Holds::NotJudged(NO_FIGURE.into()),
        };
        row(what, (paper, holds), a_pair(bytes).into(), kind)
    };
    let no_figure = || beside(None);
    let ours = "bonsai: DRAM bytes a pair";
    let (index, rest) = told(&stats);
    let (tree, lines) = (detail(&stats, "bonsai_tree_bytes")?, detail(&stats, "bonsai_line_bytes")?);
    let mut rows = vec![
        hooked(
            format!("{ours} after checkpoints, all that the allocator gave; at most {AFTER_MAX}"),
            after,
            4.6.into(),
            Some(AFTER_MAX),
            Kind::Deterministic,
        ),
        hooked(
            format!("{ours}: of that, what an empty store has"),
            empty,
            Figure::None,
            None,
            Kind::Deterministic,
        ),
        hooked(
            format!(
                "{ours}, the most in the middle of a load, a thread in the background; at most {BETWEEN_MAX}; bytes are counted, and how far the \
                 thread follows is chance"
            ),
            between,
            Figure::None,
            Some(BETWEEN_MAX),
            Kind::Measured,
        ),
        row(
            format!("{ours} after checkpoints, as the store tells it"),
            no_figure(),
            a_pair(index + rest).into(),
            Kind::Deterministic,
        ),
        row(
            format!("{ours}: the tree of nodes"),
            (2.5.into(), Holds::NotJudged("the paper's has inodes, which ours has not".into())),
            a_pair(tree).into(),
            Kind::Deterministic,
        ),
        row(
            format!("{ours}: fingerprints and bitmaps, a line a node"),
            (2.1.into(), Holds::NotJudged("a line has versions, too".into())),
            a_pair(lines).into(),
            Kind::Deterministic,
        ),
    ];
    let mut groups = vec![("bonsai".to_owned(), vec![a_pair(tree), a_pair(lines), 0.0])];
    for (system, stats) in &others {
        let (index, _) = told(stats);
        let paper = match system {
            System::Tree => "31.9 (its DRAM-only variant)".into(),
            _ => shaped_like(*system).map_or(Figure::None, |(dram, _)| dram.into()),
        };
        let what = format!("{}: DRAM bytes a pair for the index alone", system.name());
        let holds = match &paper {
            Figure::None => Holds::NotJudged(NO_FIGURE.into()),
            _ => Holds::NotJudged("the paper's is another system of that shape".into()),
        };
        rows.push(row(what, (paper, holds), a_pair(index).into(), Kind::Deterministic));
        groups.push((system.engine().to_owned(), vec![0.0, 0.0, a_pair(index)]));
        if *system == System::Tree {
            let what = "an entry a record (the tree of hetermm) / bonsai, DRAM after checkpoints";
            let judged = after.map(|after| index as f64 / after as f64);
            rows.push(match judged {
                Some(times) => row(
                    what.into(),
                    (6.9.into(), Holds::Judged(times >= 6.9)),
                    times.into(),
                    Kind::Deterministic,
                ),
                None => {
                    let none = Row::not_measured("B1", what, 6.9, Kind::Deterministic, NO_HOOK);
                    Row { setting: setting.clone(), ..none }
                }
            });
        }
    }
    let plot = Plot {
        file: "B1-dram".into(),
        title: "DRAM for the index, after checkpoints".into(),
        y: "bytes a pair of 8 + 8".into(),
        shape: Shape::Bars {
            parts: vec!["tree of nodes".into(), "lines of nodes".into(), "index".into()],
            groups,
        },
    };
    Ok(Outcome { rows, plots: vec![plot] })
}

/// Bytes of nodes that our own fields of entries take, used places or not.
fn own_bytes(stats: &Stats) -> anyhow::Result<u64> {
    let nodes = detail(stats, "bonsai_nodes")? + detail(stats, "bonsai_free_slots")?;
    let bytes = detail(stats, "bonsai_node_bytes")?;
    anyhow::ensure!(
        bytes == nodes * (NODE_META_BYTES + ENTRIES * ENTRY_BYTES),
        "a node's format is no more what this goes by: {bytes} bytes for {nodes}"
    );
    Ok(nodes * ENTRIES * OURS_BYTES)
}

/// B2.
pub(super) fn table_3(settings: &Settings) -> anyhow::Result<Outcome> {
    let (pairs, seed) = (pairs(settings), settings.seed);
    let found = each("B2", settings.threads, &System::ALL, |system| loaded(*system, pairs, seed))?;
    let a_pair = |bytes: u64| bytes as f64 / pairs as f64;
    let setting = format!(
        "{pairs} pairs of 8 + 8 B, inserted in batches of {BATCH}, all checkpointed; tables and free places of nodes counted, dead log is not: \
         pages are cleaned once room is short; in the process's memory"
    );
    let mut rows = Vec::new();
    let mut row = |what: String, (paper, holds): (Figure, Holds), bytes: u64| {
        let (setting, ours) = (setting.clone(), a_pair(bytes).into());
        rows.push(Row { id: "B2", what, setting, paper, ours, kind: Kind::Deterministic, holds });
    };
    let mut groups = Vec::new();
    for (system, (stats, [needed, used])) in System::ALL.into_iter().zip(&found) {
        let what = format!("{}: PMem bytes a pair", system.name());
        if system == System::Bonsai {
            let own = own_bytes(stats)?;
            let without = needed - own;
            let judged = |bytes| Holds::Judged(a_pair(bytes) <= PMEM_MAX);
            row(format!("{what}; at most {PMEM_MAX}"), (PMEM.into(), judged(*needed)), *needed);
            row(
                format!("{what} without our fields, {OURS_BYTES} of the {ENTRY_BYTES} bytes of an entry"),
                (PMEM.into(), judged(without)),
                without,
            );
            row(
                format!("{what}: nodes, free ones counted"),
                beside(None),
                detail(stats, "bonsai_node_bytes")?,
            );
            groups.push((system.engine().to_owned(), vec![a_pair(without), a_pair(own)]));
        } else {
            row(what.clone(), beside(shaped_like(system).map(|(_, pmem)| pmem)), *needed);
            groups.push((system.engine().to_owned(), vec![a_pair(*needed), 0.0]));
        }
        if used != needed {
            row(format!("{what}, with dead log that is not cleaned yet"), beside(None), *used);
        }
    }
    let plot = Plot {
        file: "B2-pmem".into(),
        title: "PMem, after checkpoints, dead log left out".into(),
        y: "bytes a pair of 8 + 8".into(),
        shape: Shape::Bars {
            parts: vec!["all else".into(), "our fields in entries of nodes".into()],
            groups,
        },
    };
    Ok(Outcome { rows, plots: vec![plot] })
}
