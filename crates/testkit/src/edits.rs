//! Edits for tests: rules that use all that an edit may.

use terrace_engine::edit::STATE_END;
use terrace_engine::{Edit, EditFn, NewBytes, Outcome, Put};

/// Which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Puts the argument before the value and counts the state up; the flags become the length that was. Answers that length.
    Stamp,
    /// Changes the flags alone, to the argument's length, which becomes the record's token, too (none if it is 0). Answers nothing.
    Mark,
    /// Takes the record out of its key and hands its value on. Answers the value.
    Take,
    /// Puts what was handed on into its key, flags 9, state 1, no expiry. Answers how much that was; nothing if nothing was.
    Give,
    /// Ends the whole group if the key is there.
    Guard,
}

impl Rule {
    /// The rule's function.
    pub fn function(self) -> EditFn {
        match self {
            Self::Stamp => stamp,
            Self::Mark => mark,
            Self::Take => take,
            Self::Give => give,
            Self::Guard => guard,
        }
    }
}

fn stamp(edit: &mut Edit<'_>) -> Outcome {
    let (bytes, flags, expire_at, state) = match edit.old {
        None => (0, 0, 0, 0),
        Some(old) => {
            (old.value.len(), old.value.len() as u32, old.meta.expire_at, (old.meta.state + 1) % STATE_END)
        }
    };
    edit.value.extend_from_slice(edit.argument);
    edit.value.extend_from_slice(edit.old.map_or(&[], |old| old.value));
    edit.answer.extend_from_slice(bytes.to_string().as_bytes());
    Outcome::Put(Put { bytes: NewBytes::Value, flags, expire_at, state })
}

fn mark(edit: &mut Edit<'_>) -> Outcome {
    let Some(old) = edit.old else { return Outcome::Keep };
    let flags = edit.argument.len() as u32;
    let put = Put { bytes: NewBytes::Old, flags, expire_at: old.meta.expire_at, state: old.meta.state };
    if flags == 0 { Outcome::Put(put) } else { Outcome::Tokened(put, flags.into()) }
}

fn take(edit: &mut Edit<'_>) -> Outcome {
    edit.carry.clear();
    let Some(old) = edit.old else { return Outcome::Keep };
    edit.carry.push(1);
    edit.carry.extend_from_slice(old.value);
    edit.answer.extend_from_slice(old.value);
    Outcome::Delete
}

fn give(edit: &mut Edit<'_>) -> Outcome {
    let Some((_, value)) = edit.carry.split_first() else { return Outcome::Keep };
    edit.value.extend_from_slice(value);
    edit.answer.extend_from_slice(value.len().to_string().as_bytes());
    Outcome::Put(Put { bytes: NewBytes::Value, flags: 9, expire_at: 0, state: 1 })
}

fn guard(edit: &mut Edit<'_>) -> Outcome {
    if edit.old.is_some() { Outcome::Abort } else { Outcome::Keep }
}
