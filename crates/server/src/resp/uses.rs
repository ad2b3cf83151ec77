//! What Redis takes for a use of a key, of which `OBJECT IDLETIME` tells.

use terrace_engine::{Batch, Reply, Settled};

use super::mark::Note;
use crate::accesses::Accesses;

/// Commands that look at a key and don't use it.
const LOOKS: [&str; 14] = [
    "exists",
    "type",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "watch",
    "object|encoding",
    "object|freq",
    "object|idletime",
    "object|refcount",
    "debug",
    "memory|usage",
    "dump",
];

/// Keeps that the keys of a command's operations were used, those that are there.
pub(super) fn keep(accesses: &Accesses, batch: &Batch, proof: &Settled, note: &Note, now_ms: u64) {
    if LOOKS.contains(&note.command) {
        return;
    }
    for i in note.ops.clone() {
        let op = batch.op(i);
        let (db, key) = (note.databases.number(op.db), batch.input(op.key));
        match batch.reply(i, proof) {
            Reply::Stored { .. } | Reply::Length(_) => accesses.wrote(db, key, now_ms),
            Reply::Number(_) | Reply::Unsigned(_) | Reply::Float(_) => accesses.wrote(db, key, now_ms),
            Reply::Edited { meta, changed: true, .. } if meta.version != 0 => accesses.wrote(db, key, now_ms),
            Reply::Edited { meta, .. } if meta.version != 0 => accesses.fetched(db, key, now_ms),
            Reply::Hit { .. } | Reply::NotStored { present: true, .. } => accesses.fetched(db, key, now_ms),
            _ => {}
        }
    }
}
