//! What sweeps, searches and an opening must know of the middle tier.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{FooterEntry, Lower, Place};
use terrace_engine::record::{Head, Kind, Lifetime, RecordView};
use terrace_engine::space::{Context, Found, FoundKeys};
use terrace_engine::{DATABASES, MoreRoom, Scanned, StoreError, TierStats};

use super::Middle;
use crate::space::SlabSpace;
use crate::sync::AtomicU64;
use terrace_pmem_slots::{PmemSlab, SlotHead, StoredSlot};
use terrace_policy::Count;

/// Slabs looked at in one call.
const SLABS_A_CALL: usize = 64;

impl Middle {
    /// Shows what is known of every record that an opening would find, whether anything refers to it or not.
    pub fn show(&self, show: &mut dyn FnMut(u64, &FooterEntry)) {
        let mut from = Some(0);
        while let Some(slab) = from {
            from = self.show_some(slab, usize::MAX, show);
        }
    }

    /// The same, from a slab on: that in which so many were shown is the last one. Returns the next one.
    pub fn show_some(&self, from: u32, most: usize, show: &mut dyn FnMut(u64, &FooterEntry)) -> Option<u32> {
        let (all, mut shown) = (self.slabs.table.len() as u32, 0);
        for slab in from..all {
            self.slabs.taken_of(slab, &mut |at| {
                if let StoredSlot::Filled(head) | StoredSlot::Damaged(head) = self.slabs.head(at) {
                    show(at, &entry(&head));
                    shown += 1;
                }
                true
            });
            if shown >= most && slab + 1 < all {
                return Some(slab + 1);
            }
        }
        None
    }

    /// Shows heads and keys of a slab's records, until `show` says no.
    fn keys_of(&self, slab: u32, show: &mut dyn FnMut(&Head, &[u8]) -> bool) -> bool {
        let mut more = true;
        self.slabs.taken_of(slab, &mut |at| {
            let bytes = self.slabs.record(at);
            if let Some(view) = bytes.as_deref().and_then(RecordView::decode) {
                more = show(&view.head, view.key);
            }
            more
        });
        more
    }

    /// Reports the dead keys of at most one slab.
    pub fn find_dead(&self, context: &dyn Context, cursor: &AtomicU64, found: &mut FoundKeys<'_>) -> bool {
        let now = context.now_ms();
        let flushed = (0..DATABASES as u8).map(|db| context.flush_version(db)).max().unwrap_or(0);
        let count = self.slabs.table.len();
        let start = cursor.load(Relaxed) as usize;
        for i in 0..SLABS_A_CALL.min(count) {
            let number = (start + i) % count;
            let slab = &self.slabs.table[number];
            if !is_due(slab, now, flushed) {
                continue;
            }
            cursor.store(number as u64 + 1, Relaxed);
            slab.purged.store(flushed, Relaxed);
            // Records that come while the slab is looked at lower it again.
            slab.min_expire.swap(u64::MAX, Acquire);
            let mut earliest = u64::MAX;
            self.keys_of(number as u32, &mut |head, key| {
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
        cursor.store(((start + SLABS_A_CALL) % count.max(1)) as u64, Relaxed);
        false
    }

    /// Whether slabs may hold what is dead by now, and nobody has looked yet.
    pub fn has_dead_now(&self, context: &dyn Context) -> bool {
        let flushed = (0..DATABASES as u8).map(|db| context.flush_version(db)).max().unwrap_or(0);
        self.has_dead(context.now_ms(), flushed)
    }
    /// The same, of a time and a flush.
    pub fn has_dead(&self, now: u64, flushed: u64) -> bool {
        self.slabs.table.iter().any(|slab| is_due(slab, now, flushed))
    }

    /// Reports up to `count` keys, and none after that of a large value, which takes blocks below. Whether there were any.
    pub fn keys(&self, count: usize, found: &mut FoundKeys<'_>) -> bool {
        let mut left = count;
        for slab in 0..self.slabs.table.len() as u32 {
            let more = self.keys_of(slab, &mut |head, key| {
                found(head.meta.db(), key);
                left = if head.meta.kind() == Kind::Extent { 0 } else { left - 1 };
                left > 0
            });
            if !more {
                break;
            }
        }
        left < count
    }

    pub fn stats(&self) -> TierStats {
        let (slots, bytes) = self.slabs.taken_slots();
        TierStats {
            tier: "pmem",
            medium: self.slabs.describe(),
            capacity_bytes: self.slabs.bytes_of(self.slabs.end()),
            used_bytes: self.slabs.bytes_of(self.slabs.held_slabs()),
            records: slots as u64,
            live_bytes: bytes,
            media: self.slabs.counters(),
            more_room: self.slabs.most().map_or(MoreRoom::Never, |_| MoreRoom::WhileOpen),
            ..TierStats::default()
        }
    }
}

fn is_due(slab: &PmemSlab, now: u64, flushed: u64) -> bool {
    let due = slab.min_expire.load(Relaxed) <= now || slab.purged.load(Relaxed) < flushed;
    due && slab.live.load(Relaxed) > 0
}

fn entry(head: &SlotHead) -> FooterEntry {
    let SlotHead { hash, check, version, meta, .. } = *head;
    let expire_at = if meta.has_expiry() { Lifetime::UNKNOWN } else { 0 };
    let life = Lifetime { expire_at, alone: meta.is_alone() };
    let (kind, db) = (meta.kind(), meta.db());
    FooterEntry { hash, version, check, offset: 0, kind, db, life }
}

impl<L: Lower> SlabSpace<L> {
    /// Finds what the middle tier holds, and reports it (recovery). Before pages: of two copies of one version the one here is taken.
    pub(crate) fn scan_middle(&self, found: &(dyn Fn(Found) + Sync)) -> Result<(), StoreError> {
        let Some(middle) = &self.middle else { return Ok(()) };
        middle.slabs.scan(&mut |_, head| {
            let count = Count::whole(u32::from(head.temperature));
            self.temperature.was_below(head.hash, count, &self.policy);
        })?;
        self.report_middle(found);
        Ok(())
    }

    /// How much was scanned of the tier below and of this one: pages, and slabs.
    pub(crate) fn scanned_of_both(&self) -> Scanned {
        let below = self.blocks.scanned();
        let slabs = self.middle.as_ref().map(|middle| &middle.slabs);
        Scanned {
            pages: below.pages + slabs.map_or(0, |slabs| slabs.scanned.load(Relaxed)),
            of: below.of + slabs.map_or(0, |slabs| slabs.table.len() as u64),
        }
    }

    /// Reports what was found in the middle tier (recovery): records that are whole before those that are damaged.
    pub(crate) fn report_middle(&self, found: &(dyn Fn(Found) + Sync)) {
        let Some(middle) = &self.middle else { return };
        let mut damaged = false;
        self.each_head(middle, &mut |at, stored| match stored {
            StoredSlot::Filled(head) => found(self.found_in_slot(middle, at, &head)),
            StoredSlot::Damaged(_) => damaged = true,
            _ => {}
        });
        if damaged {
            self.each_head(middle, &mut |at, stored| {
                if let StoredSlot::Damaged(head) = stored {
                    found(self.found_in_slot(middle, at, &head));
                }
            });
        }
    }

    fn each_head(&self, middle: &Middle, show: &mut dyn FnMut(u64, StoredSlot)) {
        for slab in 0..middle.slabs.table.len() as u32 {
            middle.slabs.taken_of(slab, &mut |at| {
                show(at, middle.slabs.head(at));
                true
            });
        }
    }

    fn found_in_slot(&self, middle: &Middle, at: u64, head: &SlotHead) -> Found {
        let FooterEntry { hash, version, check, kind, db, mut life, .. } = entry(head);
        if life.expires()
            && let Some(bytes) = middle.slabs.record(at)
            && let Some(view) = RecordView::decode(&bytes)
        {
            life = view.head.life();
        }
        let (address, words) = (self.locations.pmem(at), head.meta.slot_words() as u32);
        Found { hash, check, version, address, words, kind, db, life }
    }

    /// A record of a page (recovery).
    pub(crate) fn found_in_page(&self, slot: u32, entry: &FooterEntry, words: u32) -> Found {
        let place = Place { slot, offset: entry.offset };
        Found {
            hash: entry.hash,
            check: entry.check,
            version: entry.version,
            address: self.locations.page(place, entry.kind, words as usize),
            words,
            kind: entry.kind,
            db: entry.db,
            life: entry.life,
        }
    }

    /// The index refers to this slot (recovery).
    pub(crate) fn adopt_in_middle(&self, at: u64, found: &Found) {
        let Some(middle) = &self.middle else { return };
        middle.slabs.adopt(at);
        if found.kind == Kind::Extent
            && let Some(bytes) = middle.slabs.record(at)
            && let Some(view) = RecordView::decode(&bytes)
        {
            self.blocks.adopt_pieces(view.value);
        }
    }
}
