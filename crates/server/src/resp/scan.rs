//! `SCAN`.

use terrace_engine::{OpKind, Reply};

use super::call::{Call, Outcome};
use super::error::{NOT_AN_INTEGER, SYNTAX};
use super::glob;
use super::options::is;
use crate::effort::TOO_MUCH;
use terrace_protocol::resp::parse_integer;

/// A step looks at no more keys than this, whatever `COUNT` says, so that it delays nobody.
const COUNT_MAX: i64 = 4096;

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`.
pub(super) fn scan(call: &mut Call<'_>) -> Outcome {
    let cursor = cursor(call.arg(1)).ok_or("ERR invalid cursor")?;
    let mut count = 10;
    let mut pattern = None;
    let mut strings = true;
    for at in (2..call.args.len()).step_by(2) {
        let (word, value) = (call.arg(at), call.args.get(at + 1).ok_or(SYNTAX)?);
        if is(word, "COUNT") {
            count = parse_integer(value).ok_or(NOT_AN_INTEGER)?;
            if count < 1 {
                return Err(SYNTAX.into());
            }
        } else if is(word, "MATCH") {
            pattern = (value != b"*").then(|| glob::read(value)).transpose()?;
        } else if is(word, "TYPE") {
            strings = is(value, "string");
        } else {
            return Err(SYNTAX.into());
        }
    }
    // What it compares with many names has a turn of its own.
    call.client.pausing |= pattern.is_some();
    let op = call.push(b"", OpKind::Scan { cursor, count: count.min(COUNT_MAX) as u32 }) as usize;
    call.late(move |answer| match answer.reply(op) {
        Reply::Scanned { cursor } => {
            let (batch, effort) = (answer.batch, &mut *answer.effort);
            let mut fits = |key: &[u8]| pattern.as_ref().is_none_or(|pattern| pattern.matches(key, effort));
            let keys: Vec<&[u8]> = batch.scanned(op).filter(|key| strings && fits(key)).collect();
            if answer.effort.is_over() {
                return answer.encoder.error(TOO_MUCH.as_bytes());
            }
            answer.encoder.array(2);
            answer.encoder.bulk(cursor.to_string().as_bytes());
            answer.encoder.array(keys.len());
            keys.iter().for_each(|key| answer.encoder.bulk(key));
        }
        Reply::Error(error) => answer.failed(error),
        other => answer.unexpected(other),
    })
}

/// Reads a cursor as C's `strtoul` does, which Redis uses: nothing is 0, and a minus counts backwards from the largest one.
fn cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negative { number.wrapping_neg() } else { number })
}
