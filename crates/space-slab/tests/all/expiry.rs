//! What it costs to expire keys.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Durability, MachineOptions, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::AnyDevice;
use terrace_space_slab::{Choices, Opening, Sizes, open_block};
use terrace_testkit::expiry::{self, BLOCK_BYTES, DRAM_BYTES, LOG_BYTES, Media};

fn open(media: &Media, clock: &Arc<ManualClock>, fresh: bool) -> Box<dyn Store> {
    let opening = Opening {
        sizes: Sizes {
            manifests_apart: 0,
            block_bytes: BLOCK_BYTES,
            log_block_bytes: BLOCK_BYTES,
            log_bytes: LOG_BYTES as u64,
            dram_bytes: DRAM_BYTES,
            dram_with_index: false,
            store_id: 9,
        },
        fresh,
        machine: MachineOptions {
            engine: "tac",
            durability: Durability::Sync,
            immediate: false,
            evict: false,
            sessions: 2,
            hasher: KeyHasher::new(7),
            clock: clock.clone(),
            threads: 1,
            recovery_keys: usize::MAX,
        },
        index: MakeIndex::Clht(&|| Clht::with_min_buckets(64)),
        description: String::new(),
        progress: &|_, _| {},
    };

    open_block(
        &AnyDevice::of(media.log.clone()),
        &AnyDevice::of(media.data.clone()),
        Choices::default(),
        opening,
    )
    .unwrap()
}

#[test]
fn to_expire_keys_costs_little() {
    expiry::costs_little(&open);
}

#[test]
fn to_expire_keys_that_were_refreshed_costs_little() {
    expiry::refreshed_keys_cost_little(&open);
}

#[test]
fn openings_count_exactly() {
    expiry::openings_count_exactly(&open);
}

#[test]
fn older_versions_stay_hidden() {
    expiry::older_versions_stay_hidden(&open);
}

#[test]
fn failed_reads_forget_nothing() {
    expiry::failed_reads_forget_nothing(&open);
}

#[test]
fn what_has_expired_makes_room() {
    expiry::what_has_expired_makes_room(&open);
}

#[test]
fn a_full_store_looks_again_before_it_refuses() {
    expiry::a_full_store_looks_again_before_it_refuses(&open);
}
