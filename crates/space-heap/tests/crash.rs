//! The heap under the crash sweep, a small share: the whole is `cargo xtask crash-sweep --engine heap-hybrid`.

use terrace_engine::hash::KeyHasher;
use terrace_engine::{Durability, MachineOptions, Store, StoreError};
use terrace_index::{Clht, MakeIndex};
use terrace_media::AnyRegion;
use terrace_space_heap::{Geometry, Opening, limits, open};
use terrace_testkit::sweep::{self, Media, MediaKind, Shape, Subject, SweepOptions, sweep};

struct Heap;

/// A page, and sessions with the machine's own.
const GEOMETRY: Geometry = Geometry { page_bytes: 2048, sessions: 4 };
/// Some 24 pages.
const HEAP_BYTES: usize = 50 << 10;

impl Subject for Heap {
    fn takes(&self, media: MediaKind) -> bool {
        media == MediaKind::Byte
    }
    fn sets_read(&self) -> bool {
        true
    }
    fn shape(&self, _media: MediaKind) -> Shape {
        let limits = limits(GEOMETRY, HEAP_BYTES as u64);
        Shape {
            data_bytes: HEAP_BYTES,
            log_bytes: 0,
            inline_bytes: limits.inline_bytes,
            large_bytes: limits.inline_bytes * 5,
        }
    }
    fn open(&self, media: &Media, how: sweep::Opening) -> Result<Box<dyn Store>, StoreError> {
        let sweep::Opening { durability, clock, fresh, evict, .. } = how;
        let Media::Byte(region) = media else {
            return Err(StoreError::Options("byte-addressable memory".into()));
        };
        let machine = MachineOptions {
            engine: "heap-hybrid",
            durability,
            immediate: true,
            evict,
            sessions: 3,
            hasher: KeyHasher::new(7),
            clock,
            threads: 1,
            recovery_keys: 5,
        };
        let opening = Opening {
            geometry: GEOMETRY,
            dram_bytes: 1 << 30,
            store_id: 9,
            fresh,
            machine,
            index: MakeIndex::Clht(&|| Clht::with_min_buckets(4)),
            description: String::new(),
            progress: &|_, _| {},
        };
        open(&AnyRegion::of(region.clone()), 0, opening)
    }
}

#[test]
fn a_crash_anywhere_loses_nothing() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let options = SweepOptions {
        media: MediaKind::Byte,
        durability: Durability::Sync,
        histories: number("HISTORIES", 100),
        images: number("IMAGES", 10_000),
        seed: number("SEED", 1),
        threads: 2,
        reduce: true,
        failures_max: 2,
    };
    let summary = sweep(&Heap, &options, &|_| {}).unwrap();
    println!("{} images", summary.statistics.images);
    for failure in &summary.failures {
        println!("{failure:?}");
    }
    assert!(summary.failures.is_empty());
}
