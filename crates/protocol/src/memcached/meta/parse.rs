//! Lines of meta commands to requests, or to memcached's errors.
//!
//! memcached reads all flags before it says what is wrong; the last thing that is wrong with a number is what it says, but an
//! unknown flag, or one that is there twice, ends the reading. What can't be a flag at all makes a bad line of the command.

use super::{Flags, Key, Meta, SetMode, bit};
use crate::memcached::KEY_BYTES_MAX;
use crate::memcached::base64::{KeyBuffer, decode};
use crate::memcached::command::Command;
use crate::memcached::line::{Header, HeaderKind, Line, VALUE_BYTES_MAX, refused};
use crate::memcached::number::{digits, digits32, signed_digits};
use crate::memcached::reply::{
    BAD_FLAG_NUMBER, BAD_INITIAL, BAD_KEY, BAD_LINE, BAD_MA_MODE, BAD_MS_MODE, BAD_NUMERIC_DELTA,
    DUPLICATE_FLAG, INVALID_FLAG, INVALID_OR_DUPLICATE_FLAG, LONG_OPAQUE, MANY_FLAGS,
};
use crate::memcached::words::Words;

/// Most words of a meta command, its name included.
const WORDS_MAX: usize = 20;

/// The longest opaque token, its letter included.
const OPAQUE_BYTES_MAX: usize = 32;

/// The flags that memcached 1.6.45 knows.
const KNOWN: &[u8] = b"CDEFIJLMNOPRTbcfhklqstuvx";

/// A key and the words behind it.
struct Start<'a> {
    key: &'a [u8],
    rest: Words<'a>,
    words: usize,
}

impl<'a> Start<'a> {
    /// `None` without a key, or where a word behind the first `before` can't be a flag.
    fn of(mut words: Words<'a>, before: usize) -> Option<Self> {
        let key = words.next()?;
        // memcached stops counting words where no command may have as many.
        let behind = words.take(WORDS_MAX).count();
        let flags = words.skip(before).take(WORDS_MAX);
        flags.clone().all(|word| may_be_flag(word[0])).then_some(Self { key, rest: words, words: 2 + behind })
    }
}

fn may_be_flag(first: u8) -> bool {
    matches!(first, b'A'..=b'z' | b'0'..=b'9')
}

/// `mg KEY FLAG*`.
pub(in crate::memcached) fn get(words: Words<'_>) -> Line<'_> {
    let Some(start) = Start::of(words, 0) else { return refused(BAD_LINE) };
    match read(&start) {
        Ok(meta) if opaque_fits(&meta) => Line::Command(Command::MetaGet(meta)),
        Ok(_) => refused(LONG_OPAQUE),
        Err(reply) => refused(reply),
    }
}

/// `ms KEY LENGTH FLAG*`, with a data block, which is skipped after an error once its length is known.
pub(in crate::memcached) fn set(words: Words<'_>) -> Line<'_> {
    let Some(start) = Start::of(words, 1) else { return refused(BAD_LINE) };
    let mut rest = start.rest;
    let length = rest.next().and_then(signed_digits).filter(|bytes| (0..=VALUE_BYTES_MAX).contains(bytes));
    let Some(value_bytes) = length.map(i64::unsigned_abs) else { return refused(BAD_LINE) };
    let skipped = |reply| Line::Refused { reply, noreply: false, skip: value_bytes + 2 };
    if start.key.len() > KEY_BYTES_MAX {
        return skipped(BAD_LINE);
    }
    if start.words > WORDS_MAX {
        return skipped(MANY_FLAGS);
    }
    let meta = match meta(start.key, rest) {
        Ok(meta) => meta,
        Err(reply) => return skipped(reply),
    };
    let mode = match mode(&meta) {
        None | Some(Some(b'S')) => SetMode::Set,
        Some(Some(b'E')) => SetMode::Add,
        Some(Some(b'A')) => SetMode::Append,
        Some(Some(b'P')) => SetMode::Prepend,
        Some(Some(b'R')) => SetMode::Replace,
        Some(_) => return skipped(BAD_MS_MODE),
    };
    if !opaque_fits(&meta) {
        return skipped(LONG_OPAQUE);
    }
    match usize::try_from(value_bytes) {
        Ok(value_bytes) => {
            Line::Store(Header { kind: HeaderKind::Meta { meta, mode }, value_bytes, noreply: false })
        }
        Err(_) => skipped(BAD_LINE),
    }
}

/// `md KEY FLAG*` and, with `number`, `ma KEY FLAG*`.
pub(in crate::memcached) fn delete_or_number(words: Words<'_>, number: bool) -> Line<'_> {
    let Some(start) = Start::of(words, 0) else { return refused(BAD_LINE) };
    let meta = match read(&start) {
        Ok(meta) => meta,
        Err(_) if number => return refused(INVALID_OR_DUPLICATE_FLAG),
        Err(reply) => return refused(reply),
    };
    let down = match mode(&meta) {
        None | Some(Some(b'I' | b'+')) => false,
        Some(Some(b'D' | b'-')) => true,
        Some(_) if number => return refused(BAD_MA_MODE),
        Some(_) => false,
    };
    if !opaque_fits(&meta) {
        return refused(LONG_OPAQUE);
    }
    Line::Command(if number { Command::MetaNumber { meta, down } } else { Command::MetaDelete(meta) })
}

/// `me KEY [b]`.
pub(in crate::memcached) fn debug(words: Words<'_>) -> Line<'_> {
    let start = Start::of(words, 0).filter(|start| start.key.len() <= KEY_BYTES_MAX);
    let Some(Start { key: text, mut rest, .. }) = start else { return refused(BAD_LINE) };
    let base64 = rest.next() == Some(b"b");
    if base64 && decode(text, &mut KeyBuffer::default()).is_none() {
        return refused(BAD_LINE);
    }
    Line::Command(Command::MetaDebug { key: Key { text, base64 } })
}

/// The letter behind `M`, if that is there; `Some(None)` if none stands behind it.
fn mode(meta: &Meta<'_>) -> Option<Option<u8>> {
    meta.flags.token(b'M').map(|token| token.first().copied())
}

/// A key and flags that are few enough.
fn read<'a>(start: &Start<'a>) -> Result<Meta<'a>, &'static [u8]> {
    if start.key.len() > KEY_BYTES_MAX {
        return Err(BAD_LINE);
    }
    if start.words > WORDS_MAX {
        return Err(MANY_FLAGS);
    }
    meta(start.key, start.rest)
}

fn opaque_fits(meta: &Meta<'_>) -> bool {
    meta.flags.token(b'O').is_none_or(|opaque| opaque.len() < OPAQUE_BYTES_MAX)
}

fn meta<'a>(key: &'a [u8], words: Words<'a>) -> Result<Meta<'a>, &'static [u8]> {
    let mut flags = Flags { words, seen: 0 };
    let mut wrong = None;
    // Where memcached says nothing else.
    let mut reply = BAD_LINE;
    for word in words {
        let letter = word[0];
        if flags.has(letter) {
            return Err(DUPLICATE_FLAG);
        }
        if !KNOWN.contains(&letter) {
            return Err(INVALID_FLAG);
        }
        flags.seen |= bit(letter);
        if let Some(error) = error_of(letter, word, key) {
            reply = error.unwrap_or(reply);
            wrong = Some(reply);
        }
    }
    let key = Key { text: key, base64: flags.has(b'b') };
    wrong.map_or(Ok(Meta { key, flags }), Err)
}

/// What is wrong with a flag: `Some(None)` is an error without a text of its own.
fn error_of(letter: u8, word: &[u8], key: &[u8]) -> Option<Option<&'static [u8]>> {
    let number = &word[1..];
    let (right, text) = match letter {
        b'b' => (decode(key, &mut KeyBuffer::default()).is_some(), Some(BAD_KEY)),
        b'N' | b'R' | b'T' => (signed_digits(number).is_some(), Some(BAD_FLAG_NUMBER)),
        b'C' | b'E' => (digits(number).is_some(), Some(BAD_FLAG_NUMBER)),
        b'D' => (digits(number).is_some(), Some(BAD_NUMERIC_DELTA)),
        b'J' => (digits(number).is_some(), Some(BAD_INITIAL)),
        b'F' => (digits32(number).is_some(), None),
        _ => (true, None),
    };
    (!right).then_some(text)
}
