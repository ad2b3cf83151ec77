//! Engines `scmkv` and `bonsai`: records in the pages of their log, in byte-addressable memory. Of the first a hash table there leads to
//! them, of the second nodes in the order of their keys, which hold short ones themselves.

use std::sync::Arc;

use terrace_engine::{Store, StoreError};
use terrace_media::{AnyDevice, AnyRegion, SUPERBLOCK_BYTES, Superblock};
use terrace_space_scm_log::{Far, Geometry, Opening};

use crate::media_source::MediaSource;
use crate::open::Opened;
use crate::options::Options;
use crate::size::human_bytes;
use crate::tiered::{self, Assembly, Engine};

/// Records in their log, in order or not.
pub(crate) struct InLog<const IS_ORDERED: bool>;

/// With a hash table.
pub(crate) type Scm = InLog<false>;
/// With nodes.
pub(crate) type Bonsai = InLog<true>;

/// Whether an engine has copies of entries on NUMA nodes that read them often.
pub(crate) fn has_copies(engine: &str) -> bool {
    engine == Bonsai::NAME
}

/// The index that engines are given where nobody chose one.
const INDEX: &str = "clht";

impl<const IS_ORDERED: bool> InLog<IS_ORDERED> {
    /// What a store of these sizes measured when it was made, in a medium of so many bytes.
    pub(crate) fn geometry(sizes: &tiered::Sizes, media_bytes: u64) -> Geometry {
        let bytes = media_bytes.saturating_sub(SUPERBLOCK_BYTES as u64);
        let page_bytes = sizes.block_bytes as usize;
        let buckets = if IS_ORDERED { 0 } else { sizes.buckets.unwrap_or(0).max(1) };
        Geometry { page_bytes, buckets, bytes }
    }
}

pub(crate) fn open<const IS_ORDERED: bool>(
    options: &Options,
    source: &dyn MediaSource,
) -> Result<Opened, StoreError> {
    let name = InLog::<IS_ORDERED>::NAME;
    if options.index != INDEX {
        return Err(StoreError::Options(format!(
            "engine {name} has an index of its own, in --pmem: leave --index {} out, or use --engine heap-hybrid",
            options.index
        )));
    }
    match (&options.pmem, &options.ssd) {
        (Some(tier), None) => tiered::byte::open(&InLog::<IS_ORDERED>, options, tier, source),
        (Some(_), Some(_)) => Err(StoreError::Options(format!(
            "engine {name} keeps all records in --pmem: leave --ssd out, or use --engine tac, which takes both"
        ))),
        (None, _) => Err(StoreError::Options(format!(
            "engine {name} lies in byte-addressable memory: give --pmem SIZE@PATH (DAX, or a file on tmpfs, or with --profile); over an \
             SSD use --engine tac"
        ))),
    }
}

impl<const IS_ORDERED: bool> Engine for InLog<IS_ORDERED> {
    const NAME: &'static str = if IS_ORDERED { "bonsai" } else { "scmkv" };
    const HAS_LOG: bool = false;
    const GROWS_WHEN_OPENED: bool = true;

    fn buckets(options: &Options, media_bytes: u64) -> Option<u64> {
        (!IS_ORDERED).then(|| terrace_space_scm_log::buckets_for(options.expected_records, media_bytes))
    }
    fn describe_dram(&self, sizes: &tiered::Sizes, dram_bytes: u64) -> String {
        if IS_ORDERED {
            return format!(
                "dram  {} for what was written last, and a few bytes a record for the index; all records are in pmem",
                human_bytes(dram_bytes.min(terrace_space_scm_log::FRAMES_BYTES_MAX_ORDERED)),
            );
        }
        format!(
            "dram  {} for what was written last; all records and the index, {} buckets, are in pmem",
            human_bytes(dram_bytes),
            sizes.buckets.unwrap_or(0)
        )
    }
    fn stored_tier_bytes(
        &self,
        region: &Arc<AnyRegion>,
        start: u64,
        superblock: &Superblock,
        sizes: &tiered::Sizes,
    ) -> Result<Option<u64>, StoreError> {
        let geometry = Self::geometry(sizes, superblock.media_bytes);
        let store_id = tiered::store_id(superblock);
        Ok(terrace_space_scm_log::stored_bytes(region, start, geometry, store_id))
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
        let Assembly {
            sizes,
            media_bytes,
            pmem_wanted,
            dram_bytes,
            store_id,
            fresh,
            machine,
            description,
            progress,
            copies,
            coherence,
            ..
        } = assembly;
        let far = copies.map(|(homes, copies)| Far { homes, copies, coherence });
        let geometry = Self::geometry(&sizes, media_bytes);
        let wanted_bytes = pmem_wanted.saturating_sub(SUPERBLOCK_BYTES as u64);
        let opening = Opening {
            geometry,
            wanted_bytes,
            dram_bytes,
            store_id,
            fresh,
            machine,
            description,
            progress,
            far,
        };
        if IS_ORDERED {
            terrace_space_scm_log::open_ordered(region, base, opening)
        } else {
            terrace_space_scm_log::open(region, base, opening)
        }
    }
}
