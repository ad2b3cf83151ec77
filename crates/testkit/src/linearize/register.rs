//! What a key is to the checker: a register, the calls on it and what they answer.
//!
//! A register holds nothing or 64 bits, which stand for a value: a number for itself, other values for the number that made
//! them unique, a list that grows by appends for [`appended`], a fingerprint of all its parts.

/// What a register holds; `None` if the key is absent.
pub type State = Option<i64>;

/// What a client asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read. Answered by [`Answer::Value`].
    Get,
    /// Write. Answered by [`Answer::Stored`].
    Set(i64),
    /// Delete. Answered by [`Answer::Deleted`].
    Delete,
    /// Add; an absent key counts as 0. Answered by [`Answer::Number`].
    Incr(i64),
    /// Write if the key holds this value. Answered by [`Answer::Stored`], [`Answer::NotStored`] or, if the key is absent,
    /// by either of that and [`Answer::NotFound`].
    Cas {
        /// What it must hold.
        expected: i64,
        /// What to write.
        new: i64,
    },
    /// Write if the key is absent. Answered by [`Answer::Stored`] or [`Answer::NotStored`].
    SetIfAbsent(i64),
    /// Write if the key is present. Answered by [`Answer::Stored`] or [`Answer::NotStored`].
    SetIfPresent(i64),
    /// Write and read what was there before. Answered by [`Answer::Value`].
    Swap(i64),
    /// Add if the key is present. Answered by [`Answer::Number`] or [`Answer::NotFound`].
    IncrIfPresent(i64),
    /// Append a part to a list; an absent key counts as an empty one. Answered by [`Answer::Number`], the parts in the list
    /// now, or by [`Answer::Stored`] from a protocol that doesn't tell.
    Append(i64),
    /// Append a part to a list that is there. Answered like [`Append`](Self::Append), or by [`Answer::NotStored`].
    AppendIfPresent(i64),
}

/// What it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What a read found.
    Value(State),
    /// Written.
    Stored,
    /// The condition did not hold.
    NotStored,
    /// There was nothing.
    NotFound,
    /// Whether there was something to delete.
    Deleted(bool),
    /// The sum, or the length.
    Number(i64),
}

/// What an action does to a register and answers.
pub fn apply(state: State, action: Action) -> (State, Answer) {
    use Action::{
        Append, AppendIfPresent, Cas, Delete, Get, Incr, IncrIfPresent, Set, SetIfAbsent, SetIfPresent, Swap,
    };
    match (action, state) {
        (Get, _) => (state, Answer::Value(state)),
        (Set(value), _) | (SetIfAbsent(value), None) | (SetIfPresent(value), Some(_)) => {
            (Some(value), Answer::Stored)
        }
        (SetIfAbsent(_), Some(_)) | (SetIfPresent(_) | AppendIfPresent(_), None) => {
            (state, Answer::NotStored)
        }
        (Swap(value), _) => (Some(value), Answer::Value(state)),
        (Delete, _) => (None, Answer::Deleted(state.is_some())),
        (Incr(by), _) | (IncrIfPresent(by), Some(_)) => {
            let sum = state.unwrap_or(0).wrapping_add(by);
            (Some(sum), Answer::Number(sum))
        }
        (IncrIfPresent(_) | Cas { .. }, None) => (state, Answer::NotFound),
        (Cas { expected, new }, Some(now)) if now == expected => (Some(new), Answer::Stored),
        (Cas { .. }, Some(_)) => (state, Answer::NotStored),
        (Append(part), _) | (AppendIfPresent(part), Some(_)) => {
            let list = appended(state, part);
            (Some(list), Answer::Number(parts(list)))
        }
    }
}

/// Whether a call that answers `answer` by the rules may have been answered `seen`.
pub(super) fn explains(answer: Answer, seen: Answer, action: Action) -> bool {
    answer == seen
        || match action {
            Action::Append(_) | Action::AppendIfPresent(_) => {
                matches!((answer, seen), (Answer::Number(_), Answer::Stored))
            }
            Action::Cas { .. } => (answer, seen) == (Answer::NotFound, Answer::NotStored),
            _ => false,
        }
}

/// Whether a call with this answer left everything as it was.
pub(super) fn is_read(action: Action, answer: Answer) -> bool {
    action == Action::Get || matches!(answer, Answer::NotStored | Answer::NotFound | Answer::Deleted(false))
}

/// Bits that count a list's parts.
const COUNT_BITS: u32 = 16;
const COUNT_MAX: i64 = (1 << COUNT_BITS) - 1;

/// A list with one part more; `None` is the empty list. Lists of other parts, or in another order, are other numbers, but for
/// one chance in 2^48.
pub fn appended(list: State, part: i64) -> i64 {
    let list = list.unwrap_or(0);
    let mut mixed = (list >> COUNT_BITS) as u64 ^ (part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^= mixed >> 29;
    let count = ((list & COUNT_MAX) + 1) & COUNT_MAX;
    (mixed << COUNT_BITS) as i64 | count
}

/// How many parts a list has, modulo 65536.
pub fn parts(list: i64) -> i64 {
    list & COUNT_MAX
}
