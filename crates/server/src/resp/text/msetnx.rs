//! `MSETNX`: whether all keys were absent is handed from each to the next, and then to those that write.

use terrace_engine::{Edit, Outcome as Edited};

use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::error::arity;

const ABSENT: u8 = 1;
const PRESENT: u8 = 0;

pub(in crate::resp) fn msetnx(call: &mut Call<'_>) -> Outcome {
    if call.args.len().is_multiple_of(2) {
        return Err(arity(call.name));
    }
    let nothing = call.batch.bytes(b"");
    call.edits(|call| {
        for key in (1..call.args.len()).step_by(2) {
            call.push_edit(call.arg(key), if key == 1 { first } else { further }, nothing);
        }
        for key in (1..call.args.len()).step_by(2) {
            let value = call.batch.bytes(call.arg(key + 1));
            call.push_edit(call.arg(key), write, value);
        }
    })
}

fn first(edit: &mut Edit<'_>) -> Edited {
    edit.carry.clear();
    edit.carry.push(if edit.old.is_none() { ABSENT } else { PRESENT });
    Edited::Keep
}

fn further(edit: &mut Edit<'_>) -> Edited {
    if edit.old.is_some() && !edit.carry.is_empty() {
        edit.carry.write_at(0, &[PRESENT]);
    }
    Edited::Keep
}

fn write(edit: &mut Edit<'_>) -> Edited {
    match edit.carry[..] {
        [ABSENT] => {
            edited::integer(edit, 1);
            edit.value.extend_from_slice(edit.argument);
            edited::anew(0)
        }
        [_] => {
            edited::integer(edit, 0);
            Edited::Keep
        }
        _ => Edited::Keep,
    }
}
