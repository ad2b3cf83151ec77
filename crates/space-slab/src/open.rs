//! Options, and making a space on a tier.

use terrace_blocks::{
    BLOCK_HEADER_BYTES, Blocks, ENTRY_BYTES, Lower, OnBlocks, Sizes, TRAILER_BYTES, manifest_area,
    value_bytes_max,
};
use terrace_engine::StoreError;
use terrace_engine::record::{HEAD_BYTES, INLINE_VALUE_BYTES, KEY_BYTES_MAX};
use terrace_engine::space::Limits;

use crate::location::PAGE_BYTES_MAX;
use crate::space::SlabSpace;

/// How slabs and pages are laid out.
#[derive(Clone, Copy, Debug)]
pub struct SlabOptions {
    /// Size of a slab and of a page: a power of two, at least 1 KiB (4 KiB on block media).
    pub block_bytes: usize,
    /// DRAM for slabs.
    pub dram_bytes: u64,
    /// Bound on slabs and index together, if they share one.
    pub dram_budget: Option<u64>,
    /// The store's identity, part of every page's header.
    pub store_id: u64,
}

/// Slabs that are needed at least: records of a few lengths, and one that changes class.
pub(crate) const SLABS_MIN: usize = 5;
/// Pages that are needed at least, beside those for what DRAM holds.
const PAGES_OVER: usize = 6;

impl SlabOptions {
    /// What a record, a value and a group may measure with slabs and pages of this size.
    pub fn limits(&self) -> Limits {
        let page = self.block_bytes - BLOCK_HEADER_BYTES - TRAILER_BYTES - ENTRY_BYTES - HEAD_BYTES - 8;
        let key_bytes = (page / 2).min(KEY_BYTES_MAX) / 8 * 8;
        let inline_bytes = (page / 4).min(INLINE_VALUE_BYTES) / 8 * 8;
        Limits {
            key_bytes,
            inline_bytes,
            value_bytes: value_bytes_max(self.block_bytes, inline_bytes),
            group_bytes: page * 3 / 4,
        }
    }
    /// The longest record, in bytes.
    pub(crate) fn record_bytes_max(&self) -> usize {
        let limits = self.limits();
        HEAD_BYTES + 8 + limits.key_bytes + limits.inline_bytes
    }
}

impl<L: Lower> OnBlocks<L> for SlabSpace<L> {
    fn on_blocks(lower: L, sizes: &Sizes) -> Result<Self, StoreError> {
        let options = SlabOptions {
            block_bytes: sizes.block_bytes,
            dram_bytes: sizes.dram_bytes,
            dram_budget: sizes.dram_with_index.then_some(sizes.dram_bytes),
            store_id: sizes.store_id,
        };
        Self::new(lower, options)
    }
}

impl<L: Lower> SlabSpace<L> {
    /// A space on a tier. What the tier holds is found by recovery; a new tier must read as zeros.
    ///
    /// # Errors
    /// [`StoreError::Options`] if the sizes don't go together; the text says which would.
    pub fn new(lower: L, options: SlabOptions) -> Result<Self, StoreError> {
        let block = options.block_bytes;
        if lower.len() > PAGE_BYTES_MAX {
            return Err(StoreError::Options(format!(
                "the lower tier has {} bytes: this engine can use {PAGE_BYTES_MAX}",
                lower.len()
            )));
        }
        let blocks = Blocks::new(lower, block, options.store_id)?;
        let count = blocks.slots.len();
        let slabs = (options.dram_bytes / block as u64) as usize;
        if slabs < SLABS_MIN {
            return Err(StoreError::Options(format!(
                "{} bytes of DRAM for records: with slabs of {block} bytes at least {} are needed",
                options.dram_bytes,
                SLABS_MIN * block
            )));
        }
        if count < SLABS_MIN + PAGES_OVER {
            let least = (SLABS_MIN + PAGES_OVER) as u64 * block as u64 + manifest_area::<L>();
            return Err(StoreError::Options(format!(
                "the lower tier has {} bytes: with pages of {block} bytes at least {least} are needed",
                blocks.lower.len()
            )));
        }
        // DRAM beyond what the tier below takes would only hold what may never be written.
        Ok(Self::assemble(blocks, options, slabs.min(count - PAGES_OVER)))
    }
    /// The tier.
    pub fn lower(&self) -> &L {
        &self.blocks.lower
    }
}
