//! A session of a history, and its batches that are not answered yet.

use terrace_engine::{Batch, Condition, Delta, ExpireIf, Expiry, OpError, OpKind, Reply, Session, Settled};

use super::ledger::{Expected, Ledger, Prediction};
use super::plan::{Cmd, CmdKind, key_bytes, value_bytes};

/// A batch under way.
pub(super) struct Flight {
    pub batch: Batch,
    pub cmds: Vec<Cmd>,
    pub atomic: bool,
    pub issued: usize,
    /// What was predicted once nothing was pending any more; the writes have all taken effect by then.
    pub predictions: Option<Vec<Prediction>>,
}

/// A session.
pub(super) struct Lane {
    pub session: Held<Box<dyn Session>>,
    /// The oracle's number for it.
    pub tag: u32,
    pub flights: Vec<Flight>,
}

/// Why a history ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// A full store refused something that others had built on: what follows can't be predicted.
    Void,
    /// Something is wrong, without any crash.
    Failed(String),
}

impl Flight {
    pub fn new(ledger: &Ledger, cmds: &[Cmd], atomic: bool, issued: usize) -> Self {
        let mut batch = Batch::new();
        if atomic {
            batch.begin_atomic();
        }
        for cmd in cmds {
            let kind = op_kind(ledger, &mut batch, cmd);
            let key = if matches!(cmd.kind, CmdKind::Flush) { Vec::new() } else { key_bytes(cmd.key) };
            batch.push(0, &key, kind);
        }
        if atomic {
            batch.end_atomic();
        }
        Self { batch, cmds: cmds.to_vec(), atomic, issued, predictions: None }
    }

    /// Whether two batches that are both pending could take effect in either order and it would matter.
    pub fn meets(&self, cmds: &[Cmd]) -> bool {
        let flush = |cmds: &[Cmd]| cmds.iter().any(|cmd| matches!(cmd.kind, CmdKind::Flush));
        flush(&self.cmds)
            || flush(cmds)
            || self.cmds.iter().any(|mine| cmds.iter().any(|cmd| cmd.key == mine.key))
    }

    /// Compares an answer with the prediction; `Err(None)` if it was refused for want of room.
    pub fn compare(&self, i: usize, expected: &Expected, proof: &Settled) -> Result<(), Option<String>> {
        let reply = self.batch.reply(i, proof);
        let right = match (expected, &reply) {
            (_, Reply::Error(OpError::Full)) => return Err(None),
            (Expected::Miss, Reply::Miss)
            | (Expected::Stored, Reply::Stored { .. })
            | (Expected::Deleted, Reply::Deleted { .. })
            | (Expected::NotInteger, Reply::Error(OpError::NotInteger))
            | (Expected::Done, Reply::Done) => true,
            (Expected::Value(record), Reply::Hit { meta, value: Some(span) }) => {
                meta.expire_at == record.expire_at && self.batch.output(*span) == record.value
            }
            (Expected::Number(a), Reply::Number(b)) => a == b,
            (Expected::Length(a), Reply::Length(b)) => a == b,
            (Expected::Touched(expire_at), Reply::Hit { meta, .. }) => meta.expire_at == *expire_at,
            _ => false,
        };
        if right {
            return Ok(());
        }
        Err(Some(format!(
            "without any crash: {:?} was answered {reply:?}, expected {expected:?}",
            self.cmds[i]
        )))
    }
}

fn op_kind(ledger: &Ledger, batch: &mut Batch, cmd: &Cmd) -> OpKind {
    let at =
        |expires: Option<_>| expires.map_or(Expiry::Clear, |expires| Expiry::At(ledger.expire_at(expires)));
    let mut set = |value: &[u8], expiry| OpKind::Set {
        value: batch.bytes(value),
        condition: Condition::Always,
        expiry,
        flags: None,
        old_value: false,
    };
    match cmd.kind {
        CmdKind::Set { len, stamp, expires } => set(&value_bytes(len, stamp), at(expires)),
        CmdKind::SetNumber { stamp } => set((u64::from(stamp) << 40).to_string().as_bytes(), Expiry::Clear),
        CmdKind::Delete => OpKind::Delete { condition: Condition::Always, old_value: false },
        CmdKind::Append { len, stamp } => {
            let value = batch.bytes(&value_bytes(len, stamp));
            OpKind::Append { value, front: false, create: true, condition: Condition::Always }
        }
        CmdKind::Incr { by } => OpKind::Incr { by: Delta::Signed(i64::from(by)) },
        CmdKind::Expire { to } => {
            OpKind::Expire { expiry: at(to), condition: ExpireIf::Always, value: false }
        }
        CmdKind::Get => OpKind::Get { value: true },
        CmdKind::Flush => OpKind::Flush { db: None },
    }
}

/// A value that isn't dropped by a panic: a store that hangs would hang again in its destructor.
pub(super) struct Held<T>(Option<T>);

impl<T> Held<T> {
    pub fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> std::ops::Deref for Held<T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => unreachable!("held until dropped"),
        }
    }
}

impl<T> std::ops::DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(value) => value,
            None => unreachable!("held until dropped"),
        }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}
