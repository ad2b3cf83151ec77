//! Tiny heaps for the crash sweep.

use terrace_engine::hash::KeyHasher;
use terrace_engine::{Store, StoreError};
use terrace_media::AnyRegion;
use terrace_space_heap::{Geometry, Granularity, INDEX_LOAD, Opening, limits, open};
use terrace_testkit::sweep::{self, Media, MediaKind, Resized, Shape, Subject};

use super::tiny::opening;

/// Engine `heap-hybrid`.
pub struct HeapHybrid;

/// Engine `heap-hybrid` with chunks as long as their records need.
pub struct HeapObject;

/// Engine `heap-hybrid` in a region that grows and shrinks.
pub struct HeapResized<S>(pub S);

impl<S: Subject> Subject for HeapResized<S> {
    fn takes(&self, media: MediaKind) -> bool {
        self.0.takes(media)
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
        self.0.shape(media)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        self.0.open(media, how)
    }
}

/// A page, and sessions with the machine's own.
const GEOMETRY: Geometry =
    Geometry { page_bytes: 2048, sessions: 4, granularity: Granularity::Slab, index_load: None };
/// The same with chunks as long as their records need.
const OF_OBJECTS: Geometry = Geometry { granularity: Granularity::Object, ..GEOMETRY };
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

impl Subject for HeapObject {
    fn takes(&self, media: MediaKind) -> bool {
        HeapHybrid.takes(media)
    }

    fn sets_read(&self) -> bool {
        true
    }

    fn shape(&self, _media: MediaKind) -> Shape {
        shape_of(OF_OBJECTS, HEAP_BYTES)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        open_heap("heap-hybrid", OF_OBJECTS, media, how)
    }
}

/// Engine `heap-persistent`. Its index grows soon, or its buckets overflow, as the history has it.
pub struct HeapPersistent;

/// The same with keys whose hashes collide: what overflows a bucket splits with it.
pub struct HeapColliding;

const WITH_INDEX: Geometry = Geometry { page_bytes: 1024, index_load: Some(INDEX_LOAD), ..GEOMETRY };
/// What the index takes in front of the pages comes to it.
const WITH_INDEX_BYTES: usize = HEAP_BYTES + (16 << 10);

impl HeapPersistent {
    fn geometry(variant: u64) -> Geometry {
        let load = [2, 7, 20, INDEX_LOAD][(variant.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62) as usize];
        Geometry { index_load: Some(load), ..WITH_INDEX }
    }
}

impl Subject for HeapColliding {
    fn takes(&self, media: MediaKind) -> bool {
        HeapPersistent.takes(media)
    }

    fn sets_read(&self) -> bool {
        true
    }

    fn shape(&self, media: MediaKind) -> Shape {
        HeapPersistent.shape(media)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        let geometry = HeapPersistent::geometry(how.variant);
        let mut shared = opening("heap-persistent", media, how);
        shared.machine.hasher = KeyHasher::with_few_bits(7, 1);
        open_with("heap-persistent", geometry, media, shared)
    }
}

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
        let geometry = Self::geometry(how.variant);
        open_heap("heap-persistent", geometry, media, how)
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
    open_with(engine, geometry, media, opening(engine, media, how))
}

fn open_with(
    engine: &str,
    geometry: Geometry,
    media: &Media,
    shared: terrace_space_hybrid_log::Opening<'static>,
) -> Result<Box<dyn Store>, StoreError> {
    let Media::Byte(region) = media else {
        return Err(StoreError::Options(format!("engine {engine} lies in byte-addressable memory")));
    };
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
