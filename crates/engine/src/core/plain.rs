//! The lane of plain gets and sets: most operations. Each needs the index, DRAM and the log's buffer, and nothing else; one that turns out
//! to need more has done nothing yet, and goes the way of all others, which gives the same answers.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

use terrace_index::{AnyIndex, Change, Index, Key, Lookup, Verdict};
use terrace_log::LogDevice;
use terrace_media::Buffer;

use super::face::OUTPUT_BYTES_MAX;
use super::publish::{Before, Draft, Publisher};
use super::{Core, LOG_SLACK, live, note_seen};
use crate::batch::{self, Batch};
use crate::op::{Condition, Expiry, OpKind};
use crate::record::{Head, Kind, words_for};
use crate::reply::Reply;
use crate::space::{Class, Fetch, Room, Space, Want};

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Runs an operation that nothing is pending before, if it is a plain one; whether it was.
    #[inline]
    pub(super) fn run_plain(&mut self, batch: &mut Batch, i: usize, hash: u64) -> bool {
        let Batch { input, ops, output, replies, databases, peeks, .. } = batch;
        if output.len() > OUTPUT_BYTES_MAX {
            return false;
        }
        let op = &ops[i];
        let key = Key { hash, db: databases.place(op.db), bytes: batch::slice(input, op.key) };
        let reply = match op.kind {
            OpKind::Get { value: true } => self.get_plain(&key, *peeks, output),
            OpKind::Set {
                value,
                condition: Condition::Always,
                expiry,
                flags: Some(flags),
                old_value: false,
            } => {
                let expire_at = match expiry {
                    Expiry::Clear => 0,
                    Expiry::At(at) => at.max(1),
                    Expiry::Keep => return false,
                };
                self.set_plain(&key, batch::slice(input, value), flags, expire_at)
            }
            _ => return false,
        };
        let Some(reply) = reply else { return false };
        replies[i] = reply;
        true
    }

    /// A get of a value in DRAM, or of a key that is not there.
    #[inline]
    fn get_plain(&mut self, key: &Key<'_>, peeks: bool, output: &mut Buffer) -> Option<Reply> {
        let start = output.len();
        let mut head = Head::default();
        let space = &self.machine.space;
        let looked = self.machine.index.get(key, |address| {
            output.truncate(start);
            match space.fetch(address, Some(key), Want::Value, output) {
                Fetch::Match(found) => {
                    head = found;
                    Verdict::Match
                }
                Fetch::Differs => Verdict::Differs,
                Fetch::Damaged(_) | Fetch::NeedsRead => Verdict::NeedsRead,
            }
        });
        match looked {
            Lookup::Found(address)
                if head.meta.kind() == Kind::Value
                    && head.version > self.machine.shared.flushed(head.meta.db())
                    && (head.expire_at == 0 || head.expire_at > self.now_ms()) =>
            {
                self.see(head.version);
                if !peeks {
                    self.hits[usize::from(head.tier) % 3] += 1;
                    let Self { machine, local, .. } = self;
                    machine.space.hit(local, AnyIndex::of(&machine.index), key, address, head.tier, None);
                }
                let value = Some(batch::span(start, output.len() - start));
                Some(Reply::Hit { meta: head.meta_for_answers(), value })
            }
            Lookup::Found(_) if head.meta.kind() == Kind::Tombstone => {
                self.see(head.version);
                output.truncate(start);
                self.misses += u64::from(!peeks);
                Some(Reply::Miss)
            }
            Lookup::Absent => {
                output.truncate(start);
                self.misses += u64::from(!peeks);
                Some(Reply::Miss)
            }
            _ => {
                output.truncate(start);
                None
            }
        }
    }

    /// A set of a short value, where the key is not there or its record can be told without a read.
    #[inline]
    fn set_plain(&mut self, key: &Key<'_>, value: &[u8], flags: u32, expire_at: u64) -> Option<Reply> {
        let now_ms = self.now_ms();
        let shared = &self.machine.shared;
        let has_passed = expire_at != 0 && expire_at <= now_ms;
        if key.bytes.len() > self.short.key_bytes
            || value.len() > self.short.value_bytes
            || has_passed
            || shared.tells_expired.load(Relaxed)
        {
            return None;
        }
        let words = words_for(key.bytes.len(), value.len(), expire_at != 0);
        if !self.has_room(words) {
            return None;
        }
        let now_us = self.machine.shared.version_us(self.now_us);
        let Self { machine, slot, local, writer, last, seen, touched, old, .. } = self;
        let (space, shared) = (&machine.space, &machine.shared);
        let mut publisher =
            Publisher { space, shared, slot: *slot, now_us, local, writer, last, seen, touched };
        // The head of the record that was found, and whether that is damaged.
        let found = Cell::new((Head::default(), false));
        let verify = |address| match space.fetch(address, Some(key), Want::Head, old) {
            Fetch::Match(head) => {
                found.set((head, false));
                Verdict::Match
            }
            Fetch::Damaged(head) => {
                found.set((head, true));
                Verdict::Match
            }
            Fetch::Differs => Verdict::Differs,
            Fetch::NeedsRead => Verdict::NeedsRead,
        };
        let draft = Draft { kind: Kind::Value, flags, state: 0, expire_at, token: 0, value };
        let stored = machine.index.update(key, verify, |looked| {
            let (head, damaged) = found.get();
            let before = match looked {
                Lookup::Absent => Before::Nothing,
                Lookup::Found(address) => {
                    let counted = live(shared, &head, damaged);
                    let has_expired = counted && head.life().is_over(now_ms);
                    if damaged || head.meta.kind() == Kind::Extent || has_expired {
                        return (Change::Keep, None);
                    }
                    Before::Record { address, head: &head, counted, damaged }
                }
                Lookup::Unread(address)
                    if S::BLIND
                        && !machine.index.needs_key()
                        && space.takes_unread(address, shared.flushed(key.db)) =>
                {
                    Before::Unread(address)
                }
                Lookup::Unread(_) => return (Change::Keep, None),
            };
            // The page may have more room than was asked for, or have been taken away since.
            if !space.fits(publisher.local, &[words]) {
                return (Change::Keep, None);
            }
            if let Before::Record { .. } = before {
                note_seen::<S>(publisher.seen, publisher.touched, head.version);
            }
            let (address, version) = publisher.publish(key, &draft, &before);
            let change = match before {
                Before::Nothing => Change::Set(address),
                Before::Unread(_) => Change::Insert(address),
                Before::Record { address: old, .. } if old == address => Change::Keep,
                Before::Record { address: old, .. } => {
                    space.release(old, &head);
                    Change::Set(address)
                }
            };
            (change, Some(version))
        });
        // The description of an extent, if one was there.
        self.old.clear();
        stored.map(|version| Reply::Stored { version: version.0, old: None })
    }

    /// Whether a record of so many words has room in the space and in the log, without a wait.
    #[inline]
    fn has_room(&mut self, words: usize) -> bool {
        let sessions = self.seen.len();
        let Self { machine, local, writer, .. } = self;
        let shared = &machine.shared;
        if shared.log_failed.load(Relaxed)
            || machine.space.prepare(local, &[words], Class::Write) != Room::Ready
        {
            return false;
        }
        match writer.keeper_mut() {
            Some(writer) => {
                !shared.pace.is_limited()
                    && writer.buffered_bytes() + words * 8 + LOG_SLACK <= writer.room(sessions)
            }
            None => true,
        }
    }
}
