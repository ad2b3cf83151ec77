//! What all memcached connections of a server share: counts, and the delayed `flush_all`.
//!
//! # Thread safety
//! Counts are statistics: relaxed, no order between them. The due time is taken by compare-and-swap, so that exactly one
//! thread runs the flush; relaxed, because it publishes nothing but itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
}

/// The counts in the order and with the names in which `stats` prints them.
pub(super) const COUNTS: [(Count, &str); 19] = [
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
#[derive(Debug, Default)]
pub(crate) struct State {
    counts: [AtomicU64; COUNTS.len()],
    /// When the delayed flush is due, in milliseconds since the Unix epoch; 0: there is none.
    flush_due_ms: AtomicU64,
}

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
    pub(super) fn reset(&self) {
        for count in &self.counts {
            count.store(0, Relaxed);
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
        state.reset();
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
