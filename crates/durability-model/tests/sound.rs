//! The protocol without planted bugs keeps its promises within small bounds; `cargo xtask model` explores larger ones.

use terrace_durability_model::{Bounds, Limits, Media, Mode, Protocol, explore};

fn keeps_its_promises(bounds: Bounds) {
    let outcome = explore(&Protocol { bounds, bug: None }, Limits::default(), &mut |_, _| {});
    assert_eq!(outcome.counterexample, None, "{bounds}");
    assert!(outcome.exhaustive, "{bounds}");
    assert!(outcome.states > 10_000, "only {} states: {bounds}", outcome.states);
}

#[test]
fn the_log() {
    for (media, mode) in [(Media::Block, Mode::Sync), (Media::Block, Mode::Batch), (Media::Byte, Mode::Sync)]
    {
        keeps_its_promises(Bounds { writes: 2, ..Bounds::log(media, mode) });
    }
}

#[test]
fn the_tier() {
    for (media, mode) in [(Media::Block, Mode::Sync), (Media::Block, Mode::Batch), (Media::Byte, Mode::Sync)]
    {
        keeps_its_promises(Bounds { crashes: 1, ..Bounds::tier(media, mode) });
    }
}

#[test]
fn reuse() {
    keeps_its_promises(Bounds { writes: 2, ..Bounds::reuse(Media::Block, Mode::Sync) });
}
