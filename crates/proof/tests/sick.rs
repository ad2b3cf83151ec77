//! A share of the sick devices in each `cargo test`; `cargo xtask sick` runs as much as one likes.

use terrace_engine::Durability;
use terrace_media_sim::Access;
use terrace_proof::sick::{ALL, Options, Part, Summary, devices};
use terrace_proof::subjects::Hetermm;

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
