//! What recovery may and must show, for a store of keys and values.
//!
//! The driver tells the oracle each operation when it issues it and when it is answered, as trace positions; at a crash
//! the oracle compares what was recovered with what these allow. It knows nothing of media.

mod feasible;
mod tell;
mod verify;

use std::collections::BTreeMap;
use std::fmt;

use crate::trace::Position;

/// The number of an operation, in order of issue.
pub type OpId = usize;

/// A history of writes at the level of keys. `V` is everything about a record that must come back.
#[derive(Clone, Debug)]
pub struct Oracle<K, V> {
    seed: u64,
    evicts: bool,
    ops: Vec<Op<K>>,
    keys: BTreeMap<K, Vec<Effect<V>>>,
}

#[derive(Clone, Debug)]
struct Op<K> {
    session: u32,
    /// Of the session's operations; those of one rank took effect in an order that nobody knows.
    rank: u64,
    issued: Position,
    acknowledged: Option<Position>,
    withdrawn: bool,
    /// It looked at nothing that it forgot.
    forgets: bool,
    keys: Vec<K>,
}

/// What an operation made of one key: a value or, for a deletion, nothing.
#[derive(Clone, Debug)]
struct Effect<V> {
    op: OpId,
    version: u64,
    value: Option<V>,
}

/// What a crash may not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// What was acknowledged at or before this position must be there.
    pub kept_before: Position,
    /// Whether the survivors of each session must be a prefix of what it issued.
    pub session_prefix: bool,
    /// Whether a write that survives implies that every earlier write to its key does, those of other sessions with all that
    /// their own promise includes. Off: a later survivor may hide the loss of another session's earlier write.
    pub causal: bool,
}

impl Promise {
    /// `sync`, at a crash at `position`: everything acknowledged is there.
    pub fn sync(position: Position) -> Self {
        Self { kept_before: position, session_prefix: true, causal: true }
    }
    /// `batch`: what was acknowledged before the last completed sync began is there, the rest is a consistent cut. At the
    /// death of the process alone use [`sync`](Self::sync).
    pub fn batch(last_sync: Position) -> Self {
        Self { kept_before: last_sync, session_prefix: true, causal: true }
    }
    /// `none`: anything may be lost, nothing invented and no atomic group torn.
    pub fn nothing() -> Self {
        Self { kept_before: 0, session_prefix: false, causal: false }
    }
}

/// A broken promise; its `Display` lists the operations that prove it.
#[derive(Clone, Debug)]
pub struct Violation {
    text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Violation {}

impl<K: Ord + Clone, V> Oracle<K, V> {
    /// An empty history; the seed is printed with violations.
    pub fn new(seed: u64) -> Self {
        Self { seed, evicts: false, ops: Vec::new(), keys: BTreeMap::new() }
    }

    /// The store is a cache that evicts: from now on any key may be absent. What is there must be as new as ever.
    pub fn evicts(&mut self) {
        self.evicts = true;
    }

    /// A record that is durable before the history begins. Tell these first.
    pub fn initial(&mut self, key: K, value: V) {
        let op = self.issue(u32::MAX, 0, vec![(key, Some(value))]);
        self.acknowledge(op, 0);
    }

    /// A session is about to run an operation that gives these keys these values (`None` deletes). Several effects are one
    /// atomic group; of a key that repeats, the last counts. `position` is the recorder's, before the call.
    pub fn issue(&mut self, session: u32, position: Position, effects: Vec<(K, Option<V>)>) -> OpId {
        let op = self.ops.len();
        let mut keys: Vec<K> = Vec::with_capacity(effects.len());
        for (key, value) in effects {
            let list = self.keys.entry(key.clone()).or_default();
            if list.last().is_some_and(|last| last.op == op) {
                list.pop();
            } else {
                keys.push(key);
            }
            list.push(Effect { op, version: op as u64, value });
        }
        let session_op = Op {
            session,
            rank: op as u64,
            issued: position,
            acknowledged: None,
            withdrawn: false,
            forgets: false,
            keys,
        };
        self.ops.push(session_op);
        op
    }

    /// The operation was answered, or an answered read saw its effect: from this position on a crash must respect it.
    /// The earliest call counts.
    ///
    /// # Panics
    /// If there is no such operation.
    pub fn acknowledge(&mut self, op: OpId, position: Position) {
        let acknowledged = &mut self.ops[op].acknowledged;
        *acknowledged = Some(acknowledged.map_or(position, |earlier| earlier.min(position)));
    }

    /// The operation was refused and changed nothing, now or ever.
    ///
    /// # Panics
    /// If there is no such operation.
    pub fn withdraw(&mut self, op: OpId) {
        self.ops[op].withdrawn = true;
    }

    /// The operation deleted its keys without a look at them, as a whole-database flush does: that it survives says nothing of
    /// earlier writes to them.
    ///
    /// # Panics
    /// If there is no such operation.
    pub fn forgets(&mut self, op: OpId) {
        self.ops[op].forgets = true;
    }

    /// Says where the operation stands among those of its session, instead of its number: operations of one rank took
    /// effect in an order that nobody knows, before all of a higher rank. Ranks of a session never fall.
    ///
    /// # Panics
    /// If there is no such operation.
    pub fn set_rank(&mut self, op: OpId, rank: u64) {
        self.ops[op].rank = rank;
    }

    /// Says where the operation stands among all writes to its keys, where several sessions write the same key. Without it
    /// the order of issue counts; tell the versions of all operations on a key or of none.
    ///
    /// # Panics
    /// If there is no such operation.
    pub fn set_version(&mut self, op: OpId, version: u64) {
        for key in &self.ops[op].keys {
            if let Some(list) = self.keys.get_mut(key) {
                list.iter_mut().filter(|effect| effect.op == op).for_each(|effect| effect.version = version);
                list.sort_by_key(|effect| effect.version);
            }
        }
    }

    /// Every key ever written.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.keys.keys()
    }
}
