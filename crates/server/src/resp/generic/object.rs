//! `OBJECT`: what Redis would say of a value, where that can be said.

use terrace_engine::{OpKind, Reply};
use terrace_protocol::resp::parse_integer;

use crate::resp::call::{Call, Outcome};
use crate::resp::step::Answer;

/// Redis keeps values up to this length in one piece with their head.
const EMBEDDED_BYTES_MAX: usize = 44;

/// `OBJECT ENCODING`: how Redis would keep the value if it had been set as it is.
pub(in crate::resp) fn encoding(call: &mut Call<'_>) -> Outcome {
    call.computed(call.arg(2), |encoder, value| match value {
        None => encoder.null(),
        Some(value) if parse_integer(value).is_some() => encoder.bulk(b"int"),
        Some(value) if value.len() <= EMBEDDED_BYTES_MAX => encoder.bulk(b"embstr"),
        Some(_) => encoder.bulk(b"raw"),
    })
}

/// `OBJECT REFCOUNT`: values are not shared.
pub(in crate::resp) fn refcount(call: &mut Call<'_>) -> Outcome {
    of_key(call, |answer| answer.encoder.integer(1))
}

/// `OBJECT FREQ`: refused in Redis's words for a server that does not count.
pub(in crate::resp) fn freq(call: &mut Call<'_>) -> Outcome {
    of_key(call, |answer| {
        answer.encoder.error(
            b"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
              switching between policies at runtime LRU and LFU data will take some time to adjust.",
        );
    })
}

/// `OBJECT IDLETIME`: refused, because no time of access is kept.
pub(in crate::resp) fn idletime(call: &mut Call<'_>) -> Outcome {
    of_key(call, |answer| {
        answer.encoder.error(b"ERR idle time not tracked: this server keeps no time of access")
    })
}

/// Answers with null if the key is not there.
fn of_key(call: &mut Call<'_>, present: fn(&mut Answer<'_>)) -> Outcome {
    let op = call.push(call.arg(2), OpKind::Get { value: false }) as usize;
    call.late(move |answer| match answer.reply(op) {
        Reply::Hit { .. } => present(answer),
        Reply::Miss => answer.encoder.null(),
        Reply::Error(error) => answer.failed(error),
        other => answer.unexpected(other),
    })
}
