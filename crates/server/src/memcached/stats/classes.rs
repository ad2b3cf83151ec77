//! `stats items` and `stats slabs`: all records are in one class, whose chunks are single bytes.
//!
//! So a record takes as many chunks as it has bytes, and what tools make of the numbers (bytes in use, bytes wasted) is true.
//! Records in DRAM are told as hot, those below as cold.

use terrace_engine::{Stats, TierStats};
use terrace_protocol::memcached::reply;

use super::Totals;
use crate::memcached::DATABASE;
use crate::memcached::state::Count;
use crate::protocol::Context;

/// The unit in which the store's size is told.
const PAGE_BYTES: u64 = 1 << 20;

/// Sums of all tiers, or of those below DRAM.
fn sum(store: &Stats, below: bool, of: fn(&TierStats) -> u64) -> u64 {
    store.tiers.iter().filter(|tier| !below || tier.tier != "dram").map(of).sum()
}

/// Appends `stats items`; as memcached's, without a class that has no records.
pub(super) fn items(ctx: &Context<'_>, out: &mut Vec<u8>) {
    let store = ctx.shared.store.stats();
    let count = |count| ctx.shared.counters.memcached.read(count);
    let number = ctx.shared.store.len(DATABASE);
    if number == 0 {
        return;
    }
    // Tiers count the records of all databases.
    let cold = sum(&store, true, |tier| tier.records).min(number);
    let hits = count(Count::GetHits);
    let totals = Totals::of(&store, ctx);
    let cold_hits = totals.below_hits.min(hits);
    for (name, value) in [
        ("number", number),
        ("number_hot", number - cold),
        ("number_warm", 0),
        ("number_cold", cold),
        ("age_hot", 0),
        ("age_warm", 0),
        ("age", 0),
        ("mem_requested", sum(&store, false, |tier| tier.live_bytes)),
        ("evicted", totals.evicted),
        ("evicted_nonzero", 0),
        ("evicted_time", 0),
        ("outofmemory", count(Count::StoreNoMemory)),
        ("tailrepairs", 0),
        ("reclaimed", totals.expired),
        ("evicted_active", 0),
        ("crawler_reclaimed", 0),
        ("crawler_items_checked", 0),
        ("lrutail_reflocked", 0),
        ("moves_to_cold", 0),
        ("moves_to_warm", 0),
        ("moves_within_lru", 0),
        ("direct_reclaims", 0),
        ("hits_to_hot", hits - cold_hits),
        ("hits_to_warm", 0),
        ("hits_to_cold", cold_hits),
        ("hits_to_temp", 0),
    ] {
        reply::stat(out, format_args!("items:1:{name}"), value);
    }
}

/// Appends `stats slabs`.
pub(super) fn slabs(ctx: &Context<'_>, out: &mut Vec<u8>) {
    let store = ctx.shared.store.stats();
    let count = |count| ctx.shared.counters.memcached.read(count);
    let used = sum(&store, false, |tier| tier.used_bytes);
    let live = sum(&store, false, |tier| tier.live_bytes).min(used);
    if used > 0 {
        for (name, value) in [
            ("chunk_size", 1),
            ("chunks_per_page", PAGE_BYTES),
            ("total_pages", used.div_ceil(PAGE_BYTES)),
            ("total_chunks", used),
            ("used_chunks", live),
            ("free_chunks", used - live),
            ("free_chunks_end", 0),
            ("get_hits", count(Count::GetHits)),
            ("cmd_set", count(Count::CmdSet)),
            ("delete_hits", count(Count::DeleteHits)),
            ("incr_hits", count(Count::IncrHits)),
            ("decr_hits", count(Count::DecrHits)),
            ("cas_hits", count(Count::CasHits)),
            ("cas_badval", count(Count::CasBadval)),
            ("touch_hits", count(Count::TouchHits)),
        ] {
            reply::stat(out, format_args!("1:{name}"), value);
        }
    }
    reply::stat(out, "active_slabs", u8::from(used > 0));
    reply::stat(out, "total_malloced", used);
}
