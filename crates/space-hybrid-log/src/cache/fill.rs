//! Filling pages with copies, and emptying the oldest.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{Frames, u64_at};
use terrace_engine::ReadCache;
use terrace_engine::record::RecordMeta;
use terrace_index::Address;

use super::Cache;
use super::gate::Gate;
use super::table::{FRONT_WORDS, Hash};
use crate::sync::AtomicU64;

/// A longer record than this part of a page is not copied.
const RECORD_PART: usize = 4;
/// Of a page that leaves, this part goes at least: else giving pages back might not end. Half where writers wait for it.
const GOES_PART: usize = 8;
/// Filled entries, of four, from which on the table grows.
const FULL_QUARTERS: u64 = 3;

/// A page of copies: its frame, the words that are filled, and the newest page of the write region when it was begun.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    frame: u32,
    used: usize,
    stamp: u64,
}

/// What whoever changes the cache holds.
pub(crate) struct Filling {
    frame_words: usize,
    page: Option<Page>,
    /// The next pages' frames.
    spares: Vec<u32>,
    /// Whether frames are wanted.
    wants: bool,
    /// Full pages, oldest first.
    pages: VecDeque<Page>,
    entries: u64,
    gate: Gate,
}

/// The words of a record that is copied.
enum Source<'a> {
    Bytes(&'a [u8]),
    Words(&'a [AtomicU64]),
}

impl<'a> Source<'a> {
    /// A record that was read; what follows it is not copied.
    fn of_record(bytes: &'a [u8]) -> Self {
        let used = RecordMeta(u64_at(bytes, 8)).used_words() * 8;
        debug_assert!(used <= bytes.len(), "a record of {used} bytes in {}", bytes.len());
        Self::Bytes(&bytes[..used.min(bytes.len())])
    }
    fn words(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len() / 8,
            Self::Words(words) => words.len(),
        }
    }
    fn copy_to(&self, target: &[AtomicU64]) {
        match self {
            Self::Bytes(bytes) => {
                let (words, _) = bytes.as_chunks::<8>();
                for (word, to) in words.iter().zip(target) {
                    to.store(u64::from_le_bytes(*word), Relaxed);
                }
            }
            Self::Words(words) => {
                for (word, to) in words.iter().zip(target) {
                    to.store(word.load(Relaxed), Relaxed);
                }
            }
        }
    }
}

impl Filling {
    pub fn new(frame_bytes: usize) -> Self {
        Self {
            frame_words: frame_bytes / 8,
            page: None,
            spares: Vec::new(),
            wants: false,
            pages: VecDeque::new(),
            entries: 0,
            gate: Gate::new(),
        }
    }
    /// Bytes for counts of misses.
    pub fn gate_bytes(&self) -> u64 {
        self.gate.bytes()
    }
    /// How many frames it can use, if it may keep so many for later.
    pub fn wants(&self, spares: usize) -> usize {
        if self.wants { spares.saturating_sub(self.spares.len()) } else { 0 }
    }
    /// Frames that nobody uses.
    pub fn give(&mut self, frames: impl Iterator<Item = u32>) {
        self.spares.extend(frames);
        self.wants = false;
    }
    /// The newest page of the write region when the oldest page of the cache was begun; `None` if there is no page.
    pub fn oldest(&self) -> Option<u64> {
        self.pages.front().or(self.page.as_ref()).map(|page| page.stamp)
    }
    /// Whether it holds a frame.
    pub fn holds_any(&self) -> bool {
        !self.spares.is_empty() || self.page.is_some() || !self.pages.is_empty()
    }

    /// Whether there may be room for a copy; if not, a frame is wanted.
    fn has_any_room(&mut self) -> bool {
        let has = !self.spares.is_empty() || self.page.is_some_and(|page| page.used < self.frame_words);
        self.wants |= !has;
        has
    }

    /// Where a copy of so many words begins: its frame's number, and the first word in it.
    fn room(&mut self, words: usize, stamp: u64, more: &mut Option<u32>) -> Option<(u32, usize)> {
        let frame_words = self.frame_words;
        if self.page.is_none_or(|page| page.used + words > frame_words) {
            let Some(frame) = self.spares.pop().or_else(|| more.take()) else {
                self.wants = true;
                return None;
            };
            self.pages.extend(self.page.take());
            self.page = Some(Page { frame, used: 0, stamp });
            // The ones after it, in time.
            self.wants = true;
        }
        let page = self.page.as_mut()?;
        let at = page.used;
        page.used += words;
        Some((page.frame, at))
    }
}

impl Cache {
    /// Copies a record that was missed if it is let in. `stamp` is the newest page of the write region.
    pub(crate) fn admit(
        &self,
        frames: &Frames,
        (address, seq): (Address, u64),
        stamp: u64,
        record: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) {
        let Some(mut filling) = self.filling.try_lock() else { return };
        let is_let_in = match self.admission() {
            ReadCache::Off => false,
            // The session has counted.
            ReadCache::Sampled(_) => true,
            ReadCache::Gated => filling.gate.admits(Hash::of(address.raw())),
        };
        if !is_let_in || !filling.has_any_room() {
            return;
        }
        if self.table.find(frames, address.raw(), seq).is_some() {
            return;
        }
        record(&mut |bytes| {
            let at = self.copy(
                &mut filling,
                frames,
                (address.raw(), seq),
                &Source::of_record(bytes),
                stamp,
                &mut None,
            );
            let Some(word) = at else { return };
            filling.entries += u64::from(self.table.insert(address.raw(), word));
            self.counts.admitted.fetch_add(1, Relaxed);
            self.grow(&mut filling, frames);
            self.tell(&filling);
        });
    }

    /// The first word of the copy, among those of all frames; `None` if there is no room.
    fn copy(
        &self,
        filling: &mut Filling,
        frames: &Frames,
        (address, seq): (u64, u64),
        record: &Source<'_>,
        stamp: u64,
        more: &mut Option<u32>,
    ) -> Option<u64> {
        let words = FRONT_WORDS + record.words();
        if words > filling.frame_words / RECORD_PART {
            return None;
        }
        let (frame, at) = filling.room(words, stamp, more)?;
        let target = &frames.words(frame)[at..at + words];
        target[0].store(address, Relaxed);
        target[1].store(seq, Relaxed);
        record.copy_to(&target[FRONT_WORDS..]);
        Some(u64::from(frame) * filling.frame_words as u64 + at as u64)
    }

    fn grow(&self, filling: &mut Filling, frames: &Frames) {
        if filling.entries * 4 > self.table.capacity() * FULL_QUARTERS {
            self.table.grow(frames);
        }
        if self.admission() == ReadCache::Gated {
            filling.gate.grow(self.table.capacity());
        }
    }

    /// Takes the oldest page's frame; `None` if the cache has none. Who read in it may still be there: an epoch has to pass before
    /// it is used again. `more` is a frame for what stays, and is left there if it was not needed.
    pub(crate) fn give_up_oldest(
        &self,
        frames: &Frames,
        stamp: u64,
        writers_rest: bool,
        more: &mut Option<u32>,
    ) -> Option<u32> {
        let mut guard = self.filling.lock();
        let filling = &mut *guard;
        let keeps = self.admission() == ReadCache::Gated;
        let Some(page) = filling.pages.pop_front() else {
            // Nothing has been copied to spare frames.
            let frame = filling.spares.pop().or_else(|| {
                let page = filling.page.take()?;
                self.empty(filling, frames, page, 0, stamp, &mut None);
                Some(page.frame)
            });
            if !filling.holds_any() {
                filling.wants = false;
                self.table.clear();
                filling.gate = Gate::new();
                self.is_full.store(false, Relaxed);
            }
            self.tell(filling);
            return frame;
        };
        let goes = page.used / if writers_rest { GOES_PART } else { 2 };
        let most = if keeps { page.used - goes } else { 0 };
        self.empty(filling, frames, page, most, stamp, more);
        self.tell(filling);
        Some(page.frame)
    }

    /// Removes the entries of a page's copies, but copies up to `most` words of those that were found since they came.
    fn empty(
        &self,
        filling: &mut Filling,
        frames: &Frames,
        page: Page,
        most: usize,
        stamp: u64,
        more: &mut Option<u32>,
    ) {
        let words = frames.words(page.frame);
        let (mut at, mut kept, mut copies, mut found) = (0, 0, 0, 0);
        while at < page.used {
            let (address, seq) = (words[at].load(Relaxed), words[at + 1].load(Relaxed));
            let record = at + FRONT_WORDS;
            let used = RecordMeta(words[record + 1].load(Relaxed)).used_words();
            let word = u64::from(page.frame) * filling.frame_words as u64 + at as u64;
            at = record + used;
            let Some((entry, seen)) = self.table.entry_of(address, word) else { continue };
            copies += 1;
            found += usize::from(seen > 0);
            let again = if seen > 0 && kept + FRONT_WORDS + used <= most {
                let record = Source::Words(&words[record..record + used]);
                self.copy(filling, frames, (address, seq), &record, stamp, more)
            } else {
                None
            };
            match again {
                Some(word) => {
                    kept += FRONT_WORDS + used;
                    self.table.swing(entry, word, seen - 1);
                    self.counts.kept.fetch_add(1, Relaxed);
                }
                None => {
                    self.table.remove(entry);
                    filling.entries -= 1;
                    self.counts.left.fetch_add(1, Relaxed);
                }
            }
        }
        filling.gate.left(copies, found);
        self.is_full.store(filling.gate.is_full(), Relaxed);
    }

    fn tell(&self, filling: &Filling) {
        let pages = filling.pages.len() + usize::from(filling.page.is_some());
        self.counts.pages.store(pages as u64, Relaxed);
        self.counts.records.store(filling.entries, Relaxed);
    }
}
