//! Tiny stores of slabs over pages for the crash sweep.

use terrace_engine::hash::KeyHasher;
use terrace_engine::{Store, StoreError};
use terrace_media::{AnyDevice, AnyRegion};
use terrace_space_hybrid_log::Sizes;
use terrace_space_slab::{Choices, Placement, SlabOptions, Swap, open_block, open_byte, open_tiered};
use terrace_testkit::sweep::{self, Media, MediaKind, Resized, Shape, Subject};

use super::tiny::{HASHER, opening, shape, sizes};

/// Engine `tac`.
pub struct Tac;

impl Subject for Tac {
    fn takes(&self, _media: MediaKind) -> bool {
        true
    }

    fn shape(&self, media: MediaKind) -> Shape {
        let Sizes { block_bytes, dram_bytes, store_id, .. } = sizes(media);
        let Choices { placement, eviction, swap, .. } = Choices::default();
        let (dram_budget, partitions) = (None, 1);
        let options = SlabOptions {
            block_bytes,
            dram_bytes,
            dram_budget,
            store_id,
            placement,
            eviction,
            swap,
            partitions,
        };
        shape(media, &options.limits())
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        open(media, how, Choices::default())
    }
}

/// Engine `tac` with sets that read what they replace, all of them.
pub struct TacReading;

impl Subject for TacReading {
    fn takes(&self, _media: MediaKind) -> bool {
        true
    }

    fn sets_read(&self) -> bool {
        true
    }

    fn shape(&self, media: MediaKind) -> Shape {
        Tac.shape(media)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        Tac.open(media, how)
    }
}

/// Engine `tac` with keys whose hashes collide, so that what a set finds unread is often another key's.
pub struct TacColliding;

impl Subject for TacColliding {
    fn takes(&self, media: MediaKind) -> bool {
        // What is read at once is told apart at once.
        media != MediaKind::Byte
    }

    fn shape(&self, media: MediaKind) -> Shape {
        Tac.shape(media)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        open_with(media, how, Choices::default(), KeyHasher::with_few_bits(7, 2))
    }
}

/// Engine `tac` under policies and placements other than its own, or with whole bufs coming up, one for each history; what goes on
/// after a crash may go on under another.
pub struct TacPlaced;

impl Subject for TacPlaced {
    fn takes(&self, _media: MediaKind) -> bool {
        true
    }

    fn shape(&self, media: MediaKind) -> Shape {
        Tac.shape(media)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        // They come in runs of seeds, and their remainders by other numbers mean something else.
        let drawn = how.variant.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        open(media, how, other(media, drawn))
    }
}

fn other(media: &Media, drawn: u64) -> Choices {
    let swap = match media {
        // There is nothing to read around a record.
        Media::Byte(_) => Swap::Tuple,
        Media::Block { .. } | Media::Tiered { .. } => [Swap::Tuple, Swap::Buf][drawn as usize % 2],
    };
    let placement = match media {
        // Without a middle tier there is nothing to place.
        Media::Byte(_) | Media::Block { .. } => Placement::Tac,
        Media::Tiered { .. } => {
            // That `tac` comes up as often as both others is for the sake of the bufs: those have none.
            [Placement::Anti2, Placement::AntiNvm, Placement::Tac, Placement::Tac][drawn as usize / 2 % 4]
        }
    };
    // Those that keep lists, those that keep words of what lies below, and what lets everything come up.
    let policy =
        ["lru/all", "clock", "lazy-lru", "s3-fifo", "lru/all", "lazy-lru-paper", "sieve", "clock/all"]
            [drawn as usize / 8 % 8];
    let partitions = 1 + drawn as usize / 64 % 3;
    Choices { placement, swap, eviction: policy.parse().unwrap_or_default(), partitions }
}

/// Engine `tac` on the least that it opens with, but for a block: what is kept free is a third of that.
pub struct TacSmall;

/// Blocks of the lower tier of [`TacSmall`].
const FEW_BLOCKS: usize = 12;

impl Subject for TacSmall {
    fn takes(&self, _media: MediaKind) -> bool {
        true
    }

    fn sets_read(&self) -> bool {
        // What is swept here is something else, and shows in histories that are known.
        true
    }

    fn shape(&self, media: MediaKind) -> Shape {
        let terrace_space_hybrid_log::Sizes { block_bytes, log_bytes, .. } = sizes(media);
        let (blocks, manifests) = (FEW_BLOCKS * block_bytes, 2 * 4096);
        let data_bytes = match media {
            MediaKind::Byte => log_bytes as usize + blocks + manifests / 4,
            MediaKind::Block | MediaKind::Tiered => blocks + manifests,
        };
        Shape { data_bytes, ..Tac.shape(media) }
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        Tac.open(media, how)
    }
}

/// Engine `tac` with tiers that grow and shrink.
pub struct TacResized;

/// Slabs that a middle tier has at most.
const SLABS: usize = 6;
/// Blocks of a tier on byte-addressable media, at most.
const BLOCKS: usize = 26;

/// The tiers that change their sizes in stores of this shape.
fn resized(media: MediaKind, shape: &Shape) -> Vec<Resized> {
    let ssd = Resized { tier: "ssd", bytes: shape.data_bytes as u64, least: 8 };
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

impl Subject for TacResized {
    fn takes(&self, media: MediaKind) -> bool {
        Tac.takes(media)
    }

    fn resizes(&self, media: MediaKind) -> Vec<Resized> {
        resized(media, &self.shape(media))
    }

    fn sets_read(&self) -> bool {
        // What is swept here is something else, and shows in histories that are known.
        true
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

/// The same with room for values that stay: their blocks move, and move again.
pub struct TacMoving;

impl Subject for TacMoving {
    fn takes(&self, media: MediaKind) -> bool {
        TacResized.takes(media)
    }

    fn resizes(&self, media: MediaKind) -> Vec<Resized> {
        resized(media, &self.shape(media))
    }

    fn moves_large(&self) -> bool {
        true
    }

    fn sets_read(&self) -> bool {
        // What is swept here is something else, and shows in histories that are known.
        true
    }

    fn shape(&self, media: MediaKind) -> Shape {
        let blocks = 40 * sizes(media).block_bytes;
        let data_bytes = match media {
            MediaKind::Byte => sizes(media).log_bytes as usize + blocks,
            MediaKind::Block | MediaKind::Tiered => blocks,
        };
        Shape { data_bytes, ..TacResized.shape(media) }
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        Tac.open(media, how)
    }
}

fn open(media: &Media, how: sweep::Opening, choices: Choices) -> Result<Box<dyn Store>, StoreError> {
    open_with(media, how, choices, HASHER)
}

fn open_with(
    media: &Media,
    how: sweep::Opening,
    choices: Choices,
    hasher: KeyHasher,
) -> Result<Box<dyn Store>, StoreError> {
    let mut opening = opening("tac", media, how);
    opening.machine.hasher = hasher;
    Ok(match media {
        Media::Byte(region) => open_byte(&AnyRegion::of(region.clone()), 0, choices, opening)?,
        Media::Block { log, data } => {
            open_block(&AnyDevice::of(log.clone()), &AnyDevice::of(data.clone()), choices, opening)?
        }
        Media::Tiered { region, data } => {
            let (region, data) = (AnyRegion::of(region.clone()), AnyDevice::of(data.clone()));
            open_tiered((&region, 0), &data, "", choices, opening)?
        }
    })
}
