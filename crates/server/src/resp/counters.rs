//! Commands on numbers held as text.

use terrace_engine::{Delta, OpKind, Reply};

use super::call::{Call, Outcome};
use super::step::Answer;

pub(super) fn incr(call: &mut Call<'_>) -> Outcome {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call<'_>) -> Outcome {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call<'_>) -> Outcome {
    let by = call.integer(2)?;
    add(call, by)
}

pub(super) fn decrby(call: &mut Call<'_>) -> Outcome {
    let by = call.integer(2)?;
    add(call, by.checked_neg().ok_or("ERR decrement would overflow")?)
}

fn add(call: &mut Call<'_>, by: i64) -> Outcome {
    call.one(call.arg(1), OpKind::Incr { by: Delta::Signed(by) }, sum)
}

fn sum(answer: &mut Answer<'_>, reply: Reply) {
    match reply {
        Reply::Number(number) => answer.encoder.integer(number),
        other => answer.unexpected(other),
    }
}
