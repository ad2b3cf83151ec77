//! Stores that are tiny, so that a crash sweep reaches everything soon: what they have in common, whatever the engine.

use terrace_engine::MachineOptions;
use terrace_engine::hash::KeyHasher;
use terrace_engine::space::Limits;
use terrace_index::{Clht, MakeIndex};
use terrace_space_hybrid_log::{Opening, Sizes};
use terrace_testkit::sweep::{self, Media, MediaKind, Shape};

/// The sizes of every subject's store on this kind of media. Block media need two units a block, so that extents have room
/// beside the header.
pub fn sizes(media: MediaKind) -> Sizes {
    match media {
        MediaKind::Byte => Sizes {
            block_bytes: 2048,
            log_block_bytes: 1024,
            manifests_apart: 2 * 2048,
            log_bytes: 16 << 10,
            dram_bytes: 6 * 2048,
            dram_with_index: false,
            store_id: 9,
        },
        MediaKind::Block => Sizes {
            block_bytes: 8192,
            log_block_bytes: 4096,
            manifests_apart: 2 * 8192,
            log_bytes: 16 * 4096,
            dram_bytes: 6 * 8192,
            dram_with_index: false,
            store_id: 9,
        },
        MediaKind::Tiered => Sizes {
            block_bytes: 8192,
            log_block_bytes: 4096,
            manifests_apart: 2 * 8192,
            log_bytes: 16 * 4096,
            dram_bytes: 6 * 8192,
            dram_with_index: false,
            store_id: 9,
        },
    }
}

/// Media for a store of these limits.
pub(super) fn shape(media: MediaKind, limits: &Limits) -> Shape {
    let Sizes { block_bytes, log_bytes, .. } = sizes(media);
    let (inline_bytes, large_bytes) = (limits.inline_bytes, limits.inline_bytes * 5);
    assert!(large_bytes as u64 <= limits.value_bytes);
    match media {
        // The log, the manifest and some 18 blocks.
        MediaKind::Byte => Shape { data_bytes: 54 << 10, log_bytes: 0, inline_bytes, large_bytes },
        MediaKind::Block => Shape {
            data_bytes: 24 * block_bytes,
            log_bytes: log_bytes as usize + 4096,
            inline_bytes,
            large_bytes,
        },
        // Of the middle tier three slabs: they change class often.
        MediaKind::Tiered => Shape {
            data_bytes: 24 * block_bytes,
            log_bytes: log_bytes as usize + 3 * block_bytes,
            inline_bytes,
            large_bytes,
        },
    }
}

/// How keys are hashed.
pub(super) const HASHER: KeyHasher = KeyHasher::new(7);

/// What an engine opens its store with.
pub(super) fn opening(engine: &'static str, media: &Media, how: sweep::Opening) -> Opening<'static> {
    let sweep::Opening { durability, clock, fresh, evict, .. } = how;
    let kind = match media {
        Media::Byte(_) => MediaKind::Byte,
        Media::Block { .. } => MediaKind::Block,
        Media::Tiered { .. } => MediaKind::Tiered,
    };
    Opening {
        sizes: sizes(kind),
        fresh,
        machine: MachineOptions {
            engine,
            durability,
            immediate: true,
            evict,
            sessions: 3,
            hasher: HASHER,
            clock,
            threads: 1,
            recovery_keys: 5,
        },
        index: MakeIndex::Clht(&|| Clht::with_min_buckets(4)),
        description: String::new(),
        progress: &|_, _| {},
    }
}
