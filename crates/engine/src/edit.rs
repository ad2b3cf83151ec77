//! A caller's own rule for one key: read, compute, write as one step.
//!
//! What a protocol needs beyond [`OpKind`](crate::OpKind)'s own kinds (a bit field, a HyperLogLog, memcached's meta commands) is a
//! function of the old record, run where the engine's own rules run: inside the index's critical section for the key.
//!
//! In an atomic group ([`Batch::begin_atomic`](crate::Batch::begin_atomic)) edits hand bytes on to those behind them in
//! [`Edit::carry`]: so a key is renamed, or several are combined into one.

use crate::op::ExpireAt;
use crate::reply::Meta;
use terrace_media::Buffer;

/// The rule. It must be pure: it may run several times for one operation (the record changed meanwhile, or had to be read
/// first), and only its last run counts.
pub type EditFn = fn(&mut Edit<'_>) -> Outcome;

/// What an edit sees, and where it puts what it computes.
pub struct Edit<'a> {
    /// The operation's argument.
    pub argument: &'a [u8],
    /// The live record; `None` if there is none.
    pub old: Option<OldRecord<'a>>,
    /// The time in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The new value, for [`NewBytes::Value`]. Empty at the start.
    pub value: &'a mut Buffer,
    /// What [`Reply::Edited`](crate::Reply::Edited) shows. Empty at the start.
    pub answer: &'a mut Vec<u8>,
    /// What edits before this one in the same atomic group left here; empty at the start of the group, and after an operation of
    /// it that ended in an error.
    pub carry: &'a mut Buffer,
}

/// A live record.
#[derive(Clone, Copy, Debug)]
pub struct OldRecord<'a> {
    /// Version, flags, expiry, state; in a group, the version of a record that an operation before this one wrote is not known
    /// yet, and is `u64::MAX`.
    pub meta: Meta,
    /// The value.
    pub value: &'a [u8],
}

/// What becomes of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It stays as it is, or absent. Costs no write.
    Keep,
    /// It is deleted (nothing happens where there is none).
    Delete,
    /// It is written.
    Put(Put),
    /// It is written, with a cas token of the client's choosing that is not 0 (memcached's flag `E`). The record has it until it is
    /// written otherwise; a new expiry leaves it.
    Tokened(Put, u64),
    /// Nothing is written, by no operation of the atomic group: all of them answer [`Reply::Aborted`](crate::Reply::Aborted).
    Abort,
}

/// A record to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Its value.
    pub bytes: NewBytes,
    /// memcached's flags.
    pub flags: u32,
    /// When it expires, 0 for never; a moment in the past deletes the key.
    pub expire_at: ExpireAt,
    /// A protocol's own state, below [`STATE_END`].
    pub state: u8,
}

/// Where a new value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewBytes {
    /// [`Edit::value`].
    Value,
    /// The old record's value.
    Old,
}

/// Records keep so many different protocol states: `state` is below this.
pub const STATE_END: u8 = 16;

/// The bit of a state that is about the value as it was written: [`OpKind::Incr`](crate::OpKind::Incr) and
/// [`OpKind::Append`](crate::OpKind::Append) write another, and clear it. The others they keep.
pub const STATE_OF_VALUE: u8 = 8;
