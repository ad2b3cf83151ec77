//! `BITOP`: what comes out so far is handed from source to source, and to the destination.

use terrace_engine::{Edit, Outcome as Edited};

use super::combine::Operation;
use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::error::SYNTAX;

/// Begins what is handed on, so that it is not empty: an empty one is that of an operation that failed.
const MARK: u8 = b'#';

pub(in crate::resp) fn bitop(call: &mut Call<'_>) -> Outcome {
    let operation = Operation::named(call.arg(1)).ok_or(SYNTAX)?;
    if operation == Operation::Not && call.args.len() != 4 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let argument = call.batch.bytes(&[operation.encode()]);
    call.edits(|call| {
        for (n, source) in call.args.from(3).enumerate() {
            call.push_edit(source, if n == 0 { begin } else { go_on }, argument);
        }
        call.push_edit(call.arg(2), store, argument);
    })
}

fn begin(edit: &mut Edit<'_>) -> Edited {
    edit.carry.clear();
    edit.carry.push(MARK);
    if let (Some(operation), Some(old)) = (operation(edit), edit.old) {
        operation.begin(edit.carry, old.value);
    }
    Edited::Keep
}

fn go_on(edit: &mut Edit<'_>) -> Edited {
    if let (Some(operation), false) = (operation(edit), edit.carry.is_empty()) {
        operation.combine(edit.carry, 1, edit.old.map(|old| old.value).unwrap_or_default());
    }
    Edited::Keep
}

fn store(edit: &mut Edit<'_>) -> Edited {
    let Some((_, result)) = edit.carry.split_first() else { return Edited::Keep };
    let length = result.len();
    edit.value.extend_from_slice(result);
    edit.carry.clear();
    edited::integer(edit, length as i64);
    if length == 0 { Edited::Delete } else { edited::anew(edited::RAW) }
}

fn operation(edit: &Edit<'_>) -> Option<Operation> {
    Operation::decode(*edit.argument.first()?)
}
