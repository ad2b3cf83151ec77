//! `DUMP` and `RESTORE`.

use terrace_engine::{Condition, Expiry, OpKind, Reply};

use crate::resp::call::{Call, Outcome};
use crate::resp::error::{Refusal, SYNTAX};
use crate::resp::options::is;
use crate::resp::payload::string::Text;
use crate::resp::payload::{self, Around, Wrong};

const BUSY: &str = "BUSYKEY Target key name already exists.";

pub(in crate::resp) fn dump(call: &mut Call<'_>) -> Outcome {
    let op = call.push(call.arg(1), OpKind::Get { value: true }) as usize;
    call.late(move |answer| match answer.reply(op) {
        Reply::Hit { value: Some(span), .. } => {
            let Around { before, holds_value, after } = payload::around(answer.batch.output(span));
            answer.output_between(&before, holds_value.then_some(span), &after);
        }
        Reply::Miss => answer.encoder.null(),
        Reply::Error(error) => answer.failed(error),
        other => answer.unexpected(other),
    })
}

/// `RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`. The last two are checked and mean nothing here.
pub(in crate::resp) fn restore(call: &mut Call<'_>) -> Outcome {
    let options = parse(call)?;
    let what = expiry(call, options.absolute).and_then(|expiry| Ok((expiry, value(call)?)));
    let condition = if options.replace { Condition::Always } else { Condition::Absent };
    match what {
        Ok((expiry, value)) => {
            let value = call.batch.bytes(&value);
            let kind = OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false };
            call.one(call.arg(1), kind, |answer, reply| match reply {
                Reply::Stored { .. } => answer.encoder.simple("OK"),
                Reply::NotStored { .. } => answer.encoder.error(BUSY.as_bytes()),
                other => answer.unexpected(other),
            })
        }
        Err(refusal) if options.replace => Err(refusal),
        // That the key is there is said first.
        Err(refusal) => {
            let op = call.push(call.arg(1), OpKind::Get { value: false }) as usize;
            call.late(move |answer| match answer.reply(op) {
                Reply::Hit { .. } => answer.encoder.error(BUSY.as_bytes()),
                Reply::Miss => answer.encoder.error(&refusal.0),
                Reply::Error(error) => answer.failed(error),
                other => answer.unexpected(other),
            })
        }
    }
}

struct Options {
    replace: bool,
    absolute: bool,
}

fn parse(call: &Call<'_>) -> Result<Options, Refusal> {
    let mut options = Options { replace: false, absolute: false };
    let (mut idle, mut frequency) = (false, false);
    let mut at = 4;
    while let Some(word) = call.args.get(at) {
        let more = at + 1 < call.args.len();
        match () {
            () if is(word, "REPLACE") => options.replace = true,
            () if is(word, "ABSTTL") => options.absolute = true,
            () if is(word, "IDLETIME") && more && !frequency => {
                at += 1;
                idle = true;
                if call.integer(at)? < 0 {
                    return Err("ERR Invalid IDLETIME value, must be >= 0".into());
                }
            }
            () if is(word, "FREQ") && more && !idle => {
                at += 1;
                frequency = true;
                if !(0..=255).contains(&call.integer(at)?) {
                    return Err("ERR Invalid FREQ value, must be >= 0 and <= 255".into());
                }
            }
            () => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    Ok(options)
}

fn expiry(call: &Call<'_>, absolute: bool) -> Result<Expiry, Refusal> {
    let ttl = u64::try_from(call.integer(2)?).map_err(|_| "ERR Invalid TTL value, must be >= 0")?;
    Ok(match ttl {
        0 => Expiry::Clear,
        at if absolute => Expiry::At(call.ctx.time.from_wall(at)),
        ttl => Expiry::At(call.ctx.now_ms.saturating_add(ttl)),
    })
}

fn value<'a>(call: &Call<'a>) -> Result<Text<'a>, Refusal> {
    payload::restore(call.arg(3), call.value_bytes_max()).map_err(|wrong| match wrong {
        Wrong::Checksum => "ERR DUMP payload version or checksum are wrong".into(),
        Wrong::Format => "ERR Bad data format".into(),
        Wrong::Type(number) => {
            format!("ERR the payload holds a value of type {number}: this server has strings only").into()
        }
    })
}
