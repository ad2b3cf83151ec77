//! `SCAN`.

use terrace_engine::{OpKind, Reply};

use super::call::{Call, Outcome};
use super::error::{NOT_AN_INTEGER, SYNTAX};
use super::glob;
use super::options::is;
use terrace_protocol::resp::parse_integer;

/// A step looks at no more keys than this, whatever `COUNT` says, so that it delays nobody.
const COUNT_MAX: i64 = 4096;

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`.
pub(super) fn scan(call: &mut Call<'_>) -> Outcome {
    let cursor =
        std::str::from_utf8(call.arg(1)).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let cursor = cursor.and_then(|text| text.parse::<u64>().ok()).ok_or("ERR invalid cursor")?;
    let mut count = 10;
    let mut pattern: Option<Box<[u8]>> = None;
    let mut strings = true;
    for at in (2..call.args.len()).step_by(2) {
        let (word, value) = (call.arg(at), call.args.get(at + 1).ok_or(SYNTAX)?);
        if is(word, "COUNT") {
            count = parse_integer(value).ok_or(NOT_AN_INTEGER)?;
            if count < 1 {
                return Err(SYNTAX.into());
            }
        } else if is(word, "MATCH") {
            pattern = (value != b"*").then(|| value.into());
        } else if is(word, "TYPE") {
            strings = is(value, "string");
        } else {
            return Err(SYNTAX.into());
        }
    }
    let op = call.push(b"", OpKind::Scan { cursor, count: count.min(COUNT_MAX) as u32 }) as usize;
    call.late(move |answer| match answer.reply(op) {
        Reply::Scanned { cursor } => {
            let wanted =
                |key: &&[u8]| strings && pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, key));
            let keys: Vec<&[u8]> = answer.batch.scanned(op).filter(wanted).collect();
            answer.encoder.array(2);
            answer.encoder.bulk(cursor.to_string().as_bytes());
            answer.encoder.array(keys.len());
            keys.iter().for_each(|key| answer.encoder.bulk(key));
        }
        Reply::Error(error) => answer.failed(error),
        other => answer.unexpected(other),
    })
}
