//! Tiny heaps for the crash sweep.

use terrace_engine::{Store, StoreError};
use terrace_media::AnyRegion;
use terrace_space_heap::{Geometry, Opening, limits, open};
use terrace_testkit::sweep::{self, Media, MediaKind, Resized, Shape, Subject};

use super::tiny::opening;

/// Engine `heap-hybrid`.
pub struct HeapHybrid;

/// Engine `heap-hybrid` in a region that grows and shrinks.
pub struct HeapResized;

impl Subject for HeapResized {
    fn takes(&self, media: MediaKind) -> bool {
        HeapHybrid.takes(media)
    }

    fn resizes(&self, _media: MediaKind) -> Vec<Resized> {
        vec![Resized { tier: "pmem", bytes: HEAP_BYTES as u64, least: 6 }]
    }

    fn moves_large(&self) -> bool {
        true
    }

    fn sets_read(&self) -> bool {
        true
    }

    fn shape(&self, media: MediaKind) -> Shape {
        HeapHybrid.shape(media)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        HeapHybrid.open(media, how)
    }
}

/// A page, and sessions with the machine's own.
const GEOMETRY: Geometry = Geometry { page_bytes: 2048, sessions: 4 };
/// Some 24 pages.
const HEAP_BYTES: usize = 50 << 10;

impl Subject for HeapHybrid {
    fn takes(&self, media: MediaKind) -> bool {
        media == MediaKind::Byte
    }

    fn sets_read(&self) -> bool {
        true
    }

    fn shape(&self, _media: MediaKind) -> Shape {
        let limits = limits(GEOMETRY, HEAP_BYTES as u64);
        let (inline_bytes, large_bytes) = (limits.inline_bytes, limits.inline_bytes * 5);
        assert!(large_bytes as u64 <= limits.value_bytes, "large values fit");
        Shape { data_bytes: HEAP_BYTES, log_bytes: 0, inline_bytes, large_bytes }
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        let Media::Byte(region) = media else {
            return Err(StoreError::Options("engine heap-hybrid lies in byte-addressable memory".into()));
        };
        let shared = opening("heap-hybrid", media, how);
        let opening = Opening {
            geometry: GEOMETRY,
            dram_bytes: 1 << 30,
            store_id: shared.sizes.store_id,
            fresh: shared.fresh,
            machine: shared.machine,
            index: shared.index,
            description: shared.description,
            progress: shared.progress,
        };
        open(&AnyRegion::of(region.clone()), 0, opening)
    }
}
