//! Saving: these commands answer once everything before them, of all connections, is safe from power loss. There is no file to
//! write, for the store is the file. [`super::super::State::saved_s`] is when that was last known.

use std::sync::atomic::Ordering::Relaxed;

use terrace_protocol::resp::parse_integer;

use super::super::call::{Call, Outcome};
use super::super::error::{NOT_AN_INTEGER, SYNTAX};
use super::super::options::is;
use super::super::step::{Answer, Step};

/// `SAVE`.
pub(in crate::resp) fn save(call: &mut Call<'_>) -> Outcome {
    saved(call, "OK")
}

/// `BGSAVE [SCHEDULE]`: as `SAVE`, which delays nobody either.
pub(in crate::resp) fn bgsave(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        1 => {}
        2 if is(call.arg(1), "SCHEDULE") => {}
        _ => return Err(SYNTAX.into()),
    }
    saved(call, "Background saving started")
}

/// `BGREWRITEAOF`: the log is cleaned all the time.
pub(in crate::resp) fn bgrewriteaof(call: &mut Call<'_>) -> Outcome {
    call.answer(Step::Simple("Background append only file rewriting started"))
}

/// `LASTSAVE`.
pub(in crate::resp) fn lastsave(call: &mut Call<'_>) -> Outcome {
    let at_s = call.ctx.shared.redis.saved_s.load(Relaxed);
    call.answer(Step::Integer(at_s as i64))
}

/// Answers when all is durable. In a transaction it only says so: what that writes is durable as promised.
fn saved(call: &mut Call<'_>, text: &'static str) -> Outcome {
    let waits = call.when_durable(move |answer| {
        answer.ctx.shared.redis.saved_s.store(answer.ctx.now_ms / 1000, Relaxed);
        answer.encoder.simple(text);
    });
    if waits { Ok(()) } else { call.answer(Step::Simple(text)) }
}

/// `WAIT replicas timeout`: there are none, and that is known at once.
pub(in crate::resp) fn wait(call: &mut Call<'_>) -> Outcome {
    call.integer(1)?;
    timeout(call.arg(2))?;
    call.answer(Step::Integer(0))
}

/// `WAITAOF local replicas timeout`: waits until what was written before is safe from power loss. The timeout is not looked at: a
/// sync takes as long as it takes, and one that fails is answered with an error.
pub(in crate::resp) fn waitaof(call: &mut Call<'_>) -> Outcome {
    let range = |number: i64, max: i64| (0..=max).contains(&number);
    let local = parse_integer(call.arg(1)).ok_or(NOT_AN_INTEGER)?;
    if !range(local, 1) {
        return Err("ERR value is out of range, value must between 0 and 1".into());
    }
    let replicas = parse_integer(call.arg(2)).ok_or(NOT_AN_INTEGER)?;
    if !range(replicas, i64::MAX) {
        return Err("ERR value is out of range, must be positive".into());
    }
    timeout(call.arg(3))?;
    let keeps = call.ctx.shared.options.durability != "none";
    if local > 0 && !keeps {
        return Err("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.".into());
    }
    let synced = |local: bool| {
        move |answer: &mut Answer<'_>| {
            answer.encoder.array(2);
            answer.encoder.integer(local.into());
            answer.encoder.integer(0);
        }
    };
    if local > 0 && call.when_durable(synced(true)) {
        return Ok(());
    }
    // Not waited for, and so known only where every answer is.
    let known = call.ctx.shared.options.durability == "sync";
    call.late(synced(known))
}

fn timeout(text: &[u8]) -> Outcome {
    match parse_integer(text) {
        None => Err("ERR timeout is not an integer or out of range".into()),
        Some(..0) => Err("ERR timeout is negative".into()),
        Some(_) => Ok(()),
    }
}
