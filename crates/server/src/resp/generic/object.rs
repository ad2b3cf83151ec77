//! `OBJECT`: what Redis would say of a value, where that can be said.

use terrace_engine::{OpKind, Reply};
use terrace_protocol::resp::parse_integer;

use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::step::Answer;

/// Redis keeps values up to this length in one piece with their head.
const EMBEDDED_BYTES_MAX: usize = 44;

/// `OBJECT ENCODING`: how Redis would keep the value.
pub(in crate::resp) fn encoding(call: &mut Call<'_>) -> Outcome {
    with_encoding(call, |answer, found| match found {
        Some((encoding, _)) => answer.encoder.bulk(encoding.as_bytes()),
        None => answer.encoder.null(),
    })
}

/// How Redis would keep a value, and its bytes.
pub(in crate::resp) type Encoded<'a> = (&'static str, &'a [u8]);

/// Reads the value of the second argument's key and answers with what `show` makes of its encoding and its bytes.
pub(in crate::resp) fn with_encoding(
    call: &mut Call<'_>,
    show: fn(&mut Answer<'_>, Option<Encoded<'_>>),
) -> Outcome {
    let op = call.push(call.arg(2), OpKind::Get { value: true }) as usize;
    call.late(move |answer| match answer.reply(op) {
        Reply::Hit { value: Some(span), meta } => {
            let value = answer.batch.output(span);
            show(answer, Some((encoding_of(value, meta.state), value)));
        }
        Reply::Miss => show(answer, None),
        Reply::Error(error) => answer.failed(error),
        other => answer.unexpected(other),
    })
}

/// `INCRBYFLOAT` alone is not told from a `SET`: Redis keeps a whole number of its as `embstr`.
fn encoding_of(value: &[u8], state: u8) -> &'static str {
    if state & edited::RAW != 0 {
        return "raw";
    }
    match value {
        _ if parse_integer(value).is_some() => "int",
        _ if value.len() <= EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    }
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

/// `OBJECT IDLETIME`: the seconds in which the key was not used for sure. When keys are used is kept from when somebody first asks.
pub(in crate::resp) fn idletime(call: &mut Call<'_>) -> Outcome {
    call.ctx.shared.keep_accesses(call.ctx.now_ms);
    let (db, key) = (call.client.db, Box::<[u8]>::from(call.arg(2)));
    of_key(call, move |answer| {
        let accesses = answer.ctx.shared.counters.accesses.get();
        let idle = accesses.map_or(0, |accesses| accesses.of(db, &key, answer.ctx.now_ms).idle);
        answer.encoder.integer(idle as i64);
    })
}

/// Answers with null if the key is not there.
fn of_key(call: &mut Call<'_>, present: impl FnOnce(&mut Answer<'_>) + Send + 'static) -> Outcome {
    let op = call.push(call.arg(2), OpKind::Get { value: false }) as usize;
    call.late(move |answer| match answer.reply(op) {
        Reply::Hit { .. } => present(answer),
        Reply::Miss => answer.encoder.null(),
        Reply::Error(error) => answer.failed(error),
        other => answer.unexpected(other),
    })
}
