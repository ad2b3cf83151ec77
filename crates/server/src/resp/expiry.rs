//! Commands on the expiry of keys.

use terrace_engine::clock::Time;
use terrace_engine::{ExpireAt, ExpireIf, Expiry, OpKind, Reply};

use super::call::{Call, Outcome};
use super::error::Refusal;
use super::options::is;
use super::step::Answer;
use super::time::{self, Unit};

pub(super) fn expire(call: &mut Call<'_>) -> Outcome {
    change(call, time::SECONDS)
}

pub(super) fn pexpire(call: &mut Call<'_>) -> Outcome {
    change(call, time::MILLISECONDS)
}

pub(super) fn expireat(call: &mut Call<'_>) -> Outcome {
    change(call, time::AT_SECOND)
}

pub(super) fn pexpireat(call: &mut Call<'_>) -> Outcome {
    change(call, time::AT_MILLISECOND)
}

pub(super) fn persist(call: &mut Call<'_>) -> Outcome {
    let kind = OpKind::Expire { expiry: Expiry::Clear, condition: ExpireIf::Some, value: false };
    call.one(call.arg(1), kind, changed)
}

pub(super) fn ttl(call: &mut Call<'_>) -> Outcome {
    tell(call, |answer, reply| {
        // To the nearest second, as Redis does.
        show(answer, reply, |at, now| (at.saturating_sub(now.now_ms) + 500) / 1000);
    })
}

pub(super) fn pttl(call: &mut Call<'_>) -> Outcome {
    tell(call, |answer, reply| show(answer, reply, |at, now| at.saturating_sub(now.now_ms)))
}

pub(super) fn expiretime(call: &mut Call<'_>) -> Outcome {
    tell(call, |answer, reply| show(answer, reply, |at, now| (now.to_wall(at) + 500) / 1000))
}

pub(super) fn pexpiretime(call: &mut Call<'_>) -> Outcome {
    tell(call, |answer, reply| show(answer, reply, |at, now| now.to_wall(at)))
}

fn change(call: &mut Call<'_>, unit: Unit) -> Outcome {
    let condition = condition(call)?;
    let at = time::any(call.arg(2), unit, call.ctx.time, call.name)?;
    call.one(call.arg(1), OpKind::Expire { expiry: Expiry::At(at), condition, value: false }, changed)
}

/// `NX`, `XX`, `GT`, `LT` from argument 3 on.
fn condition(call: &Call<'_>) -> Result<ExpireIf, Refusal> {
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for word in call.args.from(3) {
        match () {
            () if is(word, "NX") => nx = true,
            () if is(word, "XX") => xx = true,
            () if is(word, "GT") => gt = true,
            () if is(word, "LT") => lt = true,
            () => return Err([b"ERR Unsupported option ", word].concat().into()),
        }
    }
    if nx && (xx || gt || lt) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
    }
    if gt && lt {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    Ok(match (nx, xx, gt, lt) {
        (true, ..) => ExpireIf::None,
        (_, false, true, _) => ExpireIf::Later,
        (_, true, true, _) => ExpireIf::SomeLater,
        (_, false, _, true) => ExpireIf::Earlier,
        (_, true, _, true) => ExpireIf::SomeEarlier,
        (_, true, ..) => ExpireIf::Some,
        _ => ExpireIf::Always,
    })
}

fn changed(answer: &mut Answer<'_>, reply: Reply) {
    match reply {
        Reply::Hit { .. } => answer.encoder.integer(1),
        Reply::Miss | Reply::NotStored { .. } => answer.encoder.integer(0),
        other => answer.unexpected(other),
    }
}

fn tell(call: &mut Call<'_>, show: fn(&mut Answer<'_>, Reply)) -> Outcome {
    call.one(call.arg(1), OpKind::Get { value: false }, show)
}

/// -2 for no key, -1 for no expiry, else what `number` makes of the expiry and the time now.
fn show(answer: &mut Answer<'_>, reply: Reply, number: fn(ExpireAt, Time) -> u64) {
    match reply {
        Reply::Miss => answer.encoder.integer(-2),
        Reply::Hit { meta, .. } if meta.expire_at == 0 => answer.encoder.integer(-1),
        Reply::Hit { meta, .. } => answer.encoder.integer(number(meta.expire_at, answer.ctx.time) as i64),
        other => answer.unexpected(other),
    }
}
