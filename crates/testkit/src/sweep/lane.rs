//! A session of a history, and its batches that are not answered yet.

use terrace_engine::{Batch, Condition, Delta, Expiry, OpError, OpKind, Reply, Session, Settled};

use super::Subject;
use super::ledger::{Expected, Ledger, Prediction, Token};
use super::plan::{Cmd, CmdKind, When, db_of, key_bytes, value_bytes};

/// A batch under way.
pub(super) struct Flight {
    pub batch: Batch,
    pub cmds: Vec<Cmd>,
    /// The versions that conditions name.
    pub tokens: Vec<Option<Token>>,
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

/// What an answer is worth.
pub(super) enum Verdict {
    /// As predicted; the version that it told.
    Right(Option<u64>),
    /// Refused, for want of room or as too long.
    Refused,
    /// Not found in a store that evicts.
    Evicted,
    Wrong(String),
}

impl Flight {
    pub fn new(ledger: &Ledger, cmds: &[Cmd], atomic: bool, issued: usize, subject: &dyn Subject) -> Self {
        let mut batch = Batch::new();
        if atomic {
            batch.begin_atomic();
        }
        let tokens: Vec<Option<Token>> = cmds.iter().map(|cmd| ledger.token(cmd.key)).collect();
        for (cmd, token) in cmds.iter().zip(&tokens) {
            let kind = op_kind(ledger, &mut batch, cmd, *token, subject.sets_read());
            if matches!(cmd.kind, CmdKind::Flush { .. } | CmdKind::Swap) {
                batch.push(1, &[], kind);
            } else {
                batch.push(db_of(cmd.key), &key_bytes(cmd.key, subject.stem()), kind);
            }
        }
        if atomic {
            batch.end_atomic();
        }
        Self { batch, cmds: cmds.to_vec(), tokens, atomic, issued, predictions: None }
    }

    /// Whether two batches that are both pending could take effect in either order and it would matter.
    pub fn meets(&self, cmds: &[Cmd]) -> bool {
        let flush =
            |cmds: &[Cmd]| cmds.iter().any(|cmd| matches!(cmd.kind, CmdKind::Flush { .. } | CmdKind::Swap));
        flush(&self.cmds)
            || flush(cmds)
            || self.cmds.iter().any(|mine| cmds.iter().any(|cmd| cmd.key == mine.key))
    }

    /// Whether an operation was refused, for want of room or as too long.
    pub fn is_refused(&self, i: usize, proof: &Settled) -> bool {
        let reply = self.batch.reply(i, proof);
        matches!(reply, Reply::Error(OpError::Full | OpError::ValueTooLong(_) | OpError::GroupTooLong(_)))
    }

    /// Compares an answer with the prediction.
    pub fn compare(&self, i: usize, expected: &Expected, evict: bool, proof: &Settled) -> Verdict {
        let reply = self.batch.reply(i, proof);
        let bytes = |span: Option<_>| span.map(|span| self.batch.output(span));
        let right = match (expected, &reply) {
            _ if self.is_refused(i, proof) => return Verdict::Refused,
            (Expected::Value(_) | Expected::Deleted(_), Reply::Miss) if evict => return Verdict::Evicted,
            (Expected::Miss, Reply::Miss)
            | (Expected::NotInteger, Reply::Error(OpError::NotInteger))
            | (Expected::Done, Reply::Done) => true,
            (Expected::Stored(expected), Reply::Stored { version, old })
                if bytes(*old) == expected.as_deref() =>
            {
                return Verdict::Right(Some(*version).filter(|_| !self.atomic));
            }
            (Expected::NotStored { present, old }, Reply::NotStored { present: p, old: o }) => {
                present == p && bytes(*o) == old.as_deref()
            }
            (Expected::Deleted(expected), Reply::Deleted { old }) => bytes(*old) == expected.as_deref(),
            (Expected::Value(record), Reply::Hit { meta, value: Some(span) })
                if meta.expire_at == record.expire_at && self.batch.output(*span) == record.value =>
            {
                return Verdict::Right(Some(meta.version).filter(|_| !self.atomic));
            }
            (Expected::Number(a), Reply::Number(b)) => a == b,
            (Expected::Length(a), Reply::Length(b)) => a == b,
            (Expected::Touched { expire_at, value }, Reply::Hit { meta, value: got })
                if bytes(*got) == value.as_deref() =>
            {
                match expire_at {
                    Some(expire_at) if *expire_at == meta.expire_at => {
                        return Verdict::Right(Some(meta.version).filter(|_| !self.atomic));
                    }
                    // Its metadata mean nothing any more.
                    other => other.is_none(),
                }
            }
            _ => false,
        };
        if right {
            return Verdict::Right(None);
        }
        Verdict::Wrong(format!(
            "without any crash: {:?} was answered {reply:?}, expected {expected:?}",
            self.cmds[i]
        ))
    }
}

/// Sets that keep the flags that there are must read them; others need not read anything.
fn op_kind(ledger: &Ledger, batch: &mut Batch, cmd: &Cmd, token: Option<Token>, sets_read: bool) -> OpKind {
    let flags = |stamp: u32| (!sets_read && !stamp.is_multiple_of(4)).then_some(0);
    let at =
        |expires: Option<_>| expires.map_or(Expiry::Clear, |expires| Expiry::At(ledger.expire_at(expires)));
    let condition = |when| match when {
        When::Always => Condition::Always,
        When::Absent => Condition::Absent,
        When::Present => Condition::Present,
        When::Version => Condition::Version(token.map_or(1, |token| token.version)),
    };
    match cmd.kind {
        CmdKind::Set { len, stamp, expires, when, old } => OpKind::Set {
            value: batch.bytes(&value_bytes(len, stamp)),
            condition: condition(when),
            expiry: at(expires),
            flags: flags(stamp),
            old_value: old,
        },
        CmdKind::SetNumber { stamp } => OpKind::Set {
            value: batch.bytes((u64::from(stamp) << 40).to_string().as_bytes()),
            condition: Condition::Always,
            expiry: Expiry::Clear,
            flags: flags(stamp),
            old_value: false,
        },
        CmdKind::Delete { when, old } => OpKind::Delete { condition: condition(when), old_value: old },
        CmdKind::Append { len, stamp, front, create, when } => {
            let value = batch.bytes(&value_bytes(len, stamp));
            OpKind::Append { value, front, create, condition: condition(when), value_bytes_max: u32::MAX }
        }
        CmdKind::Incr { by } => OpKind::Incr { by: Delta::Signed(i64::from(by)) },
        CmdKind::Expire { to, only, value } => OpKind::Expire { expiry: at(to), condition: only, value },
        CmdKind::Get => OpKind::Get { value: true },
        CmdKind::Flush { db } => OpKind::Flush { db },
        CmdKind::Swap => OpKind::Swap { with: 2 },
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
