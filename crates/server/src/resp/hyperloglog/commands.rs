//! `PFADD`, `PFCOUNT`, `PFMERGE`.

use terrace_engine::{Edit, OpKind, Outcome as Edited, Reply};
use terrace_protocol::resp::Encoder;

use super::hash::REGISTERS;
use super::sparse::Corrupted;
use super::value::{self, Encoding};
use super::{CORRUPTED, NO_SUCH_VALUE};
use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::step::Answer;

/// `PFADD key [element …]`. Its argument is the elements, each behind its length.
pub(in crate::resp) fn pfadd(call: &mut Call<'_>) -> Outcome {
    let mut argument = Vec::new();
    for element in call.args.from(2) {
        argument.extend((element.len() as u32).to_le_bytes());
        argument.extend_from_slice(element);
    }
    call.edit(call.arg(1), add, &argument)
}

fn add(edit: &mut Edit<'_>) -> Edited {
    let mut changed = edit.old.is_none();
    let mut value = match edit.old {
        None => value::empty(),
        Some(old) if value::encoding(old.value).is_none() => return edited::refuse(edit, NO_SUCH_VALUE),
        Some(old) => old.value.to_vec(),
    };
    let mut elements = edit.argument;
    while let Some((length, rest)) = elements.split_first_chunk() {
        let Some((element, rest)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize) else {
            break;
        };
        elements = rest;
        match value::add(&mut value, element) {
            Ok(added) => changed |= added,
            Err(Corrupted) => return edited::refuse(edit, CORRUPTED),
        }
    }
    edited::integer(edit, changed.into());
    if !changed {
        return Edited::Keep;
    }
    value::invalidate(&mut value);
    edit.value.extend_from_slice(&value);
    edited::written_into(edit.old)
}

/// `PFCOUNT key [key …]`: of one key, and then the estimate is kept in the value; or of what several have in all.
pub(in crate::resp) fn pfcount(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 2 {
        if call.batch.is_atomic() {
            return call.edit(call.arg(1), count, b"");
        }
        call.computed(call.arg(1), show_count)?;
        // A step of its own, whose answer nobody needs: a store that is full refuses it.
        let nothing = call.batch.bytes(b"");
        call.push_edit(call.arg(1), count, nothing);
        return Ok(());
    }
    let first = call.batch.len();
    call.reads(|call| {
        for key in call.args.from(1) {
            call.push(key, OpKind::Get { value: true });
        }
    });
    let end = call.batch.len();
    call.late(move |answer| match count_all(answer, first..end) {
        Ok(count) => answer.encoder.integer(count as i64),
        Err(Failure::Said(text)) => answer.encoder.error(text.as_bytes()),
        Err(Failure::Operation(reply)) => match reply {
            Reply::Error(error) => answer.failed(error),
            other => answer.unexpected(other),
        },
    })
}

fn show_count(encoder: &mut Encoder<'_>, value: Option<&[u8]>) {
    let Some(value) = value else { return encoder.integer(0) };
    if value::encoding(value).is_none() {
        return encoder.error(NO_SUCH_VALUE.as_bytes());
    }
    match value::cached(value).map_or_else(|| value::count(value), Ok) {
        Ok(count) => encoder.integer(count as i64),
        Err(Corrupted) => encoder.error(CORRUPTED.as_bytes()),
    }
}

fn count(edit: &mut Edit<'_>) -> Edited {
    let Some(old) = edit.old else {
        edited::integer(edit, 0);
        return Edited::Keep;
    };
    if value::encoding(old.value).is_none() {
        return edited::refuse(edit, NO_SUCH_VALUE);
    }
    if let Some(cached) = value::cached(old.value) {
        edited::integer(edit, cached as i64);
        return Edited::Keep;
    }
    let Ok(count) = value::count(old.value) else { return edited::refuse(edit, CORRUPTED) };
    edited::integer(edit, count as i64);
    let mut value = old.value.to_vec();
    value::set_cached(&mut value, count);
    edit.value.extend_from_slice(&value);
    edited::written_into(edit.old)
}

enum Failure {
    Said(&'static str),
    Operation(Reply),
}

fn count_all(answer: &Answer<'_>, ops: std::ops::Range<usize>) -> Result<u64, Failure> {
    let mut registers = vec![0; REGISTERS];
    for op in ops {
        match answer.reply(op) {
            Reply::Miss => {}
            Reply::Hit { value: Some(span), .. } => {
                let value = answer.batch.output(span);
                value::encoding(value).ok_or(Failure::Said(NO_SUCH_VALUE))?;
                value::merge_into(&mut registers, value).map_err(|Corrupted| Failure::Said(CORRUPTED))?;
            }
            other => return Err(Failure::Operation(other)),
        }
    }
    Ok(value::count_registers(&registers))
}

/// `PFMERGE destination [source …]`: registers are handed from the destination through all sources and back.
pub(in crate::resp) fn pfmerge(call: &mut Call<'_>) -> Outcome {
    let nothing = call.batch.bytes(b"");
    call.edits(|call| {
        for (n, key) in call.args.from(1).enumerate() {
            call.push_edit(key, if n == 0 { begin } else { gather }, nothing);
        }
        call.push_edit(call.arg(1), merge, nothing);
    })
}

/// The first byte that is handed on: whether one of the values is dense. Behind it are the registers.
const SPARSE: u8 = 0;
const DENSE: u8 = 1;

fn begin(edit: &mut Edit<'_>) -> Edited {
    edit.carry.clear();
    edit.carry.push(SPARSE);
    edit.carry.resize_zeroed(1 + REGISTERS);
    gather(edit)
}

fn gather(edit: &mut Edit<'_>) -> Edited {
    let (Some(old), mut carry) = (edit.old, edit.carry.to_vec()) else { return Edited::Keep };
    let Some((representation, registers)) = carry.split_first_mut() else { return Edited::Keep };
    match value::encoding(old.value) {
        None => return edited::refuse(edit, NO_SUCH_VALUE),
        Some(Encoding::Dense) => *representation = DENSE,
        Some(Encoding::Sparse) => {}
    }
    match value::merge_into(registers, old.value) {
        Ok(()) => {
            edit.carry.write_at(0, &carry);
            Edited::Keep
        }
        Err(Corrupted) => edited::refuse(edit, CORRUPTED),
    }
}

fn merge(edit: &mut Edit<'_>) -> Edited {
    let Some((representation, registers)) = edit.carry.split_first() else { return Edited::Keep };
    let mut value = edit.old.map_or_else(value::empty, |old| old.value.to_vec());
    let dense = if *representation == DENSE { value::make_dense(&mut value) } else { Ok(()) };
    match dense.and_then(|()| value::raise_all(&mut value, registers)) {
        Ok(()) => {
            value::invalidate(&mut value);
            edit.value.extend_from_slice(&value);
            edit.carry.clear();
            edited::ok(edit);
            edited::written_into(edit.old)
        }
        Err(Corrupted) => edited::refuse(edit, CORRUPTED),
    }
}
