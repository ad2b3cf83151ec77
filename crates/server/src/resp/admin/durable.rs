//! Saving, for a store whose writes are as durable as it promised when they are answered.
//!
//! What was answered needs no saving, so that these commands say what is so already. [`super::super::State::saved_s`] is when
//! the store was last known to be whole on its media.

use std::sync::atomic::Ordering::Relaxed;

use terrace_protocol::resp::parse_integer;

use super::super::call::{Call, Outcome};
use super::super::error::{NOT_AN_INTEGER, SYNTAX};
use super::super::options::is;
use super::super::step::Step;

/// `SAVE`.
pub(in crate::resp) fn save(call: &mut Call<'_>) -> Outcome {
    saved(call);
    call.ok()
}

/// `BGSAVE [SCHEDULE]`.
pub(in crate::resp) fn bgsave(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        1 => {}
        2 if is(call.arg(1), "SCHEDULE") => {}
        _ => return Err(SYNTAX.into()),
    }
    saved(call);
    call.answer(Step::Simple("Background saving started"))
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

/// Everything before is settled when the answer is sent.
fn saved(call: &mut Call<'_>) {
    call.ctx.shared.redis.saved_s.store(call.ctx.now_ms / 1000, Relaxed);
}

/// `WAIT replicas timeout`: there are none, and that is known at once.
pub(in crate::resp) fn wait(call: &mut Call<'_>) -> Outcome {
    call.integer(1)?;
    timeout(call.arg(2))?;
    call.answer(Step::Integer(0))
}

/// `WAITAOF local replicas timeout`: what the connection wrote before is as durable as it gets when this is answered, so that
/// the local log counts as synced where there is one.
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
    call.late(move |answer| {
        answer.encoder.array(2);
        answer.encoder.integer(keeps.into());
        answer.encoder.integer(0);
    })
}

fn timeout(text: &[u8]) -> Outcome {
    match parse_integer(text) {
        None => Err("ERR timeout is not an integer or out of range".into()),
        Some(..0) => Err("ERR timeout is negative".into()),
        Some(_) => Ok(()),
    }
}
