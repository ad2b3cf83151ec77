//! B5: what a get reads of persistent memory. Counted.

use terrace_media::CountersSnapshot;

use super::super::in_memory::detail;
use super::super::{Figure, Holds, Kind, Outcome, Row, Settings, each};
use super::counted::{BATCH, Counted, Tools};
use super::pairs;
use super::systems::System;
use crate::distribution::{Distribution, Generator};
use crate::rng::Rng;
use crate::workload;

const PAPER: f64 = 1.0;
/// More than this is more than one read in the common case.
const MOST: f64 = 1.05;

/// What was asked of memory.
struct Found {
    /// By gets of keys that are there.
    there: CountersSnapshot,
    /// By gets of keys that are not.
    absent: CountersSnapshot,
}

fn count(system: System, pairs: u64, seed: u64) -> anyhow::Result<Found> {
    let mut tools = Tools::new(seed)?;
    let mut store = Counted::new(system, pairs, pairs, seed)?;
    store.load(&mut tools)?;
    if system == System::Bonsai {
        anyhow::ensure!(detail(&store.stats(), "bonsai_nodes")? > 0, "no node was made");
    }
    let generator = Generator::new(Distribution::Uniform, pairs, seed, 0, 1);
    let mut rng = Rng::new(seed, 1);
    let gets = (workload::Kind::Get, BATCH);
    let there = store.accesses(&mut tools, gets, (0..pairs).map(|_| generator.draw(&mut rng)))?;
    let absent = store.accesses(&mut tools, gets, pairs..2 * pairs)?;
    tools.expect(2 * pairs, pairs)?;
    store.end()?;
    Ok(Found { there, absent })
}

/// B5.
pub(super) fn section_4_1_3(settings: &Settings) -> anyhow::Result<Outcome> {
    let pairs = pairs(settings);
    let found = each("B5", settings.threads, &System::ALL, |system| count(*system, pairs, settings.seed))?;
    let mut rows = Vec::new();
    for (system, found) in System::ALL.into_iter().zip(found) {
        let is_ours = system == System::Bonsai;
        let a_get = |count: u64| count as f64 / pairs as f64;
        let mut row = |what: String, paper: Figure, ours: f64, holds: Holds| {
            rows.push(Row {
                id: "B5",
                what: format!("{}: {what}", system.name()),
                setting: format!(
                    "{pairs} pairs of 8 + 8 B, all of them checkpointed, as many uniform gets in batches of {BATCH}; in the process's \
                     memory, counted by the medium; of hetermm a quarter of the records is in DRAM; heap-hybrid hashes with another seed each \
                     time, so that its last digits differ"
                ),
                paper,
                ours: ours.into(),
                kind: Kind::Deterministic,
                holds,
            });
        };
        let reads = a_get(found.there.reads);
        if is_ours {
            let what = format!("reads of PMem for a get of a key that is there; at most {MOST}");
            row(what, PAPER.into(), reads, Holds::Judged(reads <= MOST));
        } else {
            let holds = Holds::NotJudged("beside ours; the paper has no figure".into());
            row("reads of PMem for a get of a key that is there".into(), Figure::None, reads, holds);
        }
        let no_figure = || Holds::NotJudged("the paper has no figure".into());
        row("bytes read for such a get".into(), Figure::None, a_get(found.there.read_bytes), no_figure());
        let absent = a_get(found.absent.reads);
        row("reads of PMem for a get of an absent key".into(), Figure::None, absent, no_figure());
    }
    Ok(Outcome { rows, plots: Vec::new() })
}
