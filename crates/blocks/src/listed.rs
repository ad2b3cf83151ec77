//! A record as its block lists it, and its entry in the index.

use terrace_engine::record::{Kind, RecordView};
use terrace_index::{Address, AnyIndex, Index, Key};

use crate::layout::FooterEntry;

/// A record of a block that background work looks for in the index. A footer has the record's hash; an index that
/// [needs keys](Index::needs_key) is asked with the record's own, where the record can be read.
pub struct Listed<'a> {
    key: Key<'a>,
    address: Address,
    readable: bool,
}

impl<'a> Listed<'a> {
    /// What a footer's entry stands for; `view` is its record, unless that is damaged or was not read.
    pub fn new(entry: &FooterEntry, view: Option<&RecordView<'a>>, address: Address) -> Self {
        // What a poison has for a key is the hash of the damaged record's.
        let bytes = view.filter(|view| view.head.meta.kind() != Kind::Poison).map(|view| view.key);
        let key = Key { hash: entry.hash, db: entry.db, bytes: bytes.unwrap_or_default() };
        Self { key, address, readable: bytes.is_some() }
    }

    /// The record's key, if it is known.
    pub fn key(&self) -> &'a [u8] {
        self.key.bytes
    }

    /// Whether the index refers to this very record. `true` also where only a walk through the whole index would tell.
    pub fn is_in(&self, index: &AnyIndex) -> bool {
        !self.known_to(index) || index.contains(&self.key, self.address)
    }

    /// Makes the index refer to the record's new place; `false` if it does not refer to the old one (any more).
    pub fn replace(&self, index: &AnyIndex, to: Address) -> bool {
        if self.known_to(index) {
            index.replace(&self.key, self.address, to)
        } else {
            index.replace_unreadable(&self.key, self.address, to)
        }
    }

    /// Takes the record out of the index; `false` if it is not there (any more).
    pub fn remove(&self, index: &AnyIndex) -> bool {
        if self.known_to(index) {
            index.remove(&self.key, self.address)
        } else {
            index.remove_unreadable(&self.key, self.address)
        }
    }

    fn known_to(&self, index: &AnyIndex) -> bool {
        self.readable || !index.needs_key()
    }
}
