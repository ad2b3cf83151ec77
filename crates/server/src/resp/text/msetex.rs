//! `MSETEX` of Redis 8.4: several values with one time, if all keys are there, or none. Whether they are is handed on as for `MSETNX`.

use terrace_engine::{Condition, Edit, Expiry, NewBytes, OpKind, Outcome as Edited, Put};
use terrace_protocol::resp::parse_integer;

use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::options;
use crate::resp::step::Step;

const HOLDS: u8 = 1;
const FAILS: u8 = 0;
/// In the place of a moment: the one that the key has.
const KEEP: u64 = u64::MAX;

/// `MSETEX numkeys key value … [NX|XX] [EX …|KEEPTTL]`: 1 if all were set, 0 if none was.
pub(in crate::resp) fn msetex(call: &mut Call<'_>) -> Outcome {
    let count = parse_integer(call.arg(1)).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let count = count.ok_or("ERR invalid numkeys value")? as usize;
    let end = 2 + 2 * count;
    if end > call.args.len() {
        return Err("ERR wrong number of key-value pairs".into());
    }
    let (condition, expiry) = options::msetex(call, end)?;
    let keys = (2..end).step_by(2);
    let wanted: &[u8] = match condition {
        Condition::Absent => &[0],
        Condition::Present => &[1],
        _ => return set_all(call, keys, expiry),
    };
    let expire_at = match expiry {
        Expiry::Keep => KEEP,
        Expiry::Clear => 0,
        Expiry::At(at) => at,
    };
    let wanted = call.batch.bytes(wanted);
    call.edits(|call| {
        for key in keys.clone() {
            call.push_edit(call.arg(key), if key == 2 { first } else { further }, wanted);
        }
        for key in keys {
            let argument = call.batch.bytes(&[&expire_at.to_le_bytes()[..], call.arg(key + 1)].concat());
            call.push_edit(call.arg(key), write, argument);
        }
    })
}

fn set_all(call: &mut Call<'_>, keys: impl Iterator<Item = usize>, expiry: Expiry) -> Outcome {
    let first = call.batch.len() as u32;
    call.atomic(|call| {
        for key in keys {
            let value = call.batch.bytes(call.arg(key + 1));
            let condition = Condition::Always;
            call.push(
                call.arg(key),
                OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false },
            );
        }
    });
    let count = call.batch.len() as u32 - first;
    call.answer(Step::Many { first, count, show: |answer, _| answer.encoder.integer(1) })
}

fn is_as_wanted(edit: &Edit<'_>) -> bool {
    [u8::from(edit.old.is_some())] == edit.argument
}

fn first(edit: &mut Edit<'_>) -> Edited {
    let holds = is_as_wanted(edit);
    edit.carry.clear();
    edit.carry.push(if holds { HOLDS } else { FAILS });
    Edited::Keep
}

fn further(edit: &mut Edit<'_>) -> Edited {
    if !is_as_wanted(edit) && !edit.carry.is_empty() {
        edit.carry.write_at(0, &[FAILS]);
    }
    Edited::Keep
}

fn write(edit: &mut Edit<'_>) -> Edited {
    let (holds, Some((expire_at, value))) = (edit.carry[..] == [HOLDS], edit.argument.split_first_chunk())
    else {
        return Edited::Keep;
    };
    if edit.carry.is_empty() {
        return Edited::Keep;
    }
    edited::integer(edit, holds.into());
    if !holds {
        return Edited::Keep;
    }
    edit.value.extend_from_slice(value);
    let expire_at = match u64::from_le_bytes(*expire_at) {
        KEEP => edit.old.map_or(0, |old| old.meta.expire_at),
        at => at,
    };
    Edited::Put(Put { bytes: NewBytes::Value, flags: 0, expire_at, state: 0 })
}
