//! The records of a group that was decided: put, logged as one group, counted.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use terrace_index::Change;
use terrace_log::{LogDevice, Writer};
use terrace_media::Buffer;

use super::super::{log_record, note_seen};
use super::drafts::{Bytes, Draft, Drafts};
use super::plan::Plan;
use super::room::Sizes;
use super::{Ahead, Stop};
use crate::promised::Promised;
use crate::record::{ALONE, INLINE_VALUE_BYTES, Kind, NewRecord, words_for};
use crate::shared::Shared;
use crate::space::{GivenUp, Space, Under};
use crate::version::Version;

/// What of a session writes records.
pub(super) struct Tools<'s, S: Space, D: LogDevice> {
    pub space: &'s S,
    pub shared: &'s Shared,
    pub slot: usize,
    /// The clock part of versions, and the store's time.
    pub now_us: u64,
    pub now_ms: u64,
    pub local: &'s mut S::Local,
    pub writer: &'s mut Promised<S, Writer<D>>,
    pub last: &'s mut Version,
    pub lapsed: &'s mut Vec<(u8, Vec<u8>)>,
    pub seen: &'s mut [u64],
    pub touched: &'s mut Vec<u16>,
}

/// What is to become of a key's record.
enum Fate {
    Keep,
    /// It leaves the index without a trace.
    Remove,
    /// A record of this kind is put.
    Put(Kind),
}

impl<S: Space, D: LogDevice> Tools<'_, S, D> {
    /// Writes what changed. Nothing is written if it does not fit, or large values must be stored first.
    pub fn write(
        &mut self,
        plan: &Plan<'_>,
        drafts: &mut Drafts<'_>,
        ahead: &mut HashMap<usize, Ahead>,
        prepared: &[usize],
        changes: &mut [Change],
    ) -> Result<(), Stop> {
        let inline = self.space.limits().inline_bytes.min(INLINE_VALUE_BYTES);
        let fates: Vec<Fate> = drafts.drafts.iter().map(|draft| fate::<S>(draft, inline)).collect();
        self.check_room(plan, drafts, &fates, ahead, prepared)?;
        let is_written = fates.iter().any(|fate| matches!(fate, Fate::Put(_)));
        let has_effect = is_written || fates.iter().any(|fate| matches!(fate, Fate::Remove));
        let mut given_up = Vec::new();
        if has_effect {
            self.space.begin_step(self.local);
        }
        if let Some(writer) = self.writer.keeper_mut().filter(|_| is_written) {
            writer.begin_atomic();
        }
        for (i, (draft, fate)) in drafts.drafts.iter_mut().zip(&fates).enumerate() {
            changes[i] = match fate {
                Fate::Keep if draft.changed => {
                    self.tell_version(draft);
                    Change::Keep
                }
                Fate::Keep => Change::Keep,
                Fate::Remove => {
                    self.tell_version(draft);
                    self.remove(plan, i, draft, &mut given_up)
                }
                Fate::Put(kind) => self.put(plan, i, draft, *kind, (&mut *ahead, &mut given_up)),
            };
        }
        if let Some(writer) = self.writer.keeper_mut().filter(|_| is_written) {
            writer.end_atomic();
        }
        if has_effect {
            self.space.end_step(self.local, self.last.0, &given_up);
            // Once their records are gone for good: a crash may still take the step back.
            for draft in drafts.drafts.iter().filter(|draft| gives_extent_up(draft)) {
                self.space.release_extent(&draft.found.bytes, &[]);
            }
        }
        Ok(())
    }

    fn check_room(
        &self,
        plan: &Plan<'_>,
        drafts: &Drafts<'_>,
        fates: &[Fate],
        ahead: &HashMap<usize, Ahead>,
        prepared: &[usize],
    ) -> Result<(), Stop> {
        let (mut sizes, mut unstored) = (Vec::new(), Vec::new());
        for (i, (draft, fate)) in drafts.drafts.iter().zip(fates).enumerate() {
            let Fate::Put(kind) = fate else { continue };
            let value_bytes = match (kind, value(draft)) {
                (Kind::Tombstone, _) => 0,
                (Kind::Extent, Some(value)) => match stored(ahead, i, value) {
                    Some(stored) => stored.description.len(),
                    None => {
                        unstored.push((i, Buffer::from(value)));
                        0
                    }
                },
                (_, Some(value)) => value.len(),
                (_, None) => draft.found.bytes.len(),
            };
            let is_record = *kind != Kind::Tombstone;
            let words =
                words_for(plan.keys[i].bytes.len(), value_bytes, is_record && draft.head.expire_at != 0);
            sizes.push(words + usize::from(is_record && draft.head.token != 0));
        }
        if !unstored.is_empty() {
            return Err(Stop::NewExtents(unstored));
        }
        // The space may have more room than was asked for, the log may not.
        let has_log_room = Sizes::of(&sizes).is_within(&Sizes::of(prepared));
        if sizes.is_empty() || (has_log_room && self.space.fits(self.local, &sizes)) {
            return Ok(());
        }
        Err(Stop::Room(sizes))
    }

    /// A record that was written and deleted by the same group, of which no trace is left, has been told of all the same: its
    /// version is one that no later one of the key has.
    fn tell_version(&mut self, draft: &mut Draft<'_>) {
        let floor = self.shared.version_floor.load(Relaxed).max(draft.found.head.version);
        *self.last = self.last.next(Version(floor), self.now_us, self.slot);
        draft.version = self.last.0;
        self.shared.version_floor.fetch_max(draft.version, Relaxed);
    }

    fn remove(
        &mut self,
        plan: &Plan<'_>,
        i: usize,
        draft: &Draft<'_>,
        given_up: &mut Vec<GivenUp>,
    ) -> Change {
        let Some(address) = draft.found.address else { return Change::Keep };
        given_up.push(GivenUp { address, head: draft.found.head, is_removed: true });
        if draft.counted {
            let counters = &self.shared.counters[self.slot];
            counters.keys[usize::from(plan.keys[i].db)].fetch_sub(1, Relaxed);
            counters.count_expiry(plan.keys[i].db, draft.found.head.expire_at != 0, false);
        }
        Change::Remove
    }

    fn put(
        &mut self,
        plan: &Plan<'_>,
        i: usize,
        draft: &mut Draft<'_>,
        kind: Kind,
        (ahead, given_up): (&mut HashMap<usize, Ahead>, &mut Vec<GivenUp>),
    ) -> Change {
        let key = plan.keys[i];
        let found = draft.found;
        let place = found.address;
        let mut floor = self.shared.version_floor.load(Relaxed);
        if place.is_some() {
            floor = floor.max(found.head.version);
        }
        let version = self.last.next(Version(floor), self.now_us, self.slot);
        *self.last = version;
        draft.version = version.0;
        let deleted = kind == Kind::Tombstone;
        let bytes: &[u8] = match (kind, value(draft)) {
            (Kind::Tombstone, _) => &[],
            (_, None) => &found.bytes,
            (Kind::Extent, Some(_)) => match ahead.get_mut(&i) {
                Some(stored) => {
                    stored.used = true;
                    &stored.description
                }
                None => &[],
            },
            (_, Some(value)) => value,
        };
        let (flags, state, expire_at, token) = match deleted {
            true => (0, 0, 0, 0),
            false => (draft.head.flags, draft.head.meta.state(), draft.head.expire_at, draft.head.token),
        };
        let is_live = draft.counted && !found.damaged;
        let is_alone = place.is_none() || is_live && found.head.life().leaves_alone(expire_at);
        let alone = if is_alone && !deleted { ALONE } else { 0 };
        let record = NewRecord {
            version: version.0,
            kind,
            db: key.db,
            flags,
            state: state | alone,
            expire_at,
            token,
            key: key.bytes,
            value: bytes,
        };
        let under = match place {
            Some(address) => {
                let forgotten = found.head.version <= self.shared.flushed(key.db);
                Under::Record { address, head: &found.head, forgotten, in_place: false }
            }
            None => Under::Nothing,
        };
        let (address, seq) = self.space.put(self.local, under, &record);
        log_record(self.writer, &record, seq);
        note_seen::<S>(self.seen, self.touched, version.0);
        // Before anything is released: what is freed waits for the versions issued so far.
        self.shared.commit.issue(self.slot, version.0);
        let counters = &self.shared.counters[self.slot];
        if draft.counted && !draft.found.damaged && found.head.life().is_over(self.now_ms) {
            counters.expired.fetch_add(1, Relaxed);
            if self.shared.tells_expired.load(Relaxed) {
                self.lapsed.push((key.db, key.bytes.to_vec()));
            }
        }
        let keys = &counters.keys[usize::from(key.db)];
        match (draft.counted, !deleted) {
            (true, false) => keys.fetch_sub(1, Relaxed),
            (false, true) => keys.fetch_add(1, Relaxed),
            _ => 0,
        };
        counters.count_expiry(key.db, draft.counted && found.head.expire_at != 0, expire_at != 0);
        let was_tombstone = place.is_some() && !found.damaged && found.head.meta.kind() == Kind::Tombstone;
        match (was_tombstone, deleted) {
            (true, false) => counters.tombstones.fetch_sub(1, Relaxed),
            (false, true) => counters.tombstones.fetch_add(1, Relaxed),
            _ => 0,
        };
        if let Some(old) = place {
            given_up.push(GivenUp { address: old, head: found.head, is_removed: false });
        }
        Change::Set(address)
    }
}

/// Whether a step that has effect leaves the large value that it found to nobody.
fn gives_extent_up(draft: &Draft<'_>) -> bool {
    draft.changed && draft.found.is_extent() && !(draft.present && value(draft).is_none())
}

/// The drafted value; `None`: it is the one that was found.
fn value<'d>(draft: &'d Draft<'_>) -> Option<&'d [u8]> {
    match &draft.bytes {
        Bytes::Old => None,
        Bytes::Argument(bytes) => Some(bytes),
        Bytes::Computed(bytes) => Some(bytes),
    }
}

/// What was stored ahead for this member, if it is this value.
fn stored<'a>(ahead: &'a HashMap<usize, Ahead>, member: usize, value: &[u8]) -> Option<&'a Ahead> {
    ahead.get(&member).filter(|ahead| ahead.value == *value)
}

fn fate<S: Space>(draft: &Draft<'_>, inline: usize) -> Fate {
    if !draft.changed {
        return Fate::Keep;
    }
    if draft.present {
        return Fate::Put(match value(draft) {
            None => draft.found.head.meta.kind(),
            Some(value) if value.len() > inline => Kind::Extent,
            Some(_) => Kind::Value,
        });
    }
    let was_tombstone = !draft.found.damaged && draft.found.head.meta.kind() == Kind::Tombstone;
    match draft.found.address {
        // Made and deleted by the same group.
        None => Fate::Keep,
        Some(_) if was_tombstone => Fate::Keep,
        Some(_) if S::TOMBSTONES => Fate::Put(Kind::Tombstone),
        Some(_) => Fate::Remove,
    }
}
