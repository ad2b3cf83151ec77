//! Engine `scmkv`: records in the pages of their log, in byte-addressable memory, found by a hash table there.

use std::sync::Arc;

use terrace_engine::{Store, StoreError};
use terrace_media::{AnyDevice, AnyRegion, SUPERBLOCK_BYTES, Superblock};
use terrace_space_scm_log::{Geometry, Opening};

use crate::media_source::MediaSource;
use crate::open::Opened;
use crate::options::Options;
use crate::size::human_bytes;
use crate::tiered::{self, Assembly, Engine};

/// The engine.
pub(crate) struct Scm;

/// The index that engines are given where nobody chose one.
const INDEX: &str = "clht";

impl Scm {
    /// What a store of these sizes measures, in a medium of so many bytes.
    pub(crate) fn geometry(sizes: &tiered::Sizes, media_bytes: u64) -> Geometry {
        let bytes = media_bytes.saturating_sub(SUPERBLOCK_BYTES as u64);
        let page_bytes = sizes.block_bytes as usize;
        Geometry { page_bytes, buckets: sizes.buckets.unwrap_or(0).max(1), bytes }
    }
}

pub(crate) fn open(options: &Options, source: &dyn MediaSource) -> Result<Opened, StoreError> {
    if options.index != INDEX {
        return Err(StoreError::Options(format!(
            "engine scmkv has an index of its own, in --pmem: leave --index {} out, or use --engine heap-hybrid",
            options.index
        )));
    }
    match (&options.pmem, &options.ssd) {
        (Some(tier), None) => tiered::byte::open(&Scm, options, tier, source),
        (Some(_), Some(_)) => Err(StoreError::Options(
            "engine scmkv keeps all records in --pmem: leave --ssd out, or use --engine tac, which takes both".into(),
        )),
        (None, _) => Err(StoreError::Options(
            "engine scmkv lies in byte-addressable memory: give --pmem SIZE@PATH (DAX, or a file on tmpfs, or with --profile); over an \
             SSD use --engine tac"
                .into(),
        )),
    }
}

impl Engine for Scm {
    const NAME: &'static str = "scmkv";
    const HAS_LOG: bool = false;

    fn buckets(options: &Options, media_bytes: u64) -> Option<u64> {
        Some(terrace_space_scm_log::buckets_for(options.expected_records, media_bytes))
    }
    fn describe_dram(&self, sizes: &tiered::Sizes, dram_bytes: u64) -> String {
        format!(
            "dram  {} for what was written last; all records and the index, {} buckets, are in pmem",
            human_bytes(dram_bytes),
            sizes.buckets.unwrap_or(0)
        )
    }
    fn stored_tier_bytes(
        &self,
        _region: &Arc<AnyRegion>,
        _start: u64,
        _superblock: &Superblock,
        _sizes: &tiered::Sizes,
    ) -> Result<Option<u64>, StoreError> {
        // It has the size that it was made with.
        Ok(None)
    }
    fn open_block(
        &self,
        _log: &Arc<AnyDevice>,
        _data: &Arc<AnyDevice>,
        _assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        Err(StoreError::Options("engine scmkv lies in byte-addressable memory: give --pmem SIZE@PATH".into()))
    }
    fn open_byte(
        &self,
        region: &Arc<AnyRegion>,
        base: u64,
        assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        let Assembly {
            sizes, media_bytes, dram_bytes, store_id, fresh, machine, description, progress, ..
        } = assembly;
        let geometry = Self::geometry(&sizes, media_bytes);
        let opening = Opening { geometry, dram_bytes, store_id, fresh, machine, description, progress };
        terrace_space_scm_log::open(region, base, opening)
    }
}
