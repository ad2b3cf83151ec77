//! What a sweep of tombstones and a search for dead records must know beside blocks.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Block, Copies, FooterEntry, Lower, Place};
use terrace_engine::record::{Head, Kind};
use terrace_engine::space::{Context, FoundKeys};
use terrace_engine::{DATABASES, Progress};
use terrace_index::{Address, AnyIndex};

use crate::slab::Slab;
use crate::space::SlabSpace;
use crate::stage::Stage;
use crate::sync::AtomicU64;

/// A space and what whoever asks has staged in it.
pub(crate) struct WithStages<'a, L: Lower> {
    pub space: &'a SlabSpace<L>,
    pub stages: [&'a Stage; 2],
}

impl<L: Lower> Copies for WithStages<'_, L> {
    fn address(&self, slot: u32, entry: &FooterEntry, words: u32) -> Address {
        self.space.locations.page(Place { slot, offset: entry.offset }, entry.kind, words as usize)
    }
    fn load(&self, slot: u32, _context: &dyn Context) -> Option<Block> {
        self.space.blocks.read_block(slot)
    }
    fn not_yet_in_blocks(
        &self,
        from: u32,
        _context: &dyn Context,
        show: &mut dyn FnMut(&[FooterEntry]),
    ) -> Option<u32> {
        self.show(from, show)
    }
}

impl<L: Lower> WithStages<'_, L> {
    /// Shows every record that an opening would find, or that a page may hold soon, beside those in blocks: from 0 on what is on its
    /// way and some slabs of a middle tier, from what this returns others of those.
    pub(crate) fn show(&self, from: u32, show: &mut dyn FnMut(&[FooterEntry])) -> Option<u32> {
        if from == 0 {
            // Nothing leaves a stage, or arrives, while this looks.
            let still = self.space.hold_still();
            let flights = self.space.flights.lock();
            let others = still.iter().map(|share| &share.stage);
            // Of a key's versions DRAM has the newest alone; older ones may be on their way from page to page.
            for staged in
                self.stages.into_iter().chain(others).chain(flights.stages()).flat_map(|stage| &stage.moves)
            {
                show(&[staged.entry]);
            }
        }
        // No slot was being filled then. What comes later is what the index holds. A slot that was let go counts until it is cleared.
        let middle = self.space.middle.as_ref()?;
        middle.show_some(from, SLOTS_SHOWN, &mut |_, entry| show(std::slice::from_ref(entry)))
    }
}

/// Slots of a middle tier that are shown in one call, and the rest of a slab.
const SLOTS_SHOWN: usize = 4096;
/// Slabs looked at in one call.
const SLABS_A_CALL: usize = 1024;

impl<L: Lower> SlabSpace<L> {
    /// Lets what has expired leave the index, or reports its keys, and reports those that a flush forgot.
    pub(crate) fn find_dead(
        &self,
        index: &AnyIndex,
        context: &dyn Context,
        found: &mut FoundKeys<'_>,
    ) -> Progress {
        let Some(steps) = self.steps.try_lock() else { return Progress::Idle };
        let homes = self.middle.as_ref().map_or(0, |middle| middle.slabs.homes_bytes());
        self.slabs.target.lists(self.blocks.limit_lists(self.slabs.target.whole_bytes()) + homes);
        let in_middle = |found: &mut FoundKeys<'_>| {
            self.middle.as_ref().is_some_and(|middle| {
                // A record whose slot is being filled would be passed by, and nobody would look again.
                let _still = middle.has_dead_now(context).then(|| self.hold_still());
                middle.find_dead(context, &self.purge_middle_at, found)
            })
        };
        if self.find_dead_in_dram(context, &self.purge_dram_at, found) || in_middle(found) {
            return Progress::Worked;
        }
        let copies = WithStages { space: self, stages: [&steps.stage, &steps.defrag.stage] };
        self.blocks.find_dead(&copies, index, context, &self.purge_at, found)
    }

    /// Reports the dead keys of at most one slab.
    pub(crate) fn find_dead_in_dram(
        &self,
        context: &dyn Context,
        cursor: &AtomicU64,
        found: &mut FoundKeys<'_>,
    ) -> bool {
        let now = context.now_ms();
        let flushed = (0..DATABASES as u8).map(|db| context.flush_version(db)).max().unwrap_or(0);
        let start = cursor.load(Relaxed) as usize;
        for i in 0..SLABS_A_CALL.min(self.slabs.count()) {
            let number = ((start + i) % self.slabs.count()) as u32;
            let slab = &self.slabs.table[number as usize];
            let due = slab.min_expire.load(Relaxed) <= now || slab.purged.load(Relaxed) < flushed;
            if !due || self.slabs.class_of(number).is_none() || slab.live.load(Relaxed) == 0 {
                continue;
            }
            cursor.store(u64::from(number) + 1, Relaxed);
            slab.purged.store(flushed, Relaxed);
            // Records put while the slab is walked lower it again.
            slab.min_expire.swap(u64::MAX, Acquire);
            let mut earliest = u64::MAX;
            self.keys_of_slab(number, &mut |head, key| {
                let (expire_at, db) = (head.expire_at, head.meta.db());
                if (expire_at != 0 && expire_at <= now) || head.version <= context.flush_version(db) {
                    found(db, key);
                } else if expire_at != 0 {
                    earliest = earliest.min(expire_at);
                }
                true
            });
            slab.min_expire.fetch_min(earliest, Relaxed);
            return true;
        }
        cursor.store(((start + SLABS_A_CALL) % self.slabs.count()) as u64, Relaxed);
        false
    }

    /// Whether slabs or pages may hold what has expired or was forgotten by a whole-database flush, and nobody has looked yet.
    pub(crate) fn has_dead(&self, context: &dyn Context) -> bool {
        let now = context.now_ms();
        let flushed = (0..DATABASES as u8).map(|db| context.flush_version(db)).max().unwrap_or(0);
        let in_slab = |(number, slab): (usize, &Slab)| {
            let due = slab.min_expire.load(Relaxed) <= now || slab.purged.load(Relaxed) < flushed;
            due && slab.live.load(Relaxed) > 0 && self.slabs.class_of(number as u32).is_some()
        };
        let in_middle = self.middle.as_ref().is_some_and(|middle| middle.has_dead(now, flushed));
        self.slabs.table.iter().enumerate().any(in_slab) || in_middle || self.blocks.has_dead(context)
    }

    /// Shows heads and keys of a slab's records that are no tombstones, until `show` says no.
    fn keys_of_slab(&self, slab: u32, show: &mut dyn FnMut(&Head, &[u8]) -> bool) {
        let Some(class) = self.slabs.class_of(slab) else { return };
        let mut key = Vec::new();
        for number in 0..self.slabs.used_slots(slab) {
            let slot = self.slabs.slot(self.slabs.offset(slab, class, number));
            if !slot.is_live() {
                continue;
            }
            let words = slot.record();
            let head = words.consistently(|head| {
                key.clear();
                words.copy_bytes(head.meta.key_word(), head.meta.key_bytes(), &mut key);
                head
            });
            let keeps_key = matches!(head.meta.kind(), Kind::Value | Kind::Extent);
            if keeps_key && slot.is_live() && !show(&head, &key) {
                return;
            }
        }
    }

    /// Reports up to `count` keys of records in DRAM; none after that of a large value, which takes blocks below.
    pub(crate) fn keys_in_dram(&self, count: usize, found: &mut FoundKeys<'_>) {
        let mut left = count;
        for slab in 0..self.slabs.count() as u32 {
            self.keys_of_slab(slab, &mut |head, key| {
                found(head.meta.db(), key);
                left = if head.meta.kind() == Kind::Extent { 0 } else { left - 1 };
                left > 0
            });
            if left == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_blocks::ByteTier;
    use terrace_engine::record::{Lifetime, NewRecord};
    use terrace_media::HeapRegion;

    use super::*;
    use crate::open::{MiddleTier, SlabOptions};
    use terrace_pmem_slots::Fills;

    /// A crash could bring it back: no tombstone above it may be dropped.
    #[test]
    fn a_slot_that_was_let_go_is_shown_until_it_is_cleared() {
        let region = |bytes| Arc::new(HeapRegion::new(bytes).unwrap());
        let (bytes, memory) = (4u64 << 20, 256u64 << 10);
        let options = SlabOptions::of_tests();
        let middle = MiddleTier::new(region(memory), (0, memory), String::new(), true);
        let lower = ByteTier::new(region(bytes), 0, bytes, String::new());
        let space = SlabSpace::new(lower, Some(middle), options).unwrap();
        let shown = || {
            let mut shown = Vec::new();
            let stages = [&Stage::default(), &Stage::default()];
            let copies = WithStages { space: &space, stages };
            let mut from = Some(0);
            while let Some(at) = from {
                from = copies.show(at, &mut |entries| shown.extend_from_slice(entries));
            }
            shown
        };
        assert!(shown().is_empty());

        let (kind, db) = (Kind::Value, 0);
        let entry = FooterEntry { hash: 9, check: 1, version: 5, offset: 0, kind, db, life: Lifetime::NEVER };
        let record = NewRecord {
            version: 5,
            kind,
            db,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: b"key",
            value: b"value",
        };
        let middle = space.middle.as_ref().unwrap();
        let class = middle.slabs.class_for(record.words()).unwrap();
        let at = middle.slabs.take(class).unwrap();
        let mut fills = Fills::default();
        middle.slabs.add(&mut fills, at, &entry, 0, &record);
        middle.slabs.fill(&fills);
        assert_eq!(shown(), [entry]);
        middle.release(at);
        assert_eq!(shown(), [entry], "a successor's tombstone must stay");
        // In steps each slab is shown once.
        let long = NewRecord { value: &[1; 900], ..record };
        let other = middle.slabs.take(middle.slabs.class_for(long.words()).unwrap()).unwrap();
        let mut fills = Fills::default();
        middle.slabs.add(&mut fills, other, &FooterEntry { version: 6, ..entry }, 0, &long);
        middle.slabs.fill(&fills);
        let (mut places, mut from) = (Vec::new(), Some(0));
        while let Some(slab) = from {
            let before = places.len();
            from = middle.show_some(slab, 1, &mut |at, _| places.push(at));
            assert!(places.len() <= before + 1, "{places:?}");
        }
        places.sort_unstable();
        assert_eq!(places, [at.min(other), at.max(other)]);
        middle.release(other);
        middle.slabs.clear(&[other]);
        middle.slabs.clear(&[at]);
        assert!(shown().is_empty());
    }
}
