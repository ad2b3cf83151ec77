//! A share of the sick devices in each `cargo test`; `cargo xtask sick` runs as much as one likes.

mod failed_sync;
mod refused;
mod slow;
mod told;
mod truncated;

use terrace_engine::{Durability, Store, StoreError};
use terrace_media::BlockDevice;
use terrace_media_sim::Access;
use terrace_proof::sick::{ALL, BOTH, Options, Part, Summary, devices, images, vanished_blocks};
use terrace_proof::subjects::Hetermm;
use terrace_testkit::sweep::{Media, MediaKind, Opening, Shape, Subject};

fn share(seed: u64, sample: u64, parts: &'static [Part], accesses: &'static [Access]) -> Summary {
    let options = Options {
        durability: Durability::Sync,
        histories: 1,
        seed,
        sample,
        parts,
        accesses,
        failures_max: 1,
    };
    let summary = devices(&Hetermm, &options, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    println!("{summary}");
    assert!(summary.failures.is_empty(), "{}", summary.failures[0]);
    assert!(summary.trials > 10 && summary.answered > 0, "{summary}");
    summary
}

#[test]
fn after_a_failed_log_nothing_is_acknowledged_and_nothing_is_lost() {
    let summary = share(1, 24, &[Part::Log], ALL);
    assert!(summary.log_failed > 0 && summary.refused > 0 && summary.down > 0, "{summary}");
}

#[test]
fn a_tier_that_takes_no_more_pages_is_told_and_nobody_waits_for_it() {
    let summary = share(1, 12, &[Part::Data], &[Access::Write, Access::Sync]);
    assert!(summary.refused > 0 && summary.down > 0, "{summary}");
}

#[test]
fn a_block_that_cannot_be_cleared_or_read_once_does_not_stop_reclamation() {
    share(1, 16, &[Part::Data], &[Access::Read]);
}

#[test]
fn misread_headers_trailers_and_tombstones_bring_nothing_old_back() {
    let summary = share(3, 7, &[Part::Data], &[Access::Read]);
    assert!(summary.down > 0, "an opening that was lied to says so: {summary}");
}

#[test]
fn writes_that_are_lost_or_go_astray_bring_no_value_that_never_was() {
    let summary = share(7, 5, BOTH, &[Access::Write]);
    assert!(summary.down > 0, "{summary}");
}

fn rotten(media: MediaKind, sample: u64) {
    let options = Options {
        durability: Durability::Sync,
        histories: 2,
        seed: 1,
        sample,
        parts: BOTH,
        accesses: ALL,
        failures_max: 1,
    };
    let rotten = images(&Hetermm, media, &options, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    println!("{media}: {rotten}");
    assert!(rotten.failures.is_empty(), "{}", rotten.failures[0]);
    assert!(rotten.refused > 0 && rotten.poisoned > 0 && rotten.right > 0, "{rotten}");
}

#[test]
fn rotten_byte_media_bring_no_wrong_and_no_older_value() {
    rotten(MediaKind::Byte, 60);
}

#[test]
fn rotten_block_media_bring_no_wrong_and_no_older_value() {
    rotten(MediaKind::Block, 120);
}

#[test]
fn a_block_of_pages_that_vanishes_or_is_read_as_another_is_noticed() {
    for durability in [Durability::Sync, Durability::Batch(std::time::Duration::from_millis(100))] {
        let options = Options {
            durability,
            histories: 4,
            seed: 1,
            sample: 1,
            parts: BOTH,
            accesses: ALL,
            failures_max: 1,
        };
        let rotten = vanished_blocks(&Hetermm, &options).unwrap_or_else(|error| panic!("{error}"));
        println!("{durability}: {rotten}");
        assert!(rotten.failures.is_empty(), "{}", rotten.failures[0]);
        assert!(rotten.refused > 0 && rotten.older == 0, "{rotten}");
    }
}

/// Forgets everything when it is opened again.
struct Forgetful;

impl Subject for Forgetful {
    fn shape(&self, media: MediaKind) -> Shape {
        Hetermm.shape(media)
    }
    fn open(&self, media: &Media, opening: Opening) -> Result<Box<dyn Store>, StoreError> {
        if let Media::Block { log, data } = media {
            log.scribble(0, &vec![0; log.len() as usize]);
            data.scribble(0, &vec![0; data.len() as usize]);
        }
        Hetermm.open(media, Opening { fresh: true, ..opening })
    }
}

#[test]
fn a_store_that_forgets_is_caught() {
    let options = Options {
        durability: Durability::Sync,
        histories: 1,
        seed: 1,
        sample: 100,
        parts: BOTH,
        accesses: ALL,
        failures_max: 1,
    };
    let caught = match devices(&Forgetful, &options, &|_| {}) {
        Ok(summary) => summary.failures.concat(),
        Err(text) => text,
    };
    assert!(caught.contains("right is one of"), "{caught:?}");
}
