//! Tiny stores of engine `scmkv` for the crash sweep.

use terrace_engine::hash::KeyHasher;
use terrace_engine::{Store, StoreError};
use terrace_media::AnyRegion;
use terrace_space_scm_log::{Geometry, Opening, limits, open, stored_bytes};
use terrace_testkit::sweep::{self, Media, MediaKind, Shape, Subject};

use super::tiny::opening;

/// Engine `scmkv`.
pub struct Scmkv;

/// The same with keys whose hashes collide.
pub struct ScmColliding;

/// The same in a store that each opening makes longer, until its region ends.
pub struct ScmGrown;

const PAGE_BYTES: usize = 1024;
const BYTES: u64 = 44 << 10;
const DRAM_BYTES: u64 = 8 * PAGE_BYTES as u64;

/// Of a store that grows: by so much each time, and at most. Lines of seven pages go into one, so that there are two of those.
const GROWTH: u64 = 3 * PAGE_BYTES as u64;
const GROWN_BYTES: u64 = BYTES + 4 * GROWTH;

/// Few buckets: most have a chain.
const GEOMETRY: Geometry = Geometry { page_bytes: PAGE_BYTES, buckets: 4, bytes: BYTES };

impl Subject for Scmkv {
    fn takes(&self, media: MediaKind) -> bool {
        media == MediaKind::Byte
    }

    fn sets_read(&self) -> bool {
        true
    }

    fn shape(&self, _media: MediaKind) -> Shape {
        let limits = limits(GEOMETRY, DRAM_BYTES);
        let (inline_bytes, large_bytes) = (limits.inline_bytes, limits.inline_bytes * 5);
        assert!(large_bytes as u64 <= limits.value_bytes, "large values fit");
        Shape { data_bytes: BYTES as usize, log_bytes: 0, inline_bytes, large_bytes }
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        open_with(media, opening("scmkv", media, how), false)
    }
}

impl Subject for ScmGrown {
    fn takes(&self, media: MediaKind) -> bool {
        Scmkv.takes(media)
    }

    fn sets_read(&self) -> bool {
        true
    }

    fn shape(&self, media: MediaKind) -> Shape {
        Shape { data_bytes: GROWN_BYTES as usize, ..Scmkv.shape(media) }
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        open_with(media, opening("scmkv", media, how), true)
    }
}

impl Subject for ScmColliding {
    fn takes(&self, media: MediaKind) -> bool {
        Scmkv.takes(media)
    }

    fn sets_read(&self) -> bool {
        true
    }

    fn shape(&self, media: MediaKind) -> Shape {
        Scmkv.shape(media)
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        let mut shared = opening("scmkv", media, how);
        shared.machine.hasher = KeyHasher::with_few_bits(7, 1);
        open_with(media, shared, false)
    }
}

fn open_with(
    media: &Media,
    shared: terrace_space_hybrid_log::Opening<'static>,
    grows: bool,
) -> Result<Box<dyn Store>, StoreError> {
    let Media::Byte(region) = media else {
        return Err(StoreError::Options("engine scmkv lies in byte-addressable memory".into()));
    };
    let region = AnyRegion::of(region.clone());
    let store_id = shared.sizes.store_id;
    let stored = stored_bytes(&region, 0, GEOMETRY, store_id).filter(|_| grows);
    let opening = Opening {
        geometry: GEOMETRY,
        wanted_bytes: stored.map_or(BYTES, |bytes| (bytes + GROWTH).min(GROWN_BYTES)),
        dram_bytes: DRAM_BYTES,
        store_id,
        fresh: shared.fresh,
        machine: shared.machine,
        description: shared.description,
        progress: shared.progress,
        far: None,
    };
    open(&region, 0, opening)
}
