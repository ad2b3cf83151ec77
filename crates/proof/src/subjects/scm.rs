//! Tiny stores of engine `scmkv` for the crash sweep.

use terrace_engine::{Store, StoreError};
use terrace_media::AnyRegion;
use terrace_space_scm_log::{Geometry, Opening, limits, open};
use terrace_testkit::sweep::{self, Media, MediaKind, Shape, Subject};

use super::tiny::opening;

/// Engine `scmkv`. Its buckets are few, or fewer than keys, as the history has it.
pub struct Scmkv;

const PAGE_BYTES: usize = 1024;
const BYTES: u64 = 44 << 10;
const DRAM_BYTES: u64 = 8 * PAGE_BYTES as u64;

fn geometry(variant: u64) -> Geometry {
    let buckets = [1, 4, 16, 64][(variant.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62) as usize];
    Geometry { page_bytes: PAGE_BYTES, buckets, bytes: BYTES }
}

impl Subject for Scmkv {
    fn takes(&self, media: MediaKind) -> bool {
        media == MediaKind::Byte
    }

    fn sets_read(&self) -> bool {
        true
    }

    fn shape(&self, _media: MediaKind) -> Shape {
        let limits = limits(geometry(0), DRAM_BYTES);
        let (inline_bytes, large_bytes) = (limits.inline_bytes, limits.inline_bytes * 5);
        assert!(large_bytes as u64 <= limits.value_bytes, "large values fit");
        Shape { data_bytes: BYTES as usize, log_bytes: 0, inline_bytes, large_bytes }
    }

    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        let geometry = geometry(how.variant);
        let shared = opening("scmkv", media, how);
        let Media::Byte(region) = media else {
            return Err(StoreError::Options("engine scmkv lies in byte-addressable memory".into()));
        };
        let opening = Opening {
            geometry,
            dram_bytes: DRAM_BYTES,
            store_id: shared.sizes.store_id,
            fresh: shared.fresh,
            machine: shared.machine,
            description: shared.description,
            progress: shared.progress,
        };
        open(&AnyRegion::of(region.clone()), 0, opening)
    }
}
