//! Options, and making a space on a tier.

use std::io;

use terrace_engine::StoreError;
use terrace_engine::manifest::{MANIFEST_BYTES, Manifest};
use terrace_engine::record::{HEAD_BYTES, INLINE_VALUE_BYTES, KEY_BYTES_MAX};
use terrace_engine::space::Limits;
use terrace_media::read_agreed;

use crate::address::Addresses;
use crate::layout::{BLOCK_HEADER_BYTES, ENTRY_BYTES, TRAILER_BYTES};
use crate::lower::Lower;
use crate::slots::Slot;
use crate::space::{HybridLog, manifest_area, manifest_unit};

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

/// The smallest block on a tier, in bytes.
pub(crate) fn least_block_bytes<L: Lower>() -> usize {
    L::UNIT.max(1024)
}

impl HybridOptions {
    /// What a record, a value and a group may measure with blocks of this size.
    pub fn limits(&self) -> Limits {
        let page = self.block_bytes - BLOCK_HEADER_BYTES - TRAILER_BYTES - ENTRY_BYTES - HEAD_BYTES - 8;
        let key_bytes = (page / 2).min(KEY_BYTES_MAX);
        let inline_bytes = (page / 4).min(INLINE_VALUE_BYTES) / 8 * 8;
        Limits {
            key_bytes: key_bytes / 8 * 8,
            inline_bytes,
            value_bytes: crate::extent::value_bytes_max(self.block_bytes, inline_bytes),
            group_bytes: page * 3 / 4,
        }
    }
}

fn manifests<L: Lower>(lower: &L) -> io::Result<[Option<Manifest>; 2]> {
    let mut copies = [None; 2];
    for (at, copy) in copies.iter_mut().enumerate() {
        let mut bytes = [0; MANIFEST_BYTES];
        // An older copy is as whole as the newest.
        read_agreed(&mut bytes, |bytes| lower.read(at as u64 * manifest_unit::<L>(), bytes))?;
        *copy = Manifest::decode(&bytes);
    }
    Ok(copies)
}

/// The newest manifest stored on a tier, `None` if there is none.
///
/// # Errors
/// The device's.
pub fn stored_manifest<L: Lower>(lower: &L) -> io::Result<Option<Manifest>> {
    Ok(manifests(lower)?.into_iter().flatten().max_by_key(|manifest| manifest.sequence))
}

/// Makes what a process that died left on the tier safe from power loss, before anything rests on it: on block media all of
/// it, on byte-addressable media the manifest; blocks follow as they are scanned.
pub(crate) fn secure_found<L: Lower>(lower: &L) -> io::Result<()> {
    lower.secure(0, manifest_area::<L>() as usize);
    lower.sync()
}

/// The copy of the manifest that can be spared: to be written first, for a crash may tear it.
pub(crate) fn older_copy<L: Lower>(lower: &L) -> io::Result<u64> {
    Ok(spare(manifests(lower)?.map(|copy| copy.map(|manifest| manifest.sequence))))
}

fn spare(sequences: [Option<u64>; 2]) -> u64 {
    // None, a copy that is no use, is less than any.
    u64::from(sequences[1] < sequences[0])
}

impl<L: Lower> HybridLog<L> {
    /// A space on a tier. What the tier holds is found by recovery; a new tier must read as zeros.
    ///
    /// # Errors
    /// [`StoreError::Options`] if the sizes don't go together; the text says which would.
    pub fn new(lower: L, options: HybridOptions) -> Result<Self, StoreError> {
        let block = options.block_bytes;
        let least = least_block_bytes::<L>();
        if !block.is_power_of_two() || block < least || block > 32 << 20 {
            return Err(StoreError::Options(format!(
                "pages of {block} bytes: a power of two from {least} to {} is needed",
                32 << 20
            )));
        }
        let blocks = lower.len().saturating_sub(manifest_area::<L>()) / block as u64;
        let blocks = blocks.min(Addresses::new(block).slots_max()) as usize;
        if blocks < FRAMES_MIN + BLOCKS_OVER {
            let least = (FRAMES_MIN + BLOCKS_OVER) as u64 * block as u64 + manifest_area::<L>();
            return Err(StoreError::Options(format!(
                "the lower tier has {} bytes: with pages of {block} bytes at least {least} are needed",
                lower.len()
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
        let frames = frames.min(blocks - BLOCKS_OVER);
        let slots = (0..blocks).map(|_| Slot::default()).collect();
        Ok(Self::assemble(lower, options, slots, frames))
    }
    /// The tier.
    pub fn lower(&self) -> &L {
        &self.lower
    }
}

#[cfg(test)]
mod tests {
    use super::spare;

    #[test]
    fn the_only_newest_manifest_is_written_last() {
        assert_eq!(spare([Some(7), Some(6)]), 1);
        assert_eq!(spare([Some(6), Some(7)]), 0);
        assert_eq!(spare([Some(7), None]), 1, "a rotten copy goes first, whatever its turn");
        assert_eq!(spare([None, Some(7)]), 0);
        assert_eq!(spare([Some(7), Some(7)]), 0);
    }
}
