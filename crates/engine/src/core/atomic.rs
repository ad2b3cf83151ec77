//! Several writes as one step: one critical section over all keys, one log group.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;

use terrace_index::{Address, Change, Index, Key, Lookup, Verdict};
use terrace_log::LogDevice;

use super::{Core, Step, live, log_record, note_seen};
use crate::batch::Batch;
use crate::op::{Expiry, Op, OpKind};
use crate::pending::{Known, Wanted};
use crate::record::{Head, INLINE_VALUE_BYTES, Kind, NewRecord};
use crate::reply::{OpError, Reply};
use crate::space::{Class, Fetch, Room, Space, Under, Want};
use crate::version::Version;

/// One write of the group.
struct Write<'a> {
    key: Key<'a>,
    /// The value, or the description of the extent it was written to.
    value: Vec<u8>,
    kind: Kind,
    flags: u32,
    expire_at: u64,
}

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Runs operations `start..end` of the batch as one step. All must be unconditional sets; where a key repeats the last
    /// one wins.
    pub(super) fn atomic(&mut self, batch: &mut Batch, start: usize, end: usize, known: &Known) -> Step {
        let Batch { input, ops, .. } = batch;
        let mut writes = match self.collect(input, &ops[start..end]) {
            Ok(writes) => writes,
            Err(error) => return Step::Done(Reply::Error(error)),
        };
        let step = self.apply(&writes, known);
        if !matches!(step, Step::Done(Reply::Stored { .. })) {
            for write in writes.iter_mut().filter(|write| write.kind == Kind::Extent) {
                self.machine.space.release_extent(&write.value);
            }
        }
        step
    }

    /// Checks the operations and writes their large values.
    fn collect<'a>(&mut self, input: &'a [u8], ops: &[Op]) -> Result<Vec<Write<'a>>, OpError> {
        let limits = self.machine.space.limits();
        let hasher = self.shared().hasher;
        let now_ms = self.now_ms();
        let slice = |span: crate::op::Span| &input[span.start as usize..][..span.len()];
        let mut writes: Vec<Write<'a>> = Vec::with_capacity(ops.len());
        for op in ops.iter().rev() {
            let OpKind::Set { value, expiry, flags, .. } = op.kind else {
                debug_assert!(false, "only unconditional sets may be atomic");
                continue;
            };
            let key = hasher.key(op.db, slice(op.key));
            if writes.iter().any(|w| w.key.hash == key.hash && w.key.bytes == key.bytes && w.key.db == key.db)
            {
                continue;
            }
            if key.bytes.len() > limits.key_bytes {
                return Err(OpError::KeyTooLong(limits.key_bytes as u64));
            }
            if value.len() as u64 > limits.value_bytes {
                return Err(OpError::ValueTooLong(limits.value_bytes));
            }
            let expire_at = match expiry {
                Expiry::At(at) => at.max(1),
                Expiry::Clear | Expiry::Keep => 0,
            };
            let gone = expire_at != 0 && expire_at <= now_ms;
            let kind = if gone { Kind::Tombstone } else { Kind::Value };
            let bytes = if gone { Vec::new() } else { slice(value).to_vec() };
            writes.push(Write {
                key,
                value: bytes,
                kind,
                flags: flags.unwrap_or(0),
                expire_at: if gone { 0 } else { expire_at },
            });
        }
        let inline = limits.inline_bytes.min(INLINE_VALUE_BYTES);
        let total: usize = writes.iter().map(|w| w.key.bytes.len() + w.value.len().min(inline) + 96).sum();
        let log_max =
            self.machine.log.as_ref().map_or(usize::MAX, |log| log.max_group_bytes(self.seen.len()));
        let group_max = limits.group_bytes.min(log_max);
        if total > group_max {
            return Err(OpError::GroupTooLong(group_max as u64));
        }
        for i in 0..writes.len() {
            if writes[i].value.len() > inline {
                match self.extent_for(&writes[i].value) {
                    Ok(description) => (writes[i].value, writes[i].kind) = (description, Kind::Extent),
                    Err(error) => {
                        for write in writes.iter().filter(|w| w.kind == Kind::Extent) {
                            self.machine.space.release_extent(&write.value);
                        }
                        return Err(error);
                    }
                }
            }
        }
        Ok(writes)
    }

    fn extent_for(&mut self, value: &[u8]) -> Result<Vec<u8>, OpError> {
        let mut rounds = 0;
        loop {
            let mut description = Vec::new();
            match self.machine.space.write_extent(&mut self.local, &[value], &mut description) {
                Ok(()) => return Ok(description),
                Err(None) => return Err(OpError::Io),
                Err(Some(Room::Full)) => self.await_eviction(&mut rounds)?,
                Err(Some(_)) => self.stall()?,
            }
        }
    }

    fn apply(&mut self, writes: &[Write<'_>], known: &Known) -> Step {
        let sizes: Vec<usize> = writes.iter().map(|w| record(w, 0).words()).collect();
        let words: usize = sizes.iter().sum();
        if let Err(error) = self.make_room(&sizes, Class::Write) {
            return Step::Done(Reply::Error(error));
        }
        // The group must not be split over two log groups: what is buffered goes first if both would not fit in one.
        let group_max =
            self.machine.log.as_ref().map_or(usize::MAX, |log| log.max_group_bytes(self.seen.len()));
        if let Some(writer) = &self.writer
            && !writer.is_empty()
            && writer.buffered_bytes() + words * 8 + writes.len() * 32 > group_max
        {
            self.leave();
            let written = self.write_log();
            self.enter();
            if !written {
                return Step::Done(Reply::Error(self.shared().log_error()));
            }
            return self.apply(writes, known);
        }
        let slot = self.slot;
        let now_us = self.now_us;
        let Self { machine, local, writer, last, seen, touched, .. } = self;
        let (space, shared) = (&machine.space, &machine.shared);
        let counters = &shared.counters[slot];
        let keys: Vec<Key<'_>> = writes.iter().map(|w| w.key).collect();
        // The head, whether damaged, and the description of an extent, for each key found.
        let found = RefCell::new(vec![(Head::default(), false, Vec::new()); writes.len()]);
        let verify = |i: usize, address: Address| {
            let mut out = Vec::new();
            let fetched = known.fetch(space, address, Some(&keys[i]), Want::Head, &mut out);
            let (head, damaged) = match fetched {
                Fetch::Match(head) => (head, false),
                Fetch::Damaged(head) => (head, true),
                Fetch::Differs => return Verdict::Differs,
                Fetch::NeedsRead => return Verdict::NeedsRead,
            };
            found.borrow_mut()[i] = (head, damaged, out);
            known.verdict(space, address)
        };
        let result = machine.index.update_many(&keys, verify, |looked, changes| {
            let is_unread = |l: &Lookup| match *l {
                Lookup::Unread(address) if !known.has_read(space, address) => Some(address),
                _ => None,
            };
            let unread = looked.iter().filter_map(is_unread).map(|address| Wanted::record(space, address));
            let unread: Vec<Wanted> = unread.collect();
            if !unread.is_empty() {
                return Err(Some(unread));
            }
            if !space.fits(local, &sizes) {
                return Err(None);
            }
            if let Some(writer) = writer {
                writer.begin_atomic();
            }
            let found = found.borrow();
            for (i, write) in writes.iter().enumerate() {
                let (head, damaged, old_extent) = &found[i];
                let place = match looked[i] {
                    Lookup::Found(address) | Lookup::Unread(address) => Some((address, *head)),
                    Lookup::Absent => None,
                };
                let counted = place.is_some() && live(shared, head, *damaged);
                let mut floor = shared.version_floor.load(Relaxed);
                if place.is_some() {
                    note_seen(seen, touched, head.version);
                    floor = floor.max(head.version);
                }
                let version = last.next(Version(floor), now_us, slot);
                *last = version;
                let deleted = write.kind == Kind::Tombstone;
                let keys = &counters.keys[usize::from(write.key.db)];
                if deleted && (place.is_none() || !S::TOMBSTONES) {
                    if let Some((address, head)) = place {
                        space.release(address, &head);
                        changes[i] = Change::Remove;
                        if counted {
                            keys.fetch_sub(1, Relaxed);
                        }
                    }
                    continue;
                }
                let record = record(write, version.0);
                // Never in place: the room was counted as new, and readers must not see half of the group.
                let under = match &place {
                    Some((address, head)) => {
                        let forgotten = head.version <= shared.flushed(write.key.db);
                        Under::Record { address: *address, head, forgotten, in_place: false }
                    }
                    None => Under::Nothing,
                };
                let (address, seq) = space.put(local, under, &record);
                log_record(writer, &record, seq);
                note_seen(seen, touched, version.0);
                // Before anything is released: what is freed waits for the versions issued so far.
                shared.commit.issue(slot, version.0);
                let was_tombstone = place.is_some() && !damaged && head.meta.kind() == Kind::Tombstone;
                match (counted, !deleted) {
                    (true, false) => keys.fetch_sub(1, Relaxed),
                    (false, true) => keys.fetch_add(1, Relaxed),
                    _ => 0,
                };
                match (was_tombstone, deleted) {
                    (true, false) => counters.tombstones.fetch_sub(1, Relaxed),
                    (false, true) => counters.tombstones.fetch_add(1, Relaxed),
                    _ => 0,
                };
                changes[i] = Change::Set(address);
                if let Some((old_address, head)) = place {
                    if !damaged && head.meta.kind() == Kind::Extent {
                        space.release_extent(old_extent);
                    }
                    space.release(old_address, &head);
                }
            }
            if let Some(writer) = writer {
                writer.end_atomic();
            }
            Ok(last.0)
        });
        match result {
            Ok(version) => Step::Done(Reply::Stored { version, old: None }),
            Err(Some(unread)) => Step::Read(unread),
            Err(None) => self.apply(writes, known),
        }
    }
}

fn record<'a>(write: &'a Write<'a>, version: u64) -> NewRecord<'a> {
    NewRecord {
        version,
        kind: write.kind,
        db: write.key.db,
        flags: write.flags,
        expire_at: write.expire_at,
        key: write.key.bytes,
        value: &write.value,
    }
}
