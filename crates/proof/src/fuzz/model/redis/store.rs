//! What the model keeps: databases of strings, and who watches which key.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::expect::{Expect, Version};

/// Databases that inputs use; there are 16.
pub(super) const DATABASES: usize = 4;

/// A name and its arguments.
pub(crate) type Command = Vec<Vec<u8>>;

/// One key's.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since the epoch; 0 for never. Off by as much as commands take, unless it was said.
    pub at: i64,
    /// How Redis keeps it.
    pub form: Form,
}

/// How Redis came to keep a value, which `OBJECT ENCODING` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As short as can be.
    Set,
    /// As text, though it be a number.
    Text,
    /// It was changed in its place.
    Changed,
}

impl Entry {
    pub fn new(value: &[u8]) -> Self {
        Self { value: value.to_vec(), at: 0, form: Form::Set }
    }
}

pub(super) type Key = (usize, Vec<u8>);

/// The data, and the connection's view of it while a command runs.
#[derive(Default)]
pub(super) struct Store {
    databases: [BTreeMap<Vec<u8>, Entry>; DATABASES],
    /// Keys written since this was emptied.
    pub touched: Vec<Key>,
}

impl Store {
    pub fn get(&self, db: usize, key: &[u8]) -> Option<&Entry> {
        self.databases[db].get(key)
    }
    pub fn keys(&self, db: usize) -> Vec<Vec<u8>> {
        self.databases[db].keys().cloned().collect()
    }
    pub fn len(&self, db: usize) -> usize {
        self.databases[db].len()
    }
    /// Writes a key, which those who watch it hear of.
    pub fn put(&mut self, db: usize, key: &[u8], entry: Entry) {
        self.touched.push((db, key.to_vec()));
        self.databases[db].insert(key.to_vec(), entry);
    }
    pub fn remove(&mut self, db: usize, key: &[u8]) -> Option<Entry> {
        let removed = self.databases[db].remove(key)?;
        self.touched.push((db, key.to_vec()));
        Some(removed)
    }
    /// Redis has made a copy of a value for a change that then was none.
    pub fn copied(&mut self, db: usize, key: &[u8]) {
        if let Some(entry) = self.databases[db].get_mut(key) {
            entry.form = Form::Changed;
        }
    }
    pub fn flush(&mut self, db: usize) {
        for key in std::mem::take(&mut self.databases[db]).into_keys() {
            self.touched.push((db, key));
        }
    }
}

/// A command on its way through the model.
pub(super) struct Run<'a> {
    pub store: &'a mut Store,
    pub db: usize,
    pub version: Version,
    pub args: &'a [Vec<u8>],
    /// What the server is: see [`super::Server`].
    pub original: bool,
}

/// An error is an answer too.
pub(super) type Answer = Result<Expect, Expect>;

pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const SYNTAX: &str = "ERR syntax error";

impl Run<'_> {
    pub fn arg(&self, index: usize) -> &[u8] {
        self.args.get(index).map_or(&[], |arg| arg)
    }
    pub fn word(&self, index: usize) -> String {
        String::from_utf8_lossy(self.arg(index)).to_uppercase()
    }
    pub fn entry(&self) -> Option<&Entry> {
        self.store.get(self.db, self.arg(1))
    }
    pub fn value(&self, index: usize) -> Option<Vec<u8>> {
        Some(self.store.get(self.db, self.arg(index))?.value.clone())
    }
    /// A key's value, or nothing; changed and put back with its expiry.
    pub fn change(&mut self, form: Form, with: impl FnOnce(&mut Vec<u8>)) {
        let mut entry = self.entry().cloned().unwrap_or_else(|| Entry::new(b""));
        with(&mut entry.value);
        entry.form = form;
        let key = self.arg(1).to_vec();
        self.store.put(self.db, &key, entry);
    }
    pub fn set(&mut self, entry: Entry) {
        let key = self.arg(1).to_vec();
        self.store.put(self.db, &key, entry);
    }
    /// Gives a key another expiry. One that it has already is no change to us.
    pub fn expire(&mut self, entry: Entry) {
        let is_same = self.entry().is_some_and(|old| old.at == entry.at);
        if self.original || !is_same {
            self.set(entry);
        }
    }
    pub fn delete(&mut self) -> bool {
        let key = self.arg(1).to_vec();
        self.store.remove(self.db, &key).is_some()
    }
    pub fn integer(&self, index: usize) -> Result<i64, Expect> {
        integer(self.arg(index)).ok_or_else(|| Expect::error(NOT_AN_INTEGER))
    }
    pub fn null(&self) -> Expect {
        Expect::null(self.version)
    }
    pub fn bulk(&self, value: Option<&[u8]>) -> Expect {
        Expect::bulk_or_null(value, self.version)
    }
}

/// A number as Redis reads it: no sign but a minus, no blanks, no needless zeros.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// Milliseconds since the epoch.
pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as i64
}
