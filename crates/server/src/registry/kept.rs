//! What a server keeps for a connection beside its buffers.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes, each number written by the connection's worker where what it counts changes, and read by who lists connections or sums
/// them up. Relaxed, as all of [`Entry`](super::Entry).
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Commands queued behind MULTI.
    pub multi: AtomicUsize,
    /// Of them, what takes no memory.
    pub spilled: AtomicUsize,
    /// Watched keys.
    pub watched: AtomicUsize,
    /// Channels, patterns and shard channels, with their places in the hub.
    pub subscriptions: AtomicUsize,
    /// Prefixes of CLIENT TRACKING.
    pub prefixes: AtomicUsize,
    /// Names that the client gave itself and its library.
    pub names: AtomicUsize,
}

impl Kept {
    /// Of a transaction.
    pub fn of_transaction(&self) -> usize {
        self.multi.load(Relaxed) + self.watched.load(Relaxed)
    }

    /// All of it.
    pub fn bytes(&self) -> usize {
        let others = [&self.subscriptions, &self.prefixes, &self.names];
        self.of_transaction() + others.into_iter().map(|bytes| bytes.load(Relaxed)).sum::<usize>()
    }

    /// What of it is memory.
    pub fn memory(&self) -> usize {
        self.bytes().saturating_sub(self.spilled.load(Relaxed))
    }
}
