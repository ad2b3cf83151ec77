//! What is cut off when, by seed.

use terrace_testkit::rng::Rng;
use terrace_testkit::sweep::MediaKind;

/// What the server is doing when the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Serving; the pages in DRAM are few, and mostly the log is at stake.
    Load,
    /// Serving for so long that pages are flushed, blocks reclaimed and the log reused.
    Flush,
    /// In the orderly stop that SIGTERM asked for.
    Shutdown,
    /// Opening what an earlier cut left.
    Recovery,
    /// Making a new store.
    Creation,
}

impl Moment {
    /// All of them, in the order of the summary.
    pub const ALL: [Self; 5] = [Self::Load, Self::Recovery, Self::Flush, Self::Shutdown, Self::Creation];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Flush => "flush",
            Self::Shutdown => "shutdown",
            Self::Recovery => "recovery",
            Self::Creation => "creation",
        }
    }

    /// A cut under load.
    pub fn loaded(rng: &mut Rng) -> Self {
        match rng.below(20) {
            0..3 => Self::Shutdown,
            3..6 => Self::Flush,
            _ => Self::Load,
        }
    }

    /// How many operations are acknowledged before it.
    pub fn target(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Flush => rng.between(15_000, 40_000),
            Self::Shutdown => rng.between(200, 6000),
            _ => (300 << rng.below(6)) + rng.below(1000),
        }
    }
}

/// Sizes of a store, in bytes. Small: pages are flushed, blocks reclaimed and log blocks reused all the time, and an image is
/// made quickly.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub dram: u64,
    pub tier: u64,
    /// On both kinds of media: log and middle tier.
    pub memory: u64,
}

impl Sizes {
    /// The sizes of one store.
    pub fn any(media: MediaKind, rng: &mut Rng) -> Self {
        Self {
            dram: *rng.pick(&[2 << 20, 3 << 20, 5 << 20]),
            tier: *rng.pick(&[28 << 20, 32 << 20, 40 << 20]),
            memory: match media {
                MediaKind::Byte | MediaKind::Block => 0,
                // A quarter of it is the log.
                MediaKind::Tiered => *rng.pick(&[10 << 20, 14 << 20, 20 << 20]),
            },
        }
    }
}
