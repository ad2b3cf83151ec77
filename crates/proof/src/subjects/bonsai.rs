//! Tiny stores of engine `bonsai` for the crash sweep.

use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_engine::{Store, StoreError};
use terrace_media::{AnyRegion, HeapRegion, Homes, settle};
use terrace_media_sim::SimRegion;
use terrace_space_scm_log::{Coherence, Far, Geometry, Opening, limits_ordered, open_ordered, stored_bytes};
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
    /// In a store that each opening makes longer, until its region ends.
    Grown,
    /// On two NUMA nodes, all threads on the second one: of what the first one has they read copies.
    OnNodes,
}

/// NUMA nodes, and bytes for copies on all of them.
const NODES: u32 = 2;
const COPIES_BYTES: u64 = 4 << 10;

/// Devices of striped memory.
const DEVICES: u64 = 4;

/// Four nodes of eight entries in a page.
const PAGE_BYTES: usize = 2048;
const BYTES: u64 = 80 << 10;
const DRAM_BYTES: u64 = 8 * PAGE_BYTES as u64;

/// Of a store that grows: by so much each time, and at most. Lines of fifteen pages go into one, so that there are two of those.
const GROWTH: u64 = 6 * PAGE_BYTES as u64;
const GROWN_BYTES: u64 = BYTES + 4 * GROWTH;

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
        let data_bytes = if matches!(self, Self::Grown) { GROWN_BYTES } else { BYTES } as usize;
        Shape { data_bytes, log_bytes: 0, inline_bytes, large_bytes }
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        let mut shared = opening("bonsai", media, how);
        match self {
            Self::Plain => open_with(media, shared, false, None),
            Self::Grown => open_with(media, shared, true, None),
            Self::Colliding => {
                shared.machine.hasher = KeyHasher::with_few_bits(7, 1);
                open_with(media, shared, false, None)
            }
            Self::OnNodes => {
                settle(NODES - 1);
                // Of what copies hold nothing counts after a crash: their memory is not the medium's.
                let copies = HeapRegion::new(COPIES_BYTES).map_err(StoreError::io("memory for copies"))?;
                let homes = Homes::new(NODES, BYTES / u64::from(NODES), Vec::new());
                let coherence = Coherence::SelfInvalidate;
                open_with(media, shared, false, Some(Far { homes, copies: AnyRegion::of(copies), coherence }))
            }
            Self::Striped => {
                let striped =
                    cut::striped(memory(media)?, DEVICES).map_err(StoreError::io("cutting the region"))?;
                open_on(&striped, shared, BYTES, None)
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
    grows: bool,
    far: Option<Far<AnyRegion>>,
) -> Result<Box<dyn Store>, StoreError> {
    let region = AnyRegion::of(memory(media)?.clone());
    let stored = stored_bytes(&region, 0, GEOMETRY, shared.sizes.store_id).filter(|_| grows);
    open_on(&region, shared, stored.map_or(BYTES, |bytes| (bytes + GROWTH).min(GROWN_BYTES)), far)
}

fn open_on(
    region: &Arc<AnyRegion>,
    shared: terrace_space_hybrid_log::Opening<'static>,
    wanted_bytes: u64,
    far: Option<Far<AnyRegion>>,
) -> Result<Box<dyn Store>, StoreError> {
    let opening = Opening {
        geometry: GEOMETRY,
        wanted_bytes,
        dram_bytes: DRAM_BYTES,
        store_id: shared.sizes.store_id,
        fresh: shared.fresh,
        machine: shared.machine,
        description: shared.description,
        progress: shared.progress,
        far,
    };
    open_ordered(region, 0, opening)
}
