//! Engine `tac`: slabs in DRAM over pages on a byte-addressable or a block tier, or over slabs in the one and pages on the other.

use std::sync::Arc;

use terrace_engine::{Store, StoreError};
use terrace_media::{AnyDevice, AnyRegion};
use terrace_space_slab::{Choices, Eviction, Placement, SlabOptions, Swap, partitions_for};

use crate::media_source::MediaSource;
use crate::open::Opened;
use crate::options::Options;
use crate::size::human_bytes;
use crate::tiered::{self, Assembly, Engine};

/// The engine.
#[derive(Default)]
pub(crate) struct Tac {
    choices: Choices,
    /// Background threads, and how many partitions somebody wants, whatever they are.
    threads: usize,
    partitions: Option<usize>,
}

impl Tac {
    fn choices(&self, dram_bytes: u64, sizes: &tiered::Sizes) -> Choices {
        let of_use = || partitions_for(self.threads, dram_bytes, sizes.block_bytes as usize);
        Choices { partitions: self.partitions.unwrap_or_else(of_use), ..self.choices }
    }
}

pub(crate) fn open(options: &Options, source: &dyn MediaSource) -> Result<Opened, StoreError> {
    let placement = options.placement.unwrap_or_default();
    if placement != Placement::Tac && (options.pmem.is_none() || options.ssd.is_none()) {
        return Err(StoreError::Options(format!(
            "placement {placement} is about three tiers: give --pmem SIZE@PATH and --ssd SIZE, or leave --placement out"
        )));
    }
    let swap = options.swap.unwrap_or_default();
    if swap == Swap::Buf && options.ssd.is_none() {
        return Err(StoreError::Options(
            "swapping by buf is about the SSD: give --ssd SIZE, or leave --swap out".into(),
        ));
    }
    if swap == Swap::Buf && placement == Placement::AntiTuple {
        return Err(StoreError::Options(
            "placement anti-tuple is the one that swaps by tuple: leave --swap buf out, or use --placement tac".into(),
        ));
    }
    let eviction = options.policy.unwrap_or(match placement {
        Placement::AntiTuple => Eviction::of_the_paper(),
        Placement::Tac | Placement::Anti2 | Placement::AntiNvm => Eviction::default(),
    });
    let choices = Choices { placement, eviction, swap, partitions: 1 };
    let engine = Tac { choices, threads: options.background_threads, partitions: options.partitions };
    match (&options.pmem, &options.ssd) {
        (Some(pmem), Some(ssd)) => tiered::both::open(&engine, options, (pmem, ssd), source),
        (Some(tier), None) => tiered::byte::open(&engine, options, tier, source),
        (None, Some(tier)) => tiered::block::open(&engine, options, tier, source),
        (None, None) => Err(StoreError::Options(
            "engine tac needs a lower tier: give --ssd SIZE (an ordinary directory) or --pmem SIZE@PATH (DAX, or with --profile)".into(),
        )),
    }
}

impl Engine for Tac {
    const NAME: &'static str = "tac";

    fn describe_dram(&self, sizes: &tiered::Sizes, dram_bytes: u64) -> String {
        let block_bytes = sizes.block_bytes as usize;
        let Choices { placement, eviction, swap, partitions } = self.choices;
        let (dram_budget, store_id) = (None, 0);
        let slabs = SlabOptions {
            block_bytes,
            dram_bytes,
            dram_budget,
            store_id,
            placement,
            eviction,
            swap,
            partitions,
        };
        let slab_bytes = slabs.slab_bytes() as u64;
        format!("dram  {} for records, in slabs of {}", human_bytes(dram_bytes), human_bytes(slab_bytes))
    }
    fn open_block(
        &self,
        log: &Arc<AnyDevice>,
        data: &Arc<AnyDevice>,
        assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        let choices = self.choices(assembly.dram_bytes, &assembly.sizes);
        terrace_space_slab::open_block(log, data, choices, tiered::opening(assembly))
    }
    fn open_byte(
        &self,
        region: &Arc<AnyRegion>,
        base: u64,
        assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        let choices = self.choices(assembly.dram_bytes, &assembly.sizes);
        terrace_space_slab::open_byte(region, base, choices, tiered::opening(assembly))
    }
    fn open_tiered(
        &self,
        region: (&Arc<AnyRegion>, u64),
        data: &Arc<AnyDevice>,
        memory: &str,
        assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        let choices = self.choices(assembly.dram_bytes, &assembly.sizes);
        let opening = tiered::opening(assembly);
        terrace_space_slab::open_tiered(region, data, memory, choices, opening)
    }
}
