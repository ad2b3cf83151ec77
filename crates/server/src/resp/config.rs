//! `CONFIG`: what clients and tools ask for; nothing can be changed while the server runs.

use super::call::{Call, Outcome};
use super::glob;
use crate::options::ServerOptions;
use crate::shared::Shared;

/// A parameter of Redis's that has a meaning here.
type Parameter = (&'static str, fn(&Shared) -> String);

#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
    ("appendfsync", |shared| appendfsync(&shared.options).into()),
    ("appendonly", |shared| if shared.options.durability == "none" { "no".into() } else { "yes".into() }),
    ("bind", |shared| shared.options.redis.map_or(String::new(), |address| address.ip().to_string())),
    ("client-query-buffer-limit", |shared| shared.options.command_bytes_max.to_string()),
    ("databases", |_| terrace_engine::DATABASES.to_string()),
    ("dir", |shared| shared.options.dir.clone()),
    ("io-threads", |shared| shared.options.threads.to_string()),
    ("maxclients", |shared| shared.options.max_connections.to_string()),
    ("maxmemory", |shared| shared.options.dram_budget_bytes.to_string()),
    ("maxmemory-policy", |shared| if shared.options.evicts { "allkeys-lru".into() } else { "noeviction".into() }),
    ("port", |shared| shared.redis_port.to_string()),
    ("proto-max-bulk-len", |shared| shared.options.argument_bytes_max.to_string()),
    ("requirepass", |_| String::new()),
    ("save", |_| String::new()),
    ("tcp-keepalive", |_| "0".into()),
    ("timeout", |_| "0".into()),
];

/// The nearest of Redis's words for when a write is durable.
fn appendfsync(options: &ServerOptions) -> &'static str {
    match options.durability.as_str() {
        "sync" => "always",
        "none" => "no",
        _ => "everysec",
    }
}

/// `CONFIG GET pattern …`.
pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let wanted = |name: &str| {
        call.args.from(2).any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let found: Vec<_> = PARAMETERS.iter().filter(|(name, _)| wanted(name)).collect();
    call.late(move |answer| {
        answer.encoder.map(found.len());
        for (name, value) in found {
            answer.encoder.bulk(name.as_bytes());
            answer.encoder.bulk(value(answer.ctx.shared).as_bytes());
        }
    })
}

/// `CONFIG SET name value …`: refused, with the first name.
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    let known = PARAMETERS.iter().any(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    let (before, after): (&[u8], &[u8]) = if known {
        (
            b"ERR CONFIG SET failed (possibly related to argument '",
            b"') - can't set immutable config: give it when the server starts",
        )
    } else {
        (b"ERR Unknown option or number of arguments for CONFIG SET - '", b"'")
    };
    Err([before, name, after].concat().into())
}

/// Accepted: the counters that `INFO` tells run from the start of the server.
pub(super) fn resetstat(call: &mut Call<'_>) -> Outcome {
    call.ok()
}

pub(super) fn rewrite(_call: &mut Call<'_>) -> Outcome {
    Err("ERR The server is running without a config file".into())
}
