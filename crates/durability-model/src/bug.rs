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
    /// The first group of an atomic step counts without the second.
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
    /// A block is cleared before the manifest trusts the page that its records were moved to.
    MovedNotPersisted,
    /// A slot is used again before its cleared header is safe.
    ReusedBeforeCleared,
    /// `tac`: the index is swung to a page that is written and not synced.
    SwungBeforeSync,
    /// `tac`: the index is swung to a slot whose commit word is not fenced.
    SwungBeforeSecondFence,
    /// `tac`: a slot's commit word is stored before its record is fenced.
    CommitInFirstFence,
    /// `tac`: a slot is filled again before its cleared commit word is fenced.
    SlotReusedBeforeCleared,
    /// `tac`: a promoted record has no home, and what it was copied from is let go.
    HomeGivenUpAtPromotion,
    /// `tac`: a round is retired although what overwrote its records is not safe.
    RoundWithoutBarrier,
    /// `tac`: a round is retired before the manifest trusts the pages that took its records.
    RoundBeforeTrust,
    /// `tac`: a dirty record is moved in DRAM while a round is walked, and the walk misses it.
    WalkMissesMoved,
    /// `tac`: a copy replaces a dirty record that was overwritten since.
    SwungWithoutComparing,
    /// `tac`: a copy replaces a record below that was let go since, its slot filled again for the same key.
    MovedWithoutComparing,
    /// `tac`: a copy becomes the home of a record that was overwritten since, with a home in the same slot.
    RehomedWithoutComparing,
    /// `tac`: that nobody refers to a page is seen by one look into the index and one at the homes.
    GarbageWithoutLock,
    /// `tac`: a record leaves DRAM before its version is safe.
    CopiedUnsettled,
    /// `tac`: a record leaves DRAM when its own group is safe, and what it rests on is not.
    CopiedWithoutDependencies,
    /// `tac`: a blind set leaves DRAM before its unread candidate was read.
    UnsettledEvicted,
    /// `tac`: a delete forgets that there is an unread candidate.
    FlagLostByDelete,
    /// `tac`: a set after a whole-database flush goes on assuming that the unread candidate is counted.
    FlushKeepsAssumption,
    /// `tac`: settling a record that a whole-database flush has forgotten changes the count.
    ForgottenRecounted,
    /// `tac`: the unread candidate of a blind set is promoted: two records of the key are in DRAM.
    PromotedUnderUnsettled,
    /// `tac`: a tombstone is dropped although an unread candidate stays.
    UnsettledTombstoneDropped,
    /// `tac`: a tombstone is dropped although a slot holds an older copy.
    TombstoneDroppedOverSlot,
    /// `tac`: a tombstone is dropped although the commit word of an older copy is cleared and not fenced.
    TombstoneDroppedOverClearing,
    /// `tac`: a tombstone above the log floor is dropped.
    TombstoneDroppedAboveFloor,
    /// `tac`: a slot or page is cleared before what replaced its records is safe.
    ReleasedWithoutBarrier,
    /// `tac`: a slot or page is cleared before the manifest trusts the page to which its records went.
    ReleasedBeforeTrust,
    /// `tac`: an opening does not make safe what a dead process had stored in slots and not fenced.
    FoundSlotsNotPersisted,
    /// `tac`: an opening leaves slots that hold no winner as they are, and takes them for free.
    UnadoptedSlotsKept,
    /// An opening clears pages and slots before the manifest trusts the pages that hold their records.
    FoundClearedBeforeTrust,
    /// `tac`: an opening takes what it restored from the log for retired.
    ReplayCutEarly,
}

impl Bug {
    /// Small bounds within which it is found.
    pub fn bounds(self) -> Bounds {
        use Bug::*;
        let log = Bounds::log(Media::Block, Mode::Sync);
        let tier = Bounds { rot: false, ..Bounds::tier(Media::Block, Mode::Sync) };
        let reuse = Bounds { rot: false, ..Bounds::reuse(Media::Block, Mode::Sync) };
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
            FoundClearedBeforeTrust => Bounds { rot: true, ..tier },
            MovedNotPersisted => Bounds { keys: 2, ..reuse },
            FlushReclaimed => Bounds { flushes: true, keys: 2, crashes: 1, ..reuse },
            TombstoneAboveFloor => Bounds { sessions: 2, keys: 2, crashes: 1, ..reuse },
            VersionFloorLost | TombstoneDroppedEarly | ReusedBeforeCleared => reuse,
            _ => self.slab_bounds(),
        }
    }

    fn slab_bounds(self) -> Bounds {
        use Bug::*;
        let slab = Bounds::slab(Media::Byte, Mode::Sync);
        let pages = Bounds::slab(Media::Block, Mode::Sync);
        let blind = Bounds { blind: true, ..pages };
        match self {
            SwungBeforeSync | RoundWithoutBarrier | SwungWithoutComparing | WalkMissesMoved => pages,
            CopiedUnsettled | RoundBeforeTrust => Bounds { keys: 2, ..pages },
            CopiedWithoutDependencies => Bounds { sessions: 2, keys: 2, reads: 1, ..pages },
            TombstoneDroppedAboveFloor => Bounds { sessions: 2, keys: 2, writes: 3, ..pages },
            UnsettledEvicted | PromotedUnderUnsettled => blind,
            UnsettledTombstoneDropped => Bounds { keys: 2, writes: 3, collide: true, crashes: 0, ..blind },
            FlagLostByDelete => Bounds { writes: 3, ..blind },
            FlushKeepsAssumption | ForgottenRecounted => Bounds { writes: 4, flushes: true, ..blind },
            FoundSlotsNotPersisted | UnadoptedSlotsKept => Bounds { crashes: 2, ..slab },
            ReplayCutEarly => Bounds { crashes: 2, keys: 2, ..pages },
            _ => slab,
        }
    }
}
