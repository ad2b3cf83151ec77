//! Tiny stores of slabs over pages for the crash sweep.

use std::sync::Arc;

use super::hetermm::sizes;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{MachineOptions, Store, StoreError, StoreHandle};
use terrace_index::Clht;
use terrace_space_slab::{Opening, Sizes, SlabOptions, open_block, open_byte};
use terrace_testkit::sweep::{self, Media, MediaKind, Shape, Subject};

/// Engine `tac`.
pub struct Tac;

impl Subject for Tac {
    fn shape(&self, media: MediaKind) -> Shape {
        let Sizes { block_bytes, log_bytes, dram_bytes, store_id, .. } = sizes(media);
        let limits = SlabOptions { block_bytes, dram_bytes, dram_budget: None, store_id }.limits();
        let large_bytes = limits.inline_bytes * 5;
        assert!(large_bytes as u64 <= limits.value_bytes);
        match media {
            // The log, the manifest and some 18 blocks.
            MediaKind::Byte => {
                Shape { data_bytes: 54 << 10, log_bytes: 0, inline_bytes: limits.inline_bytes, large_bytes }
            }
            MediaKind::Block => Shape {
                data_bytes: 24 * block_bytes,
                log_bytes: log_bytes as usize + 4096,
                inline_bytes: limits.inline_bytes,
                large_bytes,
            },
        }
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        let sweep::Opening { durability, clock, fresh, evict } = how;
        let kind = match media {
            Media::Byte(_) => MediaKind::Byte,
            Media::Block { .. } => MediaKind::Block,
        };
        let opening = Opening {
            sizes: sizes(kind),
            fresh,
            machine: MachineOptions {
                engine: "tac",
                durability,
                immediate: true,
                evict,
                sessions: 3,
                hasher: KeyHasher::new(7),
                clock,
                threads: 1,
            },
            index: &|| Clht::with_min_buckets(4),
            description: String::new(),
            progress: &|_, _| {},
        };
        Ok(match media {
            Media::Byte(region) => Box::new(StoreHandle(open_byte(&Arc::new(region.clone()), 0, opening)?)),
            Media::Block { log, data } => {
                let (log, data) = (Arc::new(log.clone()), Arc::new(data.clone()));
                Box::new(StoreHandle(open_block(&log, &data, opening)?))
            }
        })
    }
}
