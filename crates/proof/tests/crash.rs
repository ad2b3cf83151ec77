//! A small share of the crash sweep in each `cargo test`; `cargo xtask crash-sweep` runs as much as one likes.

use std::time::Duration;

use terrace_engine::Durability;
use terrace_proof::subjects;
use terrace_testkit::settings::variable;
use terrace_testkit::sweep::{Coverage, MediaKind, SweepOptions, sweep};

const BATCH: Durability = Durability::Batch(Duration::from_millis(100));

/// What engines do in their own way, and a long sweep must have reached.
const OWN: &[(&str, &[&str])] = &[
    ("hetermm", &["extents_moved"]),
    (
        "tac",
        &[
            "records_evicted",
            "records_evicted_clean",
            "records_given_homes",
            "records_promoted",
            "rounds_retired",
            "slabs_drained",
            "copies_in_vain",
            "extents_moved",
        ],
    ),
    ("heap-object-resized", &["heap_pages_emptied", "heap_records_moved"]),
    ("tac-colliding", &["sets_blind", "sets_new", "sets_replaced"]),
    ("tac-placed", &["bufs_fetched", "records_fetched_along"]),
];

/// What a middle tier does.
const MIDDLE: &[&str] = &[
    "pmem_slabs_formatted",
    "records_from_dram_to_pmem",
    "records_from_pmem_to_dram",
    "records_from_pmem_to_ssd",
    "records_from_ssd_to_pmem",
];

/// Without a log nothing comes from it; with one a kill takes nothing back. Over two kinds of media at once none saves a snapshot.
fn is_asked(media: MediaKind, label: &str, logged: bool) -> bool {
    match label {
        "snapshots used" => media != MediaKind::Tiered,
        "log reclaims" | "multi-key groups" | "records restored from the log" => logged,
        "keys that fell back" => !logged,
        _ => true,
    }
}

/// `TERRACE_SWEEP_SEED`, `_HISTORIES` and `_IMAGES` say otherwise.
fn share(engine: &str, media: MediaKind, durability: Durability) {
    let options = SweepOptions {
        media,
        durability,
        histories: variable("TERRACE_SWEEP_HISTORIES", 400),
        images: variable("TERRACE_SWEEP_IMAGES", 12_000),
        seed: variable("TERRACE_SWEEP_SEED", 1),
        threads: 1,
        reduce: true,
        failures_max: 1,
    };
    let subject = subjects::by_name(engine).unwrap_or_else(|error| panic!("{error}"));
    let summary = sweep(subject, &options, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    println!("{}{media}, {durability}: {summary}", summary.coverage);
    if let Some(failure) = summary.failures.first() {
        panic!("{media}, {durability}: {failure}");
    }
    let logged = durability != Durability::None;
    let own = OWN.iter().filter(|(name, _)| *name == engine).flat_map(|(_, labels)| *labels).copied();
    let own = own.chain(MIDDLE.iter().copied().filter(|_| media == MediaKind::Tiered));
    let own = own.filter(|label| summary.coverage.get(label) == 0);
    let missing = summary.coverage.missing().into_iter().filter(|label| is_asked(media, label, logged));
    let missing: Vec<_> = missing.chain(own).collect();
    assert!(missing.is_empty() || options.histories < 400, "never reached: {missing:?}");
}

/// A quarter of that, of what differs little from what all of it is run on.
fn few(engine: &str, media: MediaKind, durability: Durability) {
    let options = SweepOptions {
        media,
        durability,
        histories: variable("TERRACE_SWEEP_HISTORIES", 400) / 4,
        images: variable("TERRACE_SWEEP_IMAGES", 12_000) / 4,
        seed: variable("TERRACE_SWEEP_SEED", 1),
        threads: 1,
        reduce: true,
        failures_max: 1,
    };
    let subject = subjects::by_name(engine).unwrap_or_else(|error| panic!("{error}"));
    let summary = sweep(subject, &options, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    println!("{engine}, {media}, {durability}: {summary}");
    if let Some(failure) = summary.failures.first() {
        panic!("{engine}, {media}, {durability}: {failure}");
    }
    let own = OWN.iter().filter(|(name, _)| *name == engine).flat_map(|(_, labels)| *labels);
    let middle = MIDDLE.iter().filter(|_| media == MediaKind::Tiered);
    let missing: Vec<_> = middle.chain(own).filter(|label| summary.coverage.get(label) == 0).collect();
    assert!(missing.is_empty() || options.histories < 100, "never reached: {missing:?}");
}

#[test]
fn heaps() {
    for engine in ["heap-hybrid", "heap-resized", "heap-persistent", "heap-colliding"] {
        few(engine, MediaKind::Byte, Durability::Sync);
    }
}

/// Strips of one record are on several devices, which end up in whatever states.
#[test]
fn memory_that_is_striped() {
    few("bonsai-striped", MediaKind::Byte, Durability::Sync);
}

/// What the other NUMA node has is read from copies, which count for nothing after a crash.
#[test]
fn memory_on_numa_nodes() {
    few("bonsai-nodes", MediaKind::Byte, Durability::Sync);
}

/// Each opening makes the store longer: crashes come in the midst of that, too.
#[test]
fn memory_that_grows_when_it_is_opened() {
    for engine in ["scmkv-grown", "bonsai-grown"] {
        few(engine, MediaKind::Byte, Durability::Sync);
    }
}

#[test]
fn heaps_of_objects() {
    few("heap-object", MediaKind::Byte, Durability::Sync);
    few("heap-object-resized", MediaKind::Byte, Durability::Sync);
}

/// In the last chunk of an extent a record may stand whole behind a free word: the one before it was torn, and taken for damaged.
#[test]
fn what_stands_behind_the_chunk_filled_last_may_be_a_record_that_was_let_go() {
    again_on("heap-object", MediaKind::Byte, Durability::Sync, 3, 150);
    again_on("heap-object", MediaKind::Byte, Durability::Sync, 16, 150);
}

/// Its description is as long as its parts are many: the record was put into the chunk of the one with fewer. And a page with parts that
/// can't move was tried again and again.
#[test]
fn a_large_value_that_moves_may_have_more_parts() {
    for seed in [1005, 1095, 50_028, 50_089] {
        again_on("heap-object-resized", MediaKind::Byte, Durability::Sync, seed, 40);
    }
}

#[test]
fn records_that_a_flush_forgot_are_not_counted_when_they_move() {
    again_on("heap-colliding", MediaKind::Byte, Durability::Sync, 50481, 100);
}

/// All of the record was kept but its chunk's word, and an entry led to a chunk that was anybody's to take; or but the hash in its head,
/// and a step that deleted it and was cut short did not find its entry.
#[test]
fn a_lane_brings_back_a_record_of_which_all_is_there() {
    again_on("heap-persistent", MediaKind::Byte, Durability::Sync, 17_596, 100);
    again_on("heap-colliding", MediaKind::Byte, Durability::Sync, 29_967, 100);
}

/// Runs one history again. Each of these failed before what the test's name says was so.
fn again(media: MediaKind, durability: Durability, seed: u64) {
    again_with(media, durability, seed, 100);
}

/// The same with so many images: the crash that failed must be among them.
fn again_with(media: MediaKind, durability: Durability, seed: u64, images: u64) {
    again_on("hetermm", media, durability, seed, images);
}

fn again_on(engine: &str, media: MediaKind, durability: Durability, seed: u64, images: u64) {
    let options = SweepOptions {
        media,
        durability,
        histories: 1,
        images,
        seed,
        threads: 1,
        reduce: true,
        failures_max: 1,
    };
    let subject = subjects::by_name(engine).unwrap_or_else(|error| panic!("{error}"));
    let summary = sweep(subject, &options, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert!(summary.failures.is_empty(), "{}", summary.failures[0]);
    assert!(summary.images() > 0, "{summary}");
}

#[test]
fn an_erased_log_block_is_synced_for_those_who_wait_for_it() {
    again_with(MediaKind::Block, Durability::Sync, 112_660, 312);
}

#[test]
fn what_was_refused_and_not_answered_before_a_kill_did_nothing() {
    again_with(MediaKind::Block, Durability::Sync, 102_172, 312);
    again(MediaKind::Block, Durability::Sync, 108_932);
}

#[test]
fn what_a_group_deletes_where_nothing_was_leaves_no_trace() {
    again_with(MediaKind::Block, Durability::Sync, 517_624, 312);
}

#[test]
fn what_a_dead_process_left_in_caches_is_made_safe_before_anything_rests_on_it() {
    again_with(MediaKind::Byte, Durability::Sync, 81, 166);
}

#[test]
fn an_answer_waits_for_the_sync_of_its_own_write() {
    again(MediaKind::Block, Durability::Sync, 1);
}

#[test]
fn an_extent_is_durable_before_the_log_entry_that_describes_it() {
    again(MediaKind::Block, Durability::Sync, 1);
    again(MediaKind::Block, Durability::Sync, 2);
}

#[test]
fn an_extent_is_durable_before_the_block_that_describes_it() {
    again(MediaKind::Block, Durability::None, 13);
}

#[test]
fn a_torn_flush_does_not_complete_the_header_of_a_freed_block() {
    again(MediaKind::Byte, Durability::None, 85);
    again(MediaKind::Byte, Durability::None, 86);
}

#[test]
fn records_that_a_crash_brings_back_expire() {
    again(MediaKind::Byte, Durability::None, 79);
}

#[test]
fn a_slot_claims_only_its_own_durable_positions() {
    again(MediaKind::Block, Durability::Sync, 108);
}

#[test]
fn a_flush_without_a_log_is_durable_before_its_space_is_reused() {
    again(MediaKind::Byte, Durability::None, 61);
}

#[test]
fn a_trailer_whose_clearing_was_lost_is_cleared_by_the_next_opening() {
    again(MediaKind::Byte, Durability::None, 330);
}

#[test]
fn a_group_claims_the_end_of_a_durable_group_and_nothing_between_two() {
    again(MediaKind::Block, BATCH, 505_168);
}

#[test]
fn reclamation_gathers_records_instead_of_moving_them_for_ever() {
    again(MediaKind::Byte, Durability::Sync, 41);
    again(MediaKind::Block, Durability::None, 46);
}

#[test]
fn a_full_cache_evicts_keys_whose_pages_are_in_dram() {
    again(MediaKind::Byte, Durability::Sync, 326);
}

#[test]
fn nothing_expires_while_the_log_comes_back() {
    again_on("tac-reading", MediaKind::Byte, Durability::Sync, 22_100, 120);
}

#[test]
fn without_a_log_a_full_store_that_forgot_or_evicts_finds_room() {
    for (media, seed) in [(MediaKind::Byte, 41), (MediaKind::Byte, 150), (MediaKind::Block, 90)] {
        again_on("tac-reading", media, Durability::None, seed, 100);
    }
    for durability in [Durability::Sync, BATCH] {
        again_on("tac-reading", MediaKind::Block, durability, 299, 100);
    }
}

/// The search took the answer's version, 0, for that of the record that had been there.
#[test]
fn what_expires_as_it_is_stored_leaves_no_version() {
    again_on("tac-reading", MediaKind::Tiered, Durability::None, 232, 34);
}

/// Where a page has its trailer, a block of large values has bytes of them. That word of a block that had been moved was cleared
/// with its header, and where a crash kept the header it was taken for the block itself.
#[test]
fn a_block_that_was_moved_is_whole_until_its_header_is_gone() {
    again_on("tac-resized", MediaKind::Block, Durability::Sync, 18, 1500);
}

#[test]
fn byte_sync() {
    share("hetermm", MediaKind::Byte, Durability::Sync);
}

#[test]
fn byte_batch() {
    share("hetermm", MediaKind::Byte, BATCH);
}

#[test]
fn byte_none() {
    share("hetermm", MediaKind::Byte, Durability::None);
}

#[test]
fn block_sync() {
    share("hetermm", MediaKind::Block, Durability::Sync);
}

#[test]
fn block_batch() {
    share("hetermm", MediaKind::Block, BATCH);
}

#[test]
fn block_none() {
    share("hetermm", MediaKind::Block, Durability::None);
}

#[test]
fn tac_byte_sync() {
    share("tac", MediaKind::Byte, Durability::Sync);
}

#[test]
fn tac_byte_batch() {
    share("tac", MediaKind::Byte, BATCH);
}

#[test]
fn tac_byte_none() {
    share("tac", MediaKind::Byte, Durability::None);
}

#[test]
fn tac_block_sync() {
    share("tac", MediaKind::Block, Durability::Sync);
}

#[test]
fn tac_block_batch() {
    share("tac", MediaKind::Block, BATCH);
}

#[test]
fn tac_block_none() {
    share("tac", MediaKind::Block, Durability::None);
}

#[test]
fn a_slot_never_describes_a_large_value_that_is_not_safe() {
    again_on("tac-reading", MediaKind::Tiered, Durability::None, 1009, 100);
}

#[test]
fn pages_that_wait_for_trust_get_it_from_who_closes_the_store() {
    again_on("tac-reading", MediaKind::Byte, Durability::Sync, 3_000_251, 100);
}

#[test]
fn a_value_too_long_for_a_store_that_evicts_is_refused_once_nothing_is_left_in_it() {
    again_on("tac-small", MediaKind::Block, Durability::Sync, 5_000_011, 100);
}

#[test]
fn tac_tiered_sync() {
    share("tac", MediaKind::Tiered, Durability::Sync);
}

/// With tiers that grow and shrink, in histories of its own.
fn resized(media: MediaKind, durability: Durability, reached: &mut Coverage) {
    let options = SweepOptions {
        media,
        durability,
        histories: variable("TERRACE_SWEEP_HISTORIES", 400) / 4,
        images: variable("TERRACE_SWEEP_IMAGES", 12_000) / 8,
        seed: variable("TERRACE_SWEEP_SEED", 1),
        threads: 1,
        reduce: true,
        failures_max: 1,
    };
    let subject = subjects::by_name("tac-resized").unwrap_or_else(|error| panic!("{error}"));
    let summary = sweep(subject, &options, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    if let Some(failure) = summary.failures.first() {
        panic!("tac-resized, {media}, {durability}: {failure}");
    }
    reached.merge(&summary.coverage);
}

#[test]
fn tac_resized() {
    let mut reached = Coverage::default();
    resized(MediaKind::Block, Durability::Sync, &mut reached);
    resized(MediaKind::Block, Durability::None, &mut reached);
    resized(MediaKind::Tiered, Durability::Sync, &mut reached);
    resized(MediaKind::Byte, Durability::Sync, &mut reached);
    let few = variable("TERRACE_SWEEP_HISTORIES", 400) < 400;
    for label in ["tier_resizes", "pmem_resizes", "extents_moved", "resizes refused"] {
        assert!(few || reached.get(label) > 0, "never reached: {label}");
    }
}

/// Sets that don't read what they find, and find other keys' records.
#[test]
fn tac_with_keys_that_collide() {
    few("tac-colliding", MediaKind::Block, Durability::Sync);
    few("tac-colliding", MediaKind::Tiered, Durability::None);
}

/// Under the placements that it is compared with, and with whole bufs coming up.
#[test]
fn tac_tiered_placed() {
    few("tac-placed", MediaKind::Tiered, Durability::Sync);
    few("tac-placed", MediaKind::Tiered, Durability::None);
}

#[test]
fn tac_tiered_batch() {
    share("tac", MediaKind::Tiered, BATCH);
}

#[test]
fn tac_tiered_none() {
    share("tac", MediaKind::Tiered, Durability::None);
}
