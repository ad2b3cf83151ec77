//! `GETRANGE`, `SETRANGE`, `APPEND`.

use terrace_engine::{Edit, OpKind, Outcome as Edited};

use super::range;
use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use crate::resp::strings;

/// What Redis says of a value that would be longer than an argument may be.
pub(in crate::resp) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

pub(in crate::resp) fn getrange(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    call.computed(call.arg(1), move |encoder, value| {
        let value = value.unwrap_or_default();
        let part = range::within(start, end, value.len() as u64);
        encoder.bulk(&value[part.start as usize..part.end as usize]);
    })
}

pub(in crate::resp) fn setrange(call: &mut Call<'_>) -> Outcome {
    let offset = u64::try_from(call.integer(2)?).map_err(|_| "ERR offset is out of range")?;
    let part = call.arg(3);
    if part.is_empty() {
        // Changes nothing, whatever the offset.
        return call.one(call.arg(1), OpKind::Get { value: false }, strings::length);
    }
    if offset.saturating_add(part.len() as u64) > call.value_bytes_max() as u64 {
        return Err(TOO_LONG.into());
    }
    call.edit(call.arg(1), overwrite, &[&offset.to_le_bytes()[..], part].concat())
}

fn overwrite(edit: &mut Edit<'_>) -> Edited {
    let Some((offset, part)) = edit.argument.split_first_chunk() else { return Edited::Keep };
    let (start, old) =
        (u64::from_le_bytes(*offset) as usize, edit.old.map(|old| old.value).unwrap_or_default());
    let end = start + part.len();
    edit.value.reserve_exact(old.len().max(end));
    edit.value.extend_from_slice(&old[..start.min(old.len())]);
    edit.value.resize_zeroed(start);
    edit.value.extend_from_slice(part);
    edit.value.extend_from_slice(old.get(end..).unwrap_or_default());
    let length = edit.value.len();
    edited::integer(edit, length as i64);
    edited::written_into(edit.old)
}

/// `APPEND key value`. Its argument is the value behind the greatest length that the result may have.
pub(in crate::resp) fn append(call: &mut Call<'_>) -> Outcome {
    let limit = call.value_bytes_max() as u64;
    call.edit(call.arg(1), extend, &[&limit.to_le_bytes()[..], call.arg(2)].concat())
}

fn extend(edit: &mut Edit<'_>) -> Edited {
    let Some((limit, part)) = edit.argument.split_first_chunk() else { return Edited::Keep };
    let old = edit.old.map(|old| old.value).unwrap_or_default();
    let length = old.len() + part.len();
    if edit.old.is_some() && length as u64 > u64::from_le_bytes(*limit) {
        return edited::refuse(edit, TOO_LONG);
    }
    edited::integer(edit, length as i64);
    // Nothing at the end is a write all the same, to those who watch the key.
    edit.value.reserve_exact(length);
    edit.value.extend_from_slice(old);
    edit.value.extend_from_slice(part);
    // To nothing it is a SET.
    if edit.old.is_some() { edited::written_into(edit.old) } else { edited::anew(0) }
}
