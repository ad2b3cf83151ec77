//! `INCRBYFLOAT`.

use terrace_engine::{Edit, Outcome as Edited};

use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::error::NOT_A_FLOAT;
use crate::resp::float::Extended;

pub(in crate::resp) fn incrbyfloat(call: &mut Call<'_>) -> Outcome {
    let by = Extended::read(call.arg(2)).ok_or(NOT_A_FLOAT)?;
    call.edit(call.arg(1), add, &by.encode())
}

fn add(edit: &mut Edit<'_>) -> Edited {
    let old = match edit.old {
        None => Some(Extended::ZERO),
        Some(old) => Extended::read(old.value),
    };
    let (Some(old), Some(by)) = (old, Extended::decode(edit.argument)) else {
        return edited::refuse(edit, NOT_A_FLOAT);
    };
    let Some(sum) = old.add(by) else {
        return edited::refuse(edit, "ERR increment would produce NaN or Infinity");
    };
    edit.value.extend_from_slice(&sum.write());
    edited::new_value(edit);
    edited::changed(edit.old)
}
