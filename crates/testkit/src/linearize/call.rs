//! One call of a history, in words and in 40 bytes.

use super::register::{Action, Answer};

/// How a call ended. Times are on the same clock as [`Entry::invoke`]; nothing starts at a time at which something ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered at this time.
    Answered(u64, Answer),
    /// It was never answered. It took effect before this time (the crash), or never.
    Lost(u64),
    /// It was answered at this time, but so shortly before the next crash that this crash may undo it, with everything that
    /// rests on it: the crash leaves what the key held at some moment after the last call that it may not undo.
    Undoable(u64, Answer),
}

impl Outcome {
    /// When it was answered, or the crash.
    pub fn end(self) -> u64 {
        let (Self::Answered(end, _) | Self::Lost(end) | Self::Undoable(end, _)) = self;
        end
    }
    /// What it was answered.
    pub fn answer(self) -> Option<Answer> {
        match self {
            Self::Answered(_, answer) | Self::Undoable(_, answer) => Some(answer),
            Self::Lost(_) => None,
        }
    }
}

/// One call of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which key; below 2^32.
    pub key: u64,
    /// Which client, for people; below 2^16.
    pub client: u32,
    /// When it was made.
    pub invoke: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// What was asked.
    pub action: Action,
}

/// An [`Entry`], packed: a history of ten million calls takes 400 MB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub(super) invoke: u64,
    pub(super) end: u64,
    /// What was written, added or appended.
    pub(super) argument: i64,
    /// What was expected, or the number in the answer.
    pub(super) second: i64,
    pub(super) key: u32,
    pub(super) client: u16,
    pub(super) action: u8,
    pub(super) outcome: u8,
}

const _: () = assert!(size_of::<Call>() == 40);

/// The kinds of answers in a packed outcome.
mod kind {
    pub const LOST: u8 = 0;
    pub const VALUE: u8 = 1;
    pub const NO_VALUE: u8 = 2;
    pub const STORED: u8 = 3;
    pub const NOT_STORED: u8 = 4;
    pub const NOT_FOUND: u8 = 5;
    pub const DELETED: u8 = 6;
    pub const NOT_DELETED: u8 = 7;
    pub const NUMBER: u8 = 8;
    /// Added to the others: the next crash may undo it.
    pub const UNDOABLE: u8 = 0x80;
}

impl Call {
    /// Packs an entry.
    ///
    /// # Panics
    /// If its key or client is out of bounds, or it ends before it starts.
    pub fn new(entry: &Entry) -> Self {
        let Entry { key, client, invoke, outcome, action } = *entry;
        let end = outcome.end();
        assert!(invoke < end, "a call ends after it starts: {entry:?}");
        assert!(key < 1 << 32 && client < 1 << 16, "out of bounds: {entry:?}");
        let (action, argument, expected) = pack(action);
        let (code, number) = match outcome.answer() {
            None => (kind::LOST, 0),
            Some(Answer::Value(Some(value))) => (kind::VALUE, value),
            Some(Answer::Value(None)) => (kind::NO_VALUE, 0),
            Some(Answer::Stored) => (kind::STORED, 0),
            Some(Answer::NotStored) => (kind::NOT_STORED, 0),
            Some(Answer::NotFound) => (kind::NOT_FOUND, 0),
            Some(Answer::Deleted(true)) => (kind::DELETED, 0),
            Some(Answer::Deleted(false)) => (kind::NOT_DELETED, 0),
            Some(Answer::Number(number)) => (kind::NUMBER, number),
        };
        let undoable = if matches!(outcome, Outcome::Undoable(..)) { kind::UNDOABLE } else { 0 };
        Self {
            invoke,
            end,
            argument,
            // An answer to a comparison holds no number.
            second: expected.unwrap_or(number),
            key: key as u32,
            client: client as u16,
            action,
            outcome: code | undoable,
        }
    }

    /// The call in words; `None` if it was read from a file that is no history.
    pub fn entry(&self) -> Option<Entry> {
        let Self { invoke, end, argument, second, key, client, action, outcome } = *self;
        let action = unpack(action, argument, second)?;
        let answer = match outcome & !kind::UNDOABLE {
            kind::LOST => None,
            kind::VALUE => Some(Answer::Value(Some(second))),
            kind::NO_VALUE => Some(Answer::Value(None)),
            kind::STORED => Some(Answer::Stored),
            kind::NOT_STORED => Some(Answer::NotStored),
            kind::NOT_FOUND => Some(Answer::NotFound),
            kind::DELETED => Some(Answer::Deleted(true)),
            kind::NOT_DELETED => Some(Answer::Deleted(false)),
            kind::NUMBER => Some(Answer::Number(second)),
            _ => return None,
        };
        let outcome = match answer {
            None if outcome == kind::LOST => Outcome::Lost(end),
            None => return None,
            Some(answer) if outcome & kind::UNDOABLE == 0 => Outcome::Answered(end, answer),
            Some(answer) => Outcome::Undoable(end, answer),
        };
        (invoke < end).then_some(Entry { key: key.into(), client: client.into(), invoke, outcome, action })
    }

    /// Which key.
    pub fn key(&self) -> u32 {
        self.key
    }
    /// When it was made.
    pub fn invoked(&self) -> u64 {
        self.invoke
    }
    /// When it was answered, or the crash.
    pub fn ended(&self) -> u64 {
        self.end
    }
    /// Whether it was never answered.
    pub fn is_lost(&self) -> bool {
        self.outcome == kind::LOST
    }
    /// Whether the next crash may undo it.
    pub fn is_undoable(&self) -> bool {
        self.outcome & kind::UNDOABLE != 0
    }
    /// Declares that the next crash may undo it, if it was answered.
    pub fn make_undoable(&mut self) {
        if !self.is_lost() {
            self.outcome |= kind::UNDOABLE;
        }
    }
}

/// An action's number, argument, and what it expects.
fn pack(action: Action) -> (u8, i64, Option<i64>) {
    match action {
        Action::Get => (0, 0, None),
        Action::Set(value) => (1, value, None),
        Action::Delete => (2, 0, None),
        Action::Incr(by) => (3, by, None),
        Action::Cas { expected, new } => (4, new, Some(expected)),
        Action::SetIfAbsent(value) => (5, value, None),
        Action::SetIfPresent(value) => (6, value, None),
        Action::Swap(value) => (7, value, None),
        Action::IncrIfPresent(by) => (8, by, None),
        Action::Append(part) => (9, part, None),
        Action::AppendIfPresent(part) => (10, part, None),
    }
}

fn unpack(action: u8, argument: i64, second: i64) -> Option<Action> {
    Some(match action {
        0 => Action::Get,
        1 => Action::Set(argument),
        2 => Action::Delete,
        3 => Action::Incr(argument),
        4 => Action::Cas { expected: second, new: argument },
        5 => Action::SetIfAbsent(argument),
        6 => Action::SetIfPresent(argument),
        7 => Action::Swap(argument),
        8 => Action::IncrIfPresent(argument),
        9 => Action::Append(argument),
        10 => Action::AppendIfPresent(argument),
        _ => return None,
    })
}
