//! Bugs that can be planted: each leaves out one thing that the protocol does.

use crate::bounds::{Bounds, Media, Mode};

/// A planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Bug {
    /// An answer waits for its own group and not for what it saw.
    AnswerIgnoresWhatItSaw,
    /// Under `sync` an answer is given when its group is written.
    AnswerWhenWritten,
    /// Under `batch` answers go on when the window has passed and the sync has not.
    WindowGrows,
    /// Under `batch` an answer notes what it saw only if that is not even written: when the window has passed, who read
    /// what another session wrote does not wait for the sync.
    WindowIgnoresReaders,
    /// Groups carry no dependencies.
    GroupWithoutDependencies,
    /// What a batch without a write saw is not carried to the session's next group.
    EarlierBatchesForgotten,
    /// A miss does not note the tombstone that it rests on.
    MissNotRecorded,
    /// A group claims as durable what is only written.
    ClaimTooEarly,
    /// A sync is taken to cover what was written after it began.
    SyncCoversTooMuch,
    /// An atomic step is written as two groups.
    HalfGroup,
    /// A whole-database flush is not logged.
    FlushNotLogged,
    /// The manifest names a whole-database flush that is not durable in the log.
    FlushStoredEarly,
    /// The group of a whole-database flush is reclaimed before the manifest names it.
    FlushReclaimed,
    /// The cut goes over the logs once instead of until nothing changes.
    CutNotTransitive,
    /// Sessions go on before the cut is durable.
    CutNotDurable,
    /// An opening does not make durable what a dead process had written and not synced: the log.
    FoundLogNotPersisted,
    /// The same for blocks: others are cleared on their account.
    FoundBlocksNotPersisted,
    /// What an opening restored from the log is taken for persisted.
    ReplayRetiredEarly,
    /// An opening serves what a block holds although the log has a newer version.
    OlderVersionServed,
    /// After a crash versions go on from the newest one found.
    VersionFloorLost,
    /// A page becomes a block before what it holds is safe.
    SealWithoutBarrier,
    /// A manifest says that a block is whole before its sync.
    PersistedEarly,
    /// Log groups are reclaimed when their block is written and not synced.
    LogFreedEarly,
    /// The log floor is stored before all below it is in blocks.
    FloorEarly,
    /// A tombstone is dropped while an older copy of its key is on the medium.
    TombstoneDroppedEarly,
    /// A tombstone above the log floor is dropped: the log holds older entries of its key.
    TombstoneAboveFloor,
    /// A block is cleared before what replaced its records is safe.
    ClearedWithoutBarrier,
    /// A block is cleared before the page that its records were moved to is persisted.
    MovedNotPersisted,
    /// A slot is used again before its cleared header is safe.
    ReusedBeforeCleared,
}

impl Bug {
    /// Small bounds within which it is found.
    pub fn bounds(self) -> Bounds {
        use Bug::*;
        let log = Bounds::log(Media::Block, Mode::Sync);
        let tier = Bounds::tier(Media::Block, Mode::Sync);
        let reuse = Bounds::reuse(Media::Block, Mode::Sync);
        match self {
            AnswerIgnoresWhatItSaw
            | AnswerWhenWritten
            | EarlierBatchesForgotten
            | MissNotRecorded
            | GroupWithoutDependencies
            | ClaimTooEarly
            | SyncCoversTooMuch
            | HalfGroup
            | FlushNotLogged
            | CutNotTransitive
            | CutNotDurable => log,
            WindowGrows | WindowIgnoresReaders => Bounds::log(Media::Block, Mode::Batch),
            FoundLogNotPersisted => Bounds::log(Media::Byte, Mode::Sync),
            FlushStoredEarly
            | FoundBlocksNotPersisted
            | ReplayRetiredEarly
            | OlderVersionServed
            | SealWithoutBarrier
            | PersistedEarly
            | LogFreedEarly
            | FloorEarly
            | ClearedWithoutBarrier => tier,
            MovedNotPersisted => Bounds { keys: 2, ..reuse },
            FlushReclaimed => Bounds { flushes: true, keys: 2, crashes: 1, ..reuse },
            TombstoneAboveFloor => Bounds { sessions: 2, keys: 2, crashes: 1, ..reuse },
            VersionFloorLost | TombstoneDroppedEarly | ReusedBeforeCleared => reuse,
        }
    }
}
