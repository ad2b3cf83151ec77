//! What an adapter says about the map of another crate.

use std::ops::Bound;

use crate::{Address, Direction};

/// A concurrent map from names (a database's byte and a key's bytes) to addresses; [`Striped`](super::Striped) makes an
/// index of it.
///
/// # Thread safety
/// `get` and `for_each` run on any thread at any time. `set` and `remove` of one name exclude each other (a lock around them
/// sees to it); those of different names run at the same time.
pub trait Map: Send + Sync + 'static {
    /// The name users give to `--index`.
    const NAME: &'static str;

    /// DRAM that an entry takes beyond the bytes of its name, about: what `terrace bench indexes` measured. An estimate, for
    /// these maps can't be asked.
    const ENTRY_BYTES: u64;

    /// The address of a name.
    fn get(&self, name: &[u8]) -> Option<Address>;

    /// Inserts or replaces. A `get` beside a replacement sees the old address or the new one, never none.
    fn set(&self, name: &[u8], address: Address);

    /// Removes a name, if it is there.
    fn remove(&self, name: &[u8]);

    /// Visits every entry that is there throughout, at least once: its name and address. `visit` does not call back into the
    /// map.
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], Address));

    /// This map as an ordered one, if it is one.
    fn ordered(&self) -> Option<&dyn OrderedMap> {
        None
    }
}

/// What an ordered map offers beyond [`Map`].
pub trait OrderedMap {
    /// Appends the next names from `from` on in this direction, byte by byte and a name before every longer one that it
    /// begins, until the page is full or none is left. What is there throughout is not left out.
    fn page(&self, from: Bound<&[u8]>, direction: Direction, page: &mut Page);
}

/// Some entries in order, with their names.
#[derive(Debug)]
pub struct Page {
    names: Vec<u8>,
    /// Where each name ends, and its address.
    entries: Vec<(usize, Address)>,
    most: usize,
}

impl Page {
    /// An empty page that is full with `most` entries.
    pub fn new(most: usize) -> Self {
        Self { names: Vec::new(), entries: Vec::new(), most }
    }
    /// Appends an entry; `false` if the page is full now.
    pub fn push(&mut self, name: &[u8], address: Address) -> bool {
        self.names.extend_from_slice(name);
        self.entries.push((self.names.len(), address));
        !self.is_full()
    }
    /// Whether no more is wanted.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.most
    }
    /// How many more are wanted.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.entries.len())
    }
    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// Forgets the entries.
    pub fn clear(&mut self) {
        self.names.clear();
        self.entries.clear();
    }
    /// The name and address of an entry.
    ///
    /// # Panics
    /// If there are not that many.
    pub fn get(&self, i: usize) -> (&[u8], Address) {
        let start = i.checked_sub(1).map_or(0, |before| self.entries[before].0);
        let (end, address) = self.entries[i];
        (&self.names[start..end], address)
    }
    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Address)> {
        (0..self.len()).map(|i| self.get(i))
    }
}
