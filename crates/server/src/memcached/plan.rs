//! Commands to operations.

use terrace_engine::clock::Time;
use terrace_engine::{Batch, Condition, Delta, ExpireIf, Expiry, OpKind};
use terrace_protocol::memcached::{Command, Key, KeyBuffer, Store, StoreVerb, Watch, expire_at_ms, reply};

use super::dump::Dump;
use super::meta::MetaPlanned;
use super::stats::Report;
use super::{DATABASE, admin, meta, stats, value_bytes_max};
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
    /// A meta command.
    Meta(MetaPlanned),
    /// The connection watches from here on.
    Watch(Watch),
    /// The start of a listing.
    Dump(Dump),
    /// A login.
    Login { known: bool },
    /// No answer.
    Nothing,
}

impl Planned {
    /// Whether it answers an `mn`.
    pub(super) fn is_noop(&self) -> bool {
        matches!(self, Self::Text { reply: reply::META_NOOP, .. })
    }

    /// Behind the operations that it is answered from; 0 if it needs none.
    pub(super) fn end(&self) -> usize {
        match self {
            Self::Values { first, count, .. } => first + count,
            Self::Store { op, .. }
            | Self::Number { op, .. }
            | Self::Touch { op, .. }
            | Self::Delete { op, .. }
            | Self::Flush { op, .. } => op + 1,
            Self::Meta(planned) => planned.op() + 1,
            _ => 0,
        }
    }
}

/// Adds a command's operations to the batch.
pub(super) fn plan(command: Command<'_>, batch: &mut Batch, ctx: &Context<'_>) -> Planned {
    match command {
        Command::Get { keys, cas } => values(batch, keys, OpKind::Get { value: true }, cas, false),
        Command::GetAndTouch { exptime, keys, cas } => {
            let kind = OpKind::Expire {
                expiry: expiry(exptime, ctx.time),
                condition: ExpireIf::Always,
                value: true,
            };
            values(batch, keys, kind, cas, true)
        }
        Command::Store(store) => storage(store, batch, ctx),
        Command::Arithmetic { key, delta, down, noreply } => {
            let by = if down { Delta::Saturating(delta) } else { Delta::Wrapping(delta) };
            Planned::Number { op: batch.push(DATABASE, key, OpKind::Incr { by }), down, noreply }
        }
        Command::Touch { key, exptime, noreply } => {
            let kind = OpKind::Expire {
                expiry: expiry(exptime, ctx.time),
                condition: ExpireIf::Always,
                value: false,
            };
            Planned::Touch { op: batch.push(DATABASE, key, kind), noreply }
        }
        Command::Delete { key, noreply } => {
            Planned::Delete { op: delete(batch, key, is_watched(ctx)), noreply }
        }
        Command::FlushAll { delay, noreply } => flush_all(batch, delay, noreply, ctx),
        Command::Version => Planned::Version,
        Command::Stats { args } => stats::plan(args, ctx),
        Command::MetaGet(meta) => Planned::Meta(meta::get(meta, batch, ctx)),
        Command::MetaSet { meta, mode, value } => Planned::Meta(meta::set(meta, mode, value, batch, ctx)),
        Command::MetaDelete(meta) => Planned::Meta(meta::delete(meta, batch, ctx)),
        Command::MetaNumber { meta, down } => Planned::Meta(meta::number(meta, down, batch, ctx)),
        Command::MetaDebug { key } => Planned::Meta(meta::debug(key, batch, ctx)),
        Command::Answered { reply, noreply } => Planned::Text { reply, noreply },
        Command::LruCrawler(crawl) => admin::lru_crawler(crawl, ctx),
        // The connection plans them, or ends.
        Command::Watch(_) | Command::Shutdown(_) => Planned::Nothing,
        Command::RefreshCerts { noreply } => Planned::Text { reply: admin::refresh_certs(ctx), noreply },
        Command::CacheMemlimit { megabytes, noreply } => {
            Planned::Text { reply: admin::cache_memlimit(megabytes, ctx), noreply }
        }
        Command::Verbosity { level, noreply } => {
            admin::verbosity(level, ctx);
            Planned::Text { reply: reply::OK, noreply }
        }
        // The parser turns it into the end of the connection.
        Command::Quit => Planned::Nothing,
    }
}

/// Plans the refusal of a value longer than the limit. A `set` or an `ms` deletes the key: the client holds the old value for
/// gone.
pub(super) fn too_large(batch: &mut Batch, key: Key<'_>, deletes: bool, noreply: bool) -> Planned {
    if deletes {
        delete(batch, key.bytes(&mut KeyBuffer::default()), false);
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

fn storage(store: Store<'_>, batch: &mut Batch, ctx: &Context<'_>) -> Planned {
    let Store { verb, key, flags, exptime, value, noreply } = store;
    let value = batch.bytes(value);
    let set = |condition| OpKind::Set {
        value,
        condition,
        expiry: expiry(exptime, ctx.time),
        flags: Some(flags),
        old_value: are_fetches_watched(ctx),
    };
    let append = |front| OpKind::Append {
        value,
        front,
        create: false,
        condition: Condition::Always,
        value_bytes_max: value_bytes_max(ctx, key),
    };
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

/// With `old_value` the answer knows how large the record was, which may have to be read for it.
fn delete(batch: &mut Batch, key: &[u8], old_value: bool) -> usize {
    batch.push(DATABASE, key, OpKind::Delete { condition: Condition::Always, old_value })
}

/// Whether somebody is to hear of reads: those of commands that store, too, and how large the records were.
pub(super) fn are_fetches_watched(ctx: &Context<'_>) -> bool {
    ctx.shared.counters.memcached.watchers.events().fetches()
}

/// Whether somebody is to hear of deletes, and how large the records were.
pub(super) fn is_watched(ctx: &Context<'_>) -> bool {
    ctx.shared.counters.memcached.watchers.events().deletes()
}

pub(super) fn flush_all(batch: &mut Batch, delay: i64, noreply: bool, ctx: &Context<'_>) -> Planned {
    if !ctx.shared.options.memcached_flush {
        return Planned::Text { reply: admin::NO_FLUSH, noreply };
    }
    let due_ms = if delay > 0 { expire_at_ms(delay, ctx.now_ms, ctx.time.wall_ahead_ms) } else { None };
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

fn expiry(exptime: i64, time: Time) -> Expiry {
    expire_at_ms(exptime, time.now_ms, time.wall_ahead_ms).map_or(Expiry::Clear, Expiry::At)
}
