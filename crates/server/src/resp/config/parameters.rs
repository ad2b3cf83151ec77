//! The parameters: those of redis.conf that mean something here, a few that tools read or set although they do not, and our
//! own.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use terrace_engine::ReadCache;

use super::value::Change::{self, Budget, Immutable, Number, Protected, Share, Text, Tier, Tls, Word, YesNo};
use super::value::memory_bytes;
use crate::endpoint::Endpoint;
use crate::limits::{Bound, SoftBound};
use crate::options::{ServerOptions, SoftLimit};
use crate::registry::notify;
use crate::shared::Shared;
use crate::tls::TlsOptions;

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

/// A bound on connections.
macro_rules! limit {
    ($name:literal, $field:ident, $min:expr, $max:expr) => {
        parameter(
            $name,
            |shared| shared.limits.$field.get().unwrap_or(0).to_string(),
            Number($min, $max, |shared, number| {
                shared.limits.$field.set(number as u64);
                shared.wake_workers();
                Ok(())
            }),
        )
    };
}

/// What the certificates in force were loaded from; a value where there are none. A change loads all files again.
macro_rules! tls {
    ($name:literal, $without:literal, $get:expr, $words:expr, $change:expr) => {
        parameter(
            $name,
            |shared| {
                let get: fn(TlsOptions) -> String = $get;
                shared.tls.as_ref().map_or($without.into(), |tls| get(tls.options()))
            },
            Tls($words, $change),
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
    parameter("bind", |shared| bind(&shared.options), Text(|_| Ok(()), |shared, text| given(text, &bind(&shared.options), LISTENS))),
    parameter("client-output-buffer-limit", |shared| {
        let limits = &shared.limits;
        let of = |limit: &Bound| limit.get().unwrap_or(0);
        let all = |hard: &Bound, soft: &SoftBound| format!("{} {} {}", of(hard), of(&soft.bytes), of(&soft.ms) / 1000);
        let normal = all(&limits.output_bytes, &limits.output_soft);
        let replica = all(&limits.replica_output_bytes, &limits.replica_output_soft);
        let subscriber = all(&limits.subscriber_output_bytes, &limits.subscriber_output_soft);
        format!("normal {normal} slave {replica} pubsub {subscriber}")
    }, Text(|text| output_limits(text).map(drop), set_output_limits)),
    parameter("client-query-buffer-limit", |shared| shared.options.command_bytes_max.to_string(), Text(|_| Ok(()), |shared, text| {
        given(text, &shared.options.command_bytes_max.to_string(), "it is given when the server starts")
    })),
    parameter("databases", |_| terrace_engine::DATABASES.to_string(), Immutable),
    parameter("dbfilename", |shared| shared.options.dbfilename.clone(), Protected),
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
    limit!("maxclients", connections, 1, u32::MAX as i64),
    parameter("maxmemory", |shared| shared.dram_budget().to_string(), Budget(|shared, bytes| told(shared.resize_dram(bytes)))),
    parameter("maxmemory-clients", |shared| shared.limits.clients_bytes.get().unwrap_or(0).to_string(), Share(|shared, bytes| {
        shared.limits.clients_bytes.set(bytes);
        shared.wake_workers();
        Ok(())
    })),
    parameter("maxmemory-policy", |shared| policy(&shared.options).into(), Word(POLICIES, |shared, word| {
        let evicts = word != "noeviction";
        if evicts == shared.options.evicts {
            return Ok(());
        }
        let (now, other) = if evicts { ("refuse", "evict") } else { ("evict", "refuse") };
        Err(format!("a full store does as --when-full {now} says, noeviction being refuse and every other policy evict; start the server with --when-full {other}"))
    })),
    parameter("notify-keyspace-events", |shared| notify::format(shared.connections.notified()), Text(|text| events(text).map(drop), |shared, text| {
        shared.connections.notify(events(text)?);
        Ok(())
    })),
    parameter("pmem-size", |shared| shared.store.pmem_bytes().unwrap_or(0).to_string(), Tier(|shared, bytes| resized(shared.store.pmem_bytes(), bytes, |bytes| shared.resize_pmem(bytes)))),
    parameter("port", |shared| shared.redis_port.to_string(), Text(|_| Ok(()), |shared, text| given(text, &shared.redis_port.to_string(), LISTENS))),
    parameter("protected-mode", |shared| yes_no(shared.limits.protected_mode.get().is_some()), YesNo(|shared, on| {
        shared.limits.protected_mode.set(on.into());
        Ok(())
    })),
    parameter("proto-max-bulk-len", |shared| shared.options.argument_bytes_max.to_string(), Text(|_| Ok(()), |shared, text| {
        given(text, &shared.options.argument_bytes_max.to_string(), "it is given when the server starts")
    })),
    parameter("read-cache", |shared| shared.store.read_cache().map_or(String::new(), |cache| cache.to_string()), Text(|text| read_cache(text).map(drop), |shared, text| {
        told(shared.store.set_read_cache(read_cache(text)?))
    })),
    parameter("requirepass", |shared| String::from_utf8_lossy(&shared.redis.acl.required()).into_owned(), Text(|_| Ok(()), |shared, password| {
        shared.redis.acl.require(password);
        Ok(())
    })),
    parameter("save", |_| String::new(), Text(|text| {
        if text.is_empty() { Ok(()) } else { Err("what is written is durable as --durability says, so that nothing is saved at intervals; the value can only be empty".into()) }
    }, |_, _| Ok(()))),
    number!("slowlog-log-slower-than", slowlog_slower_us, -1, i64::MAX),
    number!("slowlog-max-len", slowlog_max, 0, i64::MAX),
    parameter("ssd-size", |shared| shared.store.ssd_bytes().unwrap_or(0).to_string(), Tier(|shared, bytes| resized(shared.store.ssd_bytes(), bytes, |bytes| shared.resize_ssd(bytes)))),
    parameter("tcp-backlog", |shared| shared.options.backlog.to_string(), Immutable),
    limit!("tcp-keepalive", keepalive_s, 0, i32::MAX as i64),
    parameter("timeout", |shared| (shared.limits.idle_ms.get().unwrap_or(0) / 1000).to_string(), Number(0, i32::MAX as i64, |shared, seconds| {
        shared.limits.idle_ms.set(seconds as u64 * 1000);
        shared.wake_workers();
        Ok(())
    })),
    tls!("tls-auth-clients", "yes", |tls| tls.client_auth.to_string(), &["yes", "no", "optional"], |tls, word| {
        tls.client_auth = String::from_utf8_lossy(word).parse()?;
        Ok(())
    }),
    tls!("tls-ca-cert-file", "", |tls| shown(tls.ca_file.as_ref()), &[], |tls, text| {
        tls.ca_file = path(text);
        Ok(())
    }),
    tls!("tls-cert-file", "", |tls| shown(Some(&tls.cert_file)), &[], |tls, text| {
        tls.cert_file = path(text).unwrap_or_default();
        Ok(())
    }),
    tls!("tls-key-file", "", |tls| shown(tls.key_file.as_ref()), &[], |tls, text| {
        tls.key_file = path(text);
        Ok(())
    }),
    parameter("tls-port", |shared| tls_port(&shared.options).to_string(), Text(|_| Ok(()), |shared, text| given(text, &tls_port(&shared.options).to_string(), LISTENS))),
    parameter("tracking-table-max-keys", |shared| shared.connections.tracking.keys_max.load(Relaxed).to_string(), Number(0, i64::MAX, |shared, keys| {
        shared.connections.tracking.keys_max.store(keys as usize, Relaxed);
        shared.connections.fit_tracked();
        Ok(())
    })),
    parameter("unixsocket", |shared| unix_socket(&shared.options).map_or(String::new(), |(path, _)| path), Immutable),
    parameter("unixsocketperm", |shared| unix_socket(&shared.options).map_or("0".into(), |(_, mode)| format!("{mode:o}")), Immutable),
];

pub(super) fn yes_no(on: bool) -> String {
    if on { "yes" } else { "no" }.into()
}

/// Resizes a tier, unless it has this size: one that is not there has none.
fn resized(
    now: Option<u64>,
    bytes: u64,
    resize: impl FnOnce(u64) -> Result<(), terrace_engine::StoreError>,
) -> Result<(), String> {
    if bytes == now.unwrap_or(0) { Ok(()) } else { told(resize(bytes)) }
}

fn read_cache(text: &[u8]) -> Result<ReadCache, String> {
    String::from_utf8_lossy(text).parse()
}

fn told(resized: Result<(), terrace_engine::StoreError>) -> Result<(), String> {
    resized.map_err(|error| error.to_string())
}

/// A word may be set to what it is.
fn same(wanted: &str, now: &str, why: &str) -> Result<(), String> {
    if wanted == now { Ok(()) } else { Err(why.into()) }
}

const LISTENS: &str = "where to listen is chosen with --redis when the server starts";

/// It can be set to what it is.
fn given(wanted: &[u8], now: &str, why: &str) -> Result<(), String> {
    same(&String::from_utf8_lossy(wanted), now, why)
}

/// The addresses of the TCP ports, each once.
fn bind(options: &ServerOptions) -> String {
    let mut all: Vec<String> = Vec::new();
    for address in options.redis.iter().filter_map(Endpoint::address) {
        let ip = address.ip().to_string();
        if !all.contains(&ip) {
            all.push(ip);
        }
    }
    all.join(" ")
}

fn tls_port(options: &ServerOptions) -> u16 {
    options
        .redis
        .iter()
        .find_map(|endpoint| if let Endpoint::Tls(address) = endpoint { Some(address.port()) } else { None })
        .unwrap_or(0)
}

fn unix_socket(options: &ServerOptions) -> Option<(String, u32)> {
    options.redis.iter().find_map(|endpoint| match endpoint {
        Endpoint::Unix { path, mode } => Some((path.display().to_string(), *mode)),
        Endpoint::Tcp(_) | Endpoint::Tls(_) => None,
    })
}

fn shown(path: Option<&std::path::PathBuf>) -> String {
    path.map_or(String::new(), |path| path.display().to_string())
}

/// A file's name; `None` if it is empty.
fn path(text: &[u8]) -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    (!text.is_empty()).then(|| std::ffi::OsStr::from_bytes(text).into())
}

/// The classes that a text names.
fn events(text: &[u8]) -> Result<u32, String> {
    notify::parse(text).ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into())
}

/// A class of clients, its hard limit and its soft one.
type OutputLimit = (Class, u64, SoftLimit);

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Normal,
    Subscriber,
    /// There are none here: its limits are kept and not used.
    Replica,
}

/// `class hard soft seconds ...`.
fn output_limits(text: &[u8]) -> Result<Vec<OutputLimit>, String> {
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let read = |words: &[&str]| {
        let bytes = |text: &str| memory_bytes(text.as_bytes());
        let (Some(hard), Some(soft), Ok(seconds)) =
            (bytes(words[1]), bytes(words[2]), words[3].parse::<u32>())
        else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.");
        };
        let class = match words[0].to_ascii_lowercase().as_str() {
            "normal" => Class::Normal,
            "pubsub" => Class::Subscriber,
            "slave" | "replica" => Class::Replica,
            _ => return Err("Invalid client class specified in buffer limit configuration."),
        };
        let time = Duration::from_secs(seconds.into());
        Ok((class, hard, SoftLimit { bytes: usize::try_from(soft).unwrap_or(usize::MAX), time }))
    };
    words.chunks(4).map(read).collect::<Result<_, _>>().map_err(Into::into)
}

fn set_output_limits(shared: &Shared, text: &[u8]) -> Result<(), String> {
    let all = &shared.limits;
    for (class, hard, soft) in output_limits(text)? {
        let (hard_limit, soft_limit): (&Bound, _) = match class {
            Class::Normal => (&all.output_bytes, &all.output_soft),
            Class::Subscriber => (&all.subscriber_output_bytes, &all.subscriber_output_soft),
            Class::Replica => (&all.replica_output_bytes, &all.replica_output_soft),
        };
        hard_limit.set(hard);
        soft_limit.set(soft);
    }
    shared.wake_workers();
    Ok(())
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
