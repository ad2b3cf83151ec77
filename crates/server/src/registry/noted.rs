//! Keys that were written while a snapshot is taken: each is read again before it ends.
//!
//! # Invariant
//! A key is noted when the write can be seen: after it was executed, before it is answered. So who takes the notes and reads their
//! keys then has seen all writes that were noted; and once no batch is in flight, all there are.
//!
//! # Thread safety
//! The lock is a leaf.

use std::collections::HashSet;
use std::ops::Range;

use parking_lot::Mutex;
use terrace_engine::{Batch, OpKind, Reply, Settled};

use super::changes::is_change;

/// Notes that are kept at most; whoever takes them does so long before.
pub(crate) const NOTED_KEYS_MAX: usize = 1_000_000;
/// Bytes of their keys.
pub(crate) const NOTED_BYTES_MAX: usize = 256 << 20;

/// See the module.
#[derive(Default)]
pub(crate) struct Noted(Mutex<Notes>);

/// What was noted since it was last taken.
#[derive(Default)]
pub(crate) struct Notes {
    /// Databases and keys.
    pub keys: HashSet<(u8, Box<[u8]>)>,
    bytes: usize,
    /// There were too many.
    pub overflowed: bool,
    /// A database was flushed or swapped.
    pub whole: bool,
}

impl Notes {
    fn add(&mut self, db: u8, key: &[u8]) {
        if self.keys.len() >= NOTED_KEYS_MAX || self.bytes + key.len() > NOTED_BYTES_MAX {
            self.overflowed = true;
        } else if self.keys.insert((db, key.into())) {
            self.bytes += key.len();
        }
    }
}

impl Noted {
    /// Takes all notes.
    pub fn take(&self) -> Notes {
        std::mem::take(&mut *self.0.lock())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.lock().keys.len()
    }

    /// Notes what these operations of a settled batch wrote. One that failed may have.
    pub(super) fn settled(&self, batch: &Batch, proof: &Settled, ops: Range<usize>) {
        let mut notes = None;
        for i in ops {
            let (op, reply) = (batch.op(i), batch.reply(i, proof));
            let is_whole = matches!(op.kind, OpKind::Flush { .. } | OpKind::Swap { .. });
            let reads = matches!(op.kind, OpKind::Get { .. } | OpKind::Scan { .. } | OpKind::Range { .. });
            let failed = !reads && matches!(reply, Reply::Error(_));
            if is_whole || failed || is_change(&op.kind, reply) {
                let notes = notes.get_or_insert_with(|| self.0.lock());
                if is_whole {
                    notes.whole = true;
                } else {
                    notes.add(op.db, batch.input(op.key));
                }
            }
        }
    }

    /// Notes a key that the store deleted by itself.
    pub(super) fn removed(&self, db: u8, key: &[u8]) {
        self.0.lock().add(db, key);
    }

    /// A database was forgotten.
    pub(super) fn flushed(&self) {
        self.0.lock().whole = true;
    }
}
