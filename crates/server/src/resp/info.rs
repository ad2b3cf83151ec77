//! `INFO`: sections of `name:value` lines, named as Redis names them where the meaning is the same.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use terrace_engine::{DATABASES, SnapshotUse, Stats};

use super::call::{Call, Outcome};
use super::connection::REDIS_VERSION;
use crate::registry::Topic;
use crate::shared::{Counters, Shared};

/// Writes one section's lines.
type Section = (&'static str, fn(&mut String, &Shared, &Stats) -> std::fmt::Result);

const SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", counts),
    ("Replication", replication),
    ("Tiers", tiers),
    ("Keyspace", keyspace),
];

/// `INFO [section …]`.
pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let wanted: Vec<String> =
        call.args.from(1).map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
    call.about_store(move |answer| {
        let shared = answer.ctx.shared;
        let stats = shared.store.stats();
        let all = wanted.is_empty()
            || wanted.iter().any(|name| matches!(&**name, "all" | "default" | "everything"));
        let mut text = String::new();
        for (name, write) in SECTIONS {
            if all || wanted.contains(&name.to_ascii_lowercase()) {
                let gap = if text.is_empty() { "" } else { "\r\n" };
                // Writing to a string does not fail.
                let _written =
                    write!(text, "{gap}# {name}\r\n").and_then(|()| write(&mut text, shared, &stats));
            }
        }
        answer.encoder.verbatim(text.as_bytes());
    })
}

macro_rules! lines {
    ($out:expr; $($name:literal: $value:expr),* $(,)?) => {{
        $(write!($out, concat!($name, ":{}\r\n"), $value)?;)*
        Ok(())
    }};
}

fn server(out: &mut String, shared: &Shared, stats: &Stats) -> std::fmt::Result {
    let uptime = shared.started.elapsed().as_secs();
    lines!(out;
        "redis_version": REDIS_VERSION,
        "redis_mode": "standalone",
        "terrace_version": env!("CARGO_PKG_VERSION"),
        "engine": stats.engine,
        "index": stats.index,
        "os": std::env::consts::OS,
        "arch_bits": usize::BITS,
        "process_id": std::process::id(),
        "run_id": shared.run_id,
        "tcp_port": shared.redis_port,
        "server_time_usec": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros()),
        "uptime_in_seconds": uptime,
        "uptime_in_days": uptime / 86_400,
        "io_threads": shared.options.threads,
    )
}

fn clients(out: &mut String, shared: &Shared, _stats: &Stats) -> std::fmt::Result {
    lines!(out;
        "connected_clients": Counters::read(&shared.counters.connected),
        "maxclients": shared.options.max_connections,
        "blocked_clients": 0,
        "tracking_clients": shared.connections.tracking.clients(),
    )
}

fn memory(out: &mut String, shared: &Shared, stats: &Stats) -> std::fmt::Result {
    let (resident, anonymous) = process_memory();
    lines!(out;
        "used_memory": anonymous,
        "used_memory_human": terrace::human_bytes(anonymous),
        "used_memory_rss": resident,
        "used_memory_index": stats.index_bytes,
        "used_memory_engine": stats.dram_other_bytes,
        "maxmemory": shared.dram_budget(),
        "maxmemory_human": terrace::human_bytes(shared.dram_budget()),
        "maxmemory_policy": if shared.options.evicts { "allkeys-lru" } else { "noeviction" },
    )
}

fn persistence(out: &mut String, shared: &Shared, stats: &Stats) -> std::fmt::Result {
    let logs = stats.log.is_some();
    lines!(out;
        "loading": 0,
        "durability": shared.options.durability,
        "rdb_bgsave_in_progress": 0,
        "aof_enabled": u8::from(logs),
        "aof_rewrite_in_progress": 0,
        "aof_last_write_status": if stats.log_failure.is_some() { "err" } else { "ok" },
        "log_used_bytes": stats.log.map_or(0, |log| log.used_bytes),
        "log_capacity_bytes": stats.log.map_or(0, |log| log.capacity_bytes),
    )?;
    if let Some(failure) = &stats.log_failure {
        lines!(out; "log_failure": failure.what, "log_failed_since": failure.since_ms / 1000)?;
    }
    if let Some(recovery) = stats.recovery {
        write!(
            out,
            "recovery:clean={},snapshot={},records={},from_log={},poisoned={},ms={}\r\n",
            u8::from(recovery.clean),
            u8::from(recovery.snapshot == SnapshotUse::Used),
            recovery.records,
            recovery.from_log,
            recovery.poisoned,
            recovery.nanoseconds / 1_000_000
        )?;
    }
    Ok(())
}

fn counts(out: &mut String, shared: &Shared, stats: &Stats) -> std::fmt::Result {
    let connections = &shared.connections;
    let counters = &shared.counters;
    lines!(out;
        "total_connections_received": Counters::read(&counters.accepted),
        "rejected_connections": Counters::read(&counters.rejected),
        "total_commands_processed": Counters::read(&counters.commands),
        "total_batches_executed": Counters::read(&counters.batches),
        "total_net_input_bytes": Counters::read(&counters.bytes_in),
        "total_net_output_bytes": Counters::read(&counters.bytes_out),
        "keyspace_hits": stats.tiers.iter().map(|tier| tier.hits).sum::<u64>(),
        "keyspace_misses": stats.misses,
        "expired_keys": stats.expired,
        "pubsub_channels": connections.hub.names(Topic::Channel, None).len(),
        "pubsub_patterns": connections.hub.patterns(),
        "pubsubshard_channels": connections.hub.names(Topic::Shard, None).len(),
        "tracking_total_keys": connections.tracking.keys(),
        "tracking_total_prefixes": connections.tracking.prefixes(),
        "evicted_keys": stats.evicted,
        "tombstones": stats.tombstones,
        "write_stalls": stats.stalls,
    )
}

/// There is none; clients look for the role.
fn replication(out: &mut String, _shared: &Shared, _stats: &Stats) -> std::fmt::Result {
    lines!(out; "role": "master", "connected_slaves": 0)
}

fn tiers(out: &mut String, shared: &Shared, stats: &Stats) -> std::fmt::Result {
    for line in &shared.options.description {
        write!(out, "found:{line}\r\n")?;
    }
    for tier in &stats.tiers {
        let (name, media) = (tier.tier, tier.media);
        write!(
            out,
            "{name}:medium={},records={},live_bytes={},used_bytes={},capacity_bytes={},hits={}\r\n",
            tier.medium, tier.records, tier.live_bytes, tier.used_bytes, tier.capacity_bytes, tier.hits
        )?;
        write!(
            out,
            "{name}_media:reads={},read_bytes={},writes={},write_bytes={},lines_flushed={},fences={}\r\n",
            media.reads, media.read_bytes, media.writes, media.write_bytes, media.lines_flushed, media.fences
        )?;
    }
    if let Some(failure) = &stats.tier_failure {
        lines!(out; "tier_failure": failure.what, "tier_failed_since": failure.since_ms / 1000)?;
    }
    stats.engine_details.iter().try_for_each(|(name, value)| write!(out, "{name}:{value}\r\n"))
}

/// Keys are counted exactly; how many of them have an expiry is not counted, and told as 0 because clients' readers of this
/// line want the field.
fn keyspace(out: &mut String, shared: &Shared, _stats: &Stats) -> std::fmt::Result {
    for db in 0..DATABASES as u8 {
        let keys = shared.store.len(db);
        if keys > 0 {
            write!(out, "db{db}:keys={keys},expires=0,avg_ttl=0\r\n")?;
        }
    }
    Ok(())
}

/// Resident bytes of this process, and those of them that no file backs; 0 where the system does not tell.
fn process_memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    (field("VmRSS:"), field("RssAnon:"))
}
