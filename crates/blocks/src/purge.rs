//! Finding what is dead by time or by a whole-database flush. The machine deletes what is found here
//! through its own session, by key; but what has expired and is [alone](terrace_engine::record::Lifetime::alone) leaves the index
//! here, unread and without a trace: what an opening finds of it is over by then, too.

use std::sync::atomic::Ordering::*;

use terrace_engine::record::Kind;
use terrace_engine::space::{Context, FoundKeys};
use terrace_engine::{DATABASES, Progress};
use terrace_index::{AnyIndex, Index, Key};

use crate::blocks::Blocks;
use crate::deadlines::{Due, DuePage};
use crate::layout::{FooterEntry, checked};
use crate::listed::Listed;
use crate::lower::Lower;
use crate::slots::{Slot, State};
use crate::sync::AtomicU64;
use crate::tombstones::Copies;

/// Slots looked at in one call.
const SLOTS_A_CALL: usize = 4096;
/// Blocks of which what is due leaves the index in one call, if none of it must be read.
const BLOCKS_A_CALL: usize = 16;
/// When a block that could not be read is looked at again.
const RETRY_MS: u64 = 1000;

impl<L: Lower> Blocks<L> {
    /// Reports the dead keys of at most one block or page, and lets what has expired of some leave the index unread; called from
    /// background steps alone: freeing blocks waits meanwhile, and writers wait for that. The cursor says where the last call ended.
    pub fn find_dead(
        &self,
        copies: &impl Copies,
        index: &AnyIndex,
        context: &dyn Context,
        cursor: &AtomicU64,
        found: &mut FoundKeys<'_>,
    ) -> Progress {
        let mut progress = Progress::Idle;
        for _ in 0..BLOCKS_A_CALL {
            let Some(due_page) = self.deadlines.take(context.now_ms()) else { break };
            progress = Progress::Worked;
            if self.expire_page(due_page, copies, index, context, found) {
                return progress;
            }
        }
        // What is due goes first: there may be no room to list more.
        if self.deadlines.is_due(context.now_ms()) {
            return progress;
        }
        match self.search(copies, index, context, cursor, found) {
            Progress::Idle => progress,
            other => other,
        }
    }

    /// Looks for a block or page that must be searched, and does so.
    fn search(
        &self,
        copies: &impl Copies,
        index: &AnyIndex,
        context: &dyn Context,
        cursor: &AtomicU64,
        found: &mut FoundKeys<'_>,
    ) -> Progress {
        let (now, flushed) = (context.now_ms(), flushed(context));
        let start = cursor.load(Relaxed) as usize;
        for i in 0..SLOTS_A_CALL.min(self.slots.len()) {
            let number = (start + i) % self.slots.len();
            let slot = &self.slots[number];
            if !is_due(slot, now, flushed, self.deadlines.hurries()) {
                continue;
            }
            cursor.store(number as u64 + 1, Relaxed);
            let is_sealed = slot.state() == State::Sealed;
            if is_sealed && slot.purged.load(Relaxed) >= flushed {
                match self.list_again(number as u32, copies, index, context, found) {
                    Some(false) => return Progress::Worked,
                    Some(true) => {}
                    None => {
                        let again = now.saturating_add(RETRY_MS);
                        slot.min_expire.store(again, Relaxed);
                        slot.expires_first(again);
                        continue;
                    }
                }
            }
            slot.purged.store(flushed, Relaxed);
            // Records put while the page is walked lower it again.
            let before = slot.min_expire.swap(u64::MAX, Acquire);
            let mut earliest = if is_sealed { before } else { u64::MAX };
            let Some(block) = copies.load(number as u32, context) else {
                // The read may have failed for this once: what is due would be forgotten. A flush is judged then too.
                slot.min_expire.fetch_min(now.saturating_add(RETRY_MS), Relaxed);
                continue;
            };
            for entry in &block.entries {
                let Some(view) = block.record(entry) else { continue };
                let (expire_at, db) = (view.head.expire_at, entry.db);
                if matches!(entry.kind, Kind::Tombstone | Kind::Poison) {
                    continue;
                }
                // What expires of a sealed block is listed.
                let expires = expire_at != 0 && !is_sealed;
                if (expires && expire_at <= now) || entry.version <= context.flush_version(db) {
                    found(db, view.key);
                } else if expires {
                    earliest = earliest.min(expire_at);
                }
            }
            slot.min_expire.fetch_min(earliest, Relaxed);
            self.counts.purged.fetch_add(1, Relaxed);
            return Progress::Worked;
        }
        cursor.store(((start + SLOTS_A_CALL) % self.slots.len()) as u64, Relaxed);
        Progress::Idle
    }

    /// Lists when the records of a block expire.
    pub(crate) fn list_deadlines(&self, number: u32, newest: u64, list: &[FooterEntry], data_end: u32) {
        let _none = self.list_by(number, newest, (list, data_end), None);
    }

    /// The same; with a time, what is due of them then comes back.
    fn list_by(
        &self,
        number: u32,
        newest: u64,
        (list, data_end): (&[FooterEntry], u32),
        now_ms: Option<u64>,
    ) -> Option<DuePage> {
        let seq = self.slots[number as usize].seq.load(Relaxed);
        let words = |i: usize| list.get(i + 1).map_or(data_end, |next| next.offset) - list[i].offset;
        let records = list.iter().enumerate().map(|(i, entry)| (entry, words(i) / 8));
        self.deadlines.list(&self.slots, (number, seq, newest), records, now_ms)
    }

    /// The same by the footer of a sealed block, `None` if that can't be read; what is due of it leaves the index, or is reported.
    /// Whether the index refers to a record there that a flush forgot.
    fn list_again(
        &self,
        number: u32,
        copies: &impl Copies,
        index: &AnyIndex,
        context: &dyn Context,
        found: &mut FoundKeys<'_>,
    ) -> Option<bool> {
        let (list, data_end) = self.footer_entries(number)?;
        self.counts.footers.fetch_add(1, Relaxed);
        let newest = list.iter().map(|entry| entry.version).max().unwrap_or(0);
        if let Some(page) = self.list_by(number, newest, (&list, data_end), Some(context.now_ms())) {
            self.expire_page(page, copies, index, context, found);
        }
        let is_forgotten = |i: usize| {
            let entry = &list[i];
            let words = (list.get(i + 1).map_or(data_end, |next| next.offset) - entry.offset) / 8;
            entry.version <= context.flush_version(entry.db)
                && !matches!(entry.kind, Kind::Tombstone | Kind::Poison)
                && Listed::new(entry, None, copies.address(number, entry, words)).is_in(index)
        };
        Some((0..list.len()).any(is_forgotten))
    }

    /// What is due of a block leaves the index, or is reported. Whether some of it was read for that.
    fn expire_page(
        &self,
        mut page: DuePage,
        copies: &impl Copies,
        index: &AnyIndex,
        context: &dyn Context,
        found: &mut FoundKeys<'_>,
    ) -> bool {
        let slot = &self.slots[page.slot as usize];
        if slot.seq.load(Acquire) != page.seq {
            return false;
        }
        match slot.state() {
            State::Sealed => {}
            // It is being written: what it holds is not found there yet.
            State::Mutable | State::ReadOnly => {
                self.deadlines.put_back(page, context.now_ms().saturating_add(RETRY_MS));
                return false;
            }
            State::Free | State::Extents | State::Freeing => return false,
        }
        let unread = !context.tells_expired() && !index.needs_key();
        let mut to_read = Vec::new();
        context.raise_version_floor(page.newest);
        context.hold_flushes(&mut || {
            for due in page.dues.drain(..) {
                let entry = due.entry();
                let address = copies.address(page.slot, &entry, due.words());
                let key = Key { hash: entry.hash, db: entry.db, bytes: &[] };
                let flushed = context.flush_version(entry.db);
                let counts = flushed == 0 || slot.min_version.load(Relaxed) > flushed;
                if unread && counts && entry.life.alone && entry.kind == Kind::Value {
                    if index.remove(&key, address) {
                        slot.live_bytes.fetch_sub(i64::from(due.words()) * 8, SeqCst);
                        context.expired(entry.db);
                        self.counts.expired_unread.fetch_add(1, Relaxed);
                    }
                } else if index.needs_key() || index.contains(&key, address) {
                    to_read.push(due);
                }
            }
        });
        page.dues = to_read;
        let reads = !page.dues.is_empty();
        self.read_due(page, copies, context, found);
        reads
    }

    /// Reports the keys of what is due of a block. What can't be read is tried again later.
    fn read_due(
        &self,
        mut page: DuePage,
        copies: &impl Copies,
        context: &dyn Context,
        found: &mut FoundKeys<'_>,
    ) {
        let read = |due: &Due| (due.words() as usize * 8).next_multiple_of(L::UNIT);
        let many = page.dues.iter().map(read).sum::<usize>() > self.block_bytes / 2;
        // Nothing is read for what is still in DRAM.
        if (many || self.slots[page.slot as usize].frame().is_some())
            && let Some(block) = copies.load(page.slot, context)
        {
            for entry in page.dues.drain(..).map(|due| due.entry()) {
                if let Some(view) = block.record(&entry) {
                    found(entry.db, view.key);
                }
            }
            return;
        }
        let mut bytes = Vec::new();
        page.dues.retain(|due| {
            let entry = due.entry();
            bytes.resize(due.words() as usize * 8, 0);
            let at = self.block_offset(page.slot) + u64::from(entry.offset);
            if self.lower.read(at, &mut bytes).is_err() {
                return true;
            }
            if let Some(view) = checked(page.seq, page.slot, entry.offset, &bytes) {
                found(entry.db, view.key);
            }
            false
        });
        if !page.dues.is_empty() {
            self.deadlines.put_back(page, context.now_ms().saturating_add(RETRY_MS));
        }
    }

    /// Whether any block or page may hold what is dead, and [`find_dead`](Self::find_dead) has not looked yet.
    pub fn has_dead(&self, context: &dyn Context) -> bool {
        let (now, flushed) = (context.now_ms(), flushed(context));
        let hurries = self.deadlines.hurries();
        self.deadlines.is_due(now) || self.slots.iter().any(|slot| is_due(slot, now, flushed, hurries))
    }
}

/// The newest whole-database flush.
fn flushed(context: &dyn Context) -> u64 {
    (0..DATABASES as u8).map(|db| context.flush_version(db)).max().unwrap_or(0)
}

/// Whether a slot's block must be looked at for what is dead.
fn is_due(slot: &Slot, now: u64, flushed: u64, hurries: bool) -> bool {
    let soonest = if hurries { slot.first_expire() } else { slot.min_expire.load(Relaxed) };
    let due = soonest <= now || slot.purged.load(Relaxed) < flushed;
    let holds = matches!(slot.state(), State::Mutable | State::ReadOnly | State::Sealed);
    due && holds && slot.live_bytes.load(Relaxed) > 0
}
