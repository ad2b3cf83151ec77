//! Tiny hybrid logs for the crash sweep.

use terrace_engine::{ReadCache, Store, StoreError};
use terrace_media::{AnyDevice, AnyRegion};
use terrace_space_hybrid_log::{HybridOptions, open_block, open_byte};
use terrace_testkit::sweep::{self, Media, MediaKind, Shape, Subject};

use super::tiny::{opening, shape, sizes};

/// Engine `hetermm`.
pub struct Hetermm;

impl Subject for Hetermm {
    fn shape(&self, media: MediaKind) -> Shape {
        let terrace_space_hybrid_log::Sizes { block_bytes, dram_bytes, store_id, .. } = sizes(media);
        let options = HybridOptions { block_bytes, dram_bytes, dram_budget: None, store_id };
        shape(media, &options.limits())
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        let opening = opening("hetermm", media, how);
        let store: Box<dyn Store> = match media {
            Media::Byte(region) => open_byte(&AnyRegion::of(region.clone()), 0, opening)?,
            Media::Block { log, data } => {
                open_block(&AnyDevice::of(log.clone()), &AnyDevice::of(data.clone()), opening)?
            }
            Media::Tiered { .. } => {
                return Err(StoreError::Options("engine hetermm has one lower tier".into()));
            }
        };
        // On both kinds of media, whatever the default.
        store.set_read_cache(ReadCache::Gated)?;
        Ok(store)
    }
}
