//! What the machine itself writes: restored records, expiry, eviction.

use std::sync::atomic::Ordering::*;

use terrace_index::{Change, Index, Key, Verdict};
use terrace_log::LogDevice;

use super::{Core, LOG_SLACK};
use crate::batch::Batch;
use crate::compress::Copies;
use crate::op::{Condition, OpKind};
use crate::record::{Kind, RecordView};
use crate::reply::{OpError, Reply};
use crate::session::{Progress, Removal, StoreError};
use crate::space::{Class, Room, Space, Under};
use crate::version::Version;

/// How often in a row a space without any work to do says that it is full before recovery believes it.
const REFUSALS: u32 = 8;
/// Evicted keys that are deleted in one batch.
const EVICTED_TOGETHER: usize = 512;
/// After so long what could not be read is read again.
const RETRY_US: u64 = 1_000_000;

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Appends a record that the log brought back, with its version, to the space and the index. Not logged again: its old
    /// log block is kept until the page is persisted. No other record of its key is in the index.
    pub(crate) fn restore(&mut self, view: &RecordView<'_>) -> Result<(), StoreError> {
        let machine = self.machine.clone();
        self.machine.shared.epochs.enter(self.slot);
        let record = view.to_new();
        let words = record.words();
        let mut refused = 0;
        loop {
            let room = machine.space.prepare(&mut self.local, &[words], Class::Restore);
            if room == Room::Ready {
                break;
            }
            self.leave();
            // What is full may still be able to write down what is dirty.
            let idle = machine.work() == Progress::Idle || machine.space.has_failed();
            refused = if room == Room::Full && idle { refused + 1 } else { 0 };
            if refused > REFUSALS {
                return Err(StoreError::Options(
                    "the log holds more than the lower tier has room for: open the store with a larger one"
                        .into(),
                ));
            }
            self.machine.shared.epochs.enter(self.slot);
        }
        let (address, _) = machine.space.put(&mut self.local, Under::Nothing, &record);
        let key = machine.shared.hasher.key(record.db, record.key);
        let key = Key { hash: key.hash, ..key };
        machine.index.update(&key, |_| Verdict::Differs, |_| (Change::Set(address), ()));
        let counters = &machine.shared.counters[self.slot];
        if record.kind == Kind::Tombstone {
            counters.tombstones.fetch_add(1, Relaxed);
        } else {
            counters.keys[usize::from(record.db) & 15].fetch_add(1, Relaxed);
            let expires = record.expire_at != 0;
            counters.expiring[usize::from(record.db) & 15].fetch_add(expires.into(), Relaxed);
        }
        machine.space.rest(&mut self.local);
        self.leave();
        Ok(())
    }

    /// Deletes those of the keys that have expired.
    pub(crate) fn expire(&mut self, keys: Vec<(u8, Vec<u8>)>) -> Progress {
        let mut batch = Batch::new();
        for (db, key) in &keys {
            batch.push(*db, key, OpKind::Purge);
        }
        let purged = self.run_internal(&mut batch);
        self.tell_removed(Removal::Expired, &keys, &batch);
        let is_unread = |reply: &Reply| matches!(reply, Reply::Error(OpError::Io));
        if batch.replies.iter().any(is_unread) {
            self.unpurged_until_us = self.shared().now_us() + RETRY_US;
        }
        let is_refused = |reply: &Reply| matches!(reply, Reply::Error(OpError::Full));
        let again = |reply: &Reply| is_refused(reply) || is_unread(reply);
        let again = keys.into_iter().zip(&batch.replies).filter(|(_, reply)| again(reply));
        self.unpurged.extend(again.map(|(key, _)| key));
        // What can't be read may never be: nobody counts on it.
        self.shared().has_unpurged.store(batch.replies.iter().any(is_refused), SeqCst);
        self.counters().expired.fetch_add(purged, Relaxed);
        if purged == 0 { Progress::Idle } else { Progress::Worked }
    }

    /// Expired keys for whose tombstones there was no room, to be tried again, and those that could not be read, after a pause.
    pub(crate) fn take_unpurged(&mut self) -> Vec<(u8, Vec<u8>)> {
        if self.unpurged.is_empty() || self.shared().now_us() < self.unpurged_until_us {
            return Vec::new();
        }
        std::mem::take(&mut self.unpurged)
    }

    /// Deletes keys to make room.
    pub(crate) fn evict(&mut self, keys: &[(u8, Vec<u8>)]) -> Progress {
        let mut evicted = 0;
        for keys in keys.chunks(EVICTED_TOGETHER) {
            let mut batch = Batch::new();
            for (db, key) in keys {
                batch.push(*db, key, OpKind::Delete { condition: Condition::Always, old_value: false });
            }
            let deleted = self.run_internal(&mut batch);
            self.tell_removed(Removal::Evicted, keys, &batch);
            self.counters().evicted.fetch_add(deleted, Relaxed);
            evicted += deleted;
        }
        if evicted == 0 { Progress::Idle } else { Progress::Worked }
    }

    /// Writes copies of records to this session's log, in entries that are newer than they and than `upto`. `false` if that has no room
    /// for them now, or failed.
    pub(crate) fn log_copies(&mut self, copies: &Copies, upto: u64) -> bool {
        let sessions = self.seen.len();
        let Some(writer) = self.writer.keeper_mut() else { return false };
        let (mut at, mut bytes, mut longest) = (0, 0, 0);
        for &(_, _, end) in &copies.entries {
            let entry = end - at + LOG_SLACK;
            (at, bytes, longest) = (end, bytes + entry, longest.max(entry));
        }
        if !writer.reserve_step(copies.entries.len(), bytes, longest, sessions) {
            writer.give_reserve_back();
            return false;
        }
        let shared = &self.machine.shared;
        let now_us = shared.version_us(shared.now_us());
        let (mut at, mut seen) = (0, upto.max(shared.version_floor.load(Relaxed)));
        for &(seq, version, end) in &copies.entries {
            seen = seen.max(version);
            self.last = self.last.next(Version(seen), now_us, self.slot);
            writer.entry(self.last.0, seq, &[&copies.bytes[at..end]]);
            at = end;
        }
        if !copies.entries.is_empty() {
            shared.commit.issue(self.slot, self.last.0);
        }
        // They rest on nothing that could be taken back.
        let written = self.write_log();
        if let Some(writer) = self.writer.keeper_mut() {
            writer.give_reserve_back();
        }
        self.counters().copied.fetch_add(copies.entries.len() as u64, Relaxed);
        written
    }

    /// Tells who wants to hear of it which of the keys a batch of deletes has deleted.
    fn tell_removed(&self, why: Removal, keys: &[(u8, Vec<u8>)], batch: &Batch) {
        let Some(told) = self.machine.shared.removal.lock().clone() else { return };
        let databases = self.machine.shared.swapped.lock().databases;
        for ((db, key), reply) in keys.iter().zip(&batch.replies) {
            if matches!(reply, Reply::Deleted { .. }) {
                told(why, databases.number(*db), key);
            }
        }
    }

    /// Tells who wants to hear of it which expired keys a write has replaced.
    #[inline]
    pub(super) fn tell_lapsed(&mut self) {
        if !self.lapsed.is_empty() {
            self.tell_lapsed_now();
        }
    }

    #[cold]
    fn tell_lapsed_now(&mut self) {
        let lapsed = std::mem::take(&mut self.lapsed);
        let Some(told) = self.machine.shared.removal.lock().clone() else { return };
        let databases = self.machine.shared.swapped.lock().databases;
        for (db, key) in &lapsed {
            told(Removal::Expired, databases.number(*db), key);
        }
    }

    /// Runs a batch of deletes to its end and returns how many keys it deleted.
    fn run_internal(&mut self, batch: &mut Batch) -> u64 {
        self.is_internal = true;
        self.execute_internal(batch);
        while !batch.pending.is_empty() {
            self.resume(batch, true);
        }
        batch.replies.iter().filter(|reply| matches!(reply, Reply::Deleted { .. })).count() as u64
    }
}
