//! Where what lies on the tiny stores' media, after `docs/formats`; the fuzzer's own reader, so that it can write what no
//! engine would.

use std::ops::Range;

use terrace_space_hybrid_log::Sizes;
use terrace_testkit::sweep::MediaKind;

use crate::subjects::sizes;

/// One kind of store's layout. Media: one region; log and data; or region and data.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub kind: MediaKind,
    pub sizes: Sizes,
    /// Bytes before the log's first block.
    pub log_super: usize,
    /// A copy of the manifest, with its padding.
    pub manifest_unit: usize,
    /// Where the tier of blocks begins in its medium, manifests first.
    pub tier: usize,
}

/// The layout of a kind.
pub(super) fn layout(kind: MediaKind) -> Layout {
    let sizes = sizes(kind);
    match kind {
        MediaKind::Byte => {
            Layout { kind, sizes, log_super: 128, manifest_unit: 256, tier: sizes.log_bytes as usize }
        }
        MediaKind::Block => Layout { kind, sizes, log_super: 4096, manifest_unit: 4096, tier: 0 },
        MediaKind::Tiered => Layout { kind, sizes, log_super: 128, manifest_unit: 4096, tier: 0 },
    }
}

impl Layout {
    /// The log's medium; the log is at its start.
    pub fn log<'a>(&self, media: &'a mut [Vec<u8>]) -> &'a mut [u8] {
        match self.kind {
            MediaKind::Byte | MediaKind::Tiered => &mut media[0][..self.sizes.log_bytes as usize],
            MediaKind::Block => &mut media[0],
        }
    }
    /// The middle tier's slabs, as large as blocks; none but on both kinds of media.
    pub fn slabs<'a>(&self, media: &'a mut [Vec<u8>]) -> &'a mut [u8] {
        match self.kind {
            MediaKind::Byte | MediaKind::Block => &mut [],
            MediaKind::Tiered => &mut media[0][self.sizes.log_bytes as usize..],
        }
    }
    /// The tier: manifests and blocks.
    pub fn tier<'a>(&self, media: &'a mut [Vec<u8>]) -> &'a mut [u8] {
        let last = media.len() - 1;
        &mut media[last][self.tier..]
    }
    /// Blocks of a log of so many bytes.
    pub fn log_blocks(&self, log_bytes: usize) -> usize {
        (log_bytes - self.log_super) / self.sizes.log_block_bytes
    }
    /// A log block's place in the log.
    pub fn log_block(&self, number: usize) -> Range<usize> {
        let start = self.log_super + number * self.sizes.log_block_bytes;
        start..start + self.sizes.log_block_bytes
    }
    /// Blocks of a tier of so many bytes.
    pub fn blocks(&self, tier_bytes: usize) -> usize {
        (tier_bytes - 2 * self.manifest_unit) / self.sizes.block_bytes
    }
    /// Where the copies of the manifest begin in the tier.
    pub fn manifests(&self) -> [usize; 2] {
        [0, self.manifest_unit + self.sizes.manifests_apart as usize]
    }
    /// A block's place in the tier.
    pub fn block(&self, slot: usize) -> Range<usize> {
        let copies = if slot * self.sizes.block_bytes < self.sizes.manifests_apart as usize { 1 } else { 2 };
        let start = copies * self.manifest_unit + slot * self.sizes.block_bytes;
        start..start + self.sizes.block_bytes
    }
}

/// A little-endian word; zero where there is none.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(std::array::from_fn(|i| word[i])))
}

/// A little-endian half word; zero where there is none.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(std::array::from_fn(|i| word[i])))
}

/// Stores bytes where there is room for them.
pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Where the groups of a log block begin, as far as their lengths can be followed.
pub(super) fn groups(block: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 64);
    while u32_at(block, at) == u32::from_le_bytes(*b"tGrp") {
        let length = u32_at(block, at + 8) as usize;
        if length < 40 || length > block.len() - at {
            break;
        }
        found.push(at..at + length);
        at += length;
    }
    found
}

/// Where a middle slab's slots start, as its header says.
pub(super) fn slots(slab: &[u8]) -> Vec<usize> {
    let bytes = (u32_at(slab, 28) & 0xffff) as usize * 256;
    let starts = (256..slab.len()).step_by(bytes.max(256));
    starts.filter(|start| bytes > 0 && start + bytes <= slab.len()).collect()
}

/// Where the footer's entries are in a block of records, the first record's first; as far as they are inside.
pub(super) fn footer(block: &[u8]) -> Vec<usize> {
    let trailer = block.len() - 64;
    let count = u32_at(block, trailer + 16) as usize;
    (1..=count.min((trailer - 64) / 24)).map(|i| trailer - i * 24).collect()
}

/// Where the record of a footer entry starts.
pub(super) fn record_at(block: &[u8], entry: usize) -> usize {
    (u32_at(block, entry + 20) as usize & 0x3f_ffff) * 8
}
