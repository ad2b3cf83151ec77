//! The newest version of each key, wherever it lies: 96 bits of a key stand for it, as its footer entry has them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{SystemTime, UNIX_EPOCH};

use terrace_blocks::FooterEntry;
use terrace_engine::DATABASES;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::{Kind, RecordView};

use super::Counts;

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Slot, offset and bytes in a block.
    Block(u32, u32, u32),
    Middle,
    Log,
}

/// The newest version of a key.
pub(super) struct Newest {
    pub version: u64,
    pub kind: Kind,
    pub db: u8,
    expire_at: u64,
    pub place: Place,
    /// Its record fails its checksum: only its footer entry is known.
    pub damaged: bool,
    /// An extent's description.
    pub description: Option<Box<[u8]>>,
}

pub(super) struct Keys {
    newest: HashMap<(u64, u32), Newest>,
    /// Records of a database up to this version are dead.
    flush_versions: [u64; DATABASES],
    pub max_version: u64,
}

impl Keys {
    pub fn new(manifest: &Manifest) -> Self {
        Self { newest: HashMap::new(), flush_versions: manifest.flush_versions, max_version: 0 }
    }

    /// A whole database was emptied at a version.
    pub fn flushed(&mut self, db: usize, version: u64) {
        if let Some(flushed) = self.flush_versions.get_mut(db) {
            *flushed = version.max(*flushed);
        }
        self.max_version = self.max_version.max(version);
    }

    /// A record with what its footer entry says. Damaged ones come without a view.
    pub fn offer(&mut self, entry: &FooterEntry, view: Option<&RecordView<'_>>, place: Place) {
        self.max_version = self.max_version.max(entry.version);
        let extent = view.filter(|_| entry.kind == Kind::Extent);
        let newest = || Newest {
            version: entry.version,
            kind: entry.kind,
            db: entry.db,
            expire_at: view.map_or(0, |view| view.head.expire_at),
            place,
            damaged: view.is_none(),
            description: extent.map(|view| view.value.into()),
        };
        match self.newest.entry((entry.hash, entry.check)) {
            Entry::Vacant(vacant) => {
                vacant.insert(newest());
            }
            // Reclamation copies a record with its version: the same one twice is no newer one.
            Entry::Occupied(mut occupied) if occupied.get().version < entry.version => {
                occupied.insert(newest());
            }
            Entry::Occupied(_) => {}
        }
    }

    /// Whether the record at a place is the newest of its key, and not emptied with its database.
    pub fn is_newest(&self, hash: u64, check: u32, slot: u32, offset: u32) -> bool {
        self.newest.get(&(hash, check)).is_some_and(|newest| {
            matches!(newest.place, Place::Block(at, from, _) if (at, from) == (slot, offset))
                && self.lives(newest)
        })
    }

    fn lives(&self, newest: &Newest) -> bool {
        self.flush_versions.get(usize::from(newest.db)).is_some_and(|flushed| newest.version > *flushed)
    }

    /// What counts, with the keys' hashes.
    pub fn living(&self) -> impl Iterator<Item = (u64, &Newest)> {
        self.newest.iter().filter(|(_, newest)| self.lives(newest)).map(|(key, newest)| (key.0, newest))
    }

    pub fn count(&self, counts: &mut Counts) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
        for (_, newest) in self.living() {
            if let Place::Block(_, _, bytes) = newest.place {
                counts.live_bytes += u64::from(bytes);
            }
            match newest.kind {
                _ if newest.damaged => counts.poisoned += 1,
                Kind::Poison => counts.poisoned += 1,
                Kind::Tombstone => counts.tombstones += 1,
                Kind::Value | Kind::Extent => {
                    counts.keys += 1;
                    counts.keys_in_log += u64::from(newest.place == Place::Log);
                    counts.expired += u64::from(newest.expire_at != 0 && newest.expire_at <= now);
                    counts.extents += u64::from(newest.kind == Kind::Extent);
                }
            }
        }
    }
}
