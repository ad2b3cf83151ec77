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
use terrace_proof::subjects::{Hetermm, Named, takers};
use terrace_testkit::sweep::{Media, MediaKind, Opening, Shape, Subject};

/// On each engine on block media, one of `sample` trials in all; what came of it, and whether all that is `seen` was.
fn share(
    seed: u64,
    sample: u64,
    parts: &'static [Part],
    accesses: &'static [Access],
    seen: fn(&Summary) -> bool,
) {
    for engine in takers(MediaKind::Block) {
        let sample = sample * takers(MediaKind::Block).count() as u64;
        let summary = share_of(engine, MediaKind::Block, seed, sample, parts, accesses);
        assert!(seen(&summary), "{}: {summary}", engine.0);
    }
}

fn share_of(
    (engine, subject): &Named,
    media: MediaKind,
    seed: u64,
    sample: u64,
    parts: &'static [Part],
    accesses: &'static [Access],
) -> Summary {
    let options = Options {
        durability: Durability::Sync,
        histories: 1,
        seed,
        sample,
        parts,
        accesses,
        failures_max: 1,
    };
    let summary =
        devices(*subject, media, &options, &|_| {}).unwrap_or_else(|error| panic!("{engine}: {error}"));
    println!("{engine}, {media}: {summary}");
    assert!(summary.failures.is_empty(), "{engine}: {}", summary.failures[0]);
    assert!(summary.trials > 10 && summary.answered > 0, "{engine}: {summary}");
    summary
}

#[test]
fn after_a_failed_log_nothing_is_acknowledged_and_nothing_is_lost() {
    share(1, 24, &[Part::Log], ALL, |summary| {
        summary.log_failed > 0 && summary.refused > 0 && summary.down > 0
    });
}

#[test]
fn a_tier_that_takes_no_more_pages_is_told_and_nobody_waits_for_it() {
    share(1, 12, &[Part::Data], &[Access::Write, Access::Sync], |summary| {
        summary.refused > 0 && summary.down > 0
    });
}

#[test]
fn a_block_that_cannot_be_cleared_or_read_once_does_not_stop_reclamation() {
    share(1, 16, &[Part::Data], &[Access::Read], |_| true);
}

#[test]
fn misread_headers_trailers_and_tombstones_bring_nothing_old_back() {
    // An opening that was lied to says so.
    share(3, 7, &[Part::Data], &[Access::Read], |summary| summary.down > 0);
}

#[test]
fn writes_that_are_lost_or_go_astray_bring_no_value_that_never_was() {
    share(7, 5, BOTH, &[Access::Write], |summary| summary.down > 0);
}

#[test]
fn beside_memory_a_device_that_fails_or_lies_loses_nothing_else() {
    for engine in takers(MediaKind::Tiered) {
        let summary = share_of(engine, MediaKind::Tiered, 1, 40, BOTH, ALL);
        assert!(summary.refused > 0 && summary.down > 0, "{summary}");
    }
}

fn rotten(media: MediaKind, sample: u64) {
    for (engine, subject) in takers(media) {
        let options = Options {
            durability: Durability::Sync,
            histories: 2,
            seed: 1,
            sample: sample * takers(media).count() as u64,
            parts: BOTH,
            accesses: ALL,
            failures_max: 1,
        };
        let rotten =
            images(*subject, media, &options, &|_| {}).unwrap_or_else(|error| panic!("{engine}: {error}"));
        println!("{engine}, {media}: {rotten}");
        assert!(rotten.failures.is_empty(), "{engine}: {}", rotten.failures[0]);
        assert!(rotten.refused > 0 && rotten.poisoned > 0 && rotten.right > 0, "{engine}: {rotten}");
    }
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
fn rotten_memory_and_files_together_bring_no_wrong_and_no_older_value() {
    rotten(MediaKind::Tiered, 120);
}

#[test]
fn a_block_of_pages_that_vanishes_or_is_read_as_another_is_noticed() {
    vanished(MediaKind::Block);
    vanished(MediaKind::Tiered);
}

fn vanished(media: MediaKind) {
    let durabilities = [Durability::Sync, Durability::Batch(std::time::Duration::from_millis(100))];
    for ((engine, subject), durability) in
        takers(media).flat_map(|engine| durabilities.map(|durability| (engine, durability)))
    {
        let options = Options {
            durability,
            histories: 2,
            seed: 1,
            sample: 1,
            parts: BOTH,
            accesses: ALL,
            failures_max: 1,
        };
        let rotten =
            vanished_blocks(*subject, media, &options).unwrap_or_else(|error| panic!("{engine}: {error}"));
        println!("{engine}, {media}, {durability}: {rotten}");
        assert!(rotten.failures.is_empty(), "{engine}: {}", rotten.failures[0]);
        assert!(rotten.refused > 0 && rotten.older == 0, "{engine}: {rotten}");
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
    let caught = match devices(&Forgetful, MediaKind::Block, &options, &|_| {}) {
        Ok(summary) => summary.failures.concat(),
        Err(text) => text,
    };
    assert!(caught.contains("right is one of"), "{caught:?}");
}
