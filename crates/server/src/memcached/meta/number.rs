//! The rules of `ms` and `ma` for the binary protocol, whose answers tell the new cas token.

use terrace_engine::{Batch, OpKind};

use super::codec::{Argument, Status, View};
use super::rules::{self, Mode, SetRule};
use crate::memcached::{DATABASE, value_bytes_max};
use crate::protocol::Context;

/// A value to be joined to one that is there.
pub(in crate::memcached) struct Join<'a> {
    /// In front of it.
    pub front: bool,
    pub value: &'a [u8],
    /// The token that it must have.
    pub cas: Option<u64>,
}

/// Adds the operation.
pub(in crate::memcached) fn join(batch: &mut Batch, ctx: &Context<'_>, key: &[u8], join: &Join<'_>) -> usize {
    let rule = SetRule {
        mode: if join.front { Mode::Prepend } else { Mode::Append },
        binary_key: false,
        creates: false,
        invalidates: false,
        cas: join.cas,
        token: 0,
        value_bytes_max: value_bytes_max(ctx, key),
        flags: 0,
        expire_at: 0,
    };
    let mut argument = Vec::with_capacity(join.value.len() + 64);
    rule.put(join.value, &mut argument);
    let argument = batch.bytes(&argument);
    batch.push(DATABASE, key, OpKind::Edit { edit: rules::set, argument })
}

/// What became of it.
pub(in crate::memcached) enum Joined {
    Done,
    /// There is none, or both together are too long.
    NotDone,
    Mismatch,
}

/// Reads the answer of [`join`].
pub(in crate::memcached) fn joined(mut answer: &[u8]) -> Joined {
    match View::take(&mut answer).status {
        Status::Found | Status::Created => Joined::Done,
        Status::Mismatch => Joined::Mismatch,
        _ => Joined::NotDone,
    }
}

/// A number to be changed.
pub(in crate::memcached) struct Sum {
    pub down: bool,
    pub delta: u64,
    /// What is made of one that is not there, and when that expires; 0 for never.
    pub initial: Option<(u64, u64)>,
    /// The token that it must have.
    pub cas: Option<u64>,
}

/// Adds the operation.
pub(in crate::memcached) fn add(batch: &mut Batch, key: &[u8], sum: &Sum) -> usize {
    let mut argument = Argument::new(&[u8::from(sum.down), u8::from(sum.initial.is_some())]);
    let (initial, expire_at) = sum.initial.unwrap_or_default();
    argument.extend(sum.delta.to_le_bytes());
    argument.extend(initial.to_le_bytes());
    argument.extend(0u64.to_le_bytes());
    rules::put_cas(sum.cas, &mut argument);
    if sum.initial.is_some() {
        argument.extend([b'N']);
        argument.extend(expire_at.to_le_bytes());
    }
    let argument = batch.bytes(argument.bytes());
    batch.push(DATABASE, key, OpKind::Edit { edit: rules::number, argument })
}

/// What became of it.
pub(in crate::memcached) enum Added<'a> {
    Number { digits: &'a [u8], created: bool },
    Absent,
    Mismatch,
    NotANumber,
}

/// Reads the answer of [`add`].
pub(in crate::memcached) fn added(mut answer: &[u8]) -> Added<'_> {
    match View::take(&mut answer).status {
        Status::Found => Added::Number { digits: answer, created: false },
        Status::Created => Added::Number { digits: answer, created: true },
        Status::Mismatch => Added::Mismatch,
        Status::NotNumber => Added::NotANumber,
        _ => Added::Absent,
    }
}
