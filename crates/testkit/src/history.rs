//! Recording clients: threads of sessions on one store, and what they saw, for the linearizability checker.
//!
//! # Thread safety
//! Each client owns its session and its list of entries; they share a counter that stamps calls and returns.
//!
//! # Invariants
//! A call is stamped before the store can see it, its return after its answer was proven settled. The counter is
//! sequentially consistent, so if one call returned before another was made, in any sense that a client could observe, its
//! stamp is lower.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use terrace_engine::{Batch, Condition, Delta, Expiry, OpKind, Reply, Settled, Store, StoreError};

use crate::linearize::{Action, Answer, Entry, Outcome};
use crate::rng::Rng;

/// Who does how much.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Clients, a thread and a session each.
    pub clients: u32,
    /// Batches of each client.
    pub batches: u64,
    /// Operations in a batch, on different keys.
    pub batch: usize,
    /// Keys, shared by all clients.
    pub keys: u64,
    /// Bytes of a value, padded with zeros; 0 pads nothing. Large values take other paths; only unpadded ones are added to.
    pub value_bytes: usize,
    /// The seed of every client's choices. (How they interleave is up to the machine.)
    pub seed: u64,
}

/// Runs the clients and returns what they saw. Keys must be absent before, in database 0 and named by [`key_name`].
///
/// # Errors
/// If a session can't be opened, or the first answer that was an error or made no sense, in words.
///
/// # Panics
/// If a client panics.
pub fn record(store: &dyn Store, plan: Plan) -> Result<Vec<Entry>, String> {
    let clock = AtomicU64::new(1);
    let run = |client: u32| {
        let session = store.session().map_err(|error: StoreError| error.to_string())?;
        Client { client, plan, clock: &clock, versions: HashMap::new(), entries: Vec::new(), written: 0 }
            .run(session)
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..plan.clients).map(|client| scope.spawn(move || run(client))).collect();
        let mut history = Vec::new();
        for client in clients {
            match client.join() {
                Ok(entries) => history.extend(entries?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(history)
    })
}

/// The name of a key in a recorded history.
pub fn key_name(key: u64) -> Vec<u8> {
    format!("key:{key}").into_bytes()
}

/// Sums that start from an absent key are below this and repeat; a comparison of versions and one of values would differ
/// on them, so nothing is compared with them.
const FIRST_UNIQUE: i64 = 1 << 24;

struct Client<'a> {
    client: u32,
    plan: Plan,
    clock: &'a AtomicU64,
    /// The value last seen of each key, and its version: what a compare-and-swap compares with.
    versions: HashMap<u64, (i64, u64)>,
    entries: Vec<Entry>,
    written: i64,
}

impl Client<'_> {
    fn run(mut self, mut session: Box<dyn terrace_engine::Session>) -> Result<Vec<Entry>, String> {
        let mut rng = Rng::new(self.plan.seed ^ (u64::from(self.client) << 32));
        let mut batch = Batch::new();
        for _ in 0..self.plan.batches {
            batch.clear();
            let mut calls: Vec<(u64, Action)> = Vec::new();
            while calls.len() < self.plan.batch.min(self.plan.keys as usize) {
                let key = rng.below(self.plan.keys);
                if calls.iter().all(|(other, _)| *other != key) {
                    let action = self.choose(&mut rng, key);
                    self.push(&mut batch, key, action);
                    calls.push((key, action));
                }
            }
            // Each call has its own stamps: no two events have the same time.
            let invoke = self.clock.fetch_add(calls.len() as u64, SeqCst);
            session.execute(&mut batch);
            let proof = session.wait(&mut batch);
            let end = self.clock.fetch_add(calls.len() as u64, SeqCst);
            for (i, (key, action)) in calls.into_iter().enumerate() {
                let answer = self.answer(&batch, i, key, action, &proof)?;
                let outcome = Outcome::Answered(end + i as u64, answer);
                self.entries.push(Entry {
                    key,
                    client: self.client,
                    invoke: invoke + i as u64,
                    outcome,
                    action,
                });
            }
        }
        Ok(self.entries)
    }

    fn choose(&mut self, rng: &mut Rng, key: u64) -> Action {
        self.written += 1;
        // No two writes are alike, and sums don't reach the next write.
        let unique = (i64::from(self.client) << 52) + self.written * FIRST_UNIQUE;
        match rng.below(10) {
            0..3 => Action::Get,
            3..6 => Action::Set(unique),
            6 => Action::Delete,
            7 if self.plan.value_bytes == 0 => Action::Incr(1),
            _ => match self.versions.get(&key) {
                Some((expected, _)) => Action::Cas { expected: *expected, new: unique },
                None => Action::Get,
            },
        }
    }

    fn push(&self, batch: &mut Batch, key: u64, action: Action) {
        let set = |batch: &mut Batch, value: i64, condition| {
            let value = batch.bytes(format!("{value:0width$}", width = self.plan.value_bytes).as_bytes());
            OpKind::Set { value, condition, expiry: Expiry::Clear, flags: Some(0), old_value: false }
        };
        let kind = match action {
            Action::Get => OpKind::Get { value: true },
            Action::Set(value) => set(batch, value, Condition::Always),
            Action::Delete => OpKind::Delete { condition: Condition::Always, old_value: false },
            Action::Incr(by) => OpKind::Incr { by: Delta::Signed(by) },
            Action::Cas { new, .. } => {
                let version = self.versions.get(&key).map_or(0, |(_, version)| *version);
                set(batch, new, Condition::Version(version))
            }
            other => unreachable!("{other:?} is never chosen"),
        };
        batch.push(0, &key_name(key), kind);
    }

    fn answer(
        &mut self,
        batch: &Batch,
        i: usize,
        key: u64,
        action: Action,
        proof: &Settled,
    ) -> Result<Answer, String> {
        let reply = batch.reply(i, proof);
        let nonsense = || format!("client {}: {action:?} on key {key} was answered {reply:?}", self.client);
        Ok(match (action, reply) {
            (Action::Get, Reply::Miss) => Answer::Value(None),
            (Action::Get, Reply::Hit { meta, value: Some(span) }) => {
                let text = std::str::from_utf8(batch.output(span)).map_err(|_| nonsense())?;
                let value = text.parse().map_err(|_| nonsense())?;
                if value < FIRST_UNIQUE {
                    self.versions.remove(&key);
                } else {
                    self.versions.insert(key, (value, meta.version));
                }
                Answer::Value(Some(value))
            }
            (Action::Set(value) | Action::Cas { new: value, .. }, Reply::Stored { version, .. }) => {
                self.versions.insert(key, (value, version));
                Answer::Stored
            }
            (Action::Cas { .. }, Reply::NotStored { .. }) => {
                self.versions.remove(&key);
                Answer::NotStored
            }
            (Action::Delete, Reply::Deleted { .. }) => Answer::Deleted(true),
            (Action::Delete, Reply::Miss) => Answer::Deleted(false),
            (Action::Incr(_), Reply::Number(number)) => Answer::Number(number),
            _ => return Err(nonsense()),
        })
    }
}
