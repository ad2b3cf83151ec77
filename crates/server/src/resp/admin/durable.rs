//! Saving ([`crate::snapshot`]), and waiting until everything before, of all connections, is safe from power loss. The store does not
//! need to be saved: it is as durable as it was started with.

use std::sync::atomic::Ordering::Relaxed;

use terrace_protocol::resp::parse_integer;

use super::super::call::{Call, Outcome};
use super::super::client::Alone;
use super::super::error::{NOT_AN_INTEGER, SYNTAX};
use super::super::options::is;
use super::super::step::{Answer, Step};

/// `SAVE`: the connection waits for its snapshot; the others go on.
pub(in crate::resp) fn save(call: &mut Call<'_>) -> Outcome {
    call.client.pausing = true;
    call.client.alone = Some(Alone::Save(None));
    Ok(())
}

/// `BGSAVE [SCHEDULE]`. Nothing keeps one from beginning but another, so that there is nothing to be scheduled; in a transaction Redis
/// says so all the same.
pub(in crate::resp) fn bgsave(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        1 => {}
        2 if is(call.arg(1), "SCHEDULE") => {}
        _ => return Err(SYNTAX.into()),
    }
    let text = match call.batch.is_atomic() {
        true => "Background saving scheduled",
        false => "Background saving started",
    };
    // When what stands before it is done, and the transaction happens.
    call.about_store(move |answer| match answer.ctx.shared.snapshots.start() {
        Ok(_ticket) => answer.encoder.simple(text),
        Err(why) => answer.encoder.error(why.as_bytes()),
    })
}

/// `BGREWRITEAOF`: the log is cleaned all the time.
pub(in crate::resp) fn bgrewriteaof(call: &mut Call<'_>) -> Outcome {
    call.answer(Step::Simple(match call.batch.is_atomic() {
        true => "Background append only file rewriting scheduled",
        false => "Background append only file rewriting started",
    }))
}

/// `LASTSAVE`.
pub(in crate::resp) fn lastsave(call: &mut Call<'_>) -> Outcome {
    let at_s = call.ctx.shared.redis.saved_s.load(Relaxed);
    call.answer(Step::Integer(at_s as i64))
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
