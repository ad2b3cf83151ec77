//! Finding what is dead by time or by a whole-database flush, and what to evict. The machine deletes what is found here
//! through its own session, by key.

use std::sync::atomic::Ordering::*;

use terrace_engine::DATABASES;
use terrace_engine::record::{Kind, RecordView};
use terrace_engine::space::Context;
use terrace_index::Index;

use crate::blocks::Blocks;
use crate::layout::FooterEntry;
use crate::listed::Listed;
use crate::lower::Lower;
use crate::slots::{Slot, State};
use crate::sync::AtomicU64;
use crate::tombstones::Copies;

/// Slots looked at in one call.
const SLOTS_A_CALL: usize = 4096;
/// When a block that could not be read is looked at again.
const RETRY_MS: u64 = 1000;

impl<L: Lower> Blocks<L> {
    /// Reports the dead keys of at most one block or page; called from background steps alone. The cursor says where the last
    /// call ended.
    pub fn find_dead(
        &self,
        copies: &impl Copies,
        context: &dyn Context,
        cursor: &AtomicU64,
        found: &mut dyn FnMut(u8, &[u8]),
    ) {
        let (now, flushed) = (context.now_ms(), flushed(context));
        let start = cursor.load(Relaxed) as usize;
        for i in 0..SLOTS_A_CALL.min(self.slots.len()) {
            let number = (start + i) % self.slots.len();
            let slot = &self.slots[number];
            if !is_due(slot, now, flushed) {
                continue;
            }
            cursor.store(number as u64 + 1, Relaxed);
            slot.purged.store(flushed, Relaxed);
            // Records put while the page is walked lower it again.
            slot.min_expire.swap(u64::MAX, Acquire);
            let mut earliest = u64::MAX;
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
                if (expire_at != 0 && expire_at <= now) || entry.version <= context.flush_version(db) {
                    found(db, view.key);
                } else if expire_at != 0 {
                    earliest = earliest.min(expire_at);
                }
            }
            slot.min_expire.fetch_min(earliest, Relaxed);
            self.counts.purged.fetch_add(1, Relaxed);
            return;
        }
        cursor.store(((start + SLOTS_A_CALL) % self.slots.len()) as u64, Relaxed);
    }

    /// Whether any block or page may hold what is dead, and [`find_dead`](Self::find_dead) has not looked yet.
    pub fn has_dead(&self, context: &dyn Context) -> bool {
        let (now, flushed) = (context.now_ms(), flushed(context));
        self.slots.iter().any(|slot| is_due(slot, now, flushed))
    }

    /// Reports up to `count` live keys of the oldest block or page that has any, and whether there was one; called from
    /// background steps alone.
    pub fn oldest_keys<I: Index>(
        &self,
        copies: &impl Copies,
        index: &I,
        context: &dyn Context,
        count: usize,
        found: &mut dyn FnMut(u8, &[u8]),
    ) -> bool {
        // Pages in DRAM too: of a store full of large values they may hold every key.
        let holds = |state| matches!(state, State::Mutable | State::ReadOnly | State::Sealed);
        let mut blocks: Vec<(u64, u32)> = (0..self.slots.len() as u32)
            .map(|number| (&self.slots[number as usize], number))
            .filter(|(slot, _)| holds(slot.state()) && slot.live_bytes.load(Relaxed) > 0)
            .map(|(slot, number)| (slot.seq.load(Relaxed), number))
            .collect();
        blocks.sort_unstable();
        for (_, number) in blocks {
            let keeps_key = |entry: &FooterEntry| !matches!(entry.kind, Kind::Tombstone | Kind::Poison);
            let used = self.slots[number as usize].used_bytes.load(Relaxed);
            let listed = |entries: &[FooterEntry], i: usize, view: Option<&RecordView<'_>>| {
                let end = entries.get(i + 1).map_or(used, |next| next.offset);
                let address = copies.address(number, &entries[i], end.saturating_sub(entries[i].offset) / 8);
                keeps_key(&entries[i]) && Listed::new(&entries[i], view, address).is_in(index)
            };
            // The oldest blocks may hold nothing but tombstones, which the sweep drops once it can.
            if self.slots[number as usize].state() == State::Sealed {
                let footer = self.footer_entries(number);
                if !footer.is_some_and(|(entries, _)| (0..entries.len()).any(|i| listed(&entries, i, None))) {
                    continue;
                }
            }
            let Some(block) = copies.load(number, context) else { continue };
            let mut reported = 0;
            for (i, entry) in block.entries.iter().enumerate() {
                let Some(view) = block.record(entry) else { continue };
                if !listed(&block.entries, i, Some(&view)) {
                    continue;
                }
                found(view.head.meta.db(), view.key);
                reported += 1;
                if reported == count {
                    break;
                }
            }
            if reported > 0 {
                return true;
            }
        }
        false
    }
}

/// The newest whole-database flush.
fn flushed(context: &dyn Context) -> u64 {
    (0..DATABASES as u8).map(|db| context.flush_version(db)).max().unwrap_or(0)
}

/// Whether a slot's block must be looked at for what is dead.
fn is_due(slot: &Slot, now: u64, flushed: u64) -> bool {
    let due = slot.min_expire.load(Relaxed) <= now || slot.purged.load(Relaxed) < flushed;
    let holds = matches!(slot.state(), State::Mutable | State::ReadOnly | State::Sealed);
    due && holds && slot.live_bytes.load(Relaxed) > 0
}
