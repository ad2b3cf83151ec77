//! `GETBIT` and `SETBIT`.

use terrace_engine::{Edit, Outcome as Edited};

use super::field::{bit, set_bit};
use super::offset;
use crate::resp::call::{Call, Outcome};
use crate::resp::edited;
use terrace_protocol::resp::parse_integer;

pub(in crate::resp) fn getbit(call: &mut Call<'_>) -> Outcome {
    let offset = offset(call.arg(2), None, call.value_bytes_max())?;
    call.computed(call.arg(1), move |encoder, value| {
        encoder.integer(bit(value.unwrap_or_default(), offset).into());
    })
}

pub(in crate::resp) fn setbit(call: &mut Call<'_>) -> Outcome {
    let offset = offset(call.arg(2), None, call.value_bytes_max())?;
    let on = parse_integer(call.arg(3)).and_then(|on| u8::try_from(on).ok()).filter(|on| *on <= 1);
    let on = on.ok_or("ERR bit is not an integer or out of range")?;
    let mut argument = offset.to_le_bytes().to_vec();
    argument.push(on);
    call.edit(call.arg(1), set, &argument)
}

fn set(edit: &mut Edit<'_>) -> Edited {
    let Some((offset, [on])) = edit.argument.split_first_chunk() else { return Edited::Keep };
    let (offset, on) = (u64::from_le_bytes(*offset), *on == 1);
    let old = edit.old.map(|old| old.value);
    let before = bit(old.unwrap_or_default(), offset);
    edited::integer(edit, before.into());
    let needed = (offset / 8) as usize + 1;
    if before == on && old.is_some_and(|old| old.len() >= needed) {
        return Edited::Keep;
    }
    let old = old.unwrap_or_default();
    let length = old.len().max(needed);
    edit.value.reserve_exact(length);
    edit.value.extend_from_slice(old);
    edit.value.resize_zeroed(length);
    let mut byte = [edit.value[needed - 1]];
    set_bit(&mut byte, offset % 8, on);
    edit.value.write_at(needed - 1, &byte);
    edited::written_into(edit.old)
}
