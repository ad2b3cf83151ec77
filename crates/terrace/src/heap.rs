//! Engines `heap-hybrid` and `heap-persistent`: records in a heap of byte-addressable memory, durable before the index leads to them. Of
//! the second the index lies there, too.

use std::sync::Arc;

use terrace_engine::{Store, StoreError};
use terrace_media::{AnyDevice, AnyRegion, Superblock};
use terrace_space_heap::{Geometry, Granularity, INDEX_LOAD, Opening};

use crate::media_source::MediaSource;
use crate::open::{Opened, SESSIONS};
use crate::options::Options;
use crate::size::human_bytes;
use crate::tiered::{self, Assembly, Engine};

/// Sessions that a heap has places for: those of threads, and the machine's own.
const PLACES: usize = SESSIONS + 1;

/// A heap, with its index or without.
pub(crate) struct Heap<const KEEPS_INDEX: bool>;

/// The index is in DRAM, and built anew at each start.
pub(crate) type HeapHybrid = Heap<false>;
/// The index is in the heap.
pub(crate) type HeapPersistent = Heap<true>;

/// The index that engines are given where nobody chose one.
const INDEX: &str = "clht";

impl<const KEEPS_INDEX: bool> Heap<KEEPS_INDEX> {
    /// What the heap of a store with these sizes measures.
    pub(crate) fn geometry(sizes: &tiered::Sizes) -> Geometry {
        let index_load = KEEPS_INDEX.then_some(INDEX_LOAD);
        let granularity = sizes.heap.unwrap_or_default();
        Geometry { page_bytes: sizes.block_bytes as usize, sessions: PLACES, granularity, index_load }
    }
}

pub(crate) fn open<const KEEPS_INDEX: bool>(
    options: &Options,
    source: &dyn MediaSource,
) -> Result<Opened, StoreError> {
    let engine = Heap::<KEEPS_INDEX>;
    let name = Heap::<KEEPS_INDEX>::NAME;
    if KEEPS_INDEX && options.index != INDEX {
        return Err(StoreError::Options(format!(
            "engine {name} has an index of its own, in --pmem: leave --index {} out, or use --engine heap-hybrid",
            options.index
        )));
    }
    match (&options.pmem, &options.ssd) {
        (Some(tier), None) => tiered::byte::open(&engine, options, tier, source),
        (Some(_), Some(_)) => Err(StoreError::Options(format!(
            "engine {name} keeps all records in --pmem: leave --ssd out, or use --engine tac, which takes both"
        ))),
        (None, _) => Err(StoreError::Options(format!(
            "engine {name} lies in byte-addressable memory: give --pmem SIZE@PATH (DAX, or a file on tmpfs, or with \
             --profile); over an SSD use --engine tac"
        ))),
    }
}

impl<const KEEPS_INDEX: bool> Engine for Heap<KEEPS_INDEX> {
    const NAME: &'static str = if KEEPS_INDEX { "heap-persistent" } else { "heap-hybrid" };
    const HAS_LOG: bool = false;

    fn describe_dram(&self, sizes: &tiered::Sizes, dram_bytes: u64) -> String {
        let what = match (KEEPS_INDEX, sizes.heap.unwrap_or_default()) {
            (true, _) => "the table of pages; all records and the index are in pmem",
            (false, Granularity::Slab) => {
                "the index and the table of pages; all records, in slabs, are in pmem"
            }
            (false, Granularity::Object) => {
                "the index and the table of pages; all records, in chunks of their own lengths, are in pmem"
            }
        };
        format!("dram  {} for {what}", human_bytes(dram_bytes))
    }
    fn stored_tier_bytes(
        &self,
        region: &Arc<AnyRegion>,
        start: u64,
        superblock: &Superblock,
        sizes: &tiered::Sizes,
    ) -> Result<Option<u64>, StoreError> {
        let bytes = terrace_space_heap::stored_bytes(
            region,
            start,
            Self::geometry(sizes),
            tiered::store_id(superblock),
        );
        Ok(bytes.map(|bytes| bytes.saturating_sub(start)))
    }
    fn open_block(
        &self,
        _log: &Arc<AnyDevice>,
        _data: &Arc<AnyDevice>,
        _assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        Err(StoreError::Options(format!(
            "engine {} lies in byte-addressable memory: give --pmem SIZE@PATH",
            Self::NAME
        )))
    }
    fn open_byte(
        &self,
        region: &Arc<AnyRegion>,
        base: u64,
        assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        let Assembly { sizes, dram_bytes, store_id, fresh, machine, index, description, progress, .. } =
            assembly;
        let geometry = Self::geometry(&sizes);
        let opening =
            Opening { geometry, dram_bytes, store_id, fresh, machine, index, description, progress };
        terrace_space_heap::open(region, base, opening)
    }
}
