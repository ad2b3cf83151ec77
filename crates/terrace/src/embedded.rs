//! The plain face for programs that embed a store: single calls, any thread, sessions pooled behind them.

use std::ops::Bound;

use parking_lot::Mutex;
use terrace_engine::{
    Batch, Condition, Delta, Direction, Expiry, OpError, OpKind, RangeStart, Reply, Session, Settled,
    StoreError,
};

use crate::OpenStore;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Why a single call was not done.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The operation was refused; nothing changed.
    #[error(transparent)]
    Op(#[from] OpError),
    /// No session could be had.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sessions that nobody uses now, each with its batch.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<(Box<dyn Session>, Batch)>>,
}

impl Pool {
    /// Ends the idle sessions; calls that are under way keep theirs.
    pub fn clear(&self) {
        self.idle.lock().clear();
    }
}

impl OpenStore {
    /// Fills a batch, runs it to its end and reads its answers. The batch and its session come from a pool, so that this is
    /// cheap from any thread; it blocks until the answers are as durable as the store promises.
    ///
    /// # Errors
    /// If no session can be had.
    pub fn run<R>(
        &self,
        fill: impl FnOnce(&mut Batch),
        read: impl FnOnce(&Batch, &Settled) -> R,
    ) -> Result<R, StoreError> {
        let pooled = self.inner.pool.idle.lock().pop();
        let (mut session, mut batch) = match pooled {
            Some(pooled) => pooled,
            None => (self.session()?, Batch::new()),
        };
        fill(&mut batch);
        session.execute(&mut batch);
        let proof = session.wait(&mut batch);
        let result = read(&batch, &proof);
        batch.clear();
        self.inner.pool.idle.lock().push((session, batch));
        Ok(result)
    }

    /// The value of a key in database 0, `None` if there is none.
    ///
    /// # Errors
    /// If the record is damaged or its device fails, or no session can be had.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, CallError> {
        let answer = |batch: &Batch, proof: &Settled| match batch.reply(0, proof) {
            Reply::Hit { value, .. } => Ok(value.map(|value| batch.output(value).to_vec())),
            Reply::Error(error) => Err(error),
            _ => Ok(None),
        };
        Ok(self.run(|batch| _ = batch.push(0, key, OpKind::Get { value: true }), answer)??)
    }

    /// Stores a value under a key in database 0, without expiry.
    ///
    /// # Errors
    /// If there is no room, a length is beyond the limit, the log fails, or no session can be had.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), CallError> {
        self.set_with(key, value, Condition::Always, Expiry::Clear).map(drop)
    }

    /// Stores a value under a condition and with an expiry; whether it was stored.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_with(
        &self,
        key: &[u8],
        value: &[u8],
        condition: Condition,
        expiry: Expiry,
    ) -> Result<bool, CallError> {
        let fill = |batch: &mut Batch| {
            let value = batch.bytes(value);
            batch.push(0, key, OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false });
        };
        let answer = |batch: &Batch, proof: &Settled| match batch.reply(0, proof) {
            Reply::Error(error) => Err(error),
            reply => Ok(matches!(reply, Reply::Stored { .. })),
        };
        Ok(self.run(fill, answer)??)
    }

    /// Up to `count` keys of database 0 with their values, in order, from `from` on (a key, or everything). Needs an ordered
    /// index. Not a snapshot: what is written meanwhile may be in it or not.
    ///
    /// # Errors
    /// If the index keeps no order, one of the records is damaged or its device fails, or no session can be had.
    pub fn range(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        count: usize,
    ) -> Result<Vec<Pair>, CallError> {
        let (mut start, mut key) = match from {
            Bound::Included(key) => (RangeStart::At, key.to_vec()),
            Bound::Excluded(key) => (RangeStart::After, key.to_vec()),
            Bound::Unbounded => (RangeStart::Edge, Vec::new()),
        };
        let mut found = Vec::new();
        while found.len() < count {
            let left = (count - found.len()).min(u32::MAX as usize) as u32;
            let kind = OpKind::Range { from: start, direction, count: left, values: true };
            let read = |batch: &Batch, proof: &Settled| match batch.reply(0, proof) {
                Reply::Ranged { next } => {
                    for row in batch.ranged(0, proof) {
                        let value = row.value.ok_or(OpError::Poisoned)?;
                        found.push((batch.output(row.key).to_vec(), batch.output(value).to_vec()));
                    }
                    Ok(next.map(|next| batch.output(next).to_vec()))
                }
                Reply::Error(error) => Err(error),
                _ => Ok(None),
            };
            match self.run(|batch| _ = batch.push(0, &key, kind), read)?? {
                Some(next) => (start, key) = (RangeStart::After, next),
                None => break,
            }
        }
        Ok(found)
    }

    /// Deletes a key of database 0; whether it was there.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn delete(&self, key: &[u8]) -> Result<bool, CallError> {
        let kind = OpKind::Delete { condition: Condition::Always, old_value: false };
        let answer = |batch: &Batch, proof: &Settled| match batch.reply(0, proof) {
            Reply::Error(error) => Err(error),
            reply => Ok(matches!(reply, Reply::Deleted { .. })),
        };
        Ok(self.run(|batch| _ = batch.push(0, key, kind), answer)??)
    }

    /// Adds to the number that a key of database 0 holds (an absent key counts as 0); the sum.
    ///
    /// # Errors
    /// If the value is no number or the sum does not fit; else as [`set`](Self::set).
    pub fn increment(&self, key: &[u8], by: i64) -> Result<i64, CallError> {
        let kind = OpKind::Incr { by: Delta::Signed(by) };
        let answer = |batch: &Batch, proof: &Settled| match batch.reply(0, proof) {
            Reply::Number(sum) => Ok(sum),
            Reply::Error(error) => Err(error),
            _ => Err(OpError::NotInteger),
        };
        Ok(self.run(|batch| _ = batch.push(0, key, kind), answer)??)
    }
}
