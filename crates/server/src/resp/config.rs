//! `CONFIG`: what clients and tools ask for; while the server runs the budget of DRAM and the sizes of the tiers below can be changed.

use std::mem::discriminant;

use terrace::Size;
use terrace_engine::StoreError;

use super::call::{Call, Outcome};
use super::error::Refusal;
use super::glob;
use crate::options::ServerOptions;
use crate::shared::Shared;

/// A parameter of Redis's that has a meaning here, or one of our own.
type Parameter = (&'static str, fn(&Shared) -> String);

#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
    ("appendfsync", |shared| appendfsync(&shared.options).into()),
    ("appendonly", |shared| if shared.options.durability == "none" { "no".into() } else { "yes".into() }),
    ("bind", |shared| bind(&shared.options)),
    ("client-query-buffer-limit", |shared| shared.options.command_bytes_max.to_string()),
    ("databases", |_| terrace_engine::DATABASES.to_string()),
    ("dir", |shared| shared.options.dir.clone()),
    ("io-threads", |shared| shared.options.threads.to_string()),
    ("maxclients", |shared| shared.limits.connections.get().unwrap_or(0).to_string()),
    ("maxmemory", |shared| shared.dram_budget().to_string()),
    ("maxmemory-policy", |shared| if shared.options.evicts { "allkeys-lru".into() } else { "noeviction".into() }),
    ("pmem-size", |shared| shared.store.pmem_bytes().unwrap_or(0).to_string()),
    ("port", |shared| shared.redis_port.to_string()),
    ("proto-max-bulk-len", |shared| shared.options.argument_bytes_max.to_string()),
    ("requirepass", |shared| String::from_utf8_lossy(&shared.redis.acl.required()).into_owned()),
    ("save", |_| String::new()),
    ("ssd-size", |shared| shared.store.ssd_bytes().unwrap_or(0).to_string()),
    ("tcp-keepalive", |shared| shared.limits.keepalive_s.get().unwrap_or(0).to_string()),
    ("timeout", |shared| (shared.limits.idle_ms.get().unwrap_or(0) / 1000).to_string()),
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

/// `CONFIG SET name value …`: `maxmemory`, `pmem-size` or `ssd-size` can be set; anything else is refused, and nothing changed then.
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    if !call.args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'config|set' command".into());
    }
    let mut wanted = None;
    for at in (2..call.args.len()).step_by(2) {
        let (name, value) = (call.arg(at), call.arg(at + 1));
        let size = if name.eq_ignore_ascii_case(b"maxmemory") {
            let bytes = memory_bytes(value);
            Sized::Dram(bytes.ok_or_else(|| failed(b"maxmemory", "argument must be a memory value"))?)
        } else if name.eq_ignore_ascii_case(b"ssd-size") {
            Sized::Ssd(tier_bytes(value).map_err(|why| failed(b"ssd-size", &why))?)
        } else if name.eq_ignore_ascii_case(b"pmem-size") {
            Sized::Pmem(tier_bytes(value).map_err(|why| failed(b"pmem-size", &why))?)
        } else {
            return Err(refusal(name));
        };
        if wanted.is_some_and(|other| discriminant(&other) != discriminant(&size)) {
            // The second might be refused when the first has changed.
            return Err(failed(name, "maxmemory, pmem-size and ssd-size are set one at a time"));
        }
        wanted = Some(size);
    }
    let resized = |name: &[u8], resized: Result<(), StoreError>| {
        resized.map_err(|error| failed(name, &error.to_string()))
    };
    match wanted {
        Some(Sized::Dram(bytes)) => resized(&b"maxmemory"[..], call.ctx.shared.resize_dram(bytes))?,
        Some(Sized::Pmem(bytes)) => resized(&b"pmem-size"[..], call.ctx.shared.resize_pmem(bytes))?,
        Some(Sized::Ssd(bytes)) => resized(&b"ssd-size"[..], call.ctx.shared.resize_ssd(bytes))?,
        None => {}
    }
    call.ok()
}

/// What is to have another size, and which.
#[derive(Clone, Copy)]
enum Sized {
    Dram(u64),
    Pmem(u64),
    Ssd(u64),
}

/// The size of a tier as `--pmem` and `--ssd` take it.
fn tier_bytes(text: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(text);
    match text.parse()? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => Err(format!("{text:?}: expected a size such as 512MiB or 200GiB")),
    }
}

fn refusal(name: &[u8]) -> Refusal {
    if PARAMETERS.iter().any(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes())) {
        return failed(name, "can't set immutable config: give it when the server starts");
    }
    [b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"].concat().into()
}

fn failed(name: &[u8], why: &str) -> Refusal {
    let before = b"ERR CONFIG SET failed (possibly related to argument '";
    [&before[..], name, b"') - ", why.as_bytes()].concat().into()
}

/// A size as Redis writes it: a number, and `k`, `m`, `g` for powers of 1000, `kb`, `mb`, `gb` for those of 1024.
fn memory_bytes(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number: u64 = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let unit: u64 = match text[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// Accepted: the counters that `INFO` tells run from the start of the server.
pub(super) fn resetstat(call: &mut Call<'_>) -> Outcome {
    call.ok()
}

pub(super) fn rewrite(_call: &mut Call<'_>) -> Outcome {
    Err("ERR The server is running without a config file".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_redis_reads_them() {
        let read = |text: &str| memory_bytes(text.as_bytes());
        assert_eq!(read("104857600"), Some(100 << 20));
        assert_eq!(
            (read("100mb"), read("100M"), read("2GB")),
            (Some(100 << 20), Some(100_000_000), Some(2 << 30))
        );
        assert_eq!((read(""), read("-1"), read("1.5gb"), read("12tb")), (None, None, None, None));
        assert_eq!(read("99999999999gb"), None);
    }

    #[test]
    fn sizes_of_tiers_are_read_as_the_command_line_reads_them() {
        assert_eq!(tier_bytes(b"512MiB"), Ok(512 << 20));
        assert_eq!((tier_bytes(b"1.5GB"), tier_bytes(b"4096")), (Ok(1_500_000_000), Ok(4096)));
        assert!(tier_bytes(b"10%").is_err() && tier_bytes(b"much").is_err() && tier_bytes(b"").is_err());
    }
}
