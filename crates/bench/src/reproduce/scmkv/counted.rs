//! What a write flushes, counted.

use anyhow::ensure;
use terrace_engine::Durability;
use terrace_space_scm_log::{Geometry, buckets_for};

use super::super::in_memory::{Making, PAGE_BYTES, detail, make, media, take_a_turn};
use super::bed::Data;
use crate::Verify;
use crate::client::{Client, Local, Work};
use crate::content::Content;
use crate::distribution::{Distribution, Generator};
use crate::latency::Tally;
use crate::plan::Planned;
use crate::rng::Rng;
use crate::workload::Kind;

const DRAM_BYTES: u64 = 16 << 20;
/// Writes between two times that background work is done.
const WRITES_A_TURN: u64 = 8;

/// What a write takes, on average, rounds of the table and all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flushed {
    pub fences: f64,
    /// Cache lines written back, or around the cache.
    pub lines: f64,
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
    let store =
        make(&Making { is_ordered: false, geometry, dram_bytes: DRAM_BYTES, durability, seed, nodes: None })?;
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
        if nonce % WRITES_A_TURN == 0 {
            take_a_turn(&*store);
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
    let cleaned = detail(&stats, "scm_cleaned_pages")?;
    ensure!(cleaned == 0, "{cleaned} pages were cleaned, which flushes, too");
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
