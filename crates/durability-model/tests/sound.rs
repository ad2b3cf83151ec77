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

#[test]
fn the_slabs() {
    let pages = Bounds::slab(Media::Block, Mode::Sync);
    keeps_its_promises(pages);
    keeps_its_promises(Bounds {
        crashes: 2,
        keys: 2,
        pages: 0,
        warm: 2,
        ..Bounds::slab(Media::Byte, Mode::Sync)
    });
    keeps_its_promises(Bounds { keys: 2, blind: true, collide: true, ..pages });
}
