//! Engine `bonsai`: records in nodes in the order of their keys, in byte-addressable memory, and in the pages of their log.

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
pub(crate) struct Bonsai;

/// The index that engines are given where nobody chose one.
const INDEX: &str = "clht";

impl Bonsai {
    /// What a store of these sizes measures, in a medium of so many bytes.
    pub(crate) fn geometry(sizes: &tiered::Sizes, media_bytes: u64) -> Geometry {
        let bytes = media_bytes.saturating_sub(SUPERBLOCK_BYTES as u64);
        let page_bytes = sizes.block_bytes as usize;
        Geometry { page_bytes, buckets: 0, bytes }
    }
}

pub(crate) fn open(options: &Options, source: &dyn MediaSource) -> Result<Opened, StoreError> {
    if options.index != INDEX {
        return Err(StoreError::Options(format!(
            "engine bonsai has an index of its own, in the order of keys: leave --index {} out, or use --engine heap-hybrid, which takes each",
            options.index
        )));
    }
    match (&options.pmem, &options.ssd) {
        (Some(tier), None) => tiered::byte::open(&Bonsai, options, tier, source),
        (Some(_), Some(_)) => Err(StoreError::Options(
            "engine bonsai keeps all records in --pmem: leave --ssd out, or use --engine tac, which takes both".into(),
        )),
        (None, _) => Err(StoreError::Options(
            "engine bonsai lies in byte-addressable memory: give --pmem SIZE@PATH (DAX, or a file on tmpfs, or with --profile); over an \
             SSD use --engine tac"
                .into(),
        )),
    }
}

impl Engine for Bonsai {
    const NAME: &'static str = "bonsai";
    const HAS_LOG: bool = false;

    fn describe_dram(&self, _sizes: &tiered::Sizes, dram_bytes: u64) -> String {
        format!(
            "dram  {} for what was written last, and a few bytes a record for the index; all records are in pmem",
            human_bytes(dram_bytes.min(terrace_space_scm_log::FRAMES_BYTES_MAX_ORDERED)),
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
        Err(StoreError::Options(
            "engine bonsai lies in byte-addressable memory: give --pmem SIZE@PATH".into(),
        ))
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
        terrace_space_scm_log::open_ordered(region, base, opening)
    }
}
