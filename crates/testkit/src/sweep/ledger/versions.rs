//! The versions that answers told: one for each write, growing along each key's writes, the same after every recovery.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use super::{EntryId, Ledger};

/// Who wrote a record; `None` for what was there at the beginning.
pub(in super::super) type Writer = Option<EntryId>;

/// A version that a client saw, and whose it was.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Token {
    pub writer: Writer,
    pub version: u64,
}

/// By key and writer.
#[derive(Default)]
pub(super) struct Versions(BTreeMap<(u8, Writer), u64>);

impl Versions {
    pub fn new(initial: &BTreeMap<u8, u64>) -> Self {
        Self(initial.iter().map(|(key, version)| ((*key, None), *version)).collect())
    }

    /// Keys have records that others wrote.
    pub fn forget(&mut self, of: impl Fn(u8) -> bool) {
        self.0.retain(|(key, _), _| !of(*key));
    }

    fn newest(&self, key: u8) -> Option<Token> {
        let mut mine = self.0.range((key, None)..=(key, Some(EntryId::MAX)));
        mine.next_back().map(|((_, writer), version)| Token { writer: *writer, version: *version })
    }
}

impl Ledger {
    /// The newest version of a key that a client saw, if any.
    pub fn token(&self, key: u8) -> Option<Token> {
        self.versions.newest(key)
    }

    /// The versions of what is there.
    pub(super) fn know(&mut self, found: &BTreeMap<u8, u64>) {
        let known = found.iter().map(|(key, version)| ((*key, self.last.get(key).copied()), *version));
        self.versions.0.extend(known);
    }

    /// Whether the key is there in that version.
    pub(super) fn has_version(&self, key: u8, token: Option<Token>) -> bool {
        let last = self.last.get(&key).copied();
        self.live.contains_key(&key) && token.is_some_and(|token| token.writer == last)
    }

    /// An answer told the version of a record.
    ///
    /// # Errors
    /// If it was another before, or does not lie between those of the writes before and after it.
    pub fn learn(&mut self, key: u8, writer: Writer, version: u64) -> Result<(), String> {
        let effect = |id: EntryId| self.entries[id].effects.iter().find(|(other, _)| *other == key);
        if writer.is_some_and(|id| effect(id).is_none_or(|(_, new)| new.is_none())) {
            // What expired as it was stored has no version.
            return Ok(());
        }
        let all = &mut self.versions.0;
        let place = (key, writer);
        let before = all.range((key, None)..place).next_back().map(|(_, version)| *version);
        let after = all.range((Excluded(place), Unbounded)).next();
        let after = after.filter(|((other, _), _)| *other == key).map(|(_, version)| *version);
        if before.is_some_and(|before| before >= version) || after.is_some_and(|after| after <= version) {
            return Err(format!(
                "key {key} has version {version}, an earlier write {before:?} and a later one {after:?}"
            ));
        }
        match all.insert(place, version) {
            Some(other) if other != version => {
                Err(format!("key {key} had version {other}, and without a write it has {version}"))
            }
            _ => Ok(()),
        }
    }
}
