//! The sections about the server and its store.

use std::fmt::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use terrace_engine::{DATABASES, SnapshotUse};

use super::process::{peak_memory, process_memory, system, system_memory};
use super::{About, human, lines};
use crate::registry::{Kind, Topic, flag};
use crate::resp::config::policy;
use crate::resp::connection::REDIS_VERSION;
use crate::resp::stats::{SAVES, totals, totals_of_tier};
use crate::shared::Counters;

pub(super) fn server(out: &mut String, about: &About<'_>) -> fmt::Result {
    let shared = about.ctx.shared;
    let uptime = shared.started.elapsed().as_secs();
    let executable = std::env::current_exe().map_or(String::new(), |path| path.display().to_string());
    let hz = shared.redis.settings.hz.load(Relaxed);
    lines!(out;
        "redis_version": REDIS_VERSION,
        "redis_git_sha1": "00000000",
        "redis_git_dirty": 0,
        "redis_build_id": "0000000000000000",
        "redis_mode": "standalone",
        "terrace_version": env!("CARGO_PKG_VERSION"),
        "engine": about.stats.engine,
        "index": about.stats.index,
        "os": system(),
        "arch_bits": usize::BITS,
        "monotonic_clock": "POSIX clock_gettime",
        "multiplexing_api": "epoll",
        "process_id": std::process::id(),
        "process_supervised": "no",
        "run_id": shared.run_id,
        "tcp_port": shared.redis_port,
        "server_time_usec": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros()),
        "uptime_in_seconds": uptime,
        "uptime_in_days": uptime / 86_400,
        "hz": hz,
        "configured_hz": hz,
        "lru_clock": (about.ctx.time.wall_now_ms() / 1000) & 0xff_ffff,
        "executable": executable,
        "config_file": shared.options.config_file.as_ref().map_or(String::new(), |path| path.display().to_string()),
        "io_threads_active": u8::from(shared.options.threads > 1),
        "io_threads": shared.options.threads,
    )
}

pub(super) fn clients(out: &mut String, about: &About<'_>) -> fmt::Result {
    let shared = about.ctx.shared;
    let entries = shared.connections.all();
    let clients = entries.iter().filter(|entry| entry.kind == Kind::Redis);
    let largest = |bytes: fn(&crate::registry::Entry) -> usize| {
        clients.clone().map(|entry| bytes(entry)).max().unwrap_or(0)
    };
    let with = |flags: u32| clients.clone().filter(|entry| entry.has(flags)).count();
    lines!(out;
        "connected_clients": Counters::read(&shared.counters.connected),
        "cluster_connections": 0,
        "maxclients": shared.limits.connections.get().unwrap_or(0),
        "client_recent_max_input_buffer": largest(|entry| entry.input_bytes.load(Relaxed)),
        "client_recent_max_output_buffer": largest(|entry| entry.waiting_bytes()),
        "blocked_clients": with(flag::BLOCKED),
        "tracking_clients": with(flag::TRACKING),
        "pubsub_clients": with(flag::SUBSCRIBED),
        "watching_clients": clients.clone().filter(|entry| entry.watch.load(Relaxed) > 0).count(),
        "clients_in_timeout_table": 0,
    )
}

pub(super) fn memory(out: &mut String, about: &About<'_>) -> fmt::Result {
    let (shared, stats) = (about.ctx.shared, &about.stats);
    let (resident, anonymous) = process_memory();
    let (peak, system, budget) = (peak_memory().max(anonymous), system_memory(), shared.dram_budget());
    let overhead = stats.index_bytes + stats.dram_other_bytes;
    let dataset = anonymous.saturating_sub(overhead);
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    lines!(out;
        "used_memory": anonymous,
        "used_memory_human": human(anonymous),
        "used_memory_rss": resident,
        "used_memory_rss_human": human(resident),
        "used_memory_peak": peak,
        "used_memory_peak_human": human(peak),
        "used_memory_peak_perc": format_args!("{:.2}%", share(anonymous, peak)),
        "used_memory_overhead": overhead,
        "used_memory_startup": 0,
        "used_memory_dataset": dataset,
        "used_memory_dataset_perc": format_args!("{:.2}%", share(dataset, anonymous)),
        "used_memory_index": stats.index_bytes,
        "used_memory_engine": stats.dram_other_bytes,
        "total_system_memory": system,
        "total_system_memory_human": human(system),
        "used_memory_lua": 0,
        "used_memory_lua_human": human(0),
        "used_memory_scripts": 0,
        "used_memory_scripts_human": human(0),
        "number_of_cached_scripts": 0,
        "number_of_functions": 0,
        "number_of_libraries": 0,
        "maxmemory": budget,
        "maxmemory_human": human(budget),
        "maxmemory_policy": policy(&shared.options),
        "mem_fragmentation_ratio": format_args!("{:.2}", share(resident, anonymous) / 100.0),
        "mem_fragmentation_bytes": resident.saturating_sub(anonymous),
        "mem_not_counted_for_evict": 0,
        "mem_replication_backlog": 0,
        "mem_total_replication_buffers": 0,
        "mem_cluster_links": 0,
        "mem_clients_slaves": 0,
        "mem_clients_normal": shared.connections.all().iter().map(|entry| entry.input_bytes.load(Relaxed) + entry.waiting_bytes()).sum::<usize>(),
        "mem_aof_buffer": 0,
        "mem_allocator": "mimalloc",
        "active_defrag_running": 0,
        "lazyfree_pending_objects": 0,
        "lazyfreed_objects": 0,
    )
}

pub(super) fn persistence(out: &mut String, about: &About<'_>) -> fmt::Result {
    let (shared, stats) = (about.ctx.shared, &about.stats);
    let logs = stats.log.is_some();
    let saves = shared.snapshots.report();
    let seconds = |time: Option<u64>| time.map_or(-1, |time| time as i64);
    lines!(out;
        "loading": 0,
        "async_loading": 0,
        "durability": shared.options.durability,
        "current_cow_peak": 0,
        "current_cow_size": 0,
        "current_cow_size_age": 0,
        "current_fork_perc": "0.00",
        "current_save_keys_total": if saves.running_s.is_some() { stats.keys } else { 0 },
        "rdb_changes_since_last_save": shared.connections.changes().saturating_sub(shared.redis.saved_changes.load(Relaxed)),
        "rdb_bgsave_in_progress": u8::from(saves.running_s.is_some()),
        "rdb_last_save_time": shared.redis.saved_s.load(Relaxed),
        "rdb_last_bgsave_status": if saves.failed { "err" } else { "ok" },
        "rdb_last_bgsave_time_sec": seconds(saves.last_s),
        "rdb_current_bgsave_time_sec": seconds(saves.running_s),
        "rdb_saves": shared.redis.stats.since_reset((SAVES, ""), saves.saves),
        "rdb_last_cow_size": 0,
        "rdb_last_load_keys_expired": 0,
        "rdb_last_load_keys_loaded": 0,
        "aof_enabled": u8::from(logs),
        "aof_rewrite_in_progress": 0,
        "aof_rewrite_scheduled": 0,
        "aof_last_rewrite_time_sec": -1,
        "aof_current_rewrite_time_sec": -1,
        "aof_last_bgrewrite_status": "ok",
        "aof_rewrites": 0,
        "aof_rewrites_consecutive_failures": 0,
        "aof_last_write_status": if stats.log_failure.is_some() { "err" } else { "ok" },
        "aof_last_cow_size": 0,
        "module_fork_in_progress": 0,
        "module_fork_last_cow_size": 0,
        "log_used_bytes": stats.log.map_or(0, |log| log.used_bytes),
        "log_capacity_bytes": stats.log.map_or(0, |log| log.capacity_bytes),
    )?;
    if let Some(failure) = &stats.log_failure {
        lines!(out; "log_failure": plain(&failure.what), "log_failed_since": failure.since_ms / 1000)?;
    }
    if let Some(recovery) = stats.recovery {
        write!(
            out,
            "recovery:clean={},snapshot={},passes={},pages_scanned={},pages={},records={},from_log={},poisoned={},ms={}\r\n",
            u8::from(recovery.clean),
            u8::from(recovery.snapshot == SnapshotUse::Used),
            recovery.passes,
            recovery.scanned.pages,
            recovery.scanned.of,
            recovery.records,
            recovery.from_log,
            recovery.poisoned,
            recovery.nanoseconds / 1_000_000
        )?;
    }
    Ok(())
}

pub(super) fn counts(out: &mut String, about: &About<'_>) -> fmt::Result {
    let shared = about.ctx.shared;
    let (redis, counters, connections) = (&shared.redis, &shared.counters, &shared.connections);
    for (name, now) in totals(shared, &about.stats) {
        write!(out, "{name}:{}\r\n", redis.stats.since_reset((name, ""), now))?;
    }
    let totals = [&counters.commands, &counters.bytes_in, &counters.bytes_out].map(Counters::read);
    let [operations, received, sent] = redis.rates.per_second(totals, Instant::now());
    let errors: u64 = redis.stats.errors().iter().map(|(_, count)| count).sum();
    lines!(out;
        "instantaneous_ops_per_sec": operations as u64,
        "instantaneous_input_kbps": format_args!("{:.2}", received / 1024.0),
        "instantaneous_output_kbps": format_args!("{:.2}", sent / 1024.0),
        "total_net_repl_input_bytes": 0,
        "total_net_repl_output_bytes": 0,
        "instantaneous_input_repl_kbps": "0.00",
        "instantaneous_output_repl_kbps": "0.00",
        "sync_full": 0,
        "sync_partial_ok": 0,
        "sync_partial_err": 0,
        "expired_stale_perc": "0.00",
        "expired_time_cap_reached_count": 0,
        "pubsub_channels": connections.hub.channels(Topic::Channel),
        "pubsub_patterns": connections.hub.patterns(),
        "pubsubshard_channels": connections.hub.channels(Topic::Shard),
        "latest_fork_usec": 0,
        "total_forks": 0,
        "migrate_cached_sockets": 0,
        "active_defrag_hits": 0,
        "active_defrag_misses": 0,
        "active_defrag_key_hits": 0,
        "active_defrag_key_misses": 0,
        "total_active_defrag_time": 0,
        "current_active_defrag_time": 0,
        "slave_expires_tracked_keys": 0,
        "tracking_total_keys": connections.tracking.keys(),
        "tracking_total_items": connections.tracking.keys(),
        "tracking_total_prefixes": connections.tracking.prefixes(),
        "unexpected_error_replies": 0,
        "total_error_replies": errors,
        "tombstones": about.stats.tombstones,
    )
}

/// There is none; clients look for the role.
pub(super) fn replication(out: &mut String, about: &About<'_>) -> fmt::Result {
    lines!(out;
        "role": "master",
        "connected_slaves": 0,
        "master_failover_state": "no-failover",
        "master_replid": about.ctx.shared.run_id,
        "master_replid2": "0000000000000000000000000000000000000000",
        "master_repl_offset": 0,
        "second_repl_offset": -1,
        "repl_backlog_active": 0,
        "repl_backlog_size": 0,
        "repl_backlog_first_byte_offset": 0,
        "repl_backlog_histlen": 0,
    )
}

/// A section that has no lines.
pub(super) fn nothing(_out: &mut String, _about: &About<'_>) -> fmt::Result {
    Ok(())
}

pub(super) fn cluster(out: &mut String, _about: &About<'_>) -> fmt::Result {
    lines!(out; "cluster_enabled": 0)
}

/// Clients take a value with a comma or an equals sign for a list of numbers, and keep the last of several lines of one name.
pub(super) fn tiers(out: &mut String, about: &About<'_>) -> fmt::Result {
    let (shared, stats) = (about.ctx.shared, &about.stats);
    for (i, line) in shared.options.description.iter().enumerate() {
        write!(out, "found_{i}:{}\r\n", plain(line))?;
    }
    for tier in &stats.tiers {
        let name = tier.tier;
        let [hits, media @ ..] = totals_of_tier(stats, tier)
            .map(|(what, now)| (what, shared.redis.stats.since_reset((what, name), now)));
        write!(
            out,
            "{name}:medium={},records={},live_bytes={},used_bytes={},capacity_bytes={},{}={}\r\n{name}_media:",
            plain(&tier.medium),
            tier.records,
            tier.live_bytes,
            tier.used_bytes,
            tier.capacity_bytes,
            hits.0,
            hits.1
        )?;
        for (i, (what, since)) in media.into_iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(out, "{comma}{what}={since}")?;
        }
        out.write_str("\r\n")?;
        if tier.taken_bytes > 0 {
            let is_cramped = u8::from(tier.cramped.is_some());
            write!(out, "{name}_disk:taken_bytes={},refuses_more={is_cramped}\r\n", tier.taken_bytes)?;
        }
    }
    if let Some(failure) = &stats.tier_failure {
        lines!(out; "tier_failure": plain(&failure.what), "tier_failed_since": failure.since_ms / 1000)?;
    }
    stats.engine_details.iter().try_for_each(|(name, value)| write!(out, "{name}:{value}\r\n"))
}

/// A text that no client takes for anything else.
fn plain(text: &str) -> String {
    text.replace(", ", "; ").replace(',', ";").replace('=', " is ").replace(char::is_control, " ")
}

/// The mean time to live is an estimate, as Redis's is.
pub(super) fn keyspace(out: &mut String, about: &About<'_>) -> fmt::Result {
    for db in 0..DATABASES as u8 {
        let keys = about.ctx.shared.store.len(db);
        if keys > 0 {
            let expiring = about.ctx.shared.store.expiring(db);
            let ttl = about.ctx.shared.store.mean_ttl_ms(db);
            write!(out, "db{db}:keys={keys},expires={expiring},avg_ttl={ttl}\r\n")?;
        }
    }
    Ok(())
}
