//! Tiny stores of engine `bonsai` for the crash sweep.

use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_engine::{Store, StoreError};
use terrace_media::AnyRegion;
use terrace_media_sim::SimRegion;
use terrace_space_scm_log::{Geometry, Opening, limits_ordered, open_ordered};
use terrace_testkit::sweep::{self, Media, MediaKind, Shape, Subject};

use super::cut;
use super::tiny::opening;

/// Engine `bonsai`.
pub enum Bonsai {
    /// As it is.
    Plain,
    /// With keys whose hashes collide.
    Colliding,
    /// In memory that is striped over devices.
    Striped,
}

/// Devices of striped memory.
const DEVICES: u64 = 4;

/// Four nodes of eight entries in a page.
const PAGE_BYTES: usize = 2048;
const BYTES: u64 = 80 << 10;
const DRAM_BYTES: u64 = 8 * PAGE_BYTES as u64;

const GEOMETRY: Geometry = Geometry { page_bytes: PAGE_BYTES, buckets: 0, bytes: BYTES };

impl Subject for Bonsai {
    fn takes(&self, media: MediaKind) -> bool {
        media == MediaKind::Byte
    }

    fn sets_read(&self) -> bool {
        true
    }

    /// Too long for what a node has in front of its entries, so that it is among the fences.
    fn stem(&self) -> &'static str {
        "what many keys begin with: "
    }

    fn shape(&self, _media: MediaKind) -> Shape {
        let limits = limits_ordered(GEOMETRY, DRAM_BYTES);
        let (inline_bytes, large_bytes) = (limits.inline_bytes, limits.inline_bytes * 5);
        assert!(large_bytes as u64 <= limits.value_bytes, "large values fit");
        Shape { data_bytes: BYTES as usize, log_bytes: 0, inline_bytes, large_bytes }
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        let mut shared = opening("bonsai", media, how);
        match self {
            Self::Plain => open_with(media, shared),
            Self::Colliding => {
                shared.machine.hasher = KeyHasher::with_few_bits(7, 1);
                open_with(media, shared)
            }
            Self::Striped => {
                let striped =
                    cut::striped(memory(media)?, DEVICES).map_err(StoreError::io("cutting the region"))?;
                open_on(&striped, shared)
            }
        }
    }
}

fn memory(media: &Media) -> Result<&SimRegion, StoreError> {
    match media {
        Media::Byte(region) => Ok(region),
        _ => Err(StoreError::Options("engine bonsai lies in byte-addressable memory".into())),
    }
}

fn open_with(
    media: &Media,
    shared: terrace_space_hybrid_log::Opening<'static>,
) -> Result<Box<dyn Store>, StoreError> {
    open_on(&AnyRegion::of(memory(media)?.clone()), shared)
}

fn open_on(
    region: &Arc<AnyRegion>,
    shared: terrace_space_hybrid_log::Opening<'static>,
) -> Result<Box<dyn Store>, StoreError> {
    let opening = Opening {
        geometry: GEOMETRY,
        dram_bytes: DRAM_BYTES,
        store_id: shared.sizes.store_id,
        fresh: shared.fresh,
        machine: shared.machine,
        description: shared.description,
        progress: shared.progress,
    };
    open_ordered(region, 0, opening)
}
