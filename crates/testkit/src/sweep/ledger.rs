//! What a history did: every effect in the order in which it took place, for the oracle, and the state it left, to predict
//! answers.

use std::collections::BTreeMap;
use std::fmt;

use terrace_media_sim::oracle::Oracle;

use super::plan::{Expires, JUMP_US};

mod rules;
mod versions;

pub(super) use versions::Token;
use versions::Versions;

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
    /// With the old value, if one was asked for and there.
    Stored(Option<Vec<u8>>),
    NotStored {
        present: bool,
        old: Option<Vec<u8>>,
    },
    Deleted(Option<Vec<u8>>),
    Number(i64),
    Length(u64),
    /// The expiry was changed, to this if the record is still there; the value if it was asked for.
    Touched {
        expire_at: Option<u64>,
        value: Option<Vec<u8>>,
    },
    NotInteger,
    Done,
}

struct Entry {
    session: u32,
    rank: u64,
    issued: Position,
    acknowledged: Option<Position>,
    withdrawn: bool,
    effects: Vec<(u8, Option<Record>)>,
    /// What the keys held before, with the entries that wrote that.
    before: Vec<(u8, Option<Record>, Option<usize>)>,
    /// An expiry: the entry that wrote the record. The expiry stands as firmly as that.
    follows: Option<usize>,
    expiry: bool,
    /// A whole-database flush.
    forgets: bool,
}

/// An entry's number.
pub(super) type EntryId = usize;

/// Who does something, and when it was issued.
#[derive(Clone, Copy)]
pub(super) struct By {
    /// The session's number.
    pub session: u32,
    /// Its place in the session's order; see the oracle's ranks.
    pub rank: u64,
    pub issued: Position,
}

/// What was predicted of one operation.
pub(super) struct Prediction {
    pub expected: Expected,
    /// Its own effect.
    pub wrote: Option<EntryId>,
    /// What its answer rests on.
    pub saw: Option<EntryId>,
}

/// What a store holds at the beginning of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub records: BTreeMap<u8, Record>,
    pub versions: BTreeMap<u8, u64>,
}

/// See the module's text.
pub(super) struct Ledger {
    entries: Vec<Entry>,
    live: BTreeMap<u8, Record>,
    /// The last entry on each key.
    last: BTreeMap<u8, EntryId>,
    versions: Versions,
    initial: BTreeMap<u8, Record>,
    evict: bool,
    start_us: u64,
    jumps: u64,
    /// Where the clock jumped, and to which millisecond.
    jumped: Vec<(Position, u64)>,
}

impl Ledger {
    /// Of a store that holds `initial`; `start_us` is when the clock began, and `jumps` how often it jumped since.
    pub fn new(start_us: u64, jumps: u64, initial: Content, evict: bool) -> Self {
        Self {
            entries: Vec::new(),
            live: initial.records.clone(),
            last: BTreeMap::new(),
            versions: Versions::new(&initial.versions),
            initial: initial.records,
            evict,
            start_us,
            jumps,
            jumped: Vec::new(),
        }
    }

    /// The moment of an expiry, in milliseconds.
    pub fn expire_at(&self, expires: Expires) -> u64 {
        let jump = self.jumps + u64::from(expires.jumps);
        (self.start_us + jump * JUMP_US - JUMP_US / 2) / 1000 + u64::from(expires.stamp % 90_000)
    }

    fn now_ms(&self) -> u64 {
        (self.start_us + self.jumps * JUMP_US) / 1000
    }

    fn write(&mut self, by: By, effects: Vec<(u8, Option<Record>)>) -> EntryId {
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
            session: by.session,
            rank: by.rank,
            issued: by.issued,
            acknowledged: None,
            withdrawn: false,
            effects,
            before,
            follows: None,
            expiry: false,
            forgets: false,
        };
        self.entries.push(entry);
        id
    }

    /// An answer that rests on the entry was given.
    pub fn acknowledge(&mut self, id: EntryId, position: Position) {
        let acknowledged = &mut self.entries[id].acknowledged;
        *acknowledged = Some(acknowledged.map_or(position, |earlier| earlier.min(position)));
    }

    /// The operation found its key evicted already, and did nothing.
    pub fn void(&mut self, id: EntryId) {
        self.entries[id].withdrawn = true;
    }

    /// The operation was refused. `false` if later ones were predicted from it, or what it would have replaced would have expired
    /// since, so that the ledger is worthless.
    pub fn refuse(&mut self, id: EntryId) -> bool {
        let now_ms = self.now_ms();
        let entry = &mut self.entries[id];
        entry.withdrawn = true;
        let before = std::mem::take(&mut entry.before);
        let has_expired = |old: &Record| old.expire_at != 0 && old.expire_at <= now_ms;
        if before
            .iter()
            .any(|(key, old, _)| self.last.get(key) != Some(&id) || old.as_ref().is_some_and(has_expired))
        {
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
        let now_ms = self.now_ms();
        self.jumped.push((position, now_ms));
        let gone: Vec<u8> = self
            .live
            .iter()
            .filter(|(_, record)| record.expire_at != 0 && record.expire_at <= now_ms)
            .map(|(key, _)| *key)
            .collect();
        for key in &gone {
            let follows = self.last.get(key).copied();
            let by = By { session: session(), rank: 0, issued: position };
            let id = self.write(by, vec![(*key, None)]);
            (self.entries[id].follows, self.entries[id].expiry) = (follows, true);
        }
        gone.len() as u64
    }

    /// A crash, after which the history goes on, took back what it may take: the store holds `found` now. `session` is as in
    /// [`jump`](Self::jump). How many keys fell back.
    pub fn fall_back(
        &mut self,
        position: Position,
        found: &Content,
        session: &mut impl FnMut() -> u32,
    ) -> u64 {
        let keys: Vec<u8> = self.live.keys().chain(found.records.keys()).copied().collect();
        // Of what was lost no version counts any more, and the same ones may be given again.
        self.versions = Versions::default();
        let mut fallen = 0;
        for key in keys {
            if self.live.get(&key) != found.records.get(&key) {
                let by = By { session: session(), rank: 0, issued: position };
                self.write(by, vec![(key, found.records.get(&key).cloned())]);
                fallen += 1;
            }
        }
        self.know(&found.versions);
        fallen
    }

    /// What judges a crash now.
    pub fn oracle_now(&self, seed: u64) -> Oracle<u8, Record> {
        self.oracle(seed, self.jumped.last().map_or(0, |(_, now_ms)| *now_ms))
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
        if self.evict {
            oracle.evicts();
        }
        let visible = |record: &Record| record.expire_at == 0 || record.expire_at > now_ms;
        for (key, record) in self.initial.iter().filter(|(_, record)| visible(record)) {
            oracle.initial(*key, record.clone());
        }
        let mut acknowledged: Vec<Option<Position>> = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let shown = |(key, new): &(u8, Option<Record>)| (*key, new.clone().filter(visible));
            let effects = entry.effects.iter().map(shown).collect();
            let id = oracle.issue(entry.session, entry.issued, effects);
            oracle.set_rank(id, entry.rank);
            if entry.forgets {
                oracle.forgets(id);
            }
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
