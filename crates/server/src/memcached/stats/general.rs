//! `stats` without arguments.

use std::sync::atomic::AtomicU64;

use terrace_engine::Stats;
use terrace_protocol::memcached::reply;

use super::Totals;
use crate::memcached::DATABASE;
use crate::memcached::answer::VERSION;
use crate::memcached::state::COUNTS;
use crate::protocol::Context;
use crate::shared::Counters;

/// What memcached counts and exporters read, of which there is none here.
const NEVER: [&str; 30] = [
    "unexpected_napi_ids",
    "round_robin_fallback",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "lru_bumps_dropped",
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    "response_obj_oom",
    "read_buf_oom",
    "hash_is_expanding",
    "slab_reassign_rescues",
    "slab_reassign_chunk_rescues",
    "slab_reassign_busy_nomem",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "slab_reassign_running",
    "slabs_moved",
    "lru_crawler_running",
    "lru_crawler_starts",
    "lru_maintainer_juggles",
    "malloc_fails",
    "log_worker_dropped",
    "slab_global_page_pool",
    "evicted_active",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "direct_reclaims",
];

/// Appends it.
pub(super) fn write(ctx: &Context<'_>, out: &mut Vec<u8>) {
    let shared = ctx.shared;
    let counters = &shared.counters;
    let store = shared.store.stats();
    let read = |counter: &AtomicU64| Counters::read(counter);
    let totals = Totals::of(&store, ctx);
    let (user, system) = cpu_seconds();
    reply::stat(out, "pid", std::process::id());
    reply::stat(out, "uptime", shared.started.elapsed().as_secs());
    reply::stat(out, "time", ctx.time.wall_now_ms() / 1000);
    reply::stat(out, "version", VERSION);
    reply::stat(out, "pointer_size", usize::BITS);
    reply::stat(out, "rusage_user", format_args!("{user:.6}"));
    reply::stat(out, "rusage_system", format_args!("{system:.6}"));
    reply::stat(out, "max_connections", shared.options.max_connections);
    reply::stat(out, "curr_connections", read(&counters.connected));
    reply::stat(out, "total_connections", totals.accepted);
    reply::stat(out, "rejected_connections", totals.rejected);
    reply::stat(out, "connection_structures", read(&counters.connected));
    for (count, name) in COUNTS {
        reply::stat(out, name, counters.memcached.read(count));
    }
    reply::stat(out, "get_expired", totals.get_expired);
    reply::stat(out, "get_flushed", totals.get_flushed);
    reply::stat(out, "idle_kicks", totals.idle);
    reply::stat(out, "conn_yields", read(&counters.memcached.yields));
    reply::stat(out, "read_buf_bytes", shared.limits.held.bytes());
    reply::stat(out, "bytes_read", totals.bytes_in);
    reply::stat(out, "bytes_written", totals.bytes_out);
    reply::stat(out, "limit_maxbytes", shared.dram_budget());
    reply::stat(out, "accepting_conns", 1);
    reply::stat(out, "threads", shared.options.threads.max(1));
    // memcached's table has 8 bytes for each of two to this power.
    reply::stat(out, "hash_power_level", (store.index_bytes / 8).checked_ilog2().unwrap_or(0));
    reply::stat(out, "hash_bytes", store.index_bytes);
    reply::stat(out, "bytes", store.tiers.iter().map(|tier| tier.live_bytes).sum::<u64>());
    reply::stat(out, "curr_items", shared.store.len(DATABASE));
    reply::stat(out, "evictions", totals.evicted);
    reply::stat(out, "reclaimed", totals.expired);
    let watchers = &counters.memcached.watchers;
    reply::stat(out, "log_worker_written", read(&watchers.sent) + read(&watchers.skipped));
    reply::stat(out, "log_watcher_skipped", read(&watchers.skipped));
    reply::stat(out, "log_watcher_sent", read(&watchers.sent));
    reply::stat(out, "log_watchers", watchers.count());
    for name in NEVER {
        reply::stat(out, name, 0);
    }
    if store.tiers.len() > 1 {
        extstore(&store, &totals, out);
    }
    ours(&store, out);
}

/// What lies below DRAM, in the terms of memcached's external storage.
fn extstore(store: &Stats, totals: &Totals, out: &mut Vec<u8>) {
    let sum = |of: fn(&terrace_engine::TierStats) -> u64| {
        store.tiers.iter().filter(|tier| tier.tier != "dram").map(of).sum::<u64>()
    };
    let (used, live) = (sum(|tier| tier.used_bytes), sum(|tier| tier.live_bytes));
    for (name, value) in [
        ("get_extstore", totals.below_hits),
        ("get_aborted_extstore", 0),
        ("get_oom_extstore", 0),
        ("recache_from_extstore", 0),
        ("miss_from_extstore", 0),
        ("badcrc_from_extstore", 0),
        ("extstore_objects_evicted", totals.evicted),
        ("extstore_objects_read", totals.below_hits),
        ("extstore_objects_used", sum(|tier| tier.records)),
        ("extstore_bytes_written", totals.below_written),
        ("extstore_bytes_read", totals.below_read),
        ("extstore_bytes_used", live),
        ("extstore_bytes_fragmented", used.saturating_sub(live)),
        ("extstore_limit_maxbytes", sum(|tier| tier.capacity_bytes)),
    ] {
        reply::stat(out, name, value);
    }
}

/// What memcached has no name for.
fn ours(store: &Stats, out: &mut Vec<u8>) {
    reply::stat(out, "expired", store.expired);
    reply::stat(out, "engine", store.engine);
    reply::stat(out, "index", store.index);
    reply::stat(out, "index_bytes", store.index_bytes);
    for tier in &store.tiers {
        let name = tier.tier;
        reply::stat(out, format_args!("tier_{name}_records"), tier.records);
        reply::stat(out, format_args!("tier_{name}_live_bytes"), tier.live_bytes);
        reply::stat(out, format_args!("tier_{name}_used_bytes"), tier.used_bytes);
        reply::stat(out, format_args!("tier_{name}_capacity_bytes"), tier.capacity_bytes);
        if tier.taken_bytes > 0 {
            reply::stat(out, format_args!("tier_{name}_taken_bytes"), tier.taken_bytes);
        }
        reply::stat(out, format_args!("tier_{name}_hits"), tier.hits);
    }
    if let Some(recovery) = store.recovery {
        reply::stat(out, "recovery_ms", recovery.nanoseconds / 1_000_000);
        reply::stat(out, "recovery_pages_scanned", recovery.scanned.pages);
        reply::stat(out, "recovery_pages", recovery.scanned.of);
        reply::stat(out, "recovery_records", recovery.records);
        reply::stat(out, "recovery_poisoned", recovery.poisoned);
    }
    for (name, failure) in [("log", &store.log_failure), ("tier", &store.tier_failure)] {
        if let Some(failure) = failure {
            reply::stat(out, format_args!("{name}_failure"), &failure.what);
            reply::stat(out, format_args!("{name}_failed_since"), failure.since_ms / 1000);
        }
    }
}

/// The process's CPU time in user and in system mode, in seconds; 0 where the system does not tell.
fn cpu_seconds() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may hold spaces.
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |i| {
        behind_name.split_ascii_whitespace().nth(i).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    // Linux tells programs hundredths of a second, whatever its own clock is.
    (ticks(11) as f64 / 100.0, ticks(12) as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn cpu_time_passes() {
        let spent = || super::cpu_seconds().0 + super::cpu_seconds().1;
        let before = spent();
        let asked = std::time::Instant::now();
        while spent() <= before {
            assert!(asked.elapsed().as_secs() < 30, "no time passes");
        }
    }
}
