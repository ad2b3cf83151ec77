//! The two object-safe faces of an engine: the store, and a session of it.

use std::os::fd::RawFd;
use std::sync::Arc;

use crate::batch::{Batch, Settled};
use crate::clock::Time;
use crate::op::DATABASES;
use crate::stats::Stats;

/// One thread's way into a store. Single-owner: it may move between threads, it is never shared.
///
/// One dynamic call runs a whole batch; everything beneath is static.
pub trait Session: Send {
    /// Runs the batch's operations, each key's in order. Afterwards every answer is there or pending; the writes are in the
    /// log but maybe not yet as durable as promised: ask [`settled`](Self::settled).
    fn execute(&mut self, batch: &mut Batch);

    /// Goes on with the batch's pending operations as far as possible without waiting; `true` once none is pending.
    fn poll(&mut self, batch: &mut Batch) -> bool;

    /// Proof that the batch's answers may be given out: none is pending, and everything they rest on is as durable as the
    /// store promised. `None`: poll again later (see [`wait`](Self::wait), [`event_fds`](Self::event_fds)). Never blocks.
    ///
    /// A batch whose log write failed settles too; its answers are errors.
    fn settled(&mut self, batch: &Batch) -> Option<Settled>;

    /// Blocks until the batch is settled. For embedded callers and tools, not for event loops.
    fn wait(&mut self, batch: &mut Batch) -> Settled;

    /// Descriptors that poll readable when [`poll`](Self::poll) or [`settled`](Self::settled) may have news. An event loop
    /// registers them once, edge-triggered, and calls both on every wake-up. They live as long as the session.
    fn event_fds(&mut self) -> Vec<RawFd>;

    /// Resets the session's own event descriptor, for event loops that watch it level-triggered.
    fn acknowledge_events(&mut self) {}
}

/// Why background work deleted a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Its time was over. For a while before, it was there for no operation.
    Expired,
    /// There was no room.
    Evicted,
}

/// Hears of keys that background work deleted: why, from which database, and the key.
pub type RemovalFn = Arc<dyn Fn(Removal, u8, &[u8]) + Send + Sync>;

/// An open store of some engine.
pub trait Store: Send + Sync {
    /// A new session.
    ///
    /// # Errors
    /// If every session slot is taken ([`StoreError::TooManySessions`]) or its queue can't be made.
    fn session(&self) -> Result<Box<dyn Session>, StoreError>;

    /// Keys in a database; exact and O(1) (expired records leave it in bounded time).
    fn len(&self, db: u8) -> u64;

    /// Those of them that have an expiry; O(1). One whose record is damaged counts as it did until that is found out.
    fn expiring(&self, db: u8) -> u64;

    /// About how many milliseconds those that have an expiry have left, on average; 0 where it is not known. An estimate by some of
    /// them, without a read of a device.
    fn mean_ttl_ms(&self, db: u8) -> u64 {
        let _ = db;
        0
    }

    /// The store's time, which deadlines are measured in, and what the wall clock is ahead of it.
    fn time(&self) -> Time;

    /// What is where, and what was asked of each medium so far.
    fn stats(&self) -> Stats;

    /// One step of background work (flush, sync, reclaim, expire). Threads only loop over it; tests call it themselves.
    fn step(&self) -> Progress;

    /// Blocks until there may be background work or `timeout` has passed.
    fn wait_for_work(&self, timeout: std::time::Duration);

    /// Has `told` called with every key that background work deletes from now on, and see [`hear_expired`](Self::hear_expired); `None` ends that. It must not wait for
    /// anything, nor call the store. A store that deletes nothing by itself has nothing to tell.
    fn on_removal(&self, told: Option<RemovalFn>) {
        drop(told);
    }

    /// Whether somebody wants to hear of each key that expires: then those that a write replaces are told of as well, and background
    /// work reads keys that it need not know else. Without, what [`on_removal`](Self::on_removal) tells of expired keys has gaps.
    fn hear_expired(&self, each: bool) {
        let _ = each;
    }

    /// Until this moment of the store's time background work deletes no key because its time is over, unless room is wanted: such keys
    /// are not found, but count, and [`on_removal`](Self::on_removal) tells of them later. 0: it does so at once.
    fn hold_expiry(&self, until_ms: u64) {
        let _ = until_ms;
    }

    /// Changes the budget of DRAM that the store was opened with (for records, or for records and index together), until it is
    /// closed. A larger one is filled as records come; for a smaller one, background steps write down what has to leave and give
    /// the memory back to the system, while everything goes on. [`stats`](Self::stats) tells how far they are.
    ///
    /// # Errors
    /// [`StoreError::Options`] if it is less than the engine needs, more than was reserved when the store was opened (four times
    /// the budget, and no more than what the tier below takes), or if the engine can't; the text says what is possible. Nothing
    /// has changed then.
    fn resize_dram(&self, bytes: u64) -> Result<(), StoreError>;

    /// Which records that are read below DRAM are copied to it; `None` if the engine has no read cache.
    fn read_cache(&self) -> Option<crate::ReadCache>;

    /// Changes which records that are read below DRAM are copied to it, until the store is closed. Where the cache is switched off,
    /// background steps give its pages back.
    ///
    /// # Errors
    /// [`StoreError::Options`] if the engine has no read cache.
    fn set_read_cache(&self, cache: crate::ReadCache) -> Result<(), StoreError>;

    /// Changes the size of a tier below DRAM, `pmem` or `ssd` as [`stats`](Self::stats) name them, for good: it has that size when
    /// the store is opened again, too. A larger one is there when this returns. A smaller one is from now on all that is filled:
    /// background steps move what lies beyond its end, while everything goes on, and then give the rest of the medium back; a
    /// restart before that forgets the wish. [`stats`](Self::stats) tell how far they are.
    ///
    /// # Errors
    /// [`StoreError::Options`] if it is more than the engine can use, less than it needs or than what is live takes, or if the
    /// engine can't; the text says what is possible. [`StoreError::Io`] if the medium can't be made that long. Nothing has changed
    /// then.
    fn resize_tier(&self, tier: &str, bytes: u64) -> Result<(), StoreError>;

    /// Saves everything so that the next start is fast. Every session must be dropped before, and nobody may call
    /// [`step`](Self::step) any more.
    ///
    /// # Errors
    /// If a medium fails, or sessions are open ([`StoreError::SessionsOpen`]).
    fn close(&self) -> Result<(), StoreError>;

    /// Keys in all databases.
    fn len_all(&self) -> u64 {
        (0..DATABASES as u8).map(|db| self.len(db)).sum()
    }
}

/// What a step of background work did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing to do.
    Idle,
    /// Something; call again.
    Worked,
    /// Something is due but waits for a session or a device.
    Blocked,
}

/// Why a store could not do what was asked of it as a whole.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// All session slots are in use.
    #[error("all {0} session slots are in use")]
    TooManySessions(usize),
    /// Close was called with open sessions.
    #[error("{0} sessions are still open")]
    SessionsOpen(usize),
    /// A medium failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The device's error.
        source: std::io::Error,
    },
    /// What is on the medium does not fit what is expected; the text says what, where, and what to do.
    #[error("{0}")]
    Corrupt(String),
    /// The options contradict each other or the medium; the text says which and what is possible.
    #[error("{0}")]
    Options(String),
}

impl StoreError {
    /// Wraps an I/O error with what was being done.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
