//! Stores of engines `scmkv` and `bonsai` in this process's memory, for what is counted: keys are hashed with the seed, the clock stands
//! still, and background work is done by turns with the one client, so that a run gives the same anywhere.

use std::sync::Arc;

use anyhow::{Context, bail};
use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Durability, MachineOptions, Progress, Stats, Store, TierStats};
use terrace_media::{AnyRegion, CountersSnapshot, HeapRegion, Homes};
use terrace_space_scm_log::{Coherence, Far, Geometry, Opening, open, open_ordered};

/// Pages of such a store: those of a small one.
pub const PAGE_BYTES: usize = 256 << 10;
const STORE_ID: u64 = 1;
/// Any time.
const NOW_US: u64 = 1_800_000_000_000_000;
/// Background steps of a turn, at most.
const STEPS_A_TURN: usize = 8;
/// So many steps in which nothing was done mean that nothing is left: a round begins after fewer.
const IDLE_STEPS: usize = 100;

/// What is made.
pub struct Making {
    /// `bonsai`, and else `scmkv`.
    pub is_ordered: bool,
    /// What it measures.
    pub geometry: Geometry,
    /// DRAM for what was written last.
    pub dram_bytes: u64,
    /// When writes are answered.
    pub durability: Durability,
    /// What keys are hashed with.
    pub seed: u64,
    /// NUMA nodes that its memory is on, emulated, and how copies on them stop to count.
    pub nodes: Option<(u32, Coherence)>,
}

/// One byte in so many is for copies, beside the store's.
const COPIES_PART: u64 = 32;

/// Makes a store.
///
/// # Errors
/// If there is no memory for it, or it does not take these sizes.
pub fn make(making: &Making) -> anyhow::Result<Box<dyn Store>> {
    let &Making { is_ordered, geometry, dram_bytes, durability, seed, nodes } = making;
    let region = AnyRegion::of(HeapRegion::new(geometry.bytes).context("memory for a store")?);
    let far = nodes.map(|(nodes, coherence)| {
        let homes = Homes::new(nodes, geometry.bytes / u64::from(nodes), Vec::new());
        let copies = HeapRegion::new(geometry.bytes / COPIES_PART).context("memory for copies")?;
        anyhow::Ok(Far { homes, copies: AnyRegion::of(copies), coherence })
    });
    let opening = Opening {
        geometry,
        wanted_bytes: 0,
        dram_bytes,
        store_id: STORE_ID,
        fresh: true,
        machine: MachineOptions {
            engine: if is_ordered { "bonsai" } else { "scmkv" },
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
        far: far.transpose()?,
    };
    Ok(if is_ordered { open_ordered(&region, 0, opening)? } else { open(&region, 0, opening)? })
}

/// Does background work for a while.
pub fn take_a_turn(store: &dyn Store) {
    let mut steps = 0..STEPS_A_TURN;
    while steps.next().is_some() && store.step() == Progress::Worked {}
}

/// Does all background work that there is.
pub fn finish(store: &dyn Store) {
    let mut idle = 0;
    while idle < IDLE_STEPS {
        idle = if store.step() == Progress::Worked { 0 } else { idle + 1 };
    }
}

/// A tier of a store.
///
/// # Errors
/// If it has none of that name.
pub fn tier<'a>(stats: &'a Stats, name: &str) -> anyhow::Result<&'a TierStats> {
    let found = stats.tiers.iter().find(|tier| tier.tier == name);
    found.with_context(|| format!("the store has no tier {name}"))
}

/// What was asked of its memory so far.
///
/// # Errors
/// If it has none.
pub fn media(stats: &Stats) -> anyhow::Result<CountersSnapshot> {
    Ok(tier(stats, "pmem")?.media)
}

/// A number that the engine tells of itself.
///
/// # Errors
/// If it does not.
pub fn detail(stats: &Stats, name: &str) -> anyhow::Result<u64> {
    match stats.engine_details.iter().find(|(named, _)| *named == name) {
        Some((_, number)) => Ok(*number),
        None => bail!("engine {} does not tell {name}", stats.engine),
    }
}
