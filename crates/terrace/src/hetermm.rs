//! Engine `hetermm`: the hybrid log over a byte-addressable or a block tier.

use std::sync::Arc;

use terrace_engine::{Store, StoreError};
use terrace_media::{AnyDevice, AnyRegion};

use crate::media_source::MediaSource;
use crate::open::Opened;
use crate::options::Options;
use crate::size::human_bytes;
use crate::tiered::{self, Assembly, Engine};

/// The engine.
pub(crate) struct Hetermm;

pub(crate) fn open(options: &Options, source: &dyn MediaSource) -> Result<Opened, StoreError> {
    let opened = match (&options.pmem, &options.ssd) {
        (Some(_), Some(_)) => Err(StoreError::Options(
            "engine hetermm has one lower tier: give --pmem or --ssd, not both (tac takes both)".into(),
        )),
        (Some(tier), None) => tiered::byte::open(&Hetermm, options, tier, source),
        (None, Some(tier)) => tiered::block::open(&Hetermm, options, tier, source),
        (None, None) => Err(StoreError::Options(
            "engine hetermm needs a lower tier: give --ssd SIZE (an ordinary directory) or --pmem SIZE@PATH (DAX, or with --profile)".into(),
        )),
    }?;
    if let Some(cache) = options.read_cache {
        opened.store.set_read_cache(cache)?;
    }
    Ok(opened)
}

impl Engine for Hetermm {
    const NAME: &'static str = "hetermm";

    fn describe_dram(&self, sizes: &tiered::Sizes, dram_bytes: u64) -> String {
        format!(
            "dram  {} for records, in pages of {}",
            human_bytes(dram_bytes),
            human_bytes(sizes.block_bytes)
        )
    }
    fn open_block(
        &self,
        log: &Arc<AnyDevice>,
        data: &Arc<AnyDevice>,
        assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        terrace_space_hybrid_log::open_block(log, data, tiered::opening(assembly))
    }
    fn open_byte(
        &self,
        region: &Arc<AnyRegion>,
        base: u64,
        assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        terrace_space_hybrid_log::open_byte(region, base, tiered::opening(assembly))
    }
}
