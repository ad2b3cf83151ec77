//! Histories whose steps, crash points and losses the input chooses, judged as the crash sweep judges its own.

use std::time::Duration;

use terrace_engine::Durability;
use terrace_media_sim::SiteKind;
use terrace_testkit::sweep::drawn::{Without, run as run_drawn};
use terrace_testkit::sweep::{MediaKind, SweepOptions};

use super::Target;
use crate::subjects::takers;

/// One history of the crash sweep.
pub(super) static HISTORY: Target = Target {
    name: "history",
    corpus: "history",
    about: "steps of sessions and background work, crashed where the input says",
    bytes_max: 1000,
    words: &[],
    run: |input| run(input, None),
};

/// The first byte says on which media and with which promise; the others are the history.
fn run(input: &[u8], without: Option<Without<'_>>) -> Result<(), String> {
    let (first, rest) = input.split_first().unwrap_or((&0, &[]));
    let media = [MediaKind::Byte, MediaKind::Block][usize::from(first % 2)];
    let batch = Durability::Batch(Duration::from_millis(100));
    let durability = [Durability::Sync, batch, Durability::None][usize::from(first / 2) % 3];
    let subjects: Vec<_> = takers(media).collect();
    let (name, subject) = subjects[usize::from(first / 6) % subjects.len()];
    let options = SweepOptions {
        media,
        durability,
        histories: 1,
        images: 1,
        seed: 0,
        threads: 1,
        reduce: false,
        failures_max: 1,
    };
    let done = run_drawn(*subject, &options, rest, without);
    done.map(|_| ()).map_err(|error| format!("{name} on {media} media, {durability}: {error}"))
}

/// Runs an input of the target `history` on media that lose one thing that they promise, to see that the target notices:
/// the `n`-th place in the source whose fence (of byte media) or sync (of block media) then does nothing. `None` if the history
/// has no such place.
pub fn lossy(input: &[u8], n: usize) -> Option<Result<(), String>> {
    let there = std::cell::Cell::new(false);
    let done = run(
        input,
        Some(&|trace| {
            let waits = |kind| matches!(kind, SiteKind::Fence | SiteKind::Sync);
            let site = trace.sites().into_iter().filter(|site| waits(trace.site(*site).1)).nth(n);
            there.set(site.is_some());
            site
        }),
    );
    there.get().then_some(done)
}
