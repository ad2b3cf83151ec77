//! Operations and answers that own their bytes, so that they can be compared, kept and printed.

use std::fmt;

use terrace_engine::{
    Batch, Condition, Delta, Direction, ExpireIf, Expiry, Meta, Op, OpError, OpKind, RangeStart, Reply, Row,
    Settled, Span,
};

use crate::edits::Rule;

/// An operation, owned.
#[derive(Clone)]
pub struct Case {
    /// The database.
    pub db: u8,
    /// The key; empty for `Flush` and `Scan`.
    pub key: Vec<u8>,
    /// What to do.
    pub action: Action,
}

/// As [`OpKind`], owned.
#[derive(Clone)]
pub enum Action {
    /// [`OpKind::Get`].
    Get {
        /// With the value.
        value: bool,
    },
    /// [`OpKind::Set`].
    Set {
        /// The new value.
        value: Vec<u8>,
        /// When.
        condition: Condition,
        /// The expiry.
        expiry: Expiry,
        /// The flags.
        flags: Option<u32>,
        /// With the old value.
        old_value: bool,
    },
    /// [`OpKind::Delete`].
    Delete {
        /// When.
        condition: Condition,
        /// With the old value.
        old_value: bool,
    },
    /// [`OpKind::Incr`].
    Incr(Delta),
    /// [`OpKind::Append`].
    Append {
        /// The bytes.
        value: Vec<u8>,
        /// In front.
        front: bool,
        /// An absent key is empty.
        create: bool,
        /// When.
        condition: Condition,
    },
    /// [`OpKind::Expire`].
    Expire {
        /// The new expiry.
        expiry: Expiry,
        /// When.
        condition: ExpireIf,
        /// With the value.
        value: bool,
    },
    /// [`OpKind::Edit`].
    Edit {
        /// By which rule.
        rule: Rule,
        /// What it is given.
        argument: Vec<u8>,
    },
    /// [`OpKind::Flush`].
    Flush(Option<u8>),
    /// [`OpKind::Swap`].
    Swap(u8),
    /// [`OpKind::Scan`].
    Scan {
        /// Where to go on.
        cursor: u64,
        /// About how many.
        count: u32,
    },
    /// [`OpKind::Range`], with values.
    Range {
        /// Where it starts.
        from: RangeStart,
        /// Which way it goes.
        direction: Direction,
        /// How many at most.
        count: u32,
    },
}

/// As [`Reply`], owned.
#[derive(Clone, PartialEq)]
pub enum Observed {
    /// [`Reply::Pending`] in a settled batch, which is an error in itself.
    Pending,
    /// [`Reply::Miss`].
    Miss,
    /// [`Reply::Hit`].
    Hit(Meta, Option<Vec<u8>>),
    /// [`Reply::Stored`]: version and old value.
    Stored(u64, Option<Vec<u8>>),
    /// [`Reply::NotStored`]: presence and old value.
    NotStored(bool, Option<Vec<u8>>),
    /// [`Reply::Deleted`]: old value.
    Deleted(Option<Vec<u8>>),
    /// [`Reply::Number`].
    Number(i64),
    /// [`Reply::Unsigned`].
    Unsigned(u64),
    /// [`Reply::Float`].
    Float(Vec<u8>),
    /// [`Reply::Length`].
    Length(u64),
    /// [`Reply::Edited`]: the answer, and the record's metadata afterwards.
    Edited(Vec<u8>, Meta),
    /// [`Reply::Aborted`].
    Aborted,
    /// [`Reply::Scanned`]: the next cursor and the keys.
    Scanned(u64, Vec<Vec<u8>>),
    /// [`Reply::Ranged`]: the key behind which to go on, and what a get of each key would answer.
    Ranged(Option<Vec<u8>>, Vec<(Vec<u8>, Observed)>),
    /// [`Reply::Done`].
    Done,
    /// [`Reply::Error`].
    Error(OpError),
}

impl Case {
    /// The same operation, named as the databases lie after a [`Action::Swap`] of its batch.
    #[must_use]
    pub fn after_swap(&self, db: u8, with: u8) -> Self {
        let renamed = |of: u8| match of {
            of if of == db => with,
            of if of == with => db,
            of => of,
        };
        let action = match &self.action {
            Action::Flush(of) => Action::Flush(of.map(renamed)),
            Action::Swap(of) => Action::Swap(renamed(*of)),
            action => action.clone(),
        };
        Self { db: renamed(self.db), key: self.key.clone(), action }
    }

    /// Adds the operation to a batch; returns its number.
    pub fn push(&self, batch: &mut Batch) -> usize {
        let key = batch.bytes(&self.key);
        let kind = match &self.action {
            Action::Get { value } => OpKind::Get { value: *value },
            Action::Set { value, condition, expiry, flags, old_value } => OpKind::Set {
                value: batch.bytes(value),
                condition: *condition,
                expiry: *expiry,
                flags: *flags,
                old_value: *old_value,
            },
            Action::Delete { condition, old_value } => {
                OpKind::Delete { condition: *condition, old_value: *old_value }
            }
            Action::Incr(by) => OpKind::Incr { by: *by },
            Action::Append { value, front, create, condition } => OpKind::Append {
                value: batch.bytes(value),
                front: *front,
                create: *create,
                condition: *condition,
                value_bytes_max: u32::MAX,
            },
            Action::Expire { expiry, condition, value } => {
                OpKind::Expire { expiry: *expiry, condition: *condition, value: *value }
            }
            Action::Edit { rule, argument } => {
                OpKind::Edit { edit: rule.function(), argument: batch.bytes(argument) }
            }
            Action::Flush(db) => OpKind::Flush { db: *db },
            Action::Swap(with) => OpKind::Swap { with: *with },
            Action::Scan { cursor, count } => OpKind::Scan { cursor: *cursor, count: *count },
            Action::Range { from, direction, count } => {
                OpKind::Range { from: *from, direction: *direction, count: *count, values: true }
            }
        };
        batch.push_op(Op { db: self.db, key, kind })
    }
}

impl Observed {
    /// The answer of operation `i` of a settled batch.
    pub fn of(batch: &Batch, i: usize, proof: &Settled) -> Self {
        let bytes = |span: Option<Span>| span.map(|span| batch.output(span).to_vec());
        match batch.reply(i, proof) {
            Reply::Pending => Self::Pending,
            Reply::Miss => Self::Miss,
            Reply::Hit { meta, value } => Self::Hit(meta, bytes(value)),
            Reply::Stored { version, old } => Self::Stored(version, bytes(old)),
            Reply::NotStored { present, old } => Self::NotStored(present, bytes(old)),
            Reply::Deleted { old } => Self::Deleted(bytes(old)),
            Reply::Number(number) => Self::Number(number),
            Reply::Unsigned(number) => Self::Unsigned(number),
            Reply::Float(text) => Self::Float(batch.output(text).to_vec()),
            Reply::Length(bytes) => Self::Length(bytes),
            Reply::Edited { answer, meta, .. } => Self::Edited(batch.output(answer).to_vec(), meta),
            Reply::Aborted => Self::Aborted,
            Reply::Scanned { cursor } => {
                Self::Scanned(cursor, batch.scanned(i).map(<[u8]>::to_vec).collect())
            }
            Reply::Ranged { next } => Self::Ranged(bytes(next), rows(batch, i, proof)),
            Reply::Done => Self::Done,
            Reply::Error(error) => Self::Error(error),
        }
    }
}

/// What a range found, as gets would answer it.
fn rows(batch: &Batch, i: usize, proof: &Settled) -> Vec<(Vec<u8>, Observed)> {
    let row = |row: &Row| {
        let value = row.value.map(|value| batch.output(value).to_vec());
        let got =
            if row.damaged { Observed::Error(OpError::Poisoned) } else { Observed::Hit(row.meta, value) };
        (batch.output(row.key).to_vec(), got)
    };
    batch.ranged(i, proof).map(row).collect()
}

/// Bytes for people: text, shortened, with the length where it was.
pub fn show(bytes: &[u8]) -> String {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(24)]).into_owned();
    if bytes.len() <= 24 { format!("{head:?}") } else { format!("{head:?}.. ({} bytes)", bytes.len()) }
}

fn show_option(bytes: &Option<Vec<u8>>) -> String {
    bytes.as_ref().map_or("none".into(), |bytes| show(bytes))
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "db {} key {} ", self.db, show(&self.key))?;
        match &self.action {
            Action::Get { value } => write!(f, "get (value: {value})"),
            Action::Set { value, condition, expiry, flags, old_value } => {
                let value = show(value);
                write!(f, "set {value} ({condition:?}, {expiry:?}, flags {flags:?}, old value: {old_value})")
            }
            Action::Delete { condition, old_value } => {
                write!(f, "delete ({condition:?}, old value: {old_value})")
            }
            Action::Incr(by) => write!(f, "incr {by:?}"),
            Action::Append { value, front, create, condition } => {
                write!(f, "append {} (front: {front}, create: {create}, {condition:?})", show(value))
            }
            Action::Expire { expiry, condition, value } => {
                write!(f, "expire ({expiry:?}, {condition:?}, value: {value})")
            }
            Action::Edit { rule, argument } => write!(f, "edit {rule:?} {}", show(argument)),
            Action::Flush(db) => write!(f, "flush {db:?}"),
            Action::Swap(with) => write!(f, "swap with {with}"),
            Action::Scan { cursor, count } => write!(f, "scan from {cursor} about {count}"),
            Action::Range { from, direction, count } => write!(f, "range {from:?}, {direction:?}, {count}"),
        }
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("Pending"),
            Self::Miss => f.write_str("Miss"),
            Self::Hit(meta, value) => write!(f, "Hit {meta:?}, value {}", show_option(value)),
            Self::Stored(version, old) => write!(f, "Stored version {version}, old {}", show_option(old)),
            Self::NotStored(present, old) => {
                write!(f, "NotStored present {present}, old {}", show_option(old))
            }
            Self::Deleted(old) => write!(f, "Deleted, old {}", show_option(old)),
            Self::Number(number) => write!(f, "Number {number}"),
            Self::Unsigned(number) => write!(f, "Unsigned {number}"),
            Self::Float(text) => write!(f, "Float {}", show(text)),
            Self::Length(bytes) => write!(f, "Length {bytes}"),
            Self::Edited(answer, meta) => write!(f, "Edited {}, {meta:?}", show(answer)),
            Self::Aborted => f.write_str("Aborted"),
            Self::Scanned(cursor, keys) => write!(f, "Scanned {} keys, next {cursor}", keys.len()),
            Self::Ranged(next, rows) => {
                write!(f, "Ranged next {}, rows {rows:?}", show_option(next))
            }
            Self::Done => f.write_str("Done"),
            Self::Error(error) => write!(f, "Error {error:?}"),
        }
    }
}
