//! Options, and making a space on a tier.

use std::sync::Arc;

use terrace_blocks::{
    BLOCK_HEADER_BYTES, Blocks, FooterEntry, Lower, Sizes, TRAILER_BYTES, footer_bytes, inline_bytes,
    manifest_area, value_bytes_max,
};
use terrace_engine::StoreError;
use terrace_engine::record::{HEAD_BYTES, KEY_BYTES_MAX};
use terrace_engine::space::Limits;
use terrace_media::ByteRegion;

use crate::classes::SMALL_SLAB;
use crate::eviction::Eviction;
use crate::location::PAGE_BYTES_MAX;
use crate::middle::Middle;
use crate::placement::Placement;
use crate::slab::SLOT_HEAD;
use crate::space::SlabSpace;
use crate::swap::Swap;
use terrace_pmem_slots::{Area, Medium, PmemSlabs};

/// How slabs and pages are laid out.
#[derive(Clone, Copy, Debug)]
pub struct SlabOptions {
    /// Size of a page: a power of two, at least 1 KiB (4 KiB on block media). A slab is at most as large.
    pub block_bytes: usize,
    /// DRAM for slabs.
    pub dram_bytes: u64,
    /// Bound on slabs and index together, if they share one.
    pub dram_budget: Option<u64>,
    /// The store's identity, part of every page's header.
    pub store_id: u64,
    /// What goes where, if there is a middle tier.
    pub placement: Placement,
    /// Who leaves DRAM, and who enters it.
    pub eviction: Eviction,
    /// What a read of the SSD brings up.
    pub swap: Swap,
    /// Background steps that may make room in DRAM at once, at least 1.
    pub partitions: usize,
}

/// Slabs that are needed at least: records of a few lengths, one that changes class, and another: with five a write waited for ever, as
/// the crash sweep found.
pub(crate) const SLABS_MIN: usize = 6;
/// Slabs of the middle tier that are needed at least: one that changes class, and another.
pub(crate) const PMEM_SLABS_MIN: usize = 2;
/// So many would do for records of all lengths.
const SLABS_WANTED: u64 = 512;
/// Pages that are needed at least, beside those for what DRAM holds.
pub(crate) const PAGES_OVER: usize = 6;

/// A group may take so large a part of DRAM.
pub(crate) const GROUP_PART: usize = 4;

impl SlabOptions {
    /// What a record, a value and a group may measure with slabs and pages of this size.
    pub fn limits(&self) -> Limits {
        let footer = TRAILER_BYTES + footer_bytes(1, 1);
        let page = self.block_bytes - BLOCK_HEADER_BYTES - footer - HEAD_BYTES - 8;
        let key_bytes = (page / 2).min(KEY_BYTES_MAX) / 8 * 8;
        let inline_bytes = inline_bytes(self.block_bytes);
        Limits {
            key_bytes,
            inline_bytes,
            value_bytes: value_bytes_max(self.block_bytes, inline_bytes),
            group_bytes: (self.dram_bytes as usize / GROUP_PART).max(page * 3 / 4),
            short_group_bytes: page * 3 / 4,
        }
    }
    /// Size of a slab. It holds the longest record, and of little DRAM there is still one for each length that comes along.
    pub fn slab_bytes(&self) -> usize {
        if self.block_bytes <= SMALL_SLAB {
            return self.block_bytes;
        }
        let least = (self.record_bytes_max() + SLOT_HEAD).next_multiple_of((self.block_bytes / 16).max(64));
        let share = (self.dram_bytes / SLABS_WANTED) as usize / 4096 * 4096;
        share.clamp(least.min(self.block_bytes), self.block_bytes)
    }
    /// The longest record, in bytes.
    pub(crate) fn record_bytes_max(&self) -> usize {
        let limits = self.limits();
        // With an expiry and a token.
        HEAD_BYTES + 16 + limits.key_bytes + limits.inline_bytes
    }
}

impl From<&Sizes> for SlabOptions {
    fn from(sizes: &Sizes) -> Self {
        Self {
            block_bytes: sizes.block_bytes,
            dram_bytes: sizes.dram_bytes,
            dram_budget: sizes.dram_with_index.then_some(sizes.dram_bytes),
            store_id: sizes.store_id,
            placement: Placement::default(),
            eviction: Eviction::default(),
            swap: Swap::default(),
            partitions: 1,
        }
    }
}

/// Memory for a tier of slots between DRAM and the blocks.
pub struct MiddleTier {
    medium: Box<dyn Medium>,
    fresh: bool,
    /// It has the size that was stored for it, and its region may be longer.
    resized: bool,
}

impl MiddleTier {
    /// Bytes `base..base + len` of a region, both multiples of 256. A fresh one reads as zeros.
    pub fn new<R: ByteRegion>(
        region: Arc<R>,
        (base, len): (u64, u64),
        description: String,
        fresh: bool,
    ) -> Self {
        Self { medium: Box::new(Area::new(region, base, len, description)), fresh, resized: false }
    }

    /// The same with as many bytes as the tier below says, if that says so; else to the region's end.
    ///
    /// # Errors
    /// [`StoreError::Options`] if the region is shorter; [`StoreError::Io`] if the tier below can't be read.
    pub fn stored<R: ByteRegion, L: Lower>(
        region: &Arc<R>,
        base: u64,
        (lower, store_id): (&L, u64),
        description: &str,
    ) -> Result<Self, StoreError> {
        let stored = terrace_blocks::stored_middle_bytes(lower, store_id);
        let stored = stored.map_err(StoreError::io("reading how long the middle tier is"))?;
        let (description, all) = (description.into(), region.len().saturating_sub(base));
        match stored {
            None => Ok(Self::new(region.clone(), (base, all), description, false)),
            Some(bytes) if bytes > all => Err(StoreError::Options(format!(
                "{description}: it holds {} bytes, but {} are recorded: it was truncated, or a part is missing; put it back from a copy of the store",
                region.len(),
                base.saturating_add(bytes)
            ))),
            Some(bytes) => {
                let tier = Self::new(region.clone(), (base, bytes), description, false);
                Ok(Self { resized: true, ..tier })
            }
        }
    }

    pub(crate) fn read(
        self,
        options: &SlabOptions,
        show: &mut dyn FnMut(&FooterEntry, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        let middle = self.open(options)?;
        middle.slabs.scan(&mut |_, _| {})?;
        middle.show(&mut |at, entry| show(entry, middle.slabs.record(at).as_deref()));
        Ok(())
    }

    fn open(self, options: &SlabOptions) -> Result<Middle, StoreError> {
        let least = PMEM_SLABS_MIN as u64 * options.block_bytes as u64;
        if self.medium.size_bytes() < least && !self.resized {
            return Err(StoreError::Options(format!(
                "the middle tier has {} bytes for records: with slabs of {} bytes at least {least} are needed",
                self.medium.size_bytes(),
                options.block_bytes
            )));
        }
        let longest = options.record_bytes_max();
        let lends = options.placement != Placement::Anti2;
        let uncut = self.resized && self.medium.len_max().is_some();
        let slabs = PmemSlabs::new(self.medium, options.block_bytes, longest, options.store_id, lends);
        if self.fresh {
            slabs.make();
        }
        Ok(Middle::new(slabs, uncut))
    }
}

impl<L: Lower> SlabSpace<L> {
    /// A space on a tier. What the tier holds is found by recovery; a new tier must read as zeros.
    ///
    /// # Errors
    /// [`StoreError::Options`] if the sizes don't go together; the text says which would.
    pub fn new(lower: L, middle: Option<MiddleTier>, options: SlabOptions) -> Result<Self, StoreError> {
        let block = options.block_bytes;
        if lower.len() > PAGE_BYTES_MAX {
            return Err(StoreError::Options(format!(
                "the lower tier has {} bytes: this engine can use {PAGE_BYTES_MAX}",
                lower.len()
            )));
        }
        let blocks = Blocks::new(lower, block, options.store_id)?;
        let count = blocks.slots.len();
        if options.dram_bytes < (SLABS_MIN * block) as u64 {
            return Err(StoreError::Options(format!(
                "{} bytes of DRAM for records: with pages of {block} bytes at least {} are needed",
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
        let middle = middle.map(|tier| tier.open(&options)).transpose()?;
        let slab_bytes = options.slab_bytes() as u64;
        let slabs_max = ((count - PAGES_OVER) as u64 * block as u64 / slab_bytes) as usize;
        let slabs = (options.dram_bytes / slab_bytes) as usize;
        Ok(Self::assemble(blocks, middle, options, (slabs.min(slabs_max), slabs_max)))
    }
    /// The tier.
    pub fn lower(&self) -> &L {
        &self.blocks.lower
    }
}
