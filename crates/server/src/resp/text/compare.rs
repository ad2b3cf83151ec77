//! What is done only if a value is, or is not, one that the client knows: `SET … IFEQ`, `DELEX`, `DIGEST` of Redis 8.4, `DELIFEQ` of
//! Valkey 9.0.

use terrace_engine::{Condition, Edit, Expiry, OpKind, Outcome as Edited, Put};
use terrace_engine::{NewBytes, Reply};
use xxhash_rust::xxh3::xxh3_64;

use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::error::{Refusal, SYNTAX, arity};
use crate::resp::options::{SetOptions, is};
use crate::resp::step::Answer;

/// What a value is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::resp) enum Comparison {
    /// It is this value.
    Equal,
    /// It is another value, or there is none.
    Differs,
    /// Its digest is this one.
    DigestEqual,
    /// Its digest is another one, or there is none.
    DigestDiffers,
}

const WORDS: [(&str, Comparison); 4] = [
    ("IFEQ", Comparison::Equal),
    ("IFNE", Comparison::Differs),
    ("IFDEQ", Comparison::DigestEqual),
    ("IFDNE", Comparison::DigestDiffers),
];

/// Digits of a digest.
const DIGITS: usize = 16;
const NOT_A_DIGEST: &str = "ERR digest must be 16 hexadecimal digits, as DIGEST tells it";

/// The comparison that a word names.
pub(in crate::resp) fn named(word: &[u8]) -> Option<Comparison> {
    WORDS.iter().find(|(name, _)| is(word, name)).map(|(_, comparison)| *comparison)
}

impl Comparison {
    /// Refuses what can't be compared with.
    pub fn check(self, with: &[u8]) -> Result<(), Refusal> {
        let digests = matches!(self, Self::DigestEqual | Self::DigestDiffers);
        let is_digest = with.len() == DIGITS && with.iter().all(u8::is_ascii_hexdigit);
        if digests && !is_digest { Err(NOT_A_DIGEST.into()) } else { Ok(()) }
    }

    fn holds(self, value: Option<&[u8]>, with: &[u8]) -> bool {
        let is_digest = |value: &[u8]| digest(value).eq_ignore_ascii_case(with);
        match self {
            Self::Equal => value == Some(with),
            Self::Differs => value != Some(with),
            Self::DigestEqual => value.is_some_and(is_digest),
            Self::DigestDiffers => !value.is_some_and(is_digest),
        }
    }
}

/// The digest of a value, as Redis makes it.
fn digest(value: &[u8]) -> Vec<u8> {
    format!("{:016x}", xxh3_64(value)).into_bytes()
}

/// `DIGEST key`.
pub(in crate::resp) fn tell(call: &mut Call<'_>) -> Outcome {
    call.computed(call.arg(1), |encoder, value| match value {
        None => encoder.null(),
        Some(value) => encoder.bulk(&digest(value)),
    })
}

/// The argument of an edit: what is compared with, how, and what else there is to know.
struct Argument<'a> {
    comparison: Comparison,
    with: &'a [u8],
    /// 0 for never, `u64::MAX` to keep it.
    expire_at: u64,
    value: &'a [u8],
}

const KEEP: u64 = u64::MAX;

impl<'a> Argument<'a> {
    fn encode(&self) -> Vec<u8> {
        let length = (self.with.len() as u64).to_le_bytes();
        let expire_at = self.expire_at.to_le_bytes();
        [&[self.comparison as u8][..], &expire_at, &length, self.with, self.value].concat()
    }

    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (expire_at, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (with, value) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
        let comparison =
            WORDS.iter().map(|(_, comparison)| *comparison).find(|known| *known as u8 == *kind)?;
        Some(Self { comparison, with, expire_at: u64::from_le_bytes(*expire_at), value })
    }

    fn holds(&self, edit: &Edit<'_>) -> bool {
        self.comparison.holds(edit.old.map(|old| old.value), self.with)
    }
}

/// `SET key value IFEQ …`.
pub(in crate::resp) fn set(
    call: &mut Call<'_>,
    options: &SetOptions,
    (comparison, at): (Comparison, usize),
) -> Outcome {
    let expire_at = match options.expiry {
        Expiry::Keep => KEEP,
        Expiry::Clear => 0,
        Expiry::At(at) => at,
    };
    let argument = Argument { comparison, with: call.arg(at), expire_at, value: call.arg(2) }.encode();
    if !options.get {
        return call.edit(call.arg(1), put_if, &argument);
    }
    let argument = call.batch.bytes(&argument);
    let first = call.batch.len() as u32;
    call.atomic(|call| {
        call.push(call.arg(1), OpKind::Get { value: true });
        call.push_edit(call.arg(1), put_if, argument);
    });
    call.answer(crate::resp::step::Step::Many { first, count: 2, show: old_value })
}

/// What was there, unless the write failed.
fn old_value(answer: &mut Answer<'_>, ops: std::ops::Range<usize>) {
    match (answer.reply(ops.start), answer.reply(ops.start + 1)) {
        (Reply::Hit { value: Some(value), .. }, Reply::Edited { .. }) => answer.output(value),
        (Reply::Miss, Reply::Edited { .. }) => answer.encoder.null(),
        (Reply::Hit { .. } | Reply::Miss, other) | (other, _) => answer.unexpected(other),
    }
}

fn put_if(edit: &mut Edit<'_>) -> Edited {
    let Some(wanted) = Argument::decode(edit.argument) else { return Edited::Keep };
    if !wanted.holds(edit) {
        edited::null(edit);
        return Edited::Keep;
    }
    edited::ok(edit);
    edit.value.extend_from_slice(wanted.value);
    let expire_at = match wanted.expire_at {
        KEEP => edit.old.map_or(0, |old| old.meta.expire_at),
        at => at,
    };
    Edited::Put(Put { bytes: NewBytes::Value, flags: 0, expire_at, state: 0 })
}

/// `DELEX key [IFEQ value|IFNE value|IFDEQ digest|IFDNE digest]`.
pub(in crate::resp) fn delex(call: &mut Call<'_>) -> Outcome {
    let comparison = match call.args.len() {
        2 => {
            let kind = OpKind::Delete { condition: Condition::Always, old_value: false };
            return call.one(call.arg(1), kind, |answer, reply| match reply {
                Reply::Deleted { .. } => answer.encoder.integer(1),
                Reply::Miss => answer.encoder.integer(0),
                other => answer.unexpected(other),
            });
        }
        4 => named(call.arg(2)).ok_or(SYNTAX)?,
        _ => return Err(arity(call.name)),
    };
    comparison.check(call.arg(3))?;
    delete_if(call, comparison, call.arg(3))
}

/// `DELIFEQ key value`.
pub(in crate::resp) fn delifeq(call: &mut Call<'_>) -> Outcome {
    delete_if(call, Comparison::Equal, call.arg(2))
}

fn delete_if(call: &mut Call<'_>, comparison: Comparison, with: &[u8]) -> Outcome {
    let argument = Argument { comparison, with, expire_at: 0, value: b"" }.encode();
    call.edit(call.arg(1), remove_if, &argument)
}

fn remove_if(edit: &mut Edit<'_>) -> Edited {
    let holds = Argument::decode(edit.argument).is_some_and(|wanted| wanted.holds(edit));
    let removed = holds && edit.old.is_some();
    edited::integer(edit, removed.into());
    if removed { Edited::Delete } else { Edited::Keep }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_redis_own() {
        // As redis.io shows it for "Hello world".
        assert_eq!(digest(b"Hello world"), b"b6acb9d84a38ff74");
        assert_eq!(digest(b"").len(), DIGITS);
    }

    #[test]
    fn what_is_not_there_differs_from_all() {
        for (comparison, with) in [
            (Comparison::Equal, &b"v"[..]),
            (Comparison::Differs, b"v"),
            (Comparison::DigestEqual, &digest(b"v")),
            (Comparison::DigestDiffers, &digest(b"v").to_ascii_uppercase()),
        ] {
            let differs = matches!(comparison, Comparison::Differs | Comparison::DigestDiffers);
            assert_eq!(comparison.holds(None, with), differs, "{comparison:?}");
            assert_eq!(comparison.holds(Some(b"v"), with), !differs, "{comparison:?}");
            assert_eq!(comparison.holds(Some(b"w"), with), differs, "{comparison:?}");
        }
        assert!(Comparison::DigestEqual.check(b"123").is_err());
        assert!(Comparison::DigestEqual.check(b"0123456789abcdeg").is_err());
        assert!(Comparison::Equal.check(b"123").is_ok());
    }

    #[test]
    fn arguments_come_back() {
        let argument = Argument { comparison: Comparison::Differs, with: b"ab", expire_at: 7, value: b"cd" };
        let bytes = argument.encode();
        let back = Argument::decode(&bytes).unwrap();
        assert_eq!(
            (back.comparison, back.with, back.expire_at, back.value),
            (Comparison::Differs, &b"ab"[..], 7, &b"cd"[..])
        );
        assert!((0..19).all(|len| Argument::decode(&bytes[..len]).is_none()));
    }
}
