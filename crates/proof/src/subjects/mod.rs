//! Every engine under the crash sweep, by name. A new engine adds its module and its line in [`SUBJECTS`].

mod bonsai;
mod cut;
mod heap;
mod hetermm;
mod scm;
mod tac;
mod tiny;

use terrace::Granularity;
use terrace_testkit::sweep::{MediaKind, Subject};

pub use bonsai::Bonsai;
pub use heap::{HeapColliding, HeapHybrid, HeapObject, HeapPersistent, HeapResized};
pub use hetermm::Hetermm;
pub use scm::{ScmColliding, ScmGrown, Scmkv};
pub use tac::{Tac, TacColliding, TacMoving, TacPlaced, TacReading, TacResized, TacSmall};
pub use tiny::sizes;

/// An engine and its name.
pub type Named = (&'static str, &'static (dyn Subject + Sync));

/// The engines that keep anything across a crash.
pub const SUBJECTS: &[Named] = &[
    ("hetermm", &Hetermm),
    ("tac", &Tac),
    ("heap-hybrid", &HeapHybrid),
    ("heap-persistent", &HeapPersistent),
    ("scmkv", &Scmkv),
    ("bonsai", &Bonsai::Plain),
];

/// Of these, the ones with a log and blocks.
pub const WITH_BLOCKS: &[Named] = &[SUBJECTS[0], SUBJECTS[1]];

/// What the crash sweep knows beside them, by name: engines opened in other ways, that all else need not be done to, too.
const OTHERS: &[Named] = &[
    ("bonsai-colliding", &Bonsai::Colliding),
    ("bonsai-grown", &Bonsai::Grown),
    ("bonsai-nodes", &Bonsai::OnNodes),
    ("bonsai-striped", &Bonsai::Striped),
    ("heap-colliding", &HeapColliding),
    ("heap-object", &HeapObject),
    ("heap-object-resized", &HeapResized(HeapObject)),
    ("heap-resized", &HeapResized(HeapHybrid)),
    ("scmkv-colliding", &ScmColliding),
    ("scmkv-grown", &ScmGrown),
    ("tac-colliding", &TacColliding),
    ("tac-moving", &TacMoving),
    ("tac-placed", &TacPlaced),
    ("tac-reading", &TacReading),
    ("tac-resized", &TacResized),
    ("tac-small", &TacSmall),
];

/// Whether an engine, opened in whatever way, has a log and blocks.
pub fn has_blocks(engine: &str) -> bool {
    !["heap", "scmkv", "bonsai"].iter().any(|name| engine.starts_with(name))
}

/// Whether an engine, opened in whatever way, has a log.
pub fn has_log(engine: &str) -> bool {
    !engine.starts_with("heap")
}

/// The engines that keep a store on these media.
pub fn takers(media: MediaKind) -> impl Iterator<Item = &'static Named> {
    SUBJECTS.iter().filter(move |(_, subject)| subject.takes(media))
}

/// The same engine in stores whose tiers change their sizes, so that large values move, if it can do that.
pub fn resized(engine: &str) -> Option<&'static str> {
    match engine {
        "tac" => Some("tac-moving"),
        "heap-hybrid" => Some("heap-resized"),
        "heap-object" => Some("heap-object-resized"),
        _ => None,
    }
}

/// What a real server is opened with under the name of an engine or of one of its settings: the engine, and how long its heap's
/// chunks are if that is said.
pub fn opened_with(name: &str) -> (&str, Option<Granularity>) {
    match name {
        "heap-object" => ("heap-hybrid", Some(Granularity::Object)),
        engine => (engine, None),
    }
}

/// The engine of this name, with its name.
///
/// # Errors
/// If there is none, with the names that there are.
pub fn named(name: &str) -> Result<Named, String> {
    let found = SUBJECTS.iter().chain(OTHERS).find(|(known, _)| *known == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = SUBJECTS.iter().chain(OTHERS).map(|(name, _)| *name).collect();
        format!("engine {name:?}: expected {}", names.join(" or "))
    })
}

/// The engine of this name.
///
/// # Errors
/// If there is none, with the names that there are.
pub fn by_name(name: &str) -> Result<&'static (dyn Subject + Sync), String> {
    named(name).map(|(_, subject)| subject)
}
