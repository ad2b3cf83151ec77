//! What `stats reset` has begin at 0 again, although the store and the server go on counting it for others.

use terrace_engine::{Stats, TierStats};

use crate::protocol::Context;
use crate::shared::Counters;

/// Counts since the start, or since the last reset.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::memcached) struct Totals {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused because there were too many.
    pub rejected: u64,
    /// Connections closed because they were silent for too long.
    pub idle: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Records evicted.
    pub evicted: u64,
    /// Records expired.
    pub expired: u64,
    /// Gets that found a record that had expired.
    pub get_expired: u64,
    /// Gets that found a record from before a flush.
    pub get_flushed: u64,
    /// Gets answered by tiers below DRAM.
    pub below_hits: u64,
    /// Bytes read from those tiers.
    pub below_read: u64,
    /// Bytes written to them.
    pub below_written: u64,
}

impl Totals {
    /// Since the last `stats reset`.
    pub(super) fn of(store: &Stats, ctx: &Context<'_>) -> Self {
        let then = *ctx.shared.counters.memcached.counted_from.lock();
        let now = Self::since_the_start(store, ctx);
        Self {
            accepted: now.accepted.saturating_sub(then.accepted),
            rejected: now.rejected.saturating_sub(then.rejected),
            idle: now.idle.saturating_sub(then.idle),
            bytes_in: now.bytes_in.saturating_sub(then.bytes_in),
            bytes_out: now.bytes_out.saturating_sub(then.bytes_out),
            evicted: now.evicted.saturating_sub(then.evicted),
            expired: now.expired.saturating_sub(then.expired),
            get_expired: now.get_expired.saturating_sub(then.get_expired),
            get_flushed: now.get_flushed.saturating_sub(then.get_flushed),
            below_hits: now.below_hits.saturating_sub(then.below_hits),
            below_read: now.below_read.saturating_sub(then.below_read),
            below_written: now.below_written.saturating_sub(then.below_written),
        }
    }

    /// Since the start.
    pub(super) fn since_the_start(store: &Stats, ctx: &Context<'_>) -> Self {
        let counters = &ctx.shared.counters;
        let below = |of: fn(&TierStats) -> u64| {
            store.tiers.iter().filter(|tier| tier.tier != "dram").map(of).sum::<u64>()
        };
        Self {
            accepted: Counters::read(&counters.accepted),
            rejected: Counters::read(&counters.rejected),
            idle: Counters::read(&counters.closed_idle),
            bytes_in: Counters::read(&counters.bytes_in),
            bytes_out: Counters::read(&counters.bytes_out),
            evicted: store.evicted,
            expired: store.expired,
            get_expired: store.misses_expired,
            get_flushed: store.misses_flushed,
            below_hits: below(|tier| tier.hits),
            below_read: below(|tier| tier.media.read_bytes),
            below_written: below(|tier| tier.media.write_bytes),
        }
    }
}
