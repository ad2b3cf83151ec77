//! Options, and making a space on a tier.

use terrace_blocks::{
    BLOCK_HEADER_BYTES, Blocks, Lower, OnBlocks, Sizes, TRAILER_BYTES, footer_bytes, inline_bytes,
    manifest_area, value_bytes_max,
};
use terrace_engine::StoreError;
use terrace_engine::record::{HEAD_BYTES, KEY_BYTES_MAX};
use terrace_engine::space::Limits;

use crate::space::HybridLog;

/// How a hybrid log is laid out.
#[derive(Clone, Copy, Debug)]
pub struct HybridOptions {
    /// Size of a page and of a block: a power of two, at least 1 KiB (4 KiB on block media).
    pub block_bytes: usize,
    /// DRAM for pages.
    pub dram_bytes: u64,
    /// Bound on pages and index together, if they share one.
    pub dram_budget: Option<u64>,
    /// The store's identity, part of every block's header.
    pub store_id: u64,
}

/// Pages that a hybrid log needs at least: one for each of two sessions, one for reclamation, one being flushed.
pub(crate) const FRAMES_MIN: usize = 5;
/// Blocks that the lower tier needs beyond the pages in DRAM.
const BLOCKS_OVER: usize = 6;

/// A group may take so large a part of DRAM.
pub(crate) const GROUP_PART: usize = 4;

impl HybridOptions {
    /// What a record, a value and a group may measure with blocks of this size.
    pub fn limits(&self) -> Limits {
        let footer = TRAILER_BYTES + footer_bytes(1, 1);
        let page = self.block_bytes - BLOCK_HEADER_BYTES - footer - HEAD_BYTES - 8;
        let key_bytes = (page / 2).min(KEY_BYTES_MAX);
        let inline_bytes = inline_bytes(self.block_bytes);
        Limits {
            key_bytes: key_bytes / 8 * 8,
            inline_bytes,
            value_bytes: value_bytes_max(self.block_bytes, inline_bytes),
            group_bytes: (self.dram_bytes as usize / GROUP_PART).max(page * 3 / 4),
            short_group_bytes: page * 3 / 4,
        }
    }
}

impl<L: Lower> OnBlocks<L> for HybridLog<L> {
    fn on_blocks(lower: L, sizes: &Sizes) -> Result<Self, StoreError> {
        let options = HybridOptions {
            block_bytes: sizes.block_bytes,
            dram_bytes: sizes.dram_bytes,
            dram_budget: sizes.dram_with_index.then_some(sizes.dram_bytes),
            store_id: sizes.store_id,
        };
        Self::new(lower, options)
    }
}

impl<L: Lower> HybridLog<L> {
    /// A space on a tier. What the tier holds is found by recovery; a new tier must read as zeros.
    ///
    /// # Errors
    /// [`StoreError::Options`] if the sizes don't go together; the text says which would.
    pub fn new(lower: L, options: HybridOptions) -> Result<Self, StoreError> {
        let block = options.block_bytes;
        let blocks = Blocks::new(lower, block, options.store_id)?;
        let count = blocks.slots.len();
        if count < FRAMES_MIN + BLOCKS_OVER {
            let least = (FRAMES_MIN + BLOCKS_OVER) as u64 * block as u64 + manifest_area::<L>();
            return Err(StoreError::Options(format!(
                "the lower tier has {} bytes: with pages of {block} bytes at least {least} are needed",
                blocks.lower.len()
            )));
        }
        let frames = (options.dram_bytes / block as u64) as usize;
        if frames < FRAMES_MIN {
            return Err(StoreError::Options(format!(
                "{} bytes of DRAM for records: with pages of {block} bytes at least {} are needed",
                options.dram_bytes,
                FRAMES_MIN * block
            )));
        }
        // Every page in DRAM has its block already; more pages than blocks would be of no use.
        let frames_max = count - BLOCKS_OVER;
        Ok(Self::assemble(blocks, options, (frames.min(frames_max), frames_max)))
    }
    /// The tier.
    pub fn lower(&self) -> &L {
        &self.blocks.lower
    }
}
