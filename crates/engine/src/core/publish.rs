//! A record that was decided, inside the critical section of its key: put, logged, issued, counted.

use std::sync::atomic::Ordering::Relaxed;

use terrace_index::{Address, Key};
use terrace_log::{LogDevice, Writer};

use super::{log_record, note_seen};
use crate::promised::Promised;
use crate::record::{ALONE, Head, Kind, NewRecord};
use crate::shared::Shared;
use crate::space::{Space, Under};
use crate::version::Version;

/// What of a session writes a record.
pub(super) struct Publisher<'s, S: Space, D: LogDevice> {
    pub space: &'s S,
    pub shared: &'s Shared,
    pub slot: usize,
    /// The clock part of versions.
    pub now_us: u64,
    pub local: &'s mut S::Local,
    pub writer: &'s mut Promised<S, Writer<D>>,
    pub last: &'s mut Version,
    pub seen: &'s mut [u64],
    pub touched: &'s mut Vec<u16>,
}

/// What the index had of the key.
pub(super) enum Before<'a> {
    Nothing,
    /// The key's record: where it is, its head, whether it counts as a key, and whether it can't be read.
    Record {
        address: Address,
        head: &'a Head,
        counted: bool,
        damaged: bool,
    },
    /// A record that may be the key's, which nobody has read: it counts as one.
    Unread(Address),
}

/// A record without what the session says of it.
pub(super) struct Draft<'a> {
    pub kind: Kind,
    pub flags: u32,
    pub state: u8,
    pub expire_at: u64,
    pub token: u64,
    pub value: &'a [u8],
}

impl<S: Space, D: LogDevice> Publisher<'_, S, D> {
    /// Writes the record, and says where it is and its version. Room for it was made before. What it replaces is still to be
    /// released.
    #[inline]
    pub fn publish(&mut self, key: &Key<'_>, draft: &Draft<'_>, before: &Before<'_>) -> (Address, Version) {
        let Self { space, shared, slot, now_us, .. } = *self;
        let (under, older, is_alone, counted, expired_before, was_tombstone) = match *before {
            Before::Nothing => (Under::Nothing, 0, true, false, false, false),
            Before::Record { address, head, counted, damaged } => {
                let forgotten = head.version <= shared.flushed(key.db);
                let under = Under::Record { address, head, forgotten, in_place: true };
                let is_alone = counted && !damaged && head.life().leaves_alone(draft.expire_at);
                let was_tombstone = !damaged && head.meta.kind() == Kind::Tombstone;
                (under, head.version, is_alone, counted, counted && head.expire_at != 0, was_tombstone)
            }
            // Whether it expires is not known: who finds out counts it.
            Before::Unread(address) => {
                (Under::Unread(address), space.version_bound(), false, true, false, false)
            }
        };
        let floor = shared.version_floor.load(Relaxed).max(older);
        let version = self.last.next(Version(floor), now_us, slot);
        let deleted = draft.kind == Kind::Tombstone;
        let record = NewRecord {
            version: version.0,
            kind: draft.kind,
            db: key.db,
            flags: draft.flags,
            state: draft.state | if is_alone && !deleted { ALONE } else { 0 },
            expire_at: draft.expire_at,
            token: draft.token,
            key: key.bytes,
            value: draft.value,
        };
        *self.last = version;
        let (address, seq) = space.put(self.local, under, &record);
        log_record(self.writer, &record, seq);
        // The answer rests on this version too: it must be as durable as what was seen.
        note_seen::<S>(self.seen, self.touched, version.0);
        // Before anything is released: what is freed waits for the versions issued so far.
        shared.commit.issue(slot, version.0);
        space.issued(self.local);
        let counters = &shared.counters[slot];
        if counted == deleted {
            counters.keys[usize::from(key.db) & 15].fetch_add(if deleted { -1 } else { 1 }, Relaxed);
        }
        counters.count_expiry(key.db, expired_before, draft.expire_at != 0);
        if was_tombstone != deleted {
            counters.tombstones.fetch_add(if deleted { 1 } else { -1 }, Relaxed);
        }
        (address, version)
    }
}
