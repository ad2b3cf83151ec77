//! Tiny stores of slabs over pages for the crash sweep.

use std::sync::Arc;

use terrace_engine::{Store, StoreError, StoreHandle};
use terrace_space_hybrid_log::Sizes;
use terrace_space_slab::{Choices, Placement, SlabOptions, Swap, open_block, open_byte, open_tiered};
use terrace_testkit::sweep::{self, Media, MediaKind, Resized, Shape, Subject};

use super::tiny::{opening, shape, sizes};

/// Engine `tac`.
pub struct Tac;

impl Subject for Tac {
    fn takes(&self, _media: MediaKind) -> bool {
        true
    }

    fn shape(&self, media: MediaKind) -> Shape {
        let Sizes { block_bytes, dram_bytes, store_id, .. } = sizes(media);
        let Choices { placement, eviction, swap } = Choices::default();
        let dram_budget = None;
        let options =
            SlabOptions { block_bytes, dram_bytes, dram_budget, store_id, placement, eviction, swap };
        shape(media, &options.limits())
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        open(media, how, Choices::default())
    }
}

/// Engine `tac` under placements other than its own, or with whole bufs coming up, one for each history; what goes on after a crash
/// may go on under another.
pub struct TacPlaced;

impl Subject for TacPlaced {
    fn takes(&self, media: MediaKind) -> bool {
        // Without a middle tier there is nothing to place.
        media == MediaKind::Tiered
    }

    fn shape(&self, media: MediaKind) -> Shape {
        Tac.shape(media)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        // They come in runs of seeds, and their remainders by other numbers mean something else.
        let drawn = how.variant.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        open(media, how, other(drawn))
    }
}

fn other(drawn: u64) -> Choices {
    match drawn % 4 {
        0 => Placement::Anti2.into(),
        1 => Placement::AntiNvm.into(),
        2 => Swap::Buf.into(),
        // Whatever lies with a record that was read comes up.
        _ => {
            Choices { swap: Swap::Buf, eviction: "lru/all".parse().unwrap_or_default(), ..Choices::default() }
        }
    }
}

/// Engine `tac` with tiers that grow and shrink.
pub struct TacResized;

/// Slabs that a middle tier has at most.
const SLABS: usize = 6;
/// Blocks of a tier on byte-addressable media, at most.
const BLOCKS: usize = 26;

impl Subject for TacResized {
    fn takes(&self, media: MediaKind) -> bool {
        Tac.takes(media)
    }

    fn resizes(&self, media: MediaKind) -> Vec<Resized> {
        let ssd = Resized { tier: "ssd", bytes: self.shape(media).data_bytes as u64, least: 8 };
        match media {
            MediaKind::Byte => {
                let bytes = ssd.bytes - sizes(media).log_bytes;
                vec![Resized { tier: "pmem", bytes, least: 8 }]
            }
            MediaKind::Block => vec![ssd],
            MediaKind::Tiered => {
                let slabs = (SLABS * sizes(media).block_bytes) as u64;
                vec![ssd, Resized { tier: "pmem", bytes: slabs, least: 0 }]
            }
        }
    }

    fn shape(&self, media: MediaKind) -> Shape {
        let shape = Tac.shape(media);
        let Sizes { block_bytes, log_bytes, .. } = sizes(media);
        match media {
            // The manifests take less than a block.
            MediaKind::Byte => Shape { data_bytes: log_bytes as usize + (BLOCKS + 1) * block_bytes, ..shape },
            MediaKind::Block => shape,
            MediaKind::Tiered => Shape { log_bytes: log_bytes as usize + SLABS * block_bytes, ..shape },
        }
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        Tac.open(media, how)
    }
}

fn open(media: &Media, how: sweep::Opening, choices: Choices) -> Result<Box<dyn Store>, StoreError> {
    let opening = opening("tac", media, how);
    Ok(match media {
        Media::Byte(region) => {
            Box::new(StoreHandle(open_byte(&Arc::new(region.clone()), 0, choices, opening)?))
        }
        Media::Block { log, data } => {
            let (log, data) = (Arc::new(log.clone()), Arc::new(data.clone()));
            Box::new(StoreHandle(open_block(&log, &data, choices, opening)?))
        }
        Media::Tiered { region, data } => {
            let (region, data) = (Arc::new(region.clone()), Arc::new(data.clone()));
            Box::new(StoreHandle(open_tiered((&region, 0), &data, "", choices, opening)?))
        }
    })
}
