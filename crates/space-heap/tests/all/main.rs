//! The heap by itself. The crash sweep over it is `proof`'s, as every engine's.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod full;
mod safe;
mod schedules;

use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Durability, MachineOptions, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AnyRegion, ByteRegion};
use terrace_space_heap::{Geometry, Granularity, INDEX_LOAD, Opening, open};

/// A kind of heap: how long its chunks are, and when its index grows if it has one.
type Kind = (Granularity, Option<u64>);

/// All kinds: without its index, of slabs and of objects, and with it.
const ALL: [Kind; 3] =
    [(Granularity::Slab, None), (Granularity::Object, None), (Granularity::Slab, Some(INDEX_LOAD))];

const STORE_ID: u64 = 9;

/// What a heap with pages of so many bytes measures.
fn geometry((page_bytes, (granularity, index_load)): (usize, Kind)) -> Geometry {
    Geometry { page_bytes, sessions: 4, granularity, index_load }
}

/// Opens a store with pages of so many bytes on a region.
fn store(region: impl ByteRegion, how: (usize, Kind), fresh: bool) -> Box<dyn Store> {
    store_read_by(region, how, fresh, (1, &|_, _| {}))
}

/// The same, read by so many threads.
fn store_read_by(
    region: impl ByteRegion,
    how: (usize, Kind),
    fresh: bool,
    (threads, progress): (usize, &(dyn Fn(u64, u64) + Sync)),
) -> Box<dyn Store> {
    let machine = MachineOptions {
        engine: "heap-hybrid",
        durability: Durability::Sync,
        immediate: true,
        evict: false,
        sessions: 3,
        hasher: KeyHasher::new(7),
        clock: Arc::new(ManualClock::new(1_800_000_000_000_000)),
        threads,
        recovery_keys: usize::MAX,
    };
    let opening = Opening {
        geometry: geometry(how),
        dram_bytes: 1 << 30,
        store_id: STORE_ID,
        fresh,
        machine,
        index: MakeIndex::Clht(&|| Clht::with_min_buckets(64)),
        description: String::new(),
        progress,
    };
    open(&AnyRegion::of(region), 0, opening).unwrap()
}
