//! A reference store: one map and plain rules. It is fed each operation together with the answer of the store under test,
//! because some of an answer is the store's to choose (versions) and has only to obey rules.

mod arithmetic;
mod edit;
mod range;
mod record;
mod rules;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::case::{Action, Case, Observed};
pub use record::{Known, Record};

/// A key in a database.
pub type Place = (u8, Vec<u8>);

/// How an operation belongs to an atomic group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Not at all.
    None,
    /// As the first one on its key.
    First,
    /// As another one on a key that the group has written before.
    Again,
}

/// The reference.
#[derive(Clone, Debug, Default)]
pub struct Model {
    records: BTreeMap<Place, Record>,
    /// The highest version seen of each key, deleted ones included.
    versions: HashMap<Place, u64>,
    /// What an edit handed on within the group.
    carried: Option<Vec<u8>>,
    now_ms: u64,
}

impl Model {
    /// An empty store at this time.
    pub fn new(now_ms: u64) -> Self {
        Self { now_ms, ..Self::default() }
    }
    /// Time passes.
    ///
    /// # Panics
    /// If it runs backwards.
    pub fn set_now_ms(&mut self, now_ms: u64) {
        assert!(now_ms >= self.now_ms, "time runs forwards");
        self.now_ms = now_ms;
    }
    /// The time.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }
    /// What a key holds.
    pub fn get(&self, place: &Place) -> Option<&Record> {
        self.records.get(place).filter(|record| record.is_live(self.now_ms))
    }
    /// Live keys of a database.
    pub fn keys(&self, db: u8) -> BTreeSet<Vec<u8>> {
        let of_db = self.records.range((db, Vec::new())..).take_while(|((d, _), _)| *d == db);
        of_db.filter(|(_, record)| record.is_live(self.now_ms)).map(|((_, key), _)| key.clone()).collect()
    }
    /// Live keys of a database, and those that have expired and may still be counted by a store that has not noticed yet.
    pub fn len_range(&self, db: u8) -> (u64, u64) {
        let all = self.records.keys().filter(|(d, _)| *d == db).count() as u64;
        (self.keys(db).len() as u64, all)
    }
    /// Live keys of a database that have an expiry.
    pub fn expiring(&self, db: u8) -> u64 {
        let live = |record: &&Record| record.is_live(self.now_ms) && record.expire_at != 0;
        let of_db = self.records.iter().filter(|((d, _), _)| *d == db);
        of_db.map(|(_, record)| record).filter(live).count() as u64
    }
    /// Bytes of keys and values, expired ones included.
    pub fn bytes(&self) -> u64 {
        self.records.iter().map(|((_, key), record)| (key.len() + record.value.len()) as u64).sum()
    }
    /// Expired records are gone from the store too.
    pub fn forget_expired(&mut self) {
        let now_ms = self.now_ms;
        self.records.retain(|_, record| record.is_live(now_ms));
    }
    /// The store lost everything (it keeps nothing across a restart).
    pub fn lose_everything(&mut self) {
        self.records.clear();
        self.versions.clear();
    }
    /// Compares an answer with what it should be, and applies the operation. Operations of a batch are checked in order.
    ///
    /// # Errors
    /// What was expected, in words.
    pub fn check(&mut self, case: &Case, observed: &Observed) -> Result<(), String> {
        self.check_in_group(case, observed, Group::None)
    }

    /// As [`check`](Self::check), for an operation of an atomic group.
    ///
    /// # Errors
    /// What was expected, in words.
    pub fn check_in_group(&mut self, case: &Case, observed: &Observed, group: Group) -> Result<(), String> {
        match &case.action {
            Action::Flush(db) => {
                self.records.retain(|(of, _), _| db.is_some_and(|db| db != *of));
                same(observed, &Observed::Done)
            }
            Action::Swap(with) => {
                let swapped = |db: u8| match db {
                    db if db == case.db => *with,
                    db if db == *with => case.db,
                    db => db,
                };
                let records = std::mem::take(&mut self.records).into_iter();
                self.records = records.map(|((db, key), record)| ((swapped(db), key), record)).collect();
                let versions = std::mem::take(&mut self.versions).into_iter();
                self.versions = versions.map(|((db, key), version)| ((swapped(db), key), version)).collect();
                same(observed, &Observed::Done)
            }
            Action::Scan { .. } => self.check_scan(case.db, observed),
            Action::Range { from, direction, count } => {
                self.check_range(case, (*from, *direction, *count), observed)
            }
            _ => self.check_key(case, observed, group),
        }
    }

    /// A step of an iteration may return any live keys; which, only the whole iteration tells.
    fn check_scan(&self, db: u8, observed: &Observed) -> Result<(), String> {
        let Observed::Scanned(_, keys) = observed else { return Err("Scanned".into()) };
        let live = self.keys(db);
        match keys.iter().find(|key| !live.contains(*key)) {
            None => Ok(()),
            Some(key) => Err(format!("only live keys, not {}", crate::case::show(key))),
        }
    }
}

/// Equality as a result.
fn same(observed: &Observed, expected: &Observed) -> Result<(), String> {
    if observed == expected { Ok(()) } else { Err(format!("{expected:?}")) }
}

#[cfg(test)]
mod tests;
