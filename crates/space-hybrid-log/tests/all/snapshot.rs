//! What a clean stop saves brings back what a scan would have found, is used once, and is believed only if it is whole.

use std::sync::Arc;

use terrace_media::AnyRegion;
use terrace_space_hybrid_log::{Opening, Sizes, open_byte};
use terrace_testkit::clean_stop::{self, BLOCK_BYTES, DRAM_BYTES, LOG_BLOCK_BYTES, LOG_BYTES, Open, Stops};

const SIZES: Sizes = Sizes {
    block_bytes: BLOCK_BYTES,
    log_block_bytes: LOG_BLOCK_BYTES,
    manifests_apart: 0,
    log_bytes: LOG_BYTES,
    dram_bytes: DRAM_BYTES,
    dram_with_index: false,
    store_id: 9,
};

const OPEN: Open<'_> = &|region, fresh, machine, index| {
    let (description, progress) = (String::new(), &|_, _| {});
    let opening = Opening { sizes: SIZES, fresh, machine, index, description, progress };
    open_byte(&Arc::new(AnyRegion::new(region.clone())), 0, opening)
};

const STOPS: Stops<'_> = Stops { open: OPEN, engine: "hetermm", free: "blocks_free", warms: false };

#[test]
fn a_start_from_it_finds_what_a_scan_finds() {
    clean_stop::a_start_from_it_finds_what_a_scan_finds(&STOPS);
}

#[test]
fn a_flipped_bit_anywhere_in_it_brings_the_scan() {
    clean_stop::a_flipped_bit_anywhere_in_it_brings_the_scan(&STOPS);
}

#[test]
fn another_index_scans_and_saves_none() {
    clean_stop::another_index_scans_and_saves_none(&STOPS);
}

#[test]
fn a_store_that_was_closed_is_closed_again_and_takes_no_session() {
    clean_stop::a_store_that_was_closed_is_closed_again_and_takes_no_session(&STOPS);
}

#[test]
fn nothing_is_written_once_it_is_saved() {
    clean_stop::nothing_is_written_once_it_is_saved(&STOPS);
}

#[test]
fn damage_to_pages_is_what_it_is_to_a_scan() {
    clean_stop::damage_to_pages_is_what_it_is_to_a_scan(&STOPS);
}

#[test]
fn pages_that_are_lost_stale_or_elsewhere_are_what_they_are_to_a_scan() {
    clean_stop::pages_that_are_lost_stale_or_elsewhere_are_what_they_are_to_a_scan(&STOPS);
}

#[test]
fn records_that_say_that_they_were_damaged_are_counted() {
    clean_stop::records_that_say_that_they_were_damaged_are_counted(&STOPS);
}
