//! Commands to operations.

use terrace_engine::{Batch, Condition, Delta, ExpireIf, Expiry, OpKind};
use terrace_protocol::memcached::{Command, Store, StoreVerb, expire_at_ms, reply};

use super::DATABASE;
use super::stats::Report;
use crate::protocol::Context;

/// What to answer once the batch has settled; operations by their number in it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Planned {
    /// The values of `count` operations from `first` on.
    Values { first: usize, count: usize, cas: bool, touch: bool },
    /// A storage command.
    Store { op: usize, cas: bool, noreply: bool },
    /// `incr` or `decr`.
    Number { op: usize, down: bool, noreply: bool },
    /// `touch`.
    Touch { op: usize, noreply: bool },
    /// `delete`.
    Delete { op: usize, noreply: bool },
    /// `flush_all`.
    Flush { op: usize, noreply: bool },
    /// A fixed answer.
    Text { reply: &'static [u8], noreply: bool },
    /// A value longer than the limit.
    TooLarge { noreply: bool },
    /// `version`.
    Version,
    /// `stats`.
    Stats(Report),
}

/// Adds a command's operations to the batch.
pub(super) fn plan(command: Command<'_>, batch: &mut Batch, ctx: &Context<'_>) -> Planned {
    match command {
        Command::Get { keys, cas } => values(batch, keys, OpKind::Get { value: true }, cas, false),
        Command::GetAndTouch { exptime, keys, cas } => {
            let kind = OpKind::Expire {
                expiry: expiry(exptime, ctx.now_ms),
                condition: ExpireIf::Always,
                value: true,
            };
            values(batch, keys, kind, cas, true)
        }
        Command::Store(store) => storage(store, batch, ctx.now_ms),
        Command::Arithmetic { key, delta, down, noreply } => {
            let by = if down { Delta::Saturating(delta) } else { Delta::Wrapping(delta) };
            Planned::Number { op: batch.push(DATABASE, key, OpKind::Incr { by }), down, noreply }
        }
        Command::Touch { key, exptime, noreply } => {
            let kind = OpKind::Expire {
                expiry: expiry(exptime, ctx.now_ms),
                condition: ExpireIf::Always,
                value: false,
            };
            Planned::Touch { op: batch.push(DATABASE, key, kind), noreply }
        }
        Command::Delete { key, noreply } => Planned::Delete { op: delete(batch, key), noreply },
        Command::FlushAll { delay, noreply } => flush_all(batch, delay, noreply, ctx),
        Command::Version => Planned::Version,
        Command::Stats { args } => Planned::Stats(Report::named(args)),
        Command::CacheMemlimit { megabytes, noreply } => {
            Planned::Text { reply: cache_memlimit(megabytes, ctx), noreply }
        }
        Command::Verbosity { noreply } => Planned::Text { reply: reply::OK, noreply },
        // The parser turns it into the end of the connection.
        Command::Quit => Planned::Text { reply: b"", noreply: true },
    }
}

/// Plans the refusal of a value longer than the limit. A `set` deletes the key: the client holds the old value for gone.
pub(super) fn too_large(batch: &mut Batch, key: &[u8], set: bool, noreply: bool) -> Planned {
    if set {
        delete(batch, key);
    }
    Planned::TooLarge { noreply }
}

fn values<'a>(
    batch: &mut Batch,
    keys: impl Iterator<Item = &'a [u8]>,
    kind: OpKind,
    cas: bool,
    touch: bool,
) -> Planned {
    let first = batch.len();
    for key in keys {
        batch.push(DATABASE, key, kind);
    }
    Planned::Values { first, count: batch.len() - first, cas, touch }
}

fn storage(store: Store<'_>, batch: &mut Batch, now_ms: u64) -> Planned {
    let Store { verb, key, flags, exptime, value, noreply } = store;
    let value = batch.bytes(value);
    let set = |condition| OpKind::Set {
        value,
        condition,
        expiry: expiry(exptime, now_ms),
        flags: Some(flags),
        old_value: false,
    };
    let append = |front| OpKind::Append { value, front, create: false, condition: Condition::Always };
    let kind = match verb {
        StoreVerb::Set => set(Condition::Always),
        StoreVerb::Add => set(Condition::Absent),
        StoreVerb::Replace => set(Condition::Present),
        StoreVerb::Cas(version) => set(Condition::Version(version)),
        StoreVerb::Append => append(false),
        StoreVerb::Prepend => append(true),
    };
    Planned::Store { op: batch.push(DATABASE, key, kind), cas: matches!(verb, StoreVerb::Cas(_)), noreply }
}

fn delete(batch: &mut Batch, key: &[u8]) -> usize {
    batch.push(DATABASE, key, OpKind::Delete { condition: Condition::Always, old_value: false })
}

/// Another budget of DRAM. The texts are memcached's; the log says what would be possible.
fn cache_memlimit(megabytes: u64, ctx: &Context<'_>) -> &'static [u8] {
    if megabytes < 8 {
        return b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
    }
    if megabytes > 1_000_000_000 {
        return b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
    }
    match ctx.shared.resize_dram(megabytes << 20) {
        Ok(()) => reply::OK,
        Err(error) => {
            tracing::warn!(%error, "cache_memlimit");
            b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"
        }
    }
}

fn flush_all(batch: &mut Batch, delay: i64, noreply: bool, ctx: &Context<'_>) -> Planned {
    let due_ms = if delay > 0 { expire_at_ms(delay, ctx.now_ms) } else { None };
    let later = due_ms.filter(|&due_ms| due_ms > ctx.now_ms);
    ctx.shared.counters.memcached.delay_flush(later);
    match later {
        Some(_) => Planned::Text { reply: reply::OK, noreply },
        None => {
            let op = batch.push(DATABASE, b"", OpKind::Flush { db: Some(DATABASE) });
            Planned::Flush { op, noreply }
        }
    }
}

fn expiry(exptime: i64, now_ms: u64) -> Expiry {
    expire_at_ms(exptime, now_ms).map_or(Expiry::Clear, Expiry::At)
}
