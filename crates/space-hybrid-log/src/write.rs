//! Writing: room in an open page, updates in place, appends (HeterMM sections 4.3 and 5.4).
//!
//! Each session appends to a page of its own; a page is taken from the shared pool under a short lock, once for many
//! records. Where the paper's slow thread gives its page up when an alarm rings, here the flusher takes it: a page that
//! turned read-only is noticed at the next `prepare`, so that an idle session never holds up reclamation.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{BLOCK_HEADER_BYTES, Lower, Place, State, TRAILER_BYTES, Words, footer_bytes};
use terrace_engine::record::{Head, NewRecord};
use terrace_engine::space::Room;
use terrace_index::Address;

use crate::space::{HybridLog, Pool};

/// The page that a session appends to.
pub(crate) struct OpenPage {
    pub slot: u32,
    pub frame: u32,
    /// The use of the slot that this is: after a long pause the slot may be somebody else's page.
    pub seq: u64,
    pub filled: Filled,
}

/// How full a page is.
#[derive(Clone, Copy)]
pub(crate) struct Filled {
    used: u32,
    count: u32,
    /// Records that expire.
    expiring: u32,
}

impl Filled {
    pub const NOTHING: Self = Self { used: BLOCK_HEADER_BYTES as u32, count: 0, expiring: 0 };

    /// With one record more, which may expire.
    pub fn with(self, words: usize) -> Self {
        Self { used: self.used + words as u32 * 8, count: self.count + 1, expiring: self.expiring + 1 }
    }
}

impl<L: Lower> HybridLog<L> {
    /// Whether records of `words` words in all, and their footer entries, fit in a page.
    #[inline]
    pub(crate) fn room_for(&self, page: &Filled, words: usize, records: usize) -> bool {
        // Any of them may expire.
        let (all, expiring) = (page.count as usize + records, page.expiring as usize + records);
        let footer = footer_bytes(all, expiring) + TRAILER_BYTES;
        page.used as usize + words * 8 + footer <= self.blocks.block_bytes
    }

    /// Whether that can be appended. A page that turned read-only in this epoch may still be appended to: it is sealed only
    /// after every session has left the epoch.
    #[inline]
    pub(crate) fn page_fits(&self, page: &Option<OpenPage>, words: usize, records: usize) -> bool {
        page.as_ref().is_some_and(|page| self.room_for(&page.filled, words, records))
    }

    /// Room in the open page, or in a fresh one if more than `keep` slots are free.
    #[inline]
    pub(crate) fn prepare_page(
        &self,
        page: &mut Option<OpenPage>,
        words: usize,
        records: usize,
        keep: usize,
    ) -> Room {
        if let Some(open) = page
            && self.room_for(&open.filled, words, records)
            && self.is_open(open)
        {
            return Room::Ready;
        }
        *page = None;
        match self.take_page(keep) {
            Ok(open) => {
                let ready = self.room_for(&open.filled, words, records);
                *page = Some(open);
                if ready { Room::Ready } else { Room::Full }
            }
            Err(room) => room,
        }
    }

    /// Whether the page takes records of later epochs, too.
    #[inline]
    pub(crate) fn is_open(&self, page: &OpenPage) -> bool {
        let slot = &self.blocks.slots[page.slot as usize];
        matches!(slot.state(), State::Mutable) && slot.seq.load(Relaxed) == page.seq
    }

    /// A fresh page: a frame, and a slot that it will be flushed to.
    #[cold]
    fn take_page(&self, keep: usize) -> Result<OpenPage, Room> {
        let ordinary = keep >= self.blocks.reserve();
        let mut pool = self.pool.lock();
        let mut free = self.blocks.free.slots.lock();
        if free.len() <= keep {
            drop((free, pool));
            self.blocks.free.hungry.store(true, SeqCst);
            let none = if ordinary { &self.blocks.free.full } else { &self.blocks.free.stuck };
            return Err(if none.load(SeqCst) { Room::Full } else { Room::Wait });
        }
        let used = self.frames.count() - pool.frames.len() - pool.parked.len();
        let allowed = self.target.frames();
        if ordinary && self.target.index_has_it() {
            // The index has taken the DRAM: what would make it grow is refused.
            return Err(Room::Full);
        }
        let frame = if used < allowed { pool.frames.pop() } else { None };
        let Some(frame) = frame else {
            drop((free, pool));
            self.blocks.free.hungry.store(true, SeqCst);
            return Err(Room::Wait);
        };
        let Some(slot) = free.pop() else {
            pool.frames.push(frame);
            return Err(Room::Wait);
        };
        Ok(self.begin_page(&mut pool, slot, frame))
    }

    /// Sequence numbers are given and queued under one lock, so that the queue is in their order.
    pub(crate) fn begin_page(&self, pool: &mut Pool, slot: u32, frame: u32) -> OpenPage {
        let seq = self.blocks.last_seq.fetch_add(1, SeqCst) + 1;
        self.resting.store(false, Relaxed);
        pool.unsealed.push_back(slot);
        self.blocks.slots[slot as usize].begin(State::Mutable, seq, Some(frame), BLOCK_HEADER_BYTES as u32);
        self.blocks.has_begun(slot);
        OpenPage { slot, frame, seq, filled: Filled::NOTHING }
    }

    /// Stores a record in place of the old one where that lies in the in-place-update region and is long enough, else at the
    /// end of the open page.
    #[inline]
    pub(crate) fn put_record(
        &self,
        page: &mut Option<OpenPage>,
        old: Option<(Address, &Head)>,
        record: &NewRecord<'_>,
    ) -> (Address, u64) {
        let words = record.words();
        if let Some((address, head)) = old
            && words <= head.meta.slot_words()
            // Its page's footer has no room for another deadline.
            && (record.expire_at == 0 || head.expire_at != 0)
        {
            let place = self.addresses.place(address);
            let slot = &self.blocks.slots[place.slot as usize];
            if slot.state() == State::Mutable
                && let Some(frame) = slot.frame()
            {
                Words(&self.frames.words(frame)[place.offset as usize / 8..]).rewrite(record);
                if record.expire_at != 0 {
                    slot.min_expire.fetch_min(record.expire_at, Release);
                }
                return (address, slot.seq.load(Relaxed));
            }
        }
        let Some(page) = page else { unreachable!("`prepare` came before") };
        let slot = &self.blocks.slots[page.slot as usize];
        let filled = &mut page.filled;
        let place = Place { slot: page.slot, offset: filled.used };
        Words(&self.frames.words(page.frame)[filled.used as usize / 8..]).write(record);
        filled.used += words as u32 * 8;
        filled.count += 1;
        filled.expiring += u32::from(record.expire_at != 0);
        slot.live_bytes.fetch_add(words as i64 * 8, Relaxed);
        slot.count.store(filled.count, Relaxed);
        slot.expiring.store(filled.expiring, Relaxed);
        // Whoever walks the page sees whole records only.
        slot.used_bytes.store(filled.used, Release);
        if record.expire_at != 0 {
            // After the record can be found: `find_dead` takes what is here, then walks.
            slot.min_expire.fetch_min(record.expire_at, Release);
        }
        (self.addresses.address(place), slot.seq.load(Relaxed))
    }
}
