//! What edits answer: bytes that say what the client is told.
//!
//! ```text
//!   :number, 8 bytes     $string     +  (OK)     _  (null)     * ,  two numbers     -error     nothing: another operation of the command has the answer
//! ```

use std::ops::Range;

use terrace_engine::edit::STATE_OF_VALUE;
use terrace_engine::{Edit, NewBytes, OldRecord, Outcome, Put, Reply};

use super::float::Extended;
use super::step::Answer;

/// The edit answers with a number.
pub(super) fn integer(edit: &mut Edit<'_>, number: i64) {
    edit.answer.push(b':');
    edit.answer.extend(number.to_le_bytes());
}

/// The edit answers with two numbers.
pub(super) fn integers(edit: &mut Edit<'_>, numbers: [i64; 2]) {
    edit.answer.push(b'*');
    numbers.iter().for_each(|number| edit.answer.extend(number.to_le_bytes()));
}

/// The edit answers with two numbers that have points.
pub(super) fn floats(edit: &mut Edit<'_>, numbers: [Extended; 2]) {
    edit.answer.push(b',');
    numbers.iter().for_each(|number| edit.answer.extend(number.encode()));
}

/// The edit answers with its new value.
pub(super) fn new_value(edit: &mut Edit<'_>) {
    edit.answer.push(b'$');
    edit.answer.extend_from_slice(edit.value);
}

/// The edit answers with `OK`.
pub(super) fn ok(edit: &mut Edit<'_>) {
    edit.answer.push(b'+');
}

/// The edit answers with null.
pub(super) fn null(edit: &mut Edit<'_>) {
    edit.answer.push(b'_');
}

/// The edit changes nothing, answers with an error, and those behind it that need what it carries do nothing.
pub(super) fn refuse(edit: &mut Edit<'_>, error: &str) -> Outcome {
    edit.carry.clear();
    edit.answer.push(b'-');
    edit.answer.extend_from_slice(error.as_bytes());
    Outcome::Keep
}

/// In a record's state: Redis would keep the value as `raw`, however short it is, for a command wrote into its bytes.
pub(super) const RAW: u8 = STATE_OF_VALUE;

/// The record with another value: what is kept beside it stays.
pub(super) fn changed(old: Option<OldRecord<'_>>) -> Outcome {
    with_value(old, 0)
}

/// The same where bytes of the value were written: it is [`RAW`].
pub(super) fn written_into(old: Option<OldRecord<'_>>) -> Outcome {
    with_value(old, RAW)
}

fn with_value(old: Option<OldRecord<'_>>, form: u8) -> Outcome {
    let meta = old.map(|old| old.meta).unwrap_or_default();
    let state = meta.state & !RAW | form;
    Outcome::Put(Put { bytes: NewBytes::Value, flags: meta.flags, expire_at: meta.expire_at, state })
}

/// A record of its own, as `SET` writes one; of this form, 0 or [`RAW`].
pub(super) fn anew(form: u8) -> Outcome {
    Outcome::Put(Put { bytes: NewBytes::Value, flags: 0, expire_at: 0, state: form })
}

/// Tells what an edit answered.
pub(super) fn show(answer: &mut Answer<'_>, reply: Reply) {
    match reply {
        Reply::Edited { answer: span, .. } => {
            let batch = answer.batch;
            write(answer, batch.output(span));
        }
        other => answer.unexpected(other),
    }
}

/// Tells the first answer that edits of one command gave.
pub(super) fn show_first(answer: &mut Answer<'_>, ops: Range<usize>) {
    let batch = answer.batch;
    for op in ops {
        match answer.reply(op) {
            Reply::Edited { answer: span, .. } if span.is_empty() => {}
            Reply::Edited { answer: span, .. } => return write(answer, batch.output(span)),
            other => return answer.unexpected(other),
        }
    }
    // Each command has an edit that answers whatever those before it did.
    answer.unexpected(Reply::Done);
}

fn write(answer: &mut Answer<'_>, bytes: &[u8]) {
    match bytes {
        [b':', number @ ..] => {
            let number = number.first_chunk().map_or(0, |number| i64::from_le_bytes(*number));
            answer.encoder.integer(number);
        }
        [b'$', string @ ..] => answer.encoder.bulk(string),
        [b'-', error @ ..] => answer.encoder.error(error),
        [b'_'] => answer.encoder.null(),
        [b'*', numbers @ ..] => {
            answer.encoder.array(2);
            for number in numbers.chunks_exact(8).filter_map(|bytes| bytes.first_chunk()) {
                answer.encoder.integer(i64::from_le_bytes(*number));
            }
        }
        [b',', numbers @ ..] => {
            answer.encoder.array(2);
            for number in numbers.chunks_exact(Extended::ENCODED_BYTES).filter_map(Extended::decode) {
                answer.encoder.decimal(&number.write());
            }
        }
        _ => answer.encoder.simple("OK"),
    }
}
