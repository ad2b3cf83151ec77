//! What each operation answers and leaves behind.

use std::collections::BTreeMap;

use terrace_engine::ExpireIf;

use super::{By, EntryId, Expected, Ledger, Prediction, Record, Token};
use crate::sweep::plan::{Cmd, CmdKind, KEYS, When, db_of, exchanged, value_bytes};

/// The answer, and the new state if there is one.
type Decision = (Expected, Option<Option<Record>>);

impl Ledger {
    /// Runs an operation on the model. `token` is the version that its condition names, if it does.
    pub fn run(&mut self, by: By, cmd: &Cmd, token: Option<Token>) -> Prediction {
        let saw = self.last.get(&cmd.key).copied();
        let (expected, new) = match self.decide(cmd, self.live.get(&cmd.key), token) {
            (expected, None) => return Prediction { expected, wrote: None, saw },
            (expected, Some(new)) => (expected, new),
        };
        let effects = match cmd.kind {
            CmdKind::Flush { db } => {
                // Keys that are not there too: what deleted them may be lost although the flush survives.
                let flushed = |key: &u8| db.is_none_or(|db| db == db_of(*key));
                (0..KEYS).filter(flushed).map(|key| (key, None)).collect()
            }
            CmdKind::Swap => {
                let from = |key: u8| Some((key, self.live.get(&exchanged(key)?).cloned()));
                let effects = (0..KEYS).filter_map(from).collect();
                self.versions.forget(|key| exchanged(key).is_some());
                effects
            }
            _ => vec![(cmd.key, new)],
        };
        let id = self.write(by, effects);
        self.entries[id].forgets = matches!(cmd.kind, CmdKind::Flush { .. });
        Prediction { expected, wrote: Some(id), saw: None }
    }

    /// Runs operations as one step.
    pub fn run_group(&mut self, by: By, cmds: &[Cmd]) -> Vec<Prediction> {
        let mut effects: BTreeMap<u8, Option<Record>> = BTreeMap::new();
        let mut expected = Vec::new();
        for cmd in cmds {
            let old = effects.get(&cmd.key).cloned().unwrap_or_else(|| self.live.get(&cmd.key).cloned());
            let (answer, new) = self.decide(cmd, old.as_ref(), None);
            expected.push((cmd.key, answer));
            if let Some(new) = new {
                effects.insert(cmd.key, new);
            }
        }
        let saw = |key: &u8| self.last.get(key).copied();
        let seen: Vec<Option<EntryId>> = expected.iter().map(|(key, _)| saw(key)).collect();
        // What a group leaves of a key counts alone: what it deletes, where nothing was before it, leaves no trace.
        effects.retain(|key, new| new.is_some() || self.live.contains_key(key));
        let wrote = (!effects.is_empty()).then(|| self.write(by, effects.into_iter().collect()));
        // An answer about a key rests on the group if there is anything of it, for its group of the log is one.
        let prediction = |((_, expected), saw)| Prediction {
            expected,
            wrote,
            saw: if wrote.is_some() { None } else { saw },
        };
        expected.into_iter().zip(seen).map(prediction).collect()
    }

    fn decide(&self, cmd: &Cmd, old: Option<&Record>, token: Option<Token>) -> Decision {
        let (present, expiry) = (old.is_some(), old.map_or(0, |old| old.expire_at));
        let record = |value, expire_at| Some(self.living(value, expire_at));
        let old_value = |wanted: bool| old.filter(|_| wanted).map(|old| old.value.clone());
        let holds = |when| match when {
            When::Always => true,
            When::Absent => !present,
            When::Present => present,
            When::Version => self.has_version(cmd.key, token),
        };
        match cmd.kind {
            CmdKind::Set { when, old: wanted, .. } if !holds(when) => {
                (Expected::NotStored { present, old: old_value(wanted) }, None)
            }
            CmdKind::Set { len, stamp, expires, old: wanted, .. } => {
                let expire_at = expires.map_or(0, |expires| self.expire_at(expires));
                let after = self.living(value_bytes(len, stamp), expire_at);
                // What expires as it is stored, where nothing was, leaves no trace.
                let nothing = after.is_none() && !present;
                (Expected::Stored(old_value(wanted)), (!nothing).then_some(after))
            }
            CmdKind::SetNumber { stamp } => {
                (Expected::Stored(None), record((u64::from(stamp) << 40).to_string().into_bytes(), 0))
            }
            CmdKind::Delete { .. } if !present => (Expected::Miss, None),
            CmdKind::Delete { when, .. } if !holds(when) => {
                (Expected::NotStored { present, old: None }, None)
            }
            CmdKind::Delete { old: wanted, .. } => (Expected::Deleted(old_value(wanted)), Some(None)),
            CmdKind::Append { create, when, .. } if !(present || create) || !holds(when) => {
                (Expected::NotStored { present, old: None }, None)
            }
            CmdKind::Append { len, stamp, front, .. } => {
                let (mut value, more) = (old_value(true).unwrap_or_default(), value_bytes(len, stamp));
                let at = if front { 0 } else { value.len() };
                drop(value.splice(at..at, more));
                (Expected::Length(value.len() as u64), record(value, expiry))
            }
            CmdKind::Incr { by } => {
                let text = old.map_or(Some("0"), |old| std::str::from_utf8(&old.value).ok());
                match text.and_then(|text| text.parse::<i64>().ok()) {
                    Some(number) => {
                        let sum = number + i64::from(by);
                        (Expected::Number(sum), record(sum.to_string().into_bytes(), expiry))
                    }
                    None => (Expected::NotInteger, None),
                }
            }
            CmdKind::Expire { to, only, value } => {
                let Some(old) = old else { return (Expected::Miss, None) };
                let new = to.map_or(0, |to| self.expire_at(to));
                if !may_expire(only, old.expire_at, new) {
                    return (Expected::NotStored { present: true, old: None }, None);
                }
                let after = self.living(old.value.clone(), new);
                let expire_at = after.as_ref().map(|after| after.expire_at);
                let unchanged = expire_at == Some(old.expire_at);
                (Expected::Touched { expire_at, value: old_value(value) }, (!unchanged).then_some(after))
            }
            CmdKind::Get => (old.map_or(Expected::Miss, |old| Expected::Value(old.clone())), None),
            CmdKind::Flush { .. } | CmdKind::Swap => (Expected::Done, Some(None)),
        }
    }

    /// The record, or nothing if it has expired at once.
    fn living(&self, value: Vec<u8>, expire_at: u64) -> Option<Record> {
        (expire_at == 0 || expire_at > self.now_ms()).then_some(Record { value, expire_at })
    }
}

/// Of the conditions that plans use. Without an expiry a record lives for ever.
fn may_expire(only: ExpireIf, old: u64, new: u64) -> bool {
    let late = |at: u64| if at == 0 { u64::MAX } else { at };
    match only {
        ExpireIf::None => old == 0,
        ExpireIf::Some => old != 0,
        ExpireIf::Later => late(new) > late(old),
        _ => true,
    }
}
