//! What an operation answers.

use crate::Span;
use crate::op::ExpireAt;

/// The answer to one operation. Spans lie in the batch's output arena.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reply {
    /// Not answered yet: a device is being read, or an earlier operation on the key is.
    Pending,
    /// No such key (or it has expired).
    Miss,
    /// The key is there.
    Hit {
        /// What is kept beside the value.
        meta: Meta,
        /// The value, if it was asked for.
        value: Option<Span>,
    },
    /// Written.
    Stored {
        /// The new version (memcached's cas token).
        version: u64,
        /// The old value, if asked for and there was one.
        old: Option<Span>,
    },
    /// The condition did not hold.
    NotStored {
        /// Whether the key is there (tells memcached's EXISTS from NOT_FOUND).
        present: bool,
        /// The old value, if asked for and there was one.
        old: Option<Span>,
    },
    /// Deleted.
    Deleted {
        /// The old value, if asked for.
        old: Option<Span>,
    },
    /// The number after a signed addition.
    Number(i64),
    /// The number after an unsigned addition.
    Unsigned(u64),
    /// The number after a floating-point addition, as stored.
    Float(Span),
    /// The value's length after an append.
    Length(u64),
    /// An edit was applied.
    Edited {
        /// What it answered.
        answer: Span,
        /// The record's as it is afterwards; of no record, all zero.
        meta: Meta,
        /// Whether it was written or deleted.
        changed: bool,
    },
    /// An edit ended the atomic group that this operation is in, and nothing of it was done.
    Aborted,
    /// An iteration step; keys through [`Batch::scanned`](crate::Batch::scanned).
    Scanned {
        /// Where to go on; 0 at the end.
        cursor: u64,
    },
    /// Records of a range; rows through [`Batch::ranged`](crate::Batch::ranged).
    Ranged {
        /// The key behind which to go on; `None` at the end of the database.
        next: Option<Span>,
    },
    /// A whole-database operation is done.
    Done,
    /// Not done; nothing changed.
    Error(OpError),
}

/// What is kept beside a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The version, memcached's cas token unless there is a [`token`](Self::token).
    pub version: u64,
    /// A cas token of a client's choosing, 0 for none.
    pub token: u64,
    /// memcached's flags.
    pub flags: u32,
    /// When it expires, 0 for never.
    pub expire_at: ExpireAt,
    /// Length of the value in bytes.
    pub value_bytes: u64,
    /// A protocol's own state (memcached's stale items); 0 after a plain write.
    pub state: u8,
}

impl Meta {
    /// memcached's cas token.
    pub fn cas(&self) -> u64 {
        if self.token == 0 { self.version } else { self.token }
    }
}

/// Why an operation was refused. Its `Display` is a sentence for people; protocols have their own texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// Every tier is full and the store refuses instead of evicting.
    #[error("out of space: every tier is full; delete keys, add space, or run with --when-full evict")]
    Full,
    /// The value is not a whole number in range.
    #[error("value is not an integer or out of range")]
    NotInteger,
    /// The sum does not fit.
    #[error("increment or decrement would overflow")]
    Overflow,
    /// The value is not a floating-point number.
    #[error("value is not a valid float")]
    NotFloat,
    /// The sum is not finite.
    #[error("increment would produce NaN or Infinity")]
    NotFinite,
    /// The key is longer than this engine takes.
    #[error("key is longer than {0} bytes")]
    KeyTooLong(u64),
    /// The value is longer than this engine takes.
    #[error("value is longer than {0} bytes")]
    ValueTooLong(u64),
    /// An atomic group of writes is larger than a part of DRAM or of the log that one may take.
    #[error("an atomic write of several keys may hold at most {0} bytes")]
    GroupTooLong(u64),
    /// The operations before this one in its batch have answers so long that this one was not run.
    #[error("the answers of commands sent together are longer than {0} bytes: send fewer at a time")]
    OutputTooLong(u64),
    /// A transaction reads, or answers with, more than this; nothing of it was done.
    #[error("the values that one transaction reads may take at most {0} bytes: ask for fewer in one")]
    TransactionTooLong(u64),
    /// The record was damaged on its medium; SET or DEL clears it.
    #[error("the record's checksum does not match: it was damaged on its medium; SET or DEL clears it")]
    Poisoned,
    /// The device failed. The store says which and how in its log.
    #[error("input/output error on the lower tier")]
    Io,
    /// The log can no longer be made durable (a sync failed, or a write); nothing is acknowledged any more. It says what failed and
    /// what the system said to it.
    #[error("nothing more can be made durable: {0}; restart after repairing the device")]
    LogFailed(&'static str),
    /// The index of this name can't go on from a cursor.
    #[error("index {0} has no cursors: SCAN is not available")]
    NoCursor(&'static str),
    /// The index of this name keeps no order.
    #[error(
        "index {0} keeps no order: ranges need a store opened with an ordered one, such as --index btree"
    )]
    Unordered(&'static str),
}
