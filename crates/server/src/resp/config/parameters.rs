//! The parameters: those of redis.conf that mean something here, a few that tools read or set although they do not, and our
//! own.

use std::sync::atomic::Ordering::Relaxed;

use super::value::Change::{self, Immutable, Memory, Number, Protected, Text, Tier, Word, YesNo};
use crate::options::ServerOptions;
use crate::registry::notify;
use crate::shared::Shared;

/// A parameter.
pub(super) struct Parameter {
    /// Its name in redis.conf, or our own.
    pub name: &'static str,
    /// Tells it.
    pub get: fn(&Shared) -> String,
    /// Changes it.
    pub change: Change,
}

const fn parameter(name: &'static str, get: fn(&Shared) -> String, change: Change) -> Parameter {
    Parameter { name, get, change }
}

/// A parameter that is the same whatever is done.
macro_rules! fixed {
    ($name:literal, $value:expr) => {
        parameter($name, |_| $value.into(), Immutable)
    };
}

/// A word that is kept and told, and changes nothing: there is only one way to do it here.
macro_rules! kept {
    ($name:literal) => {
        parameter(
            $name,
            |shared| yes_no(shared.redis.settings.kept($name)),
            YesNo(|shared, on| {
                shared.redis.settings.keep($name, on);
                Ok(())
            }),
        )
    };
}

/// A number of the settings.
macro_rules! number {
    ($name:literal, $field:ident, $min:expr, $max:expr) => {
        parameter(
            $name,
            |shared| shared.redis.settings.$field.load(Relaxed).to_string(),
            Number($min, $max, |shared, number| {
                shared.redis.settings.$field.store(number, Relaxed);
                Ok(())
            }),
        )
    };
}

const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

/// All of them, sorted by name.
#[rustfmt::skip]
pub(super) static PARAMETERS: &[Parameter] = &[
    parameter("aclfile", |shared| shared.options.acl_file.as_ref().map_or(String::new(), |path| path.display().to_string()), Immutable),
    number!("acllog-max-len", acl_log_max, 0, i64::MAX),
    parameter("appendfsync", |shared| appendfsync(&shared.options).into(), Word(&["everysec", "always", "no"], |shared, word| {
        same(word, appendfsync(&shared.options), "when a write is durable is chosen with --durability when the server starts")
    })),
    parameter("appendonly", |shared| appendonly(&shared.options).into(), YesNo(|shared, on| {
        same(if on { "yes" } else { "no" }, appendonly(&shared.options), "whether writes are kept is chosen with --durability when the server starts")
    })),
    parameter("bind", |shared| bind(&shared.options), Immutable),
    parameter("client-query-buffer-limit", |shared| shared.options.command_bytes_max.to_string(), Immutable),
    parameter("databases", |_| terrace_engine::DATABASES.to_string(), Immutable),
    parameter("dir", |shared| shared.options.dir.clone(), Protected),
    parameter("enable-debug-command", |shared| yes_no(shared.options.debug_commands), Immutable),
    fixed!("enable-module-command", "no"),
    number!("hz", hz, 0, i32::MAX as i64),
    parameter("io-threads", |shared| shared.options.threads.to_string(), Immutable),
    number!("latency-monitor-threshold", latency_threshold_ms, 0, i64::MAX),
    parameter("latency-tracking", |shared| yes_no(shared.redis.settings.latency_tracking.load(Relaxed)), YesNo(|shared, on| {
        shared.redis.settings.latency_tracking.store(on, Relaxed);
        Ok(())
    })),
    kept!("lazyfree-lazy-eviction"),
    kept!("lazyfree-lazy-expire"),
    kept!("lazyfree-lazy-server-del"),
    kept!("lazyfree-lazy-user-del"),
    kept!("lazyfree-lazy-user-flush"),
    parameter("maxclients", |shared| shared.limits.connections.get().unwrap_or(0).to_string(), Immutable),
    parameter("maxmemory", |shared| shared.dram_budget().to_string(), Memory(0, |shared, bytes| told(shared.resize_dram(bytes)))),
    parameter("maxmemory-policy", |shared| policy(&shared.options).into(), Word(POLICIES, |shared, word| {
        let evicts = word != "noeviction";
        if evicts == shared.options.evicts {
            return Ok(());
        }
        let (now, other) = if evicts { ("refuse", "evict") } else { ("evict", "refuse") };
        Err(format!("a full store does as --when-full {now} says, noeviction being refuse and every other policy evict; start the server with --when-full {other}"))
    })),
    parameter("notify-keyspace-events", |shared| notify::format(shared.connections.notified()), Text(|shared, text| {
        let classes = notify::parse(text).ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
        shared.connections.notify(classes);
        Ok(())
    })),
    parameter("pmem-size", |shared| shared.store.pmem_bytes().unwrap_or(0).to_string(), Tier(|shared, bytes| told(shared.resize_pmem(bytes)))),
    parameter("port", |shared| shared.redis_port.to_string(), Immutable),
    parameter("proto-max-bulk-len", |shared| shared.options.argument_bytes_max.to_string(), Immutable),
    parameter("requirepass", |shared| String::from_utf8_lossy(&shared.redis.acl.required()).into_owned(), Text(|shared, password| {
        shared.redis.acl.require(password);
        Ok(())
    })),
    parameter("save", |_| String::new(), Text(|_, text| {
        if text.is_empty() { Ok(()) } else { Err("what is written is durable as --durability says, so that nothing is saved at intervals; the value can only be empty".into()) }
    })),
    number!("slowlog-log-slower-than", slowlog_slower_us, -1, i64::MAX),
    number!("slowlog-max-len", slowlog_max, 0, i64::MAX),
    parameter("ssd-size", |shared| shared.store.ssd_bytes().unwrap_or(0).to_string(), Tier(|shared, bytes| told(shared.resize_ssd(bytes)))),
    parameter("tcp-keepalive", |shared| shared.limits.keepalive_s.get().unwrap_or(0).to_string(), Immutable),
    parameter("timeout", |shared| (shared.limits.idle_ms.get().unwrap_or(0) / 1000).to_string(), Immutable),
    parameter("tracking-table-max-keys", |shared| shared.connections.tracking.keys_max.load(Relaxed).to_string(), Number(0, i64::MAX, |shared, keys| {
        shared.connections.tracking.keys_max.store(keys as usize, Relaxed);
        Ok(())
    })),
];

/// The addresses of the TCP ports, each once.
fn bind(options: &ServerOptions) -> String {
    let mut all: Vec<String> = Vec::new();
    for address in options.redis.iter().filter_map(|endpoint| endpoint.address()) {
        let ip = address.ip().to_string();
        if !all.contains(&ip) {
            all.push(ip);
        }
    }
    all.join(" ")
}

pub(super) fn yes_no(on: bool) -> String {
    if on { "yes" } else { "no" }.into()
}

fn told(resized: Result<(), terrace_engine::StoreError>) -> Result<(), String> {
    resized.map_err(|error| error.to_string())
}

/// A word may be set to what it is.
fn same(wanted: &str, now: &str, why: &str) -> Result<(), String> {
    if wanted == now { Ok(()) } else { Err(why.into()) }
}

/// The nearest of Redis's words for when a write is durable.
fn appendfsync(options: &ServerOptions) -> &'static str {
    match options.durability.as_str() {
        "sync" => "always",
        "none" => "no",
        _ => "everysec",
    }
}

fn appendonly(options: &ServerOptions) -> &'static str {
    if options.durability == "none" { "no" } else { "yes" }
}

/// What a full store does, in Redis's words.
pub(in crate::resp) fn policy(options: &ServerOptions) -> &'static str {
    if options.evicts { "allkeys-lru" } else { "noeviction" }
}

/// The parameter of this name, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| name.eq_ignore_ascii_case(parameter.name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::settings::Kept;

    #[test]
    fn parameters_are_sorted_and_kept_ones_have_a_place() {
        assert!(PARAMETERS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for name in Kept::NAMES {
            assert!(find(name.to_uppercase().as_bytes()).is_some(), "{name}");
        }
        assert!(find(b"nonsense").is_none());
    }
}
