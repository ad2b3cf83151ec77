//! What may be in a store: for each key the states that are right.
//!
//! One state while everything is answered; a write whose fate is open (it was not answered, or the log failed under it)
//! adds one. An answered read or write leaves those that agree with it.

use std::collections::BTreeMap;
use std::fmt;

use terrace_engine::{Batch, OpError, Reply, Settled};

use super::clock::START_US;
use super::plan::{Cmd, CmdKind, KEYS, value_bytes};

/// A record as a client sees it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    pub value: Vec<u8>,
    pub expire_at: u64,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Vec<u8> =
            self.value.iter().copied().take(12).take_while(|byte| byte.is_ascii_graphic()).collect();
        write!(f, "{:?} ({} bytes", String::from_utf8_lossy(&text), self.value.len())?;
        if self.expire_at != 0 {
            write!(f, ", expires {}", self.expire_at)?;
        }
        f.write_str(")")
    }
}

/// A key's state; `None` if it is not there.
pub(super) type State = Option<Record>;

/// When a record expires, in milliseconds.
pub(super) fn expire_at(expire_s: u32) -> u64 {
    if expire_s == 0 { 0 } else { START_US / 1000 + u64::from(expire_s) * 1000 }
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A write was acknowledged.
    Acknowledged,
    /// A right answer that acknowledges no write.
    Answered,
    /// An error that a sick device explains.
    Refused(OpError),
}

/// See the module's text.
#[derive(Clone)]
pub(super) struct Book {
    keys: BTreeMap<u8, Vec<State>>,
    /// Every state that was ever right.
    past: BTreeMap<u8, Vec<State>>,
}

impl Book {
    pub fn new() -> Self {
        let keys: BTreeMap<_, _> = (0..KEYS).map(|key| (key, vec![None])).collect();
        Self { past: keys.clone(), keys }
    }

    /// A book in which each key may have any state that it ever had, what has expired by `now_ms` excepted.
    pub fn of_the_past(&self, now_ms: u64) -> Self {
        let mut book = Self { keys: self.past.clone(), past: self.past.clone() };
        book.pass(now_ms);
        book
    }

    /// Whether some key is known to have a state here that is not right in the other book.
    pub fn contradicts(&self, other: &Self) -> bool {
        self.keys.iter().any(|(key, states)| states.len() == 1 && !other.states(*key).contains(&states[0]))
    }

    fn remember(&mut self) {
        for (key, states) in &self.keys {
            let past = self.past.entry(*key).or_default();
            for state in states {
                if !past.contains(state) {
                    past.push(state.clone());
                }
            }
        }
    }

    /// The states that are right for a key.
    pub fn states(&self, key: u8) -> &[State] {
        self.keys.get(&key).map_or(&[], Vec::as_slice)
    }

    /// These states are right too.
    pub fn loosen(&mut self, key: u8, states: Vec<State>) {
        if let Some(mine) = self.keys.get_mut(&key) {
            mine.extend(states);
            tidy(mine);
        }
        self.remember();
    }

    /// How many keys are there, if that is certain.
    pub fn live(&self) -> Option<usize> {
        let certain = self
            .keys
            .values()
            .all(|states| states.iter().all(Option::is_some) || states.iter().all(Option::is_none));
        certain.then(|| self.keys.values().filter(|states| states[0].is_some()).count())
    }

    /// Time has come to `now_ms`: what has expired by then is gone.
    pub fn pass(&mut self, now_ms: u64) {
        for state in self.keys.values_mut().flatten() {
            if state.as_ref().is_some_and(|record| record.expire_at != 0 && record.expire_at <= now_ms) {
                *state = None;
            }
        }
        self.keys.values_mut().for_each(tidy);
    }

    /// It is not known whether the operation took effect, or ever will.
    pub fn leave_open(&mut self, cmd: &Cmd) {
        if matches!(cmd.kind, CmdKind::Flush) {
            self.keys.values_mut().for_each(|states| states.push(None));
        } else if let Some(states) = self.keys.get_mut(&cmd.key) {
            let after: Vec<State> = states.iter().filter_map(|state| effect(cmd, state)).collect();
            states.extend(after);
        }
        self.keys.values_mut().for_each(tidy);
        self.remember();
    }

    /// Judges an answer and learns from it.
    pub fn judge(&mut self, cmd: &Cmd, batch: &Batch, at: usize, proof: &Settled) -> Result<Verdict, String> {
        let reply = batch.reply(at, proof);
        let wrong =
            |states: &[State]| Err(format!("{cmd:?} was answered {reply:?}; right is one of {states:?}"));
        match (cmd.kind, reply) {
            (_, Reply::Error(error @ OpError::LogFailed(_))) => {
                self.leave_open(cmd);
                return Ok(Verdict::Refused(error));
            }
            (_, Reply::Error(error @ (OpError::Io | OpError::Full | OpError::Poisoned))) => {
                return Ok(Verdict::Refused(error));
            }
            (CmdKind::Flush, Reply::Done) => {
                self.keys.values_mut().for_each(|states| *states = vec![None]);
                return Ok(Verdict::Acknowledged);
            }
            _ => {}
        }
        let Some(states) = self.keys.get_mut(&cmd.key) else { return Err(format!("{cmd:?}: no such key")) };
        let before = states.clone();
        let (now, verdict): (Vec<State>, _) = match (cmd.kind, reply) {
            (CmdKind::Set { .. }, Reply::Stored { .. }) => {
                (effect(cmd, &None).into_iter().collect(), Verdict::Acknowledged)
            }
            (CmdKind::Delete, Reply::Deleted { .. }) if before.iter().any(Option::is_some) => {
                (vec![None], Verdict::Acknowledged)
            }
            (CmdKind::Append { .. }, Reply::Length(length)) => {
                let after = before.iter().filter_map(|state| effect(cmd, state));
                let agrees =
                    |state: &State| state.as_ref().is_some_and(|record| record.value.len() as u64 == length);
                (after.filter(agrees).collect(), Verdict::Acknowledged)
            }
            (CmdKind::Get | CmdKind::Delete, Reply::Miss) => {
                (before.iter().filter(|state| state.is_none()).cloned().collect(), Verdict::Answered)
            }
            (CmdKind::Get, Reply::Hit { meta, value: Some(span) }) => {
                let found = Some(Record { value: batch.output(span).to_vec(), expire_at: meta.expire_at });
                if !before.contains(&found) {
                    return Err(format!("{cmd:?} found {found:?}; right is one of {before:?}"));
                }
                (vec![found], Verdict::Answered)
            }
            _ => return wrong(&before),
        };
        if now.is_empty() {
            return wrong(&before);
        }
        *states = now;
        tidy(states);
        self.remember();
        Ok(verdict)
    }
}

fn tidy(states: &mut Vec<State>) {
    states.sort_unstable();
    states.dedup();
}

/// The state that the operation leaves behind; `None` if it changes nothing.
fn effect(cmd: &Cmd, old: &State) -> Option<State> {
    match cmd.kind {
        CmdKind::Set { len, stamp, expire_s } => {
            Some(Some(Record { value: value_bytes(len, stamp), expire_at: expire_at(expire_s) }))
        }
        CmdKind::Append { len, stamp } => {
            let (mut value, expire_at) = match old {
                Some(record) => (record.value.clone(), record.expire_at),
                None => (Vec::new(), 0),
            };
            value.extend_from_slice(&value_bytes(len, stamp));
            Some(Some(Record { value, expire_at }))
        }
        CmdKind::Delete => Some(None),
        CmdKind::Get | CmdKind::Flush => None,
    }
}
