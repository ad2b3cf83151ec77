//! Engine `heap-hybrid`: records in a heap of byte-addressable memory, durable before the index leads to them.

use std::sync::Arc;

use terrace_engine::{Store, StoreError};
use terrace_media::{AnyDevice, AnyRegion, Superblock};
use terrace_space_heap::{Geometry, Opening};

use crate::media_source::MediaSource;
use crate::open::{Opened, SESSIONS};
use crate::options::Options;
use crate::size::human_bytes;
use crate::tiered::{self, Assembly, Engine};

/// Sessions that a heap has places for: those of threads, and the machine's own.
const PLACES: usize = SESSIONS + 1;

/// The engine.
pub(crate) struct HeapHybrid;

/// What the heap of a store with these sizes measures.
pub(crate) fn geometry(sizes: &tiered::Sizes) -> Geometry {
    Geometry { page_bytes: sizes.block_bytes as usize, sessions: PLACES, keeps_index: false }
}

pub(crate) fn open(options: &Options, source: &dyn MediaSource) -> Result<Opened, StoreError> {
    match (&options.pmem, &options.ssd) {
        (Some(tier), None) => tiered::byte::open(&HeapHybrid, options, tier, source),
        (Some(_), Some(_)) => Err(StoreError::Options(
            "engine heap-hybrid keeps all records in --pmem: leave --ssd out, or use --engine tac, which takes both".into(),
        )),
        (None, _) => Err(StoreError::Options(
            "engine heap-hybrid lies in byte-addressable memory: give --pmem SIZE@PATH (DAX, or a file on tmpfs, or with \
             --profile); over an SSD use --engine tac"
                .into(),
        )),
    }
}

impl Engine for HeapHybrid {
    const NAME: &'static str = "heap-hybrid";
    const HAS_LOG: bool = false;

    fn describe_dram(&self, _sizes: &tiered::Sizes, dram_bytes: u64) -> String {
        format!(
            "dram  {} for the index and the table of pages; all records are in pmem",
            human_bytes(dram_bytes)
        )
    }
    fn stored_tier_bytes(
        &self,
        region: &Arc<AnyRegion>,
        start: u64,
        superblock: &Superblock,
        sizes: &tiered::Sizes,
    ) -> Result<Option<u64>, StoreError> {
        let bytes =
            terrace_space_heap::stored_bytes(region, start, geometry(sizes), tiered::store_id(superblock));
        Ok(bytes.map(|bytes| bytes.saturating_sub(start)))
    }
    fn open_block(
        &self,
        _log: &Arc<AnyDevice>,
        _data: &Arc<AnyDevice>,
        _assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        Err(StoreError::Options(
            "engine heap-hybrid lies in byte-addressable memory: give --pmem SIZE@PATH".into(),
        ))
    }
    fn open_byte(
        &self,
        region: &Arc<AnyRegion>,
        base: u64,
        assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        let Assembly { sizes, dram_bytes, store_id, fresh, machine, index, description, progress, .. } =
            assembly;
        let geometry = geometry(&sizes);
        let opening =
            Opening { geometry, dram_bytes, store_id, fresh, machine, index, description, progress };
        terrace_space_heap::open(region, base, opening)
    }
}
