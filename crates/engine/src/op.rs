//! Operations as data: what a batch holds, and what each asks of the old record.

pub use terrace_index::Direction;

/// A run of bytes in a batch's arena ([`crate::Batch`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Span {
    /// Length in bytes.
    pub fn len(self) -> usize {
        self.len as usize
    }
    /// The last `len` bytes of it, or all if it has fewer.
    pub fn tail(self, len: usize) -> Self {
        let len = self.len.min(u32::try_from(len).unwrap_or(u32::MAX));
        Self { start: self.start + (self.len - len), len }
    }
    /// Whether it covers no byte.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Absolute expiry in milliseconds since the Unix epoch; 0 means never.
pub type ExpireAt = u64;

/// The number of databases (Redis's `SELECT`); memcached sees database 0.
pub const DATABASES: usize = 16;

/// One operation on one key (or on a whole database).
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The database, below [`DATABASES`].
    pub db: u8,
    /// The key; empty and unused for operations on a whole database.
    pub key: Span,
    /// What to do.
    pub kind: OpKind,
}

/// What an operation does. Answers are described as the [`Reply`](crate::Reply) variants they end in.
#[derive(Clone, Copy, Debug)]
pub enum OpKind {
    /// Reads. `Hit` or `Miss`.
    Get {
        /// Copy the value out too, or the metadata alone.
        value: bool,
    },
    /// Writes a value. `Stored`, or `NotStored` if the condition did not hold.
    Set {
        /// The new value.
        value: Span,
        /// When to store.
        condition: Condition,
        /// What becomes of the expiry.
        expiry: Expiry,
        /// memcached's flags: `Some` sets them, `None` keeps the old record's (0 if there is none).
        flags: Option<u32>,
        /// Copy the old value out (Redis `SET … GET`): in `Stored::old` or `NotStored::old`.
        old_value: bool,
    },
    /// Deletes. `Deleted` or `Miss`; `NotStored` if `condition` did not hold.
    Delete {
        /// `Always` or `Version`.
        condition: Condition,
        /// Copy the old value out (`GETDEL`): in `Deleted::old`.
        old_value: bool,
    },
    /// Adds to a number held as text. `Number`, `Unsigned` or `Float` with the new value; `Miss` for [`Delta::Wrapping`]
    /// and [`Delta::Saturating`] on an absent key; else an error of the value. Expiry and flags stay.
    Incr {
        /// How much, and by which protocol's rules.
        by: Delta,
    },
    /// Puts bytes at an end of the value. `Length` with the new length; `NotStored` if absent and not `create`; an error if
    /// the value would be too long. Expiry and flags stay.
    Append {
        /// The bytes.
        value: Span,
        /// Before the old value (memcached `prepend`) instead of behind it.
        front: bool,
        /// Treat an absent key as an empty value.
        create: bool,
        /// `Always`, `Present` or `Version`.
        condition: Condition,
        /// The longest that the value may become: the caller's bound, below the store's own.
        value_bytes_max: u32,
    },
    /// Changes the expiry alone. `Hit` (with the value if asked for, metadata as *after* the change), `Miss`, or `NotStored`
    /// if `condition` did not hold. An expiry in the past deletes the key and answers `Hit` all the same.
    Expire {
        /// The new expiry: `At` or `Clear`; `Keep` reads only.
        expiry: Expiry,
        /// Redis's NX, XX, GT, LT.
        condition: ExpireIf,
        /// Copy the value out (`GETEX`, `gat`).
        value: bool,
    },
    /// Applies a rule of the caller's own. `Edited`, or `Aborted`; a damaged record is an error.
    Edit {
        /// The rule.
        edit: crate::edit::EditFn,
        /// What it is given.
        argument: Span,
    },
    /// Forgets every key of one database, or of all with `db: None`. `Done`. Logged as a generation: its cost does not grow
    /// with the data. The key is unused.
    Flush {
        /// Which database.
        db: Option<u8>,
    },
    /// Exchanges the numbers of [`Op::db`] and another database (Redis's `SWAPDB`). `Done`. The key is unused. A batch names databases by
    /// the numbers that they have when its first operation is executed, whatever is exchanged in it or by others meanwhile.
    Swap {
        /// The other database.
        with: u8,
    },
    /// Deletes the key if it has expired (an expired record is invisible to [`Delete`](Self::Delete)). `Deleted` or `Miss`. What
    /// background expiry uses.
    Purge,
    /// One step of iteration over the keys of `Op::db`; where keys must be read from a device it may see later operations of
    /// its own batch. `Scanned`: keys are read with [`Batch::scanned`](crate::Batch::scanned).
    Scan {
        /// Where the last step ended; 0 to start.
        cursor: u64,
        /// About how many keys to return.
        count: u32,
    },
    /// Reads the records of a range of keys, in their order; the operation's key is where it starts. Needs an ordered index.
    /// Keys that were there throughout are all found; the range is no snapshot. It sees what comes before it in its batch, and
    /// where records must be read from a device it may see what comes behind it, too. `Ranged`: rows are read with [`Batch::ranged`](crate::Batch::ranged).
    Range {
        /// Where the range starts.
        from: RangeStart,
        /// Which way it goes.
        direction: Direction,
        /// How many records to return at most; fewer if the answer grows beyond 16 MiB.
        count: u32,
        /// Copy the values out too.
        values: bool,
    },
}

/// Where a range starts, in the direction that it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeStart {
    /// At the operation's key, if it is there, else at the next one.
    At,
    /// At the next one after the operation's key.
    After,
    /// At the first key of the database (the last one backwards). The operation's key means nothing.
    Edge,
}

/// When a write goes ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Whatever is there. Needs nothing of the old record.
    Always,
    /// Only if the key is absent (`NX`, memcached `add`).
    Absent,
    /// Only if the key is present (`XX`, memcached `replace`).
    Present,
    /// Only if the key is present with this version (memcached `cas`), or with this token, if a client has given it one
    /// ([`Outcome::Tokened`](crate::Outcome::Tokened)).
    Version(u64),
}

/// What becomes of the expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// None: the record lives until deleted.
    Clear,
    /// As before (Redis `KEEPTTL`).
    Keep,
    /// At this moment; one in the past makes the record absent at once.
    At(ExpireAt),
}

/// Redis's conditions on changing an expiry; a record without one counts as infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpireIf {
    /// No condition.
    Always,
    /// NX: only if it has none.
    None,
    /// XX: only if it has one.
    Some,
    /// GT: only if the new one is later.
    Later,
    /// LT: only if the new one is earlier.
    Earlier,
    /// XX and GT together.
    SomeLater,
    /// XX and LT together.
    SomeEarlier,
}

/// How much to add, and by which protocol's rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delta {
    /// Redis: signed 64 bits, an absent key counts as 0, overflow is an error.
    Signed(i64),
    /// Redis `INCRBYFLOAT`: an absent key counts as 0.
    Float(f64),
    /// memcached `incr`: unsigned 64 bits, wraps.
    Wrapping(u64),
    /// memcached `decr`: unsigned 64 bits, stops at 0; a shorter result is padded with spaces in the stored value.
    Saturating(u64),
}
