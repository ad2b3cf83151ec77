//! What a history did: every effect in the order in which it took place, for the oracle, and the state it left, to predict
//! answers.

use std::collections::BTreeMap;
use std::fmt;

use terrace_media_sim::oracle::Oracle;

use super::plan::{Cmd, CmdKind, Expires, JUMP_US, value_bytes};

type Position = usize;

/// A record as a client sees it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub value: Vec<u8>,
    pub expire_at: u64,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.value[..self.value.len().min(24)];
        let shown = text.iter().take_while(|b| b.is_ascii_graphic()).count().min(12);
        write!(f, "{:?} ({} bytes", String::from_utf8_lossy(&text[..shown]), self.value.len())?;
        if self.expire_at != 0 {
            write!(f, ", expires {}", self.expire_at)?;
        }
        f.write_str(")")
    }
}

/// What an operation must answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expected {
    Miss,
    Value(Record),
    Stored,
    Deleted,
    Number(i64),
    Length(u64),
    /// The expiry was changed.
    Touched(u64),
    NotInteger,
    Done,
}

struct Entry {
    session: u32,
    issued: Position,
    acknowledged: Option<Position>,
    withdrawn: bool,
    effects: Vec<(u8, Option<Record>)>,
    /// What the keys held before, with the entries that wrote that.
    before: Vec<(u8, Option<Record>, Option<usize>)>,
    /// An expiry: the entry that wrote the record. The expiry stands as firmly as that.
    follows: Option<usize>,
    expiry: bool,
}

/// An entry's number.
pub(super) type EntryId = usize;

/// What was predicted of one operation.
pub(super) struct Prediction {
    pub expected: Expected,
    /// Its own effect.
    pub wrote: Option<EntryId>,
    /// What its answer rests on.
    pub saw: Option<EntryId>,
}

/// See the module's text.
pub(super) struct Ledger {
    entries: Vec<Entry>,
    live: BTreeMap<u8, Record>,
    /// The last entry on each key.
    last: BTreeMap<u8, EntryId>,
    initial: BTreeMap<u8, Record>,
    start_us: u64,
    jumps: u64,
    /// Where the clock jumped, and to which millisecond.
    jumped: Vec<(Position, u64)>,
}

impl Ledger {
    /// Of a store that holds `initial`; `start_us` is when the clock began, and `jumps` how often it jumped since.
    pub fn new(start_us: u64, jumps: u64, initial: BTreeMap<u8, Record>) -> Self {
        let live = initial.clone();
        Self {
            entries: Vec::new(),
            live,
            last: BTreeMap::new(),
            initial,
            start_us,
            jumps,
            jumped: Vec::new(),
        }
    }

    /// The moment of an expiry, in milliseconds.
    pub fn expire_at(&self, expires: Expires) -> u64 {
        let jump = self.jumps + u64::from(expires.jumps) - 1;
        (self.start_us + jump * JUMP_US + JUMP_US / 2) / 1000 + u64::from(expires.stamp % 90_000)
    }

    /// Runs an operation on the model.
    pub fn run(&mut self, session: u32, issued: Position, cmd: &Cmd) -> Prediction {
        let old = self.live.get(&cmd.key).cloned();
        let saw = self.last.get(&cmd.key).copied();
        let (expected, new) = match self.decide(cmd, old.as_ref()) {
            (expected, None) => return Prediction { expected, wrote: None, saw },
            (expected, Some(new)) => (expected, new),
        };
        let effects = match cmd.kind {
            CmdKind::Flush => self.live.keys().map(|key| (*key, None)).collect(),
            _ => vec![(cmd.key, new)],
        };
        let wrote = Some(self.write(session, issued, effects));
        Prediction { expected, wrote, saw: None }
    }

    /// Runs sets as one step.
    pub fn run_group(&mut self, session: u32, issued: Position, cmds: &[Cmd]) -> EntryId {
        let mut effects: BTreeMap<u8, Option<Record>> = BTreeMap::new();
        for cmd in cmds {
            if let (_, Some(new)) = self.decide(cmd, None) {
                effects.insert(cmd.key, new);
            }
        }
        self.write(session, issued, effects.into_iter().collect())
    }

    /// The answer, and the new state if there is one.
    fn decide(&self, cmd: &Cmd, old: Option<&Record>) -> (Expected, Option<Option<Record>>) {
        let expiry = old.map_or(0, |old| old.expire_at);
        let record = |value, expire_at| Some(Some(Record { value, expire_at }));
        match cmd.kind {
            CmdKind::Set { len, stamp, expires } => {
                let expire_at = expires.map_or(0, |expires| self.expire_at(expires));
                (Expected::Stored, record(value_bytes(len, stamp), expire_at))
            }
            CmdKind::SetNumber { stamp } => {
                (Expected::Stored, record((u64::from(stamp) << 40).to_string().into_bytes(), 0))
            }
            CmdKind::Delete if old.is_some() => (Expected::Deleted, Some(None)),
            CmdKind::Append { len, stamp } => {
                let mut value = old.map_or_else(Vec::new, |old| old.value.clone());
                value.extend_from_slice(&value_bytes(len, stamp));
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
            CmdKind::Expire { to } => match old {
                None => (Expected::Miss, None),
                Some(old) => {
                    let expire_at = to.map_or(0, |to| self.expire_at(to));
                    if expire_at == old.expire_at {
                        return (Expected::Touched(expire_at), None);
                    }
                    (Expected::Touched(expire_at), record(old.value.clone(), expire_at))
                }
            },
            CmdKind::Get => (old.map_or(Expected::Miss, |old| Expected::Value(old.clone())), None),
            CmdKind::Flush => (Expected::Done, Some(None)),
            CmdKind::Delete => (Expected::Miss, None),
        }
    }

    fn write(&mut self, session: u32, issued: Position, effects: Vec<(u8, Option<Record>)>) -> EntryId {
        let id = self.entries.len();
        let mut before = Vec::new();
        for (key, new) in &effects {
            let old = match new {
                Some(new) => self.live.insert(*key, new.clone()),
                None => self.live.remove(key),
            };
            before.push((*key, old, self.last.insert(*key, id)));
        }
        let entry = Entry {
            session,
            issued,
            acknowledged: None,
            withdrawn: false,
            effects,
            before,
            follows: None,
            expiry: false,
        };
        self.entries.push(entry);
        id
    }

    /// An answer that rests on the entry was given.
    pub fn acknowledge(&mut self, id: EntryId, position: Position) {
        let acknowledged = &mut self.entries[id].acknowledged;
        *acknowledged = Some(acknowledged.map_or(position, |earlier| earlier.min(position)));
    }

    /// The operation was refused. `false` if later ones were predicted from it, so that the ledger is worthless.
    pub fn refuse(&mut self, id: EntryId) -> bool {
        let entry = &mut self.entries[id];
        entry.withdrawn = true;
        let before = std::mem::take(&mut entry.before);
        if before.iter().any(|(key, ..)| self.last.get(key) != Some(&id)) {
            return false;
        }
        for (key, old, last) in before {
            match old {
                Some(old) => drop(self.live.insert(key, old)),
                None => drop(self.live.remove(&key)),
            }
            match last {
                Some(last) => drop(self.last.insert(key, last)),
                None => drop(self.last.remove(&key)),
            }
        }
        true
    }

    /// The clock has jumped; `session` is the number of the first of the expiries' own sessions. How many keys went.
    pub fn jump(&mut self, position: Position, session: &mut impl FnMut() -> u32) -> u64 {
        self.jumps += 1;
        let now_ms = (self.start_us + self.jumps * JUMP_US) / 1000;
        self.jumped.push((position, now_ms));
        let gone: Vec<u8> = self
            .live
            .iter()
            .filter(|(_, record)| record.expire_at != 0 && record.expire_at <= now_ms)
            .map(|(key, _)| *key)
            .collect();
        for key in &gone {
            let follows = self.last.get(key).copied();
            let id = self.write(session(), position, vec![(*key, None)]);
            (self.entries[id].follows, self.entries[id].expiry) = (follows, true);
        }
        gone.len() as u64
    }

    /// What a client would find now.
    pub fn live(&self) -> &BTreeMap<u8, Record> {
        &self.live
    }

    /// The oracles for crashes before the first jump of the clock, after it, and so on. Once a record's time has passed it
    /// looks deleted, wherever a crash brings it back from.
    pub fn oracles(&self, seed: u64) -> Vec<(Position, Oracle<u8, Record>)> {
        let moments = std::iter::once(&(0, 0)).chain(&self.jumped);
        moments.map(|(position, now_ms)| (*position, self.oracle(seed, *now_ms))).collect()
    }

    fn oracle(&self, seed: u64, now_ms: u64) -> Oracle<u8, Record> {
        let mut oracle = Oracle::new(seed);
        let visible = |record: &Record| record.expire_at == 0 || record.expire_at > now_ms;
        for (key, record) in self.initial.iter().filter(|(_, record)| visible(record)) {
            oracle.initial(*key, record.clone());
        }
        let mut acknowledged: Vec<Option<Position>> = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let shown = |(key, new): &(u8, Option<Record>)| (*key, new.clone().filter(visible));
            let effects = entry.effects.iter().map(shown).collect();
            let id = oracle.issue(entry.session, entry.issued, effects);
            // What has expired is gone from then on, if what made it expire is there.
            let follows = match entry.follows {
                Some(before) => acknowledged[before],
                None if entry.expiry => Some(0),
                None => None,
            };
            let mine = match (entry.acknowledged, follows.map(|position| position.max(entry.issued))) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            if let Some(position) = mine {
                oracle.acknowledge(id, position);
            }
            if entry.withdrawn {
                oracle.withdraw(id);
            }
            acknowledged.push(mine);
        }
        oracle
    }
}
