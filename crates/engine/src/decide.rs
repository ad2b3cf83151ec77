//! What an operation makes of the old record: pure, so that it can run inside the index's critical section, outside of
//! it for large values, and again if the record changed meanwhile.

use crate::edit::{Edit, NewBytes, OldRecord, Outcome, Put, STATE_OF_VALUE};
use crate::op::{Condition, Delta, ExpireIf, Expiry, OpKind};
use crate::record::Head;
use crate::reply::{Meta, OpError};
use terrace_media::Buffer;

/// A live record as an operation sees it.
#[derive(Clone, Copy)]
pub(crate) struct Old<'a> {
    pub head: &'a Head,
    /// The value, if the operation needs it.
    pub value: &'a [u8],
}

/// Buffers for what is computed, reused from operation to operation.
#[derive(Default)]
pub(crate) struct Scratch {
    /// A new value, or a number as text.
    pub value: Buffer,
    /// What an edit answers.
    pub answer: Vec<u8>,
    /// What edits of one atomic group hand on.
    pub carry: Buffer,
}

/// Larger buffers are given back between batches.
const KEEP_BYTES: usize = 1 << 20;

impl Scratch {
    /// Gives the memory of large values back. What is in the buffers is lost.
    pub fn trim(&mut self) {
        for buffer in [&mut self.value, &mut self.carry] {
            buffer.clear();
            buffer.shrink_to(KEEP_BYTES);
        }
        self.answer.clear();
        self.answer.shrink_to(KEEP_BYTES);
    }
}

/// Where a new value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewValue {
    /// The operation's argument.
    Argument,
    /// [`Scratch::value`].
    Scratch,
    /// The old record's (its extent, if it has one).
    Old,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decision {
    /// Store, then answer `Answer`.
    Put { value: NewValue, flags: u32, expire_at: u64, state: u8, token: u64, answer: Answer },
    /// Delete, then answer.
    Delete { answer: Answer },
    /// Only answer.
    Answer(Answer),
}

/// The shape of the answer; spans are filled in where the value is at hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    Miss,
    Stored {
        old: bool,
    },
    NotStored {
        present: bool,
        old: bool,
    },
    Deleted {
        old: bool,
    },
    /// The record's metadata as they are after the change, and the value if asked for.
    Hit {
        value: bool,
    },
    Number(i64),
    Unsigned(u64),
    /// [`Scratch::value`], as text.
    FloatInScratch,
    /// [`Scratch::answer`], and whether the record was written or deleted.
    Edited {
        changed: bool,
    },
    /// Nothing of the group is done.
    Aborted,
    Length(u64),
    Error(OpError),
}

/// Whether the operation needs the old value (and not only its head).
pub(crate) fn needs_value(kind: &OpKind) -> bool {
    match kind {
        OpKind::Get { value } | OpKind::Expire { value, .. } => *value,
        OpKind::Set { old_value, .. } | OpKind::Delete { old_value, .. } => *old_value,
        OpKind::Incr { .. } | OpKind::Append { .. } | OpKind::Edit { .. } => true,
        OpKind::Flush { .. }
        | OpKind::Swap { .. }
        | OpKind::Scan { .. }
        | OpKind::Range { .. }
        | OpKind::Purge => false,
    }
}

/// Decides. `argument` is the operation's value or its edit's argument, `scratch` receives what is computed.
pub(crate) fn decide(
    kind: &OpKind,
    argument: &[u8],
    old: Option<Old<'_>>,
    now_ms: u64,
    scratch: &mut Scratch,
) -> Decision {
    match *kind {
        OpKind::Set { condition, expiry, flags, old_value, .. } => {
            let present = old.is_some();
            if !holds(condition, old) {
                return Decision::Answer(Answer::NotStored { present, old: old_value && present });
            }
            let old_head = old.map(|old| *old.head).unwrap_or_default();
            let expire_at = match expiry {
                Expiry::Clear => 0,
                Expiry::Keep => old_head.expire_at,
                Expiry::At(at) => at.max(1),
            };
            let answer = Answer::Stored { old: old_value && present };
            if expire_at != 0 && expire_at <= now_ms {
                // Stored and expired in one: what was there is gone.
                return if present { Decision::Delete { answer } } else { Decision::Answer(answer) };
            }
            let flags = flags.unwrap_or(old_head.flags);
            Decision::Put { value: NewValue::Argument, flags, expire_at, state: 0, token: 0, answer }
        }
        OpKind::Delete { condition, old_value } => match old {
            None => Decision::Answer(Answer::Miss),
            Some(_) if !holds(condition, old) => {
                Decision::Answer(Answer::NotStored { present: true, old: false })
            }
            Some(_) => Decision::Delete { answer: Answer::Deleted { old: old_value } },
        },
        OpKind::Append { front, create, condition, value_bytes_max, .. } => {
            if (old.is_none() && !create) || !holds(condition, old) {
                return Decision::Answer(Answer::NotStored { present: old.is_some(), old: false });
            }
            let head = old.map(|old| *old.head).unwrap_or_default();
            let value = old.map_or(&[][..], |old| old.value);
            if argument.len() + value.len() > value_bytes_max as usize {
                return Decision::Answer(Answer::Error(OpError::ValueTooLong(value_bytes_max.into())));
            }
            let (first, second) = if front { (argument, value) } else { (value, argument) };
            scratch.value.clear();
            scratch.value.extend_from_slice(first);
            scratch.value.extend_from_slice(second);
            put_scratch(&head, Answer::Length(scratch.value.len() as u64))
        }
        OpKind::Incr { by } => {
            let head = old.map(|old| *old.head).unwrap_or_default();
            match add(by, old.map(|old| old.value), &mut scratch.value) {
                Ok(Answer::Miss) => Decision::Answer(Answer::Miss),
                Ok(answer) => put_scratch(&head, answer),
                Err(error) => Decision::Answer(Answer::Error(error)),
            }
        }
        OpKind::Expire { expiry, condition, value } => {
            let Some(old) = old else { return Decision::Answer(Answer::Miss) };
            let new = match expiry {
                Expiry::Keep => return Decision::Answer(Answer::Hit { value }),
                Expiry::Clear => 0,
                Expiry::At(at) => at.max(1),
            };
            if !may_expire(condition, old.head.expire_at, new) {
                return Decision::Answer(Answer::NotStored { present: true, old: false });
            }
            let answer = Answer::Hit { value };
            if new != 0 && new <= now_ms {
                Decision::Delete { answer }
            } else if new == old.head.expire_at {
                Decision::Answer(answer)
            } else {
                let Head { flags, token, .. } = *old.head;
                let state = old.head.meta.state();
                Decision::Put { value: NewValue::Old, flags, expire_at: new, state, token, answer }
            }
        }
        OpKind::Edit { edit, .. } => run(edit, argument, old, now_ms, scratch),
        OpKind::Get { value } => {
            Decision::Answer(if old.is_some() { Answer::Hit { value } } else { Answer::Miss })
        }
        // The caller shows a purge the expired record that others don't see.
        OpKind::Purge => match old {
            Some(old) if old.head.expire_at != 0 && old.head.expire_at <= now_ms => {
                Decision::Delete { answer: Answer::Deleted { old: false } }
            }
            _ => Decision::Answer(Answer::Miss),
        },
        OpKind::Flush { .. } | OpKind::Swap { .. } | OpKind::Scan { .. } | OpKind::Range { .. } => {
            Decision::Answer(Answer::Miss)
        }
    }
}

/// A computed value over what was beside the old one, save what was said of that value.
fn put_scratch(old: &Head, answer: Answer) -> Decision {
    let (flags, expire_at, state) = (old.flags, old.expire_at, old.meta.state() & !STATE_OF_VALUE);
    Decision::Put { value: NewValue::Scratch, flags, expire_at, state, token: 0, answer }
}

fn run(
    edit: crate::edit::EditFn,
    argument: &[u8],
    old: Option<Old<'_>>,
    now_ms: u64,
    scratch: &mut Scratch,
) -> Decision {
    let Scratch { value, answer, carry } = scratch;
    value.clear();
    answer.clear();
    let old_record = old.map(|old| OldRecord {
        meta: Meta {
            version: old.head.version,
            token: old.head.token,
            flags: old.head.flags,
            expire_at: old.head.expire_at,
            value_bytes: old.value.len() as u64,
            state: old.head.meta.state(),
        },
        value: old.value,
    });
    let outcome = edit(&mut Edit { argument, old: old_record, now_ms, value, answer, carry });
    let deletes = match outcome {
        Outcome::Abort => return Decision::Answer(Answer::Aborted),
        Outcome::Keep => false,
        Outcome::Delete => true,
        Outcome::Put(put) | Outcome::Tokened(put, _) => put.expire_at != 0 && put.expire_at <= now_ms,
    };
    let token = if let Outcome::Tokened(_, token) = outcome { token } else { 0 };
    let kept = Answer::Edited { changed: false };
    let answer = Answer::Edited { changed: true };
    match outcome {
        _ if deletes && old.is_some() => Decision::Delete { answer },
        Outcome::Put(put) | Outcome::Tokened(put, _) if !deletes => {
            debug_assert!(put.state < crate::edit::STATE_END, "a protocol's state of {}", put.state);
            let value = match (put.bytes, old) {
                (NewBytes::Old, Some(_)) => NewValue::Old,
                _ => NewValue::Scratch,
            };
            let Put { flags, expire_at, state, .. } = put;
            Decision::Put { value, flags, expire_at, state, token, answer }
        }
        _ => Decision::Answer(kept),
    }
}

fn holds(condition: Condition, old: Option<Old<'_>>) -> bool {
    match condition {
        Condition::Always => true,
        Condition::Absent => old.is_none(),
        Condition::Present => old.is_some(),
        Condition::Version(version) => old.is_some_and(|old| old.head.meta_for_answers().cas() == version),
    }
}

fn may_expire(condition: ExpireIf, old: u64, new: u64) -> bool {
    // No expiry counts as infinitely late.
    let late = |at: u64| if at == 0 { u64::MAX } else { at };
    match condition {
        ExpireIf::Always => true,
        ExpireIf::None => old == 0,
        ExpireIf::Some => old != 0,
        ExpireIf::Later => late(new) > late(old),
        ExpireIf::Earlier => late(new) < late(old),
        ExpireIf::SomeLater => old != 0 && late(new) > late(old),
        ExpireIf::SomeEarlier => old != 0 && late(new) < late(old),
    }
}

fn add(by: Delta, old: Option<&[u8]>, scratch: &mut Buffer) -> Result<Answer, OpError> {
    use std::io::Write as _;
    scratch.clear();
    match by {
        Delta::Signed(delta) => {
            let old = old.map_or(Some(0), parse_i64).ok_or(OpError::NotInteger)?;
            let sum = old.checked_add(delta).ok_or(OpError::Overflow)?;
            let _ = write!(scratch, "{sum}");
            Ok(Answer::Number(sum))
        }
        Delta::Float(delta) => {
            let old = match old {
                None => 0.0,
                Some(text) => parse_f64(text).ok_or(OpError::NotFloat)?,
            };
            let sum = old + delta;
            if !sum.is_finite() {
                return Err(OpError::NotFinite);
            }
            // `Display` of f64 is the shortest text that reads back the same, never in exponent form, as in Redis.
            let _ = write!(scratch, "{}", if sum == 0.0 { 0.0 } else { sum });
            Ok(Answer::FloatInScratch)
        }
        Delta::Wrapping(delta) | Delta::Saturating(delta) => {
            let Some(text) = old else { return Ok(Answer::Miss) };
            let old = parse_u64(text).ok_or(OpError::NotInteger)?;
            let sum = match by {
                Delta::Saturating(_) => old.saturating_sub(delta),
                _ => old.wrapping_add(delta),
            };
            let _ = write!(scratch, "{sum}");
            // memcached rewrites in place: a number that got shorter is padded.
            while matches!(by, Delta::Saturating(_)) && scratch.len() < text.len() {
                scratch.push(b' ');
            }
            Ok(Answer::Unsigned(sum))
        }
    }
}

/// Redis's rule: an optional minus, digits, no leading zeros, nothing else, in range.
fn parse_i64(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    if !canonical || digits.len() > 19 {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// memcached's rule: digits, maybe padded with spaces behind.
fn parse_u64(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii_end();
    if digits.is_empty() || digits.len() > 20 || text.len() > 64 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn parse_f64(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.is_empty() || text.len() > 256 || text.starts_with(char::is_whitespace) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incr(by: Delta, old: Option<&str>) -> Result<(Answer, String), OpError> {
        let mut scratch = Buffer::new();
        add(by, old.map(str::as_bytes), &mut scratch)
            .map(|a| (a, String::from_utf8(scratch.to_vec()).unwrap()))
    }

    #[test]
    fn numbers_by_redis_rules() {
        assert_eq!(incr(Delta::Signed(5), None), Ok((Answer::Number(5), "5".into())));
        assert_eq!(incr(Delta::Signed(-6), Some("5")), Ok((Answer::Number(-1), "-1".into())));
        for wrong in ["", " 5", "5 ", "05", "-0", "+5", "5.0", "99999999999999999999"] {
            assert_eq!(incr(Delta::Signed(1), Some(wrong)), Err(OpError::NotInteger), "{wrong:?}");
        }
        assert_eq!(incr(Delta::Signed(1), Some("9223372036854775807")), Err(OpError::Overflow));
        assert_eq!(incr(Delta::Float(0.1), Some("10.5")).unwrap().1, "10.6");
        assert_eq!(incr(Delta::Float(5.0e3), Some("200")).unwrap().1, "5200");
        assert_eq!(incr(Delta::Float(f64::INFINITY), Some("1")), Err(OpError::NotFinite));
        assert_eq!(incr(Delta::Float(1.0), Some("x")), Err(OpError::NotFloat));
    }

    #[test]
    fn numbers_by_memcached_rules() {
        assert_eq!(incr(Delta::Wrapping(1), None), Ok((Answer::Miss, String::new())));
        assert_eq!(incr(Delta::Wrapping(2), Some("18446744073709551615")).unwrap().1, "1");
        assert_eq!(incr(Delta::Saturating(1), Some("10")), Ok((Answer::Unsigned(9), "9 ".into())));
        assert_eq!(incr(Delta::Saturating(20), Some("9 ")), Ok((Answer::Unsigned(0), "0 ".into())));
        assert_eq!(incr(Delta::Wrapping(1), Some("-1")), Err(OpError::NotInteger));
    }

    #[test]
    fn expiry_conditions_count_none_as_infinite() {
        assert!(may_expire(ExpireIf::Earlier, 0, 5) && !may_expire(ExpireIf::Later, 0, 5));
        assert!(may_expire(ExpireIf::Later, 5, 6) && !may_expire(ExpireIf::Later, 5, 5));
        assert!(may_expire(ExpireIf::None, 0, 5) && !may_expire(ExpireIf::None, 1, 5));
        assert!(may_expire(ExpireIf::Some, 1, 5) && !may_expire(ExpireIf::SomeEarlier, 0, 5));
    }

    #[test]
    fn an_append_keeps_to_its_bound() {
        let append = |value_bytes_max, old: Option<&[u8]>| {
            let head = Head::default();
            let kind = OpKind::Append {
                value: Default::default(),
                front: false,
                create: true,
                condition: Condition::Always,
                value_bytes_max,
            };
            let old = old.map(|value| Old { head: &head, value });
            let mut scratch = Scratch::default();
            match decide(&kind, b"cd", old, 0, &mut scratch) {
                Decision::Put { answer, .. } => (answer, scratch.value.to_vec()),
                Decision::Answer(answer) => (answer, Vec::new()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(append(4, Some(b"ab")), (Answer::Length(4), b"abcd".to_vec()));
        assert_eq!(append(3, Some(b"ab")), (Answer::Error(OpError::ValueTooLong(3)), Vec::new()));
        assert_eq!(append(1, None), (Answer::Error(OpError::ValueTooLong(1)), Vec::new()));
    }
}
