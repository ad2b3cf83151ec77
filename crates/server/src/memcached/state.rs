//! What all memcached connections of a server share: counts, the delayed `flush_all`, and what is kept only once a client has
//! asked for it.
//!
//! # Thread safety
//! Counts are statistics: relaxed, no order between them. The due time is taken by compare-and-swap, so that exactly one
//! thread runs the flush; relaxed, because it publishes nothing but itself. Switches are read relaxed: a client that turns one
//! has its answer before it can ask what follows from it, and others may be a moment late.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::prefixes::Prefixes;
use super::stats::Totals;
use super::watch::Watchers;
use crate::protocol::Context;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    CmdGet,
    CmdSet,
    CmdFlush,
    CmdTouch,
    GetHits,
    GetMisses,
    DeleteMisses,
    DeleteHits,
    IncrMisses,
    IncrHits,
    DecrMisses,
    DecrHits,
    CasMisses,
    CasHits,
    CasBadval,
    TouchHits,
    TouchMisses,
    StoreTooLarge,
    TotalItems,
    CmdMeta,
    StoreNoMemory,
    AuthCmds,
    AuthErrors,
}

/// The counts in the order and with the names in which `stats` prints them.
pub(super) const COUNTS: [(Count, &str); 23] = [
    (Count::CmdGet, "cmd_get"),
    (Count::CmdSet, "cmd_set"),
    (Count::CmdFlush, "cmd_flush"),
    (Count::CmdTouch, "cmd_touch"),
    (Count::GetHits, "get_hits"),
    (Count::GetMisses, "get_misses"),
    (Count::DeleteMisses, "delete_misses"),
    (Count::DeleteHits, "delete_hits"),
    (Count::IncrMisses, "incr_misses"),
    (Count::IncrHits, "incr_hits"),
    (Count::DecrMisses, "decr_misses"),
    (Count::DecrHits, "decr_hits"),
    (Count::CasMisses, "cas_misses"),
    (Count::CasHits, "cas_hits"),
    (Count::CasBadval, "cas_badval"),
    (Count::TouchHits, "touch_hits"),
    (Count::TouchMisses, "touch_misses"),
    (Count::StoreTooLarge, "store_too_large"),
    (Count::TotalItems, "total_items"),
    (Count::CmdMeta, "cmd_meta"),
    (Count::StoreNoMemory, "store_no_memory"),
    (Count::AuthCmds, "auth_cmds"),
    (Count::AuthErrors, "auth_errors"),
];

/// Counts of one turn, added to the shared ones together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: [u64; COUNTS.len()],
}

impl Tally {
    /// Counts one.
    pub(super) fn add(&mut self, count: Count) {
        self.counts[count as usize] += 1;
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct State {
    counts: [AtomicU64; COUNTS.len()],
    /// When the delayed flush is due, in milliseconds since the Unix epoch; 0: there is none.
    flush_due_ms: AtomicU64,
    /// Whether records may have been invalidated.
    stale: AtomicU8,
    /// `lru_crawler disable`.
    pub(super) crawler_disabled: AtomicBool,
    /// `verbosity`.
    pub(super) verbosity: AtomicU64,
    /// `stats detail`, if a client has said.
    detail: AtomicU8,
    /// Counts of `stats detail`.
    pub(super) prefixes: Prefixes,
    /// Who watches.
    pub(super) watchers: Watchers,
    /// Times a connection had to let others have their turn although more of its commands had come.
    pub(super) yields: AtomicU64,
    /// Where the counts of the store and of the server stood at the last `stats reset`.
    pub(super) counted_from: Mutex<Totals>,
}

/// Values of `State::stale` and `State::detail`; 0 is not known yet.
const NO: u8 = 1;
const YES: u8 = 2;

impl State {
    /// Adds a turn's counts.
    pub(super) fn count(&self, tally: &Tally) {
        for (shared, &n) in self.counts.iter().zip(&tally.counts) {
            if n > 0 {
                shared.fetch_add(n, Relaxed);
            }
        }
    }

    /// Reads a count.
    pub(super) fn read(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Relaxed)
    }

    /// `stats reset`.
    pub(super) fn reset(&self, totals: Totals) {
        for count in self.counts.iter().chain([&self.yields, &self.watchers.sent, &self.watchers.skipped]) {
            count.store(0, Relaxed);
        }
        *self.counted_from.lock() = totals;
        self.prefixes.clear();
    }

    /// From now on records may be stale.
    pub(super) fn note_stale(&self) {
        self.stale.store(YES, Relaxed);
    }

    /// Whether a record may be stale, so that reading it is a change of its state. Until a client invalidates one, only those of
    /// an earlier run can be. (A read that was planned before the first invalidation and runs after it shows the record as stale
    /// and leaves the win to the next.)
    pub(super) fn may_be_stale(&self, ctx: &Context<'_>) -> bool {
        if self.stale.load(Relaxed) == 0 {
            let earlier = ctx.shared.store.stats().recovery.is_some_and(|recovery| recovery.records > 0);
            // Another thread may have said more meanwhile.
            let _said = self.stale.compare_exchange(0, if earlier { YES } else { NO }, Relaxed, Relaxed);
        }
        self.stale.load(Relaxed) == YES
    }

    /// `stats detail on` and `off`.
    pub(super) fn set_detail(&self, on: bool) {
        self.detail.store(if on { YES } else { NO }, Relaxed);
    }

    /// Whether operations are counted by prefix: as a client has said last, else as the server was started.
    pub(super) fn detail(&self, from_start: bool) -> bool {
        match self.detail.load(Relaxed) {
            0 => from_start,
            said => said == YES,
        }
    }

    /// Replaces the delayed flush, or drops it with `None`.
    pub(super) fn delay_flush(&self, due_ms: Option<u64>) {
        self.flush_due_ms.store(due_ms.unwrap_or(0), Relaxed);
    }

    /// When a delayed `flush_all` is due, in milliseconds since the Unix epoch, if there is one: an event loop must not
    /// sleep longer.
    pub(crate) fn flush_due_ms(&self) -> Option<u64> {
        match self.flush_due_ms.load(Relaxed) {
            0 => None,
            due_ms => Some(due_ms),
        }
    }

    /// Takes the delayed flush if it is due. Who gets `true` must execute a flush of [`DATABASE`](super::DATABASE).
    pub(super) fn take_due_flush(&self, now_ms: u64) -> bool {
        self.flush_due_ms().is_some_and(|due_ms| {
            due_ms <= now_ms && self.flush_due_ms.compare_exchange(due_ms, 0, Relaxed, Relaxed).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lie_where_their_names_are() {
        for (i, (count, name)) in COUNTS.iter().enumerate() {
            assert_eq!(*count as usize, i, "{name}");
        }
        let state = State::default();
        let mut tally = Tally::default();
        tally.add(Count::TotalItems);
        tally.add(Count::TotalItems);
        state.count(&tally);
        assert_eq!((state.read(Count::TotalItems), state.read(Count::CmdGet)), (2, 0));
        state.reset(Totals::default());
        assert_eq!(state.read(Count::TotalItems), 0);
    }

    #[test]
    fn a_due_flush_is_taken_once() {
        let state = State::default();
        assert!(!state.take_due_flush(u64::MAX), "there is none");
        state.delay_flush(Some(100));
        assert!(!state.take_due_flush(99));
        assert_eq!(state.flush_due_ms(), Some(100));
        assert!(state.take_due_flush(100));
        assert!(!state.take_due_flush(100));
        state.delay_flush(Some(200));
        state.delay_flush(None);
        assert!(!state.take_due_flush(300), "a later flush_all drops it");
    }
}
