//! `RENAME`, `RENAMENX`, `COPY`, `MOVE`: a record is picked up at one key and put down at another.
//!
//! ```text
//!   pick up (the record is handed on) --> put down (unless there is a record) --> drop the first one
//! ```
//! A step that fails hands on nothing, and then those behind it do nothing.

use terrace_engine::{Edit, NewBytes, OpKind, Outcome as Edited, Put, Reply};

use super::database;
use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::error::SYNTAX;
use crate::resp::options::is;

const NO_SUCH_KEY: &str = "ERR no such key";
const SAME: &str = "ERR source and destination objects are the same";

pub(in crate::resp) fn rename(call: &mut Call<'_>) -> Outcome {
    if call.arg(1) == call.arg(2) {
        return call.one(call.arg(1), OpKind::Get { value: false }, |answer, reply| match reply {
            Reply::Hit { .. } => answer.encoder.simple("OK"),
            Reply::Miss => answer.encoder.error(NO_SUCH_KEY.as_bytes()),
            other => answer.unexpected(other),
        });
    }
    let db = call.client.db;
    carry_over(call, db, pick_up_or_fail, put_over, Some(drop_ok))
}

pub(in crate::resp) fn renamenx(call: &mut Call<'_>) -> Outcome {
    if call.arg(1) == call.arg(2) {
        return call.one(call.arg(1), OpKind::Get { value: false }, |answer, reply| match reply {
            Reply::Hit { .. } => answer.encoder.integer(0),
            Reply::Miss => answer.encoder.error(NO_SUCH_KEY.as_bytes()),
            other => answer.unexpected(other),
        });
    }
    let db = call.client.db;
    carry_over(call, db, pick_up_or_fail, put_new, Some(drop_one))
}

/// `COPY source destination [DB number] [REPLACE]`.
pub(in crate::resp) fn copy(call: &mut Call<'_>) -> Outcome {
    let mut db = call.client.db;
    let mut replace = false;
    let mut at = 3;
    while let Some(word) = call.args.get(at) {
        if is(word, "REPLACE") {
            replace = true;
        } else if is(word, "DB") && at + 1 < call.args.len() {
            at += 1;
            db = database(call.arg(at))?;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    if db == call.client.db && call.arg(1) == call.arg(2) {
        return Err(SAME.into());
    }
    carry_over(call, db, pick_up_or_zero, if replace { put_over_one } else { put_new_one }, None)
}

/// `MOVE key database`.
pub(in crate::resp) fn move_to(call: &mut Call<'_>) -> Outcome {
    let db = database(call.arg(2))?;
    if db == call.client.db {
        return Err(SAME.into());
    }
    let key = call.batch.bytes(b"");
    call.edits(|call| {
        call.push_edit(call.arg(1), pick_up_or_zero, key);
        call.push_in(db, call.arg(1), OpKind::Edit { edit: put_new, argument: key });
        call.push_edit(call.arg(1), drop_one, key);
    })
}

type Step = fn(&mut Edit<'_>) -> Edited;

/// From the key of the first argument to that of the second, in database `db`.
fn carry_over(call: &mut Call<'_>, db: u8, pick_up: Step, put_down: Step, drop: Option<Step>) -> Outcome {
    let nothing = call.batch.bytes(b"");
    call.edits(|call| {
        call.push_edit(call.arg(1), pick_up, nothing);
        call.push_in(db, call.arg(2), OpKind::Edit { edit: put_down, argument: nothing });
        if let Some(drop) = drop {
            call.push_edit(call.arg(1), drop, nothing);
        }
    })
}

/// What is handed on begins with state, flags and expiry.
const HEAD_BYTES: usize = 13;

fn pick_up(edit: &mut Edit<'_>) -> bool {
    edit.carry.clear();
    let Some(old) = edit.old else { return false };
    edit.carry.reserve_exact(HEAD_BYTES + old.value.len());
    edit.carry.push(old.meta.state);
    edit.carry.extend_from_slice(&old.meta.flags.to_le_bytes());
    edit.carry.extend_from_slice(&old.meta.expire_at.to_le_bytes());
    edit.carry.extend_from_slice(old.value);
    true
}

fn pick_up_or_fail(edit: &mut Edit<'_>) -> Edited {
    if pick_up(edit) { Edited::Keep } else { edited::refuse(edit, NO_SUCH_KEY) }
}

fn pick_up_or_zero(edit: &mut Edit<'_>) -> Edited {
    if !pick_up(edit) {
        edited::integer(edit, 0);
    }
    Edited::Keep
}

fn put_over(edit: &mut Edit<'_>) -> Edited {
    let Some((head, value)) = edit.carry.split_first_chunk::<HEAD_BYTES>() else { return Edited::Keep };
    let [state, numbers @ ..] = head;
    let (flags, expire_at) = numbers.split_at(4);
    let put = Put {
        bytes: NewBytes::Value,
        state: *state,
        flags: flags.first_chunk().map_or(0, |flags| u32::from_le_bytes(*flags)),
        expire_at: expire_at.first_chunk().map_or(0, |at| u64::from_le_bytes(*at)),
    };
    edit.value.extend_from_slice(value);
    Edited::Put(put)
}

fn put_new(edit: &mut Edit<'_>) -> Edited {
    if edit.old.is_some() && !edit.carry.is_empty() {
        edit.carry.clear();
        edited::integer(edit, 0);
        return Edited::Keep;
    }
    put_over(edit)
}

fn put_over_one(edit: &mut Edit<'_>) -> Edited {
    if !edit.carry.is_empty() {
        edited::integer(edit, 1);
    }
    put_over(edit)
}

fn put_new_one(edit: &mut Edit<'_>) -> Edited {
    let put = put_new(edit);
    if !edit.carry.is_empty() {
        edited::integer(edit, 1);
    }
    put
}

fn drop_ok(edit: &mut Edit<'_>) -> Edited {
    if edit.carry.is_empty() {
        return Edited::Keep;
    }
    edited::ok(edit);
    Edited::Delete
}

fn drop_one(edit: &mut Edit<'_>) -> Edited {
    if edit.carry.is_empty() {
        return Edited::Keep;
    }
    edited::integer(edit, 1);
    Edited::Delete
}
