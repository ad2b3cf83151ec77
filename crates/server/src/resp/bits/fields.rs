//! `BITFIELD` and `BITFIELD_RO`.

use terrace_engine::Buffer;
use terrace_engine::{Edit, Outcome as Edited, Reply};
use terrace_protocol::resp::{Encoder, parse_integer};

use super::field::{Overflow, Type};
use super::offset;
use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::error::{Refusal, SYNTAX};
use crate::resp::options::is;
use crate::resp::step::Step;

/// What is done with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set,
    Add,
}

/// One of the command's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    action: Action,
    overflow: Overflow,
    field: Type,
    offset: u64,
    number: i64,
}

/// Bytes of a step as part of an argument, and of its answer.
const WORK_BYTES: usize = 20;
const ANSWER_BYTES: usize = 9;

pub(in crate::resp) fn bitfield(call: &mut Call<'_>) -> Outcome {
    let work = parse(call)?;
    if work.iter().all(|work| work.action == Action::Get) {
        return read(call, work);
    }
    let argument: Vec<u8> = work.iter().flat_map(|work| work.encode()).collect();
    let argument = call.batch.bytes(&argument);
    let op = call.push_edit(call.arg(1), apply, argument);
    call.answer(Step::One {
        op,
        show: |answer, reply| match reply {
            Reply::Edited { answer: span, .. } => {
                let batch = answer.batch;
                show(&mut answer.encoder, batch.output(span));
            }
            other => answer.unexpected(other),
        },
    })
}

pub(in crate::resp) fn bitfield_ro(call: &mut Call<'_>) -> Outcome {
    let work = parse(call)?;
    if work.iter().any(|work| work.action != Action::Get) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    read(call, work)
}

fn read(call: &mut Call<'_>, work: Vec<Work>) -> Outcome {
    call.computed(call.arg(1), move |encoder, value| {
        encoder.array(work.len());
        for work in work {
            encoder.integer(work.field.read(value.unwrap_or_default(), work.offset));
        }
    })
}

fn parse(call: &Call<'_>) -> Result<Vec<Work>, Refusal> {
    let mut all = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while let Some(word) = call.args.get(at) {
        let left = call.args.len() - at - 1;
        let action = match () {
            () if is(word, "GET") && left >= 2 => Action::Get,
            () if is(word, "SET") && left >= 3 => Action::Set,
            () if is(word, "INCRBY") && left >= 3 => Action::Add,
            () if is(word, "OVERFLOW") && left >= 1 => {
                overflow = self::overflow(call.arg(at + 1))?;
                at += 2;
                continue;
            }
            () => return Err(SYNTAX.into()),
        };
        let field = field(call.arg(at + 1))?;
        let offset = offset(call.arg(at + 2), Some(field.bits), call.value_bytes_max())?;
        let number = if action == Action::Get { 0 } else { call.integer(at + 3)? };
        all.push(Work { action, overflow, field, offset, number });
        at += if action == Action::Get { 3 } else { 4 };
    }
    Ok(all)
}

fn overflow(name: &[u8]) -> Result<Overflow, Refusal> {
    match () {
        () if is(name, "WRAP") => Ok(Overflow::Wrap),
        () if is(name, "SAT") => Ok(Overflow::Saturate),
        () if is(name, "FAIL") => Ok(Overflow::Fail),
        () => Err("ERR Invalid OVERFLOW type specified".into()),
    }
}

fn field(name: &[u8]) -> Result<Type, Refusal> {
    let (signed, bits, bits_max) = match name {
        [b'i', bits @ ..] => (true, bits, 64),
        [b'u', bits @ ..] => (false, bits, 63),
        _ => (false, name, 0),
    };
    let bits = parse_integer(bits).filter(|bits| (1..=bits_max).contains(bits));
    bits.map(|bits| Type { signed, bits: bits as u8 }).ok_or_else(|| {
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
            .into()
    })
}

impl Work {
    fn encode(self) -> [u8; WORK_BYTES] {
        let mut bytes = [0; WORK_BYTES];
        bytes[0] = self.action as u8;
        bytes[1] = self.overflow as u8;
        bytes[2] = self.field.signed.into();
        bytes[3] = self.field.bits;
        bytes[4..12].copy_from_slice(&self.offset.to_le_bytes());
        bytes[12..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; WORK_BYTES]) -> Self {
        let [action, overflow, signed, bits, numbers @ ..] = bytes;
        let (offset, number) = numbers.split_at(8);
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Self {
            action: [Action::Get, Action::Set, Action::Add][usize::from(*action).min(2)],
            overflow: [Overflow::Wrap, Overflow::Saturate, Overflow::Fail][usize::from(*overflow).min(2)],
            field: Type { signed: *signed == 1, bits: *bits },
            offset: word(offset),
            number: word(number) as i64,
        }
    }

    /// Where the field ends, in bytes.
    fn end(self) -> usize {
        ((self.offset + u64::from(self.field.bits) - 1) / 8) as usize + 1
    }

    /// Does it; what to answer.
    fn run(self, value: &mut Buffer, changed: &mut bool) -> Option<i64> {
        let old = self.field.read(value, self.offset);
        let wanted = match self.action {
            Action::Get => return Some(old),
            // As Redis does, an unsigned field takes a negative number for a very large one.
            Action::Set if !self.field.signed => i128::from(self.number as u64),
            Action::Set => i128::from(self.number),
            Action::Add => i128::from(old) + i128::from(self.number),
        };
        let new = self.field.fit(wanted, self.overflow)?;
        // The bytes that a field lies in are few.
        let (from, to) = ((self.offset / 8) as usize, self.end());
        let mut bytes = value[from..to].to_vec();
        self.field.write(&mut bytes, self.offset % 8, new);
        value.write_at(from, &bytes);
        *changed |= new != old;
        Some(if self.action == Action::Set { old } else { new })
    }
}

fn apply(edit: &mut Edit<'_>) -> Edited {
    let work = || edit.argument.as_chunks().0.iter().map(Work::decode);
    let old = edit.old.map(|old| old.value);
    let written = work().filter(|work| work.action != Action::Get).map(Work::end).max().unwrap_or(0);
    let length = old.unwrap_or_default().len().max(written);
    let mut changed = old.is_none_or(|old| old.len() < length);
    edit.value.reserve_exact(length);
    edit.value.extend_from_slice(old.unwrap_or_default());
    edit.value.resize_zeroed(length);
    for work in work() {
        let number = work.run(edit.value, &mut changed);
        edit.answer.push(number.is_some().into());
        edit.answer.extend(number.unwrap_or(0).to_le_bytes());
    }
    if changed { edited::written_into(edit.old) } else { Edited::Keep }
}

fn show(encoder: &mut Encoder<'_>, answers: &[u8]) {
    let (answers, _) = answers.as_chunks::<ANSWER_BYTES>();
    encoder.array(answers.len());
    for [present, number @ ..] in answers {
        match present {
            0 => encoder.null(),
            _ => encoder.integer(i64::from_le_bytes(*number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_read_back() {
        for (action, overflow) in
            [(Action::Get, Overflow::Wrap), (Action::Set, Overflow::Saturate), (Action::Add, Overflow::Fail)]
        {
            let field = Type { signed: true, bits: 64 };
            let work = Work { action, overflow, field, offset: u64::MAX / 8, number: i64::MIN };
            assert_eq!(Work::decode(&work.encode()), work);
        }
    }

    #[test]
    fn types() {
        assert_eq!(field(b"i64").ok(), Some(Type { signed: true, bits: 64 }));
        assert_eq!(field(b"u63").ok(), Some(Type { signed: false, bits: 63 }));
        for wrong in ["u64", "i65", "i0", "8", "", "u", "i08", "I8", "x8"] {
            assert!(field(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
