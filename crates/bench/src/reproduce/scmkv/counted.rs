//! What a write flushes, counted: a store in this process's memory, one client, a clock that stands still, and background work in between,
//! so that a run gives the same anywhere.

use std::sync::Arc;

use anyhow::{Context, ensure};
use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Durability, MachineOptions, Progress, Stats};
use terrace_media::{AnyRegion, CountersSnapshot, HeapRegion};
use terrace_space_scm_log::{Geometry, Opening, buckets_for, open};

use super::bed::Data;
use crate::Verify;
use crate::client::{Client, Local, Work};
use crate::content::Content;
use crate::distribution::{Distribution, Generator};
use crate::latency::Tally;
use crate::plan::Planned;
use crate::rng::Rng;
use crate::workload::Kind;

const PAGE_BYTES: usize = 256 << 10;
const DRAM_BYTES: u64 = 16 << 20;
const STORE_ID: u64 = 1;
/// Any time.
const NOW_US: u64 = 1_800_000_000_000_000;
/// Writes between two times that background work is done.
const WRITES_A_TURN: usize = 8;
/// Background steps at such a time, at most.
const STEPS_A_TURN: usize = 8;

/// What a write takes, on average, rounds of the table and all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flushed {
    pub fences: f64,
    /// Cache lines written back, or around the cache.
    pub lines: f64,
}

fn media(stats: &Stats) -> anyhow::Result<CountersSnapshot> {
    let tier = stats.tiers.iter().find(|tier| tier.tier == "pmem");
    Ok(tier.context("the store has no PMem")?.media)
}

/// Loads so many records and replaces as many drawn ones, one a burst.
pub(super) fn flushed(
    data: Data,
    distribution: Distribution,
    durability: Durability,
    (records, seed): (u64, u64),
) -> anyhow::Result<Flushed> {
    let geometry = Geometry {
        page_bytes: PAGE_BYTES,
        buckets: buckets_for(Some(records), 0),
        bytes: data.pmem_bytes(records, records),
    };
    let region = AnyRegion::of(HeapRegion::new(geometry.bytes)?);
    let opening = Opening {
        geometry,
        dram_bytes: DRAM_BYTES,
        store_id: STORE_ID,
        fresh: true,
        machine: MachineOptions {
            engine: "scmkv",
            durability,
            immediate: true,
            evict: false,
            sessions: 2,
            hasher: KeyHasher::new(seed),
            clock: Arc::new(ManualClock::new(NOW_US)),
            threads: 1,
            recovery_keys: usize::MAX,
        },
        description: String::new(),
        progress: &|_, _| {},
    };
    let store = open(&region, 0, opening)?;
    let content = Content::new(data.key_bytes, data.value_bytes, false, seed);
    let mut client = Local::new(store.session()?, 1);
    let mut tally = Tally::new()?;
    let mut nonce = 0;
    let mut write = |planned: Planned| -> anyhow::Result<()> {
        let operations = &[planned];
        client.run(
            &Work { operations, content: &content, verify: Verify::None, nonce, due: None },
            &mut tally,
        )?;
        nonce += 1;
        if nonce % WRITES_A_TURN as u64 == 0 {
            let mut steps = 0..STEPS_A_TURN;
            while steps.next().is_some() && store.step() == Progress::Worked {}
        }
        Ok(())
    };
    (0..records).try_for_each(|record| write(Planned::new(Kind::Insert, record)))?;
    let before = media(&store.stats())?;
    let generator = Generator::new(distribution, records, seed, 0, 1);
    let mut rng = Rng::new(seed, 1);
    (0..records).try_for_each(|_| write(Planned::new(Kind::Set, generator.draw(&mut rng))))?;
    let stats = store.stats();
    let took = media(&stats)? - before;
    let cleaned = stats.engine_details.iter().find(|(name, _)| *name == "scm_cleaned_pages");
    ensure!(
        cleaned.is_some_and(|(_, pages)| *pages == 0),
        "pages were cleaned, which flushes, too: {cleaned:?}"
    );
    ensure!(tally.sets == 2 * records, "{} of {} writes were answered", tally.sets, 2 * records);
    let each = |count: u64| count as f64 / records as f64;
    Ok(Flushed { fences: each(took.fences), lines: each(took.lines_flushed) })
}

#[cfg(test)]
mod tests {
    use super::super::bed::SMALL;
    use super::*;

    #[test]
    fn a_run_gives_the_same_again_and_a_write_waits_for_a_fence_at_least() {
        let run = |durability| flushed(SMALL, Distribution::Uniform, durability, (2000, 1)).unwrap();
        let first = run(Durability::Sync);
        assert_eq!(run(Durability::Sync), first);
        assert!(first.fences >= 1.0 && first.lines >= 3.0, "{first:?}");
    }
}
