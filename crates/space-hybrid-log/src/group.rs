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
    pub(crate) fn give_back(&self, group: &mut Group) {
        group.pages.clear();
        if !group.frames.is_empty() {
            self.pool.lock().frames.append(&mut group.frames);
        }
    }
}
