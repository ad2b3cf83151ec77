//! How large a history may be, on what and in which mode.

use std::fmt;

/// The medium under log and tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Media {
    /// Log and tier are files: one `fdatasync` of a file covers everything written to it before.
    Block,
    /// Flush and fence: each thread's fence covers its own stores, and a fenced group is durable.
    Byte,
}

/// When answers are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// When safe from power loss.
    Sync,
    /// When written; power loss may take what a window covers.
    Batch,
}

/// What is explored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The medium.
    pub media: Media,
    /// The durability mode.
    pub mode: Mode,
    /// Sessions, at most 3.
    pub sessions: u8,
    /// Keys, at most 2.
    pub keys: u8,
    /// Writes, at most 6.
    pub writes: u8,
    /// Reads.
    pub reads: u8,
    /// Crashes, those in an opening counted.
    pub crashes: u8,
    /// Pages that sessions and reclamation may begin; 0: pages are never flushed.
    pub pages: u8,
    /// Slots of the tier, at most 4.
    pub slots: u8,
    /// Whether the tier is that of engine `tac` (slots and pages) instead of the hybrid log (pages alone).
    pub slab: bool,
    /// Slots of its middle tier, at most 2.
    pub warm: u8,
    /// Rounds that may be opened.
    pub rounds: u8,
    /// Whether there are blind sets.
    pub blind: bool,
    /// Whether both keys have the same hash.
    pub collide: bool,
    /// Whether a page at rest may go bad while the store is down.
    pub rot: bool,
    /// Whether a log write, and a sync of the log, is one step: what lies between is explored with the log alone.
    pub coarse: bool,
    /// Whether there are deletes.
    pub deletes: bool,
    /// Whether there are atomic writes of both keys.
    pub atomic: bool,
    /// Whether there are whole-database flushes.
    pub flushes: bool,
}

impl Bounds {
    /// The log alone: three sessions see each other's writes, crash, and go on.
    pub const fn log(media: Media, mode: Mode) -> Self {
        Self {
            media,
            mode,
            sessions: 3,
            keys: 2,
            writes: 3,
            reads: 1,
            crashes: 2,
            pages: 0,
            slots: 4,
            slab: false,
            warm: 0,
            rounds: 0,
            blind: false,
            collide: false,
            rot: false,
            coarse: false,
            deletes: true,
            atomic: true,
            flushes: true,
        }
    }
    /// With the tier: pages are flushed, the log is reclaimed, blocks are compacted and used again.
    pub const fn tier(media: Media, mode: Mode) -> Self {
        Self { sessions: 2, writes: 2, reads: 0, pages: 3, slots: 3, rot: true, ..Self::log(media, mode) }
    }
    /// The tier of engine `tac`: a log on byte media with slots and pages, on block media with pages alone.
    pub const fn slab(media: Media, mode: Mode) -> Self {
        let warm = match media {
            Media::Byte => 1,
            Media::Block => 0,
        };
        Self {
            sessions: 1,
            keys: 1,
            writes: 2,
            crashes: 1,
            pages: 2,
            slots: 3,
            slab: true,
            warm,
            rounds: 2,
            coarse: true,
            atomic: false,
            flushes: false,
            ..Self::tier(media, mode)
        }
    }
    /// One session and one key, with more writes: tombstones, copies in several blocks, reuse.
    pub const fn reuse(media: Media, mode: Mode) -> Self {
        Self { sessions: 1, keys: 1, writes: 3, atomic: false, flushes: false, ..Self::tier(media, mode) }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.slab {
            let tiers = format!("slab with {} slots and {} pages", self.warm, self.slots.min(self.pages));
            let blind = if self.blind { ", blind sets" } else { "" };
            let collide = if self.collide { " of keys that collide" } else { "" };
            format!("{tiers}{blind}{collide}, {} rounds", self.rounds)
        } else if self.pages == 0 {
            "log".into()
        } else {
            format!("tier of {} slots", self.slots)
        };
        let media = if self.media == Media::Block { "block" } else { "byte" };
        let mode = if self.mode == Mode::Sync { "sync" } else { "batch" };
        write!(
            f,
            "{part}, {media} media, {mode}: {} sessions, {} keys, {} writes, {} reads, {} crashes, {} pages",
            self.sessions, self.keys, self.writes, self.reads, self.crashes, self.pages
        )
    }
}

impl Bounds {
    /// What CI explores.
    pub fn for_ci() -> Vec<Self> {
        vec![
            Self::log(Media::Block, Mode::Sync),
            Self::log(Media::Block, Mode::Batch),
            Self::log(Media::Byte, Mode::Sync),
            Self::tier(Media::Block, Mode::Sync),
            Self::tier(Media::Block, Mode::Batch),
            Self::tier(Media::Byte, Mode::Sync),
            Self::reuse(Media::Block, Mode::Sync),
            Self::reuse(Media::Byte, Mode::Sync),
            Self::slab(Media::Byte, Mode::Sync),
            Self { keys: 2, crashes: 2, pages: 3, ..Self::slab(Media::Block, Mode::Sync) },
            Self { keys: 2, crashes: 2, sessions: 2, ..Self::slab(Media::Block, Mode::Batch) },
            Self { keys: 2, crashes: 2, pages: 0, warm: 2, ..Self::slab(Media::Byte, Mode::Sync) },
            Self { keys: 2, blind: true, collide: true, ..Self::slab(Media::Block, Mode::Sync) },
            Self { keys: 2, blind: true, flushes: true, ..Self::slab(Media::Block, Mode::Sync) },
        ]
    }
}
