//! Commands on values as a whole.

use terrace_engine::{Condition, Expiry, OpKind, Reply};

use super::call::{Call, Outcome};
use super::error::{Refusal, SYNTAX, arity};
use super::options;
use super::step::{Answer, Step};
use super::text::compare;
use super::time::{self, Unit};

const READ: OpKind = OpKind::Get { value: true };

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    call.one(call.arg(1), READ, value)
}

pub(super) fn mget(call: &mut Call<'_>) -> Outcome {
    let first = call.batch.len() as u32;
    for key in call.args.from(1) {
        call.push(key, READ);
    }
    let count = call.batch.len() as u32 - first;
    call.answer(Step::Values { first, count, begun: false })
}

/// The values that operations read, as an array, or the first error instead: Redis's answer has no place for one. Where the head
/// and values before them were written already, an error stands in the place of its value.
pub(super) fn values(answer: &mut Answer<'_>, first: u32, count: u32, begun: bool) {
    let ops = first..first + count;
    if !begun {
        let error = ops.clone().find_map(|op| match answer.reply(op as usize) {
            Reply::Error(error) => Some(error),
            _ => None,
        });
        if let Some(error) = error {
            return answer.failed(error);
        }
        answer.encoder.array(count as usize);
    }
    for op in ops {
        match answer.reply(op as usize) {
            // Inside of the array, where no step counts it.
            Reply::Error(error) => {
                answer.ctx.shared.redis.stats.error(b"ERR");
                answer.failed(error);
            }
            reply => value(answer, reply),
        }
    }
}

pub(super) fn getex(call: &mut Call<'_>) -> Outcome {
    let kind = match options::getex(call) {
        Ok(Expiry::Keep) => READ,
        Ok(Expiry::Clear) => return read_and_persist(call),
        Ok(expiry) => OpKind::Expire { expiry, condition: terrace_engine::ExpireIf::Always, value: true },
        Err(refusal) if *refusal.0 == *SYNTAX.as_bytes() => return Err(refusal),
        Err(refusal) => return refuse_if_present(call, refusal),
    };
    call.one(call.arg(1), kind, value)
}

/// `GETEX key PERSIST`: a key without an expiry is only read, and nobody is told of a change.
fn read_and_persist(call: &mut Call<'_>) -> Outcome {
    let first = call.batch.len() as u32;
    call.atomic(|call| {
        call.push(call.arg(1), READ);
        let condition = terrace_engine::ExpireIf::Some;
        call.push(call.arg(1), OpKind::Expire { expiry: Expiry::Clear, condition, value: false });
    });
    call.answer(Step::Many { first, count: 2, show: |answer, ops| value(answer, answer.reply(ops.start)) })
}

/// Of a key that is not there Redis says so before it reads the number.
fn refuse_if_present(call: &mut Call<'_>, refusal: Refusal) -> Outcome {
    let op = call.push(call.arg(1), OpKind::Get { value: false }) as usize;
    call.late(move |answer| match answer.reply(op) {
        Reply::Miss => answer.encoder.null(),
        Reply::Error(error) => answer.failed(error),
        _ => answer.encoder.error(&refusal.0),
    })
}

pub(super) fn getdel(call: &mut Call<'_>) -> Outcome {
    let kind = OpKind::Delete { condition: Condition::Always, old_value: true };
    call.one(call.arg(1), kind, |answer, reply| match reply {
        Reply::Deleted { old } => answer.output_or_null(old),
        Reply::Miss => answer.encoder.null(),
        other => answer.unexpected(other),
    })
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let options = options::set(call)?;
    if let Some(comparison) = options.comparison {
        return compare::set(call, &options, comparison);
    }
    let show = if options.get { old_value } else { stored };
    store(call, 2, options.condition, options.expiry, options.get, show)
}

pub(super) fn setnx(call: &mut Call<'_>) -> Outcome {
    store(call, 2, Condition::Absent, Expiry::Clear, false, |answer, reply| match reply {
        Reply::Stored { .. } => answer.encoder.integer(1),
        Reply::NotStored { .. } => answer.encoder.integer(0),
        other => answer.unexpected(other),
    })
}

pub(super) fn setex(call: &mut Call<'_>) -> Outcome {
    store_for(call, time::SECONDS)
}

pub(super) fn psetex(call: &mut Call<'_>) -> Outcome {
    store_for(call, time::MILLISECONDS)
}

pub(super) fn getset(call: &mut Call<'_>) -> Outcome {
    store(call, 2, Condition::Always, Expiry::Clear, true, old_value)
}

pub(super) fn mset(call: &mut Call<'_>) -> Outcome {
    if call.args.len().is_multiple_of(2) {
        return Err(arity(call.name));
    }
    let first = call.batch.len() as u32;
    call.atomic(|call| {
        for at in (1..call.args.len()).step_by(2) {
            let kind = write(call, at + 1, Condition::Always, Expiry::Clear, false);
            call.push(call.arg(at), kind);
        }
    });
    let count = call.batch.len() as u32 - first;
    call.answer(Step::Many { first, count, show: |answer, _| answer.encoder.simple("OK") })
}

pub(super) fn strlen(call: &mut Call<'_>) -> Outcome {
    call.one(call.arg(1), OpKind::Get { value: false }, length)
}

/// The length of a value, 0 if there is none.
pub(super) fn length(answer: &mut Answer<'_>, reply: Reply) {
    match reply {
        Reply::Hit { meta, .. } => answer.encoder.integer(meta.value_bytes as i64),
        Reply::Miss => answer.encoder.integer(0),
        other => answer.unexpected(other),
    }
}

/// `SETEX key time value`.
fn store_for(call: &mut Call<'_>, unit: Unit) -> Outcome {
    let at = time::positive(call.arg(2), unit, call.ctx.time, call.name)?;
    store(call, 3, Condition::Always, Expiry::At(at), false, stored)
}

/// Stores the argument at `value` under the first one.
fn store(
    call: &mut Call<'_>,
    value: usize,
    condition: Condition,
    expiry: Expiry,
    old_value: bool,
    show: fn(&mut Answer<'_>, Reply),
) -> Outcome {
    let kind = write(call, value, condition, expiry, old_value);
    call.one(call.arg(1), kind, show)
}

/// A write of the argument at `value`. memcached's flags start anew: a value set through Redis has none.
fn write(call: &mut Call<'_>, value: usize, condition: Condition, expiry: Expiry, old_value: bool) -> OpKind {
    let value = call.batch.bytes(call.arg(value));
    OpKind::Set { value, condition, expiry, flags: Some(0), old_value }
}

fn value(answer: &mut Answer<'_>, reply: Reply) {
    match reply {
        Reply::Hit { value: Some(value), .. } => answer.output(value),
        Reply::Miss => answer.encoder.null(),
        other => answer.unexpected(other),
    }
}

fn stored(answer: &mut Answer<'_>, reply: Reply) {
    match reply {
        Reply::Stored { .. } => answer.encoder.simple("OK"),
        Reply::NotStored { .. } => answer.encoder.null(),
        other => answer.unexpected(other),
    }
}

fn old_value(answer: &mut Answer<'_>, reply: Reply) {
    match reply {
        Reply::Stored { old, .. } | Reply::NotStored { old, .. } => answer.output_or_null(old),
        other => answer.unexpected(other),
    }
}
