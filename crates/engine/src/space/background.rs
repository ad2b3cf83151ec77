//! Work that no session waits for.

use terrace_index::AnyIndex;

use super::records::Records;
use crate::commit::Barrier;
use crate::session::{Progress, StoreError};

/// What background steps of a space may ask of the machine.
pub trait Context {
    /// Begins a new epoch.
    fn advance_epoch(&self) -> u64;
    /// Whether every session has left the epochs before this one.
    fn epoch_passed(&self, epoch: u64) -> bool;
    /// Everything published so far.
    fn barrier(&self) -> Barrier;
    /// Whether that is safe from power loss. Where it isn't, asks for a sync.
    fn barrier_passed(&self, barrier: &Barrier) -> bool;
    /// Whether this version, and all that it rests on, is safe from power loss. Where it isn't, asks for a sync.
    fn settled(&self, version: u64) -> bool;
    /// Whether there is a log: if not, only flushed records survive.
    fn logged(&self) -> bool;
    /// Whether the stored manifest says that pages up to this sequence number were flushed whole; if not, it soon will, once they
    /// are. Until then damage in them may be taken for a torn flush.
    fn trusts(&self, seq: u64) -> bool;
    /// Stores a manifest if somebody waits for trust and it can be given. Background work does that by itself; a space that is
    /// being closed has to ask, for then nobody else works.
    ///
    /// # Errors
    /// The device's.
    fn give_trust(&self) -> std::io::Result<()> {
        Ok(())
    }
    /// Every log entry with at most this version is gone from the log.
    fn log_floor(&self) -> u64;
    /// Every page up to this sequence number should be persisted soon (the log needs room); 0 for none.
    fn flush_wanted(&self) -> u64;
    /// Records of this database with at most this version are dead.
    fn flush_version(&self, db: u8) -> u64;
    /// The time in milliseconds.
    fn now_ms(&self) -> u64;
    /// Tombstones up to this version have been removed from the index: new versions must be above.
    fn raise_version_floor(&self, version: u64);
    /// A record left the index without an operation (dead by a whole-database flush).
    fn forgotten(&self, kind: crate::record::Kind);
    /// A damaged record was replaced by one that says so: what it was no longer matters, it counts as a key.
    fn poisoned(&self, kind: crate::record::Kind, db: u8, expires: bool);
    /// A record that was put beside unread ones of this database, and has this version now, has been told from them: the newest older
    /// version of its key is `found`, or there is none, which the count is put right by. Waits for a flush: not for critical sections.
    fn recount(&self, db: u8, version: u64, found: Option<Replaced>);
    /// Tombstones the index holds, and live keys.
    fn tombstones_and_keys(&self) -> (u64, u64);
    /// Runs `work` while no whole-database flush begins or is under way: what it counts and what a flush forgets are told apart. Not
    /// for critical sections.
    fn hold_flushes(&self, work: &mut dyn FnMut()) {
        work();
    }
    /// A live key of this database, whose record had an expiry, left the index because its time has passed.
    fn expired(&self, _db: u8) {}
    /// Whether somebody wants to hear of every key that expires: then none leaves the index unread.
    fn tells_expired(&self) -> bool {
        false
    }
    /// Whether keys that a search reported are being deleted. Nothing else is searched meanwhile: it must not wait for that.
    fn is_purging(&self) -> bool {
        false
    }
    /// Whether for some of them there was no room: what they take is not live, though they are there.
    fn has_unpurged(&self) -> bool {
        false
    }
    /// Whether keys are deleted to make room: then what lives in nearly full blocks is not moved for the little that it gains.
    fn evicts(&self) -> bool {
        false
    }
    /// Where the key hashes come from.
    fn hasher(&self) -> crate::hash::KeyHasher;
}

/// The newest of a key's records that a blind set replaced.
#[derive(Clone, Copy, Debug)]
pub struct Replaced {
    /// Its version.
    pub version: u64,
    /// What it stood for.
    pub kind: crate::record::Kind,
    /// Whether it had an expiry.
    pub expires: bool,
}

/// Is told databases and keys that a search found.
pub type FoundKeys<'a> = dyn FnMut(u8, &[u8]) + 'a;

/// Is told the sequence numbers of records' pages, their versions and bytes.
pub type FoundRecords<'a> = dyn FnMut(u64, u64, &[u8]) + 'a;

/// Background work. It sees the index as [`AnyIndex`], so that it is compiled once for all of them.
pub trait Background: Records {
    /// One step of background work.
    fn step(&self, index: &AnyIndex, context: &dyn Context) -> Progress;

    /// Keys of records that have expired or were forgotten by a whole-database flush, some at a time, each as database and
    /// bytes; the machine purges those that still are. Records that are [alone](crate::record::Lifetime::alone) may leave the index
    /// here, unread, instead; the context is told.
    fn find_expired(&self, index: &AnyIndex, context: &dyn Context, found: &mut FoundKeys<'_>) -> Progress;

    /// Tells database and deadline of some records that lie where a read is needed, if they are remembered.
    fn sample_deadlines(&self, _found: &mut dyn FnMut(u8, u64)) {}

    /// Whether the log's blocks may be freed by copying what is needed of them: whether [`walk_unflushed`](Self::walk_unflushed) tells
    /// that.
    const COMPRESSES: bool = false;

    /// What flushing all pages of now would write.
    fn unflushed_bytes(&self) -> u64 {
        0
    }

    /// Shows records in some of the pages above `after` that are not flushed, those that the index leads to and whose version `is_old`:
    /// their page's sequence number, their version and bytes. The number of the last page that was looked at, `after` itself if none can
    /// be now; `None` once there are no more. Those that it passes over have been flushed.
    fn walk_unflushed(
        &self,
        _index: &AnyIndex,
        _context: &dyn Context,
        _after: u64,
        _is_old: &dyn Fn(u64) -> bool,
        _found: &mut FoundRecords<'_>,
    ) -> Option<u64> {
        None
    }

    /// Keys to evict when the space is full, about `count`; more, where a medium is read in blocks, of the block that was read.
    fn find_victims(&self, index: &AnyIndex, context: &dyn Context, count: usize, found: &mut FoundKeys<'_>);

    /// Whether writes would be refused now for want of space.
    fn is_full(&self) -> bool;

    /// Whether keys should go, in a store that evicts: where writes would be refused now, or soon.
    fn wants_victims(&self) -> bool {
        self.is_full()
    }

    /// Flushes, or frees, everything. Called with no session open; afterwards the space is only dropped.
    ///
    /// # Errors
    /// The device's, or no room for what is not flushed yet.
    fn close(&self, _index: &AnyIndex, _context: &dyn Context) -> Result<(), StoreError> {
        Ok(())
    }
}
