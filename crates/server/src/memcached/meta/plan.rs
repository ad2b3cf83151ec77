//! Meta commands to operations.

use terrace_engine::{Batch, Condition, EditFn, Expiry, OpKind};
use terrace_protocol::memcached::meta::{Flags, Meta, SetMode};
use terrace_protocol::memcached::{Key, KeyBuffer, expire_at_ms};

use super::codec::{Argument, put_steps};
use super::rules::{self, Mode, SetRule};
use super::{MetaPlanned, Verb};
use crate::memcached::plan::{are_fetches_watched, is_watched};
use crate::memcached::{DATABASE, value_bytes_max};
use crate::protocol::Context;

/// `mg`: a read, unless it may change the record.
pub(in crate::memcached) fn get(meta: Meta<'_>, batch: &mut Batch, ctx: &Context<'_>) -> MetaPlanned {
    let Meta { key, flags } = meta;
    let state = &ctx.shared.counters.memcached;
    if flags.has(b'h') || flags.has(b'l') {
        ctx.shared.keep_accesses(ctx.now_ms);
    }
    let value = flags.has(b'v');
    let touches = flags.has(b'T');
    // An invalidated record changes by being read: the first reader wins.
    let changes = touches || flags.has(b'N') || flags.has(b'R') || state.may_be_stale(ctx);
    let unless = flags.unsigned(b'C');
    let op = if changes {
        let mut argument = Argument::new(&[u8::from(flags.has(b'N')), u8::from(value)]);
        rules::put_cas(unless, &mut argument);
        argument.extend(token(flags).to_le_bytes());
        put_steps(flags, ctx.time, &mut argument);
        edit(batch, key, rules::get, argument.bytes())
    } else {
        push(batch, key, OpKind::Get { value })
    };
    planned(batch, Verb::Get { value, touches, uses: !flags.has(b'u'), unless }, op, key, flags)
}

/// `ms`.
pub(in crate::memcached) fn set(
    meta: Meta<'_>,
    mode: SetMode,
    value: &[u8],
    batch: &mut Batch,
    ctx: &Context<'_>,
) -> MetaPlanned {
    let Meta { key, flags } = meta;
    let joins = matches!(mode, SetMode::Append | SetMode::Prepend);
    let creates = joins && flags.has(b'N');
    let rule = SetRule {
        mode: match mode {
            SetMode::Set => Mode::Set,
            SetMode::Add => Mode::Add,
            SetMode::Replace => Mode::Replace,
            SetMode::Append => Mode::Append,
            SetMode::Prepend => Mode::Prepend,
        },
        binary_key: key.base64,
        creates,
        invalidates: flags.has(b'I'),
        // To what is joined 0 is no token, as in memcached; a set compares it.
        cas: flags.unsigned(b'C').filter(|&cas| cas != 0 || !joins),
        token: token(flags),
        value_bytes_max: value_bytes_max(ctx, key.bytes(&mut KeyBuffer::default())),
        flags: flags.unsigned(b'F').map_or(0, |flags| flags as u32),
        expire_at: flags
            .signed(if creates { b'N' } else { b'T' })
            .and_then(|exptime| expire_at_ms(exptime, ctx.now_ms, ctx.time.wall_ahead_ms))
            .unwrap_or(0),
    };
    let checked = rule.cas.is_some() && matches!(mode, SetMode::Set | SetMode::Replace);
    let op = match plain(&rule, value, flags, batch, ctx) {
        Some(kind) => push(batch, key, kind),
        None => {
            if rule.invalidates {
                ctx.shared.counters.memcached.note_stale();
            }
            let mut argument = Vec::with_capacity(value.len() + 64);
            rule.put(value, &mut argument);
            edit(batch, key, rules::set, &argument)
        }
    };
    planned(batch, Verb::Set { checked }, op, key, flags)
}

/// The engine's own operation for it, if there is one.
fn plain(
    rule: &SetRule,
    value: &[u8],
    flags: Flags<'_>,
    batch: &mut Batch,
    ctx: &Context<'_>,
) -> Option<OpKind> {
    if rule.token != 0 {
        return None;
    }
    let joins = matches!(rule.mode, Mode::Append | Mode::Prepend);
    if joins && !flags.has(b'c') && !rule.creates {
        let value = batch.bytes(value);
        let condition = rule.cas.map_or(Condition::Always, Condition::Version);
        let front = rule.mode == Mode::Prepend;
        let value_bytes_max = rule.value_bytes_max;
        return Some(OpKind::Append { value, front, create: false, condition, value_bytes_max });
    }
    // What is joined answers no cas token; an add with a cas token ignores it.
    if joins || rule.binary_key || (rule.invalidates && rule.cas.is_some()) {
        return None;
    }
    let condition = match (rule.mode, rule.cas) {
        (Mode::Add, _) => Condition::Absent,
        (_, Some(cas)) => Condition::Version(cas),
        (Mode::Replace, None) => Condition::Present,
        (_, None) => Condition::Always,
    };
    let expiry = if rule.expire_at == 0 { Expiry::Clear } else { Expiry::At(rule.expire_at) };
    let value = batch.bytes(value);
    let old_value = are_fetches_watched(ctx);
    Some(OpKind::Set { value, condition, expiry, flags: Some(rule.flags), old_value })
}

/// `md`.
pub(in crate::memcached) fn delete(meta: Meta<'_>, batch: &mut Batch, ctx: &Context<'_>) -> MetaPlanned {
    let Meta { key, flags } = meta;
    let cas = flags.unsigned(b'C');
    let (invalidates, empties) = (flags.has(b'I'), flags.has(b'x'));
    let op = if invalidates || empties {
        if invalidates {
            ctx.shared.counters.memcached.note_stale();
        }
        let mut argument = Argument::new(&[u8::from(invalidates), u8::from(empties)]);
        argument.extend(flags.unsigned(b'F').unwrap_or(0).to_le_bytes());
        argument.extend(token(flags).to_le_bytes());
        rules::put_cas(cas, &mut argument);
        put_steps(flags, ctx.time, &mut argument);
        edit(batch, key, rules::mark, argument.bytes())
    } else {
        let condition = cas.map_or(Condition::Always, Condition::Version);
        push(batch, key, OpKind::Delete { condition, old_value: is_watched(ctx) })
    };
    planned(batch, Verb::Delete { counts: !invalidates }, op, key, flags)
}

/// `ma`.
pub(in crate::memcached) fn number(
    meta: Meta<'_>,
    down: bool,
    batch: &mut Batch,
    ctx: &Context<'_>,
) -> MetaPlanned {
    let Meta { key, flags } = meta;
    let mut argument = Argument::new(&[u8::from(down), u8::from(flags.has(b'N'))]);
    argument.extend(flags.unsigned(b'D').unwrap_or(1).to_le_bytes());
    argument.extend(flags.unsigned(b'J').unwrap_or(0).to_le_bytes());
    argument.extend(token(flags).to_le_bytes());
    rules::put_cas(flags.unsigned(b'C'), &mut argument);
    put_steps(flags, ctx.time, &mut argument);
    let op = edit(batch, key, rules::number, argument.bytes());
    planned(batch, Verb::Number { down, value: flags.has(b'v') }, op, key, flags)
}

/// `me`.
pub(in crate::memcached) fn debug(key: Key<'_>, batch: &mut Batch, ctx: &Context<'_>) -> MetaPlanned {
    ctx.shared.keep_accesses(ctx.now_ms);
    let op = push(batch, key, OpKind::Get { value: false });
    let flags = batch.bytes(b"");
    MetaPlanned { verb: Verb::Debug, op, flags, quiet: false, base64: key.base64 }
}

/// `E`: the cas token to be; 0: the store chooses it.
fn token(flags: Flags<'_>) -> u64 {
    flags.unsigned(b'E').unwrap_or(0)
}

fn edit(batch: &mut Batch, key: Key<'_>, edit: EditFn, argument: &[u8]) -> usize {
    let argument = batch.bytes(argument);
    push(batch, key, OpKind::Edit { edit, argument })
}

fn push(batch: &mut Batch, key: Key<'_>, kind: OpKind) -> usize {
    if key.base64 {
        batch.push(DATABASE, key.bytes(&mut KeyBuffer::default()), kind)
    } else {
        batch.push(DATABASE, key.text, kind)
    }
}

fn planned(batch: &mut Batch, verb: Verb, op: usize, key: Key<'_>, flags: Flags<'_>) -> MetaPlanned {
    let text = batch.bytes(flags.text());
    MetaPlanned { verb, op, flags: text, quiet: flags.has(b'q'), base64: key.base64 }
}
