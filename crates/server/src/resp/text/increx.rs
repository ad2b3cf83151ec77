//! `INCREX` of Redis 8.8: a number within bounds, and its time, in one step. (Valkey 9.2 has it with `NX` and `XX`, too, which are
//! refused.)

use terrace_engine::{Edit, NewBytes, Outcome as Edited, Put};
use terrace_protocol::resp::parse_integer;

use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::error::{NOT_A_FLOAT, NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::resp::float::Extended;
use crate::resp::options::{self, is};

const NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";

/// Numbers of one kind: what is added, and the bounds of the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Terms<T> {
    by: T,
    lower: T,
    upper: T,
}

/// What is to be done beside the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Manner {
    /// A sum out of bounds becomes the bound.
    saturates: bool,
    /// A time is set only where there is none.
    only_new_time: bool,
    time: Time,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Time {
    /// As it is.
    Keep,
    /// 0 for never.
    At(u64),
}

/// `INCREX key [BYINT n|BYFLOAT x] [LBOUND n] [UBOUND n] [SATURATE] [EX …|PERSIST] [ENX]`: the number, and what was added.
pub(in crate::resp) fn increx(call: &mut Call<'_>) -> Outcome {
    let (mut by, mut lower, mut upper) = (None, None, None);
    let (mut saturates, mut only_new_time, mut floats) = (false, false, false);
    let mut times = options::Times::default();
    let mut at = 2;
    while at < call.args.len() {
        let word = call.arg(at);
        let takes = |place: &mut Option<usize>| match place.replace(at + 1) {
            None if at + 1 < call.args.len() => Ok(2),
            _ => Err(Refusal::from(SYNTAX)),
        };
        at += match () {
            () if is(word, "BYINT") => takes(&mut by)?,
            () if is(word, "BYFLOAT") => {
                floats = true;
                takes(&mut by)?
            }
            () if is(word, "LBOUND") => takes(&mut lower)?,
            () if is(word, "UBOUND") => takes(&mut upper)?,
            () if is(word, "SATURATE") => {
                saturates = true;
                1
            }
            () if is(word, "ENX") => {
                only_new_time = true;
                1
            }
            () => times.read(call, at)?,
        };
    }
    let time = match times.end(call)? {
        terrace_engine::Expiry::Keep => Time::Keep,
        terrace_engine::Expiry::Clear => Time::At(0),
        terrace_engine::Expiry::At(at) => Time::At(at),
    };
    if only_new_time && !matches!(time, Time::At(1..)) {
        return Err(SYNTAX.into());
    }
    let manner = Manner { saturates, only_new_time, time };
    let argument = if floats {
        let read = |place: Option<usize>, default: Extended| match place {
            None => Ok(default),
            Some(at) => Extended::read(call.arg(at)).ok_or(NOT_A_FLOAT),
        };
        let terms = Terms {
            by: read(by, Extended::ZERO)?,
            lower: read(lower, Extended::largest(true))?,
            upper: read(upper, Extended::largest(false))?,
        };
        if terms.upper.is_less(terms.lower) {
            return Err(CROSSED.into());
        }
        let numbers = [terms.by, terms.lower, terms.upper].map(Extended::encode).concat();
        [&manner.encode()[..], &numbers].concat()
    } else {
        let read = |place: Option<usize>, default: i64| match place {
            None => Ok(default),
            Some(at) => parse_integer(call.arg(at)).ok_or(NOT_AN_INTEGER),
        };
        let terms = Terms { by: read(by, 1)?, lower: read(lower, i64::MIN)?, upper: read(upper, i64::MAX)? };
        if terms.upper < terms.lower {
            return Err(CROSSED.into());
        }
        let numbers = [terms.by, terms.lower, terms.upper].map(i64::to_le_bytes).concat();
        [&manner.encode()[..], &numbers].concat()
    };
    call.edit(call.arg(1), if floats { add_float } else { add }, &argument)
}

const CROSSED: &str = "ERR LBOUND can't be greater than UBOUND";
const MANNER_BYTES: usize = 10;

impl Manner {
    fn encode(self) -> [u8; MANNER_BYTES] {
        let (kept, at) = match self.time {
            Time::Keep => (true, 0),
            Time::At(at) => (false, at),
        };
        let mut bytes = [0; MANNER_BYTES];
        bytes[0] = u8::from(self.saturates) | u8::from(self.only_new_time) << 1;
        bytes[1] = kept.into();
        bytes[2..].copy_from_slice(&at.to_le_bytes());
        bytes
    }

    fn decode([flags, kept, at @ ..]: [u8; MANNER_BYTES]) -> Self {
        let time = if kept == 1 { Time::Keep } else { Time::At(u64::from_le_bytes(at)) };
        Self { saturates: flags & 1 != 0, only_new_time: flags & 2 != 0, time }
    }

    /// The record with its new value and time.
    fn put(self, edit: &Edit<'_>) -> Edited {
        let old = edit.old.map(|old| old.meta).unwrap_or_default();
        let expire_at = match self.time {
            Time::At(_) if self.only_new_time && old.expire_at != 0 => old.expire_at,
            Time::At(at) => at,
            Time::Keep => old.expire_at,
        };
        Edited::Put(Put {
            bytes: NewBytes::Value,
            flags: old.flags,
            expire_at,
            state: old.state & !edited::RAW,
        })
    }
}

fn add(edit: &mut Edit<'_>) -> Edited {
    let Some((manner, numbers)) = edit.argument.split_first_chunk() else { return Edited::Keep };
    let manner = Manner::decode(*manner);
    let mut numbers = numbers
        .chunks_exact(8)
        .filter_map(|bytes| bytes.first_chunk())
        .map(|bytes| i64::from_le_bytes(*bytes));
    let (Some(by), Some(lower), Some(upper)) = (numbers.next(), numbers.next(), numbers.next()) else {
        return Edited::Keep;
    };
    let Some(old) = edit.old.map_or(Some(0), |old| parse_integer(old.value)) else {
        return edited::refuse(edit, NOT_AN_INTEGER);
    };
    let sum = i128::from(old) + i128::from(by);
    let bounded = sum.clamp(lower.into(), upper.into());
    if sum != bounded && !manner.saturates {
        edited::integers(edit, [old, 0]);
        return Edited::Keep;
    }
    let (Ok(new), Ok(added)) = (i64::try_from(bounded), i64::try_from(bounded - i128::from(old))) else {
        return edited::refuse(edit, "ERR applied increment would overflow");
    };
    edit.value.extend_from_slice(new.to_string().as_bytes());
    edited::integers(edit, [new, added]);
    manner.put(edit)
}

fn add_float(edit: &mut Edit<'_>) -> Edited {
    let Some((manner, numbers)) = edit.argument.split_first_chunk() else { return Edited::Keep };
    let manner = Manner::decode(*manner);
    let mut numbers = numbers.chunks_exact(Extended::ENCODED_BYTES).map(Extended::decode);
    let (Some(Some(by)), Some(Some(lower)), Some(Some(upper))) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return Edited::Keep;
    };
    let Some(old) = edit.old.map_or(Some(Extended::ZERO), |old| Extended::read(old.value)) else {
        return edited::refuse(edit, NOT_A_FLOAT);
    };
    if !old.is_finite() || !by.is_finite() {
        return edited::refuse(edit, NOT_FINITE);
    }
    let sum = old.add(by);
    let bounded = match sum {
        None if by.is_negative() => lower,
        None => upper,
        Some(sum) if sum.is_less(lower) => lower,
        Some(sum) if upper.is_less(sum) => upper,
        Some(sum) => sum,
    };
    if sum != Some(bounded) && !manner.saturates {
        edited::floats(edit, [old, Extended::ZERO]);
        return Edited::Keep;
    }
    let Some(added) = bounded.add(old.negated()) else { return edited::refuse(edit, NOT_FINITE) };
    edit.value.extend_from_slice(&bounded.write());
    edited::floats(edit, [bounded, added]);
    manner.put(edit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manners_come_back() {
        for time in [Time::Keep, Time::At(0), Time::At(77)] {
            let manner = Manner { saturates: true, only_new_time: false, time };
            assert_eq!(Manner::decode(manner.encode()), manner);
        }
        let manner = Manner { saturates: false, only_new_time: true, time: Time::At(1) };
        assert_eq!(Manner::decode(manner.encode()), manner);
    }
}
