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
const GEOMETRY: Geometry = Geometry { page_bytes: 2048, sessions: 4, keeps_index: false };
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
        shape_of(GEOMETRY, HEAP_BYTES)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        open_heap("heap-hybrid", GEOMETRY, media, how)
    }
}

/// Engine `heap-persistent`.
pub struct HeapPersistent;

const WITH_INDEX: Geometry = Geometry { keeps_index: true, ..GEOMETRY };
/// What the index takes in front of the pages comes to it.
const WITH_INDEX_BYTES: usize = HEAP_BYTES + (16 << 10);

impl Subject for HeapPersistent {
    fn takes(&self, media: MediaKind) -> bool {
        media == MediaKind::Byte
    }

    fn sets_read(&self) -> bool {
        true
    }

    fn shape(&self, _media: MediaKind) -> Shape {
        shape_of(WITH_INDEX, WITH_INDEX_BYTES)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        open_heap("heap-persistent", WITH_INDEX, media, how)
    }
}

fn shape_of(geometry: Geometry, bytes: usize) -> Shape {
    let limits = limits(geometry, bytes as u64);
    let (inline_bytes, large_bytes) = (limits.inline_bytes, limits.inline_bytes * 5);
    assert!(large_bytes as u64 <= limits.value_bytes, "large values fit");
    Shape { data_bytes: bytes, log_bytes: 0, inline_bytes, large_bytes }
}

fn open_heap(
    engine: &'static str,
    geometry: Geometry,
    media: &Media,
    how: sweep::Opening,
) -> Result<Box<dyn Store>, StoreError> {
    let Media::Byte(region) = media else {
        return Err(StoreError::Options(format!("engine {engine} lies in byte-addressable memory")));
    };
    let shared = opening(engine, media, how);
    let opening = Opening {
        geometry,
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
