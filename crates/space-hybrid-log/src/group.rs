//! Pages for a group of records that one page does not hold.
//!
//! Frames are gathered one by one, as they become free; once there are enough, all pages begin at once. Records go to them in
//! the order in which they were announced, each to the first page that has room from the current one on.

use std::sync::atomic::Ordering::*;

use terrace_blocks::Lower;
use terrace_engine::space::Room;

use crate::space::{HybridLog, Local};
use crate::write::{Filled, OpenPage};

/// What a session holds for a group.
#[derive(Default)]
pub(crate) struct Group {
    /// Pages after the session's current one; the last is the next.
    pages: Vec<OpenPage>,
    /// Frames for pages that have not begun.
    frames: Vec<u32>,
}

impl Group {
    /// Whether all pages but the current one are used.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
    /// Whether there is anything to give back.
    #[inline]
    pub fn holds_any(&self) -> bool {
        !self.pages.is_empty() || !self.frames.is_empty()
    }
}

impl<L: Lower> HybridLog<L> {
    /// Whether a fresh page holds so much.
    pub(crate) fn fits_a_page(&self, words: usize, records: usize) -> bool {
        self.room_for(&Filled::NOTHING, words, records)
    }

    /// Pages for these records, in this order, with more than `keep` free slots left.
    #[cold]
    pub(crate) fn prepare_pages(&self, local: &mut Local<L>, records: &[usize], keep: usize) -> Room {
        let is_open = local.page.iter().chain(&local.group.pages).all(|page| self.is_open(page));
        if is_open && self.pages_fit(local, records) {
            return Room::Ready;
        }
        // Others may have begun pages since: what is not open any more is flushed in its turn.
        local.page = None;
        local.group.pages.clear();
        let Some(wanted) = self.pages_for(records) else { return Room::Full };
        let frames = &mut local.group.frames;
        let mut pool = self.pool.lock();
        let mut free = self.blocks.free.slots.lock();
        if free.len() < keep + wanted {
            drop((free, pool));
            self.blocks.free.wanted.fetch_max(wanted, SeqCst);
            self.blocks.free.hungry.store(true, SeqCst);
            if !self.blocks.free.refuses() {
                return Room::Wait;
            }
            self.blocks.free.wanted.store(0, SeqCst);
            return Room::Full;
        }
        if self.target.index_has_it() {
            return Room::Full;
        }
        let used = self.frames.count() - pool.frames.len() - pool.parked.len();
        let more = self.target.frames().saturating_sub(used).min(wanted.saturating_sub(frames.len()));
        let from = pool.frames.len().saturating_sub(more);
        frames.extend(pool.frames.drain(from..));
        if frames.len() < wanted {
            drop((free, pool));
            self.blocks.free.hungry.store(true, SeqCst);
            return Room::Wait;
        }
        self.blocks.free.wanted.store(0, SeqCst);
        for _ in 0..wanted {
            let (Some(frame), Some(slot)) = (frames.pop(), free.pop()) else { break };
            local.group.pages.push(self.begin_page(&mut pool, slot, frame));
        }
        local.group.pages.reverse();
        local.page = local.group.pages.pop();
        Room::Ready
    }

    /// Fresh pages that records take in this order; `None` if one does not fit in any.
    fn pages_for(&self, records: &[usize]) -> Option<usize> {
        let (mut pages, mut filled) = (1, Filled::NOTHING);
        for &words in records {
            if !self.room_for(&filled, words, 1) {
                (pages, filled) = (pages + 1, Filled::NOTHING);
            }
            self.room_for(&filled, words, 1).then_some(())?;
            filled = filled.with(words);
        }
        Some(pages)
    }

    /// Whether these records, in this order, fit in the pages that the session has.
    pub(crate) fn pages_fit(&self, local: &Local<L>, records: &[usize]) -> bool {
        let mut pages = local.page.iter().chain(local.group.pages.iter().rev()).map(|page| page.filled);
        let Some(mut filled) = pages.next() else { return false };
        records.iter().all(|&words| {
            while !self.room_for(&filled, words, 1) {
                let Some(next) = pages.next() else { return false };
                filled = next;
            }
            filled = filled.with(words);
            true
        })
    }

    /// Goes on to the next page of the group if a record does not fit in the current one.
    #[cold]
    pub(crate) fn turn_page(&self, local: &mut Local<L>, words: usize) {
        while !self.page_fits(&local.page, words, 1)
            && let Some(next) = local.group.pages.pop()
        {
            local.page = Some(next);
        }
    }

    /// What is held and was not used. Pages that have begun are flushed in their turn.
    #[cold]
    pub(crate) fn give_back(&self, group: &mut Group) {
        group.pages.clear();
        self.pool.lock().frames.append(&mut group.frames);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_blocks::ByteTier;
    use terrace_engine::record::{Kind, NewRecord};
    use terrace_engine::space::{Class, Records, Under};
    use terrace_media::HeapRegion;

    use super::*;
    use crate::open::HybridOptions;

    type Tier = ByteTier<HeapRegion>;

    /// Of 12 pages of 1 KiB in DRAM.
    fn space() -> HybridLog<Tier> {
        let bytes = 64 << 10;
        let lower = ByteTier::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes, String::new());
        let options =
            HybridOptions { block_bytes: 1024, dram_bytes: 12 << 10, dram_budget: None, store_id: 1 };
        HybridLog::new(lower, options).unwrap()
    }

    fn record(version: u64, value: &[u8]) -> NewRecord<'_> {
        let (kind, key) = (Kind::Value, &b"key"[..]);
        NewRecord { version, kind, db: 0, flags: 0, state: 0, expire_at: 0, token: 0, key, value }
    }

    /// Pages that are in use, and frames that nobody has.
    fn counts(space: &HybridLog<Tier>) -> (usize, usize) {
        let pool = space.pool.lock();
        (pool.unsealed.len(), pool.frames.len())
    }

    #[test]
    fn a_group_goes_to_as_many_pages_as_it_needs() {
        let space = space();
        let mut local = space.attach(0).unwrap();
        let value = [7; 200];
        let words = vec![record(1, &value).words(); 10];
        assert_eq!(space.prepare(&mut local, &words, Class::Write), Room::Ready);
        assert!(space.fits(&local, &words) && !space.fits(&local, &vec![words[0]; 40]));
        let (pages, _) = counts(&space);
        let used: std::collections::BTreeSet<u64> = (1..=10)
            .map(|version| space.put(&mut local, Under::Nothing, &record(version, &value)).1)
            .collect();
        assert!(used.len() == pages && pages >= 3, "{pages} pages, {used:?}");
        space.rest(&mut local);
        // What comes next goes to the last page, or to a new one.
        assert_eq!(space.prepare(&mut local, &words[..1], Class::Write), Room::Ready);
        assert!(local.group.is_empty());
    }

    #[test]
    fn frames_are_held_until_there_are_enough() {
        let space = space();
        let (mut others, mut local) = (Vec::new(), space.attach(0).unwrap());
        let words = vec![record(1, &[7; 200]).words(); 10];
        while counts(&space).1 > 2 {
            let mut other = space.attach(0).unwrap();
            assert_eq!(space.prepare(&mut other, &words[..1], Class::Write), Room::Ready);
            others.push(other);
        }
        let before = counts(&space);
        assert_eq!(space.prepare(&mut local, &words, Class::Write), Room::Wait);
        assert_eq!(counts(&space), (before.0, 0), "no page begins before all can");
        space.rest(&mut local);
        assert_eq!(counts(&space), before);
    }
}
