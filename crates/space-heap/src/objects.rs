//! Stretches of free lines in pages of objects: found, taken and given back.
//!
//! ```text
//! pages by their longest stretch   [1] [2..4] [4..8] ..   pages with nothing in them
//! ```
//!
//! A page's longest stretch is a bound: it is made exact by a search that finds nothing. A stretch is taken from the page with the shortest
//! one that will do, so that long ones stay whole, and inside a page behind the one that was taken last.
//!
//! One page with nothing in it is kept for records that move: so a page whose free lines lie in many stretches can always be
//! emptied, and has them in one.
//!
//! # Thread safety
//! All of it under the lock of `alloc`.

use std::sync::atomic::{AtomicU32, Ordering::*};

use terrace_media::ByteRegion;

use crate::layout::{LINE_BYTES, PageHeader};
use crate::map::Use;
use crate::medium::Medium;
use crate::pages::{Alloc, Page, Pages};

/// Pages with nothing in them that are kept.
const KEPT: usize = 1;
/// Of the pages whose longest stretch may be too short so many are looked at before longer ones are broken.
const LOOKED_AT: usize = 4;

/// What is known of a page's free lines.
#[derive(Default)]
pub struct Gap {
    /// No stretch is longer.
    longest: AtomicU32,
    /// Where the next search begins.
    hand: AtomicU32,
    /// Where the page stands in its list, from 1; 0: in none.
    listed: AtomicU32,
}

/// What lines are wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Records: the shortest stretch that will do.
    Record,
    /// A part of a large value: the longest.
    Part,
    /// A record that moves: as a record, and from the page that is kept, too.
    Move,
}

/// Lines of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub offset: u64,
    pub lines: usize,
}

impl Stretch {
    /// Where it ends.
    pub fn end(self) -> u64 {
        self.offset + (self.lines * LINE_BYTES) as u64
    }
}

impl Pages {
    /// Lines of a page's chunks.
    pub fn room_lines(&self) -> usize {
        self.room_bytes() / LINE_BYTES
    }
    fn lines(&self) -> usize {
        self.page_bytes / LINE_BYTES
    }
    fn first(&self) -> usize {
        self.lines() - self.room_lines()
    }
    fn entry(&self, page: u32) -> &Page {
        &self.table[page as usize]
    }
    /// A bound of a page's longest stretch.
    pub fn longest(&self, page: u32) -> usize {
        self.entry(page).gap.longest.load(Relaxed) as usize
    }
    /// A page's use.
    pub fn use_of(&self, page: u32) -> Use {
        Use { seq: self.entry(page).seq.load(Acquire), page }
    }

    /// Puts a page in its list.
    pub fn list(&self, alloc: &mut Alloc, page: u32) {
        let entry = self.entry(page);
        let (used, longest) = (entry.used.load(Relaxed), self.longest(page));
        let stays = (page as usize) < self.end() && !alloc.shut.contains(&page);
        if used > 0 && longest > 0 && stays && entry.gap.listed.load(Relaxed) == 0 {
            let open = &mut alloc.open[longest.ilog2() as usize];
            open.push(page);
            entry.gap.listed.store(open.len() as u32, Relaxed);
        }
    }
    /// Takes a page out of its list.
    pub fn unlist(&self, alloc: &mut Alloc, page: u32) {
        let listed = self.entry(page).gap.listed.swap(0, Relaxed) as usize;
        if listed > 0 {
            let open = &mut alloc.open[self.longest(page).ilog2() as usize];
            open.swap_remove(listed - 1);
            if let Some(other) = open.get(listed - 1) {
                self.entry(*other).gap.listed.store(listed as u32, Relaxed);
            }
        }
    }
    fn set_longest(&self, alloc: &mut Alloc, page: u32, longest: usize) {
        self.unlist(alloc, page);
        self.entry(page).gap.longest.store(longest as u32, Relaxed);
        self.list(alloc, page);
    }
    /// Lists all pages before the end anew.
    pub fn list_all(&self, alloc: &mut Alloc, end: usize) {
        alloc.open.iter_mut().for_each(Vec::clear);
        alloc.free.clear();
        let mut held = 0;
        for page in (0..self.table.len() as u32).rev() {
            let entry = self.entry(page);
            entry.gap.listed.store(0, Relaxed);
            let is_used = entry.used.load(Relaxed) > 0;
            held += u64::from(is_used);
            if is_used {
                entry.gap.longest.store(self.stretches(page).max().unwrap_or(0) as u32, Relaxed);
                self.list(alloc, page);
            } else if (page as usize) < end {
                alloc.free.push(page);
            }
        }
        self.held.store(held, Relaxed);
    }
    /// How long a page's stretches are.
    fn stretches(&self, page: u32) -> impl Iterator<Item = usize> {
        let (taken, lines) = (&self.entry(page).taken, self.lines());
        let mut at = self.first();
        std::iter::from_fn(move || {
            let start = taken.next(at, lines, false);
            at = taken.next(start, lines, true);
            (start < lines).then_some(at - start)
        })
    }

    /// A page with a stretch of so many lines, and where that starts.
    fn find(&self, alloc: &mut Alloc, least: usize, purpose: Purpose) -> Option<(u32, usize)> {
        let kept = if purpose == Purpose::Move { 0 } else { KEPT };
        let has_free = alloc.free.len() > kept;
        let lists = least.ilog2() as usize..alloc.open.len();
        let found = match purpose {
            Purpose::Part if has_free => None,
            Purpose::Part => lists.rev().find_map(|list| self.find_in(alloc, list, least, usize::MAX)),
            Purpose::Record | Purpose::Move => {
                let most = |list: usize| if list == lists.start { LOOKED_AT } else { usize::MAX };
                lists.clone().find_map(|list| self.find_in(alloc, list, least, most(list)))
            }
        };
        let all = |alloc: &mut Alloc| self.find_in(alloc, least.ilog2() as usize, least, usize::MAX);
        match found {
            Some(found) => Some(found),
            None if has_free => alloc.free.last().map(|page| (*page, self.first())),
            None => all(alloc),
        }
    }
    /// The same of the pages of a list, of so many of them.
    fn find_in(&self, alloc: &mut Alloc, list: usize, least: usize, most: usize) -> Option<(u32, usize)> {
        let mut at = alloc.open[list].len();
        for _ in 0..most {
            at = at.min(alloc.open[list].len()).checked_sub(1)?;
            let page = alloc.open[list][at];
            if self.longest(page) < least {
                continue;
            }
            let hand = (self.entry(page).gap.hand.load(Relaxed) as usize).max(self.first());
            if let Ok(line) =
                self.search(page, hand, least).or_else(|_| self.search(page, self.first(), least))
            {
                return Some((page, line));
            }
            let longest = self.stretches(page).max().unwrap_or(0);
            self.set_longest(alloc, page, longest);
        }
        None
    }
    /// Where a stretch of so many lines starts in a page, from a line on.
    fn search(&self, page: u32, from: usize, least: usize) -> Result<usize, ()> {
        let (taken, lines) = (&self.entry(page).taken, self.lines());
        let mut at = from;
        while at < lines {
            let start = taken.next(at, lines, false);
            at = taken.next(start, lines, true);
            if at - start >= least {
                return Ok(start);
            }
        }
        Err(())
    }
    /// Whether so many lines could be taken.
    pub fn has_stretch(&self, alloc: &mut Alloc, least: usize) -> bool {
        self.find(alloc, least, Purpose::Record).is_some()
    }

    /// Takes `least` to `most` lines that lie together; `None` if there are not so many. Free words stand, once this thread has fenced,
    /// where they start and behind them; they are a chunk or an extent when they have been [divided](Pages::divide) off.
    pub fn take_lines<R: ByteRegion>(
        &self,
        alloc: &mut Alloc,
        medium: &Medium<R>,
        (least, most): (usize, usize),
        purpose: Purpose,
    ) -> Option<Stretch> {
        let (page, start) = self.find(alloc, least, purpose)?;
        let entry = self.entry(page);
        if alloc.free.last() == Some(&page) {
            alloc.free.pop();
            self.begin_objects(alloc, medium, page);
        }
        let end = entry.taken.next(start, self.lines().min(start + most), true);
        entry.taken.set_all(start, end);
        entry.seen.clear_all(start, end);
        let lines = end - start;
        let used = entry.used.fetch_add(lines as u32, Relaxed) as usize + lines;
        self.used_bytes.fetch_add((lines * LINE_BYTES) as u64, Relaxed);
        entry.gap.hand.store(end as u32, Relaxed);
        let left = self.longest(page).min(self.room_lines() - used);
        self.set_longest(alloc, page, left);
        self.mark(medium, page, start, end);
        Some(Stretch { offset: self.offset(page, 0, start), lines })
    }
    /// Stores free words where lines that were just taken start and where others are left; what stands there durably after a fence of
    /// this thread is a free word, or a chunk's.
    fn mark<R: ByteRegion>(&self, medium: &Medium<R>, page: u32, start: usize, end: usize) {
        let entry = self.entry(page);
        let is_start = |line: usize| entry.starts.as_ref().is_some_and(|starts| starts.bits.is_set(line));
        let free =
            |line: usize| medium.store_word(self.offset(page, 0, line), self.use_of(page).place(line).free());
        if !is_start(start) {
            free(start);
        }
        if end < self.lines() {
            match entry.taken.is_set(end) {
                // Whoever took those may be about to say that they start there.
                true => medium.region.flush(medium.at(self.offset(page, 0, end)), 8),
                false if !is_start(end) => free(end),
                false => {}
            }
        }
    }
    /// Makes lines that were taken a chunk or an extent of its own; what [`take_lines`](Pages::take_lines) stored is durable. Durable after a
    /// fence of this thread.
    pub fn divide<R: ByteRegion>(&self, medium: &Medium<R>, stretch: Stretch) {
        let (page, from) = self.line_of(stretch.offset);
        if let Some(starts) = &self.entry(page).starts {
            medium.divide(self.use_of(page), starts, from, from + stretch.lines);
        }
    }
    /// A chunk was filled, and what is left of its extent starts behind it: durable after a fence of this thread.
    pub fn start_at<R: ByteRegion>(&self, medium: &Medium<R>, offset: u64) {
        let (page, line) = self.line_of(offset);
        let entry = self.entry(page);
        if let Some(starts) = &entry.starts {
            medium.start_at(self.use_of(page), starts, line);
        }
    }
    fn line_of(&self, offset: u64) -> (u32, usize) {
        (self.page_of(offset), (offset % self.page_bytes as u64) as usize / LINE_BYTES)
    }

    /// A page that nothing is in gets its first chunk.
    fn begin_objects<R: ByteRegion>(&self, alloc: &mut Alloc, medium: &Medium<R>, page: u32) {
        if let (None, Some(starts)) = (self.class_of(page), &self.entry(page).starts) {
            alloc.seq += 1;
            medium.format_objects(&PageHeader::of_objects(medium.store_id, alloc.seq, page), starts);
            self.set_class(page, 0, alloc.seq);
        }
        self.forget(page);
        let gap = &self.entry(page).gap;
        gap.longest.store(self.room_lines() as u32, Relaxed);
        gap.hand.store(0, Relaxed);
        self.held.fetch_add(1, Relaxed);
    }

    /// Lines that are free on the medium, durably, may be taken again: a free word stands where they start.
    pub fn give_lines(&self, alloc: &mut Alloc, page: u32, line: usize, lines: usize) {
        let entry = self.entry(page);
        entry.taken.clear_all(line, line + lines);
        self.used_bytes.fetch_sub((lines * LINE_BYTES) as u64, Relaxed);
        if entry.used.fetch_sub(lines as u32, Relaxed) == lines as u32 {
            self.unlist(alloc, page);
            self.held.fetch_sub(1, Relaxed);
            if (page as usize) < self.end() {
                alloc.free.push(page);
            }
            return;
        }
        let start = entry.taken.clear_before(line).max(self.first());
        let whole = entry.taken.next(line, self.lines(), true) - start;
        if whole > self.longest(page) {
            self.set_longest(alloc, page, whole);
        }
    }
    /// The same of lines that were not filled: the page is as it was before they were taken.
    pub fn give_stretch(&self, alloc: &mut Alloc, stretch: Stretch) {
        let (page, line) = self.line_of(stretch.offset);
        if stretch.lines > 0 {
            self.give_lines(alloc, page, line, stretch.lines);
        }
    }

    /// The page with least in it of those that so many lines would come together in if what it holds were elsewhere.
    pub fn page_to_gather(&self, alloc: &Alloc, least: usize) -> Option<u32> {
        if alloc.free.is_empty() {
            return None;
        }
        let free = |page: u32| self.room_lines() - self.entry(page).used.load(Relaxed) as usize;
        let candidates = (0..self.end() as u32).filter(|&page| {
            let is_used = free(page) < self.room_lines();
            let is_scattered = free(page) >= least && self.longest(page) < free(page);
            is_used && is_scattered && !self.entry(page).stuck.load(Relaxed)
        });
        candidates.max_by_key(|page| free(*page))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_media::HeapRegion;

    use super::*;
    use crate::medium::{Geometry, Granularity};

    const PAGES: usize = 6;

    fn heap() -> (Medium<HeapRegion>, Pages) {
        let (page_bytes, granularity) = (4096, Granularity::Object);
        let geometry = Geometry { page_bytes, sessions: 2, granularity, index_load: None };
        let bytes = geometry.front_bytes() + (PAGES * page_bytes) as u64;
        let medium = Medium::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, geometry, 9);
        (medium, Pages::new(page_bytes, granularity, PAGES))
    }

    /// What must hold of all pages, with these stretches taken.
    fn check(medium: &Medium<HeapRegion>, pages: &Pages, alloc: &Alloc, taken: &[Stretch]) {
        let lines: usize = taken.iter().map(|stretch| stretch.lines).sum();
        assert_eq!(pages.used_bytes.load(Relaxed), (lines * LINE_BYTES) as u64);
        for page in 0..PAGES as u32 {
            let mine = taken.iter().filter(|stretch| pages.page_of(stretch.offset) == page);
            let used: usize = mine.map(|stretch| stretch.lines).sum();
            assert_eq!(pages.entry(page).used.load(Relaxed) as usize, used, "page {page}");
            assert_eq!(alloc.free.contains(&page), used == 0, "page {page}");
            let longest = pages.stretches(page).max().unwrap_or(0);
            let listed: Vec<usize> =
                (0..alloc.open.len()).filter(|list| alloc.open[*list].contains(&page)).collect();
            let bound = pages.longest(page);
            let list = (used > 0 && bound > 0).then(|| bound.ilog2() as usize);
            assert!(used == 0 || bound >= longest, "page {page}: {bound} for {longest}");
            assert_eq!(listed, list.into_iter().collect::<Vec<_>>(), "page {page}");
            // A free chunk has its word, whatever was there before.
            for (size, line) in pages.chunks(page).filter(|(_, line)| !pages.entry(page).taken.is_set(*line))
            {
                let (offset, place) = (pages.offset(page, size, line), pages.use_of(page).place(line));
                assert_eq!(
                    medium.region.load_u64(medium.at(offset)),
                    place.free(),
                    "page {page}, line {line}"
                );
            }
            let stored = medium.stored_starts(pages.use_of(page));
            let starts = pages.entry(page).starts.as_ref().unwrap();
            let is_same =
                |line: usize| stored.as_ref().is_none_or(|s| s.bits.is_set(line) == starts.bits.is_set(line));
            assert!((0..pages.lines()).all(is_same) && stored.is_some() == pages.class_of(page).is_some());
        }
    }

    #[test]
    fn stretches_are_apart_and_lists_are_right_whatever_is_taken_and_given() {
        let (medium, pages) = heap();
        let mut taken: Vec<Stretch> = Vec::new();
        let (mut random, mut refused) = (1u64, 0);
        let mut below = |end: usize| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) as usize % end
        };
        for _ in 0..20_000 {
            let mut alloc = pages.alloc();
            if below(100) < 52 {
                let short = below(3);
                let least = 1 + below([4, 12, pages.room_lines()][short]);
                let most = least + below(8);
                let purpose = [Purpose::Record, Purpose::Part, Purpose::Move][below(3)];
                match pages.take_lines(&mut alloc, &medium, (least, most), purpose) {
                    Some(stretch) => {
                        assert!((least..=most).contains(&stretch.lines));
                        let is_apart =
                            |other: &Stretch| other.end() <= stretch.offset || stretch.end() <= other.offset;
                        assert!(taken.iter().all(is_apart), "{stretch:?} of {taken:?}");
                        pages.divide(&medium, stretch);
                        // It is filled.
                        medium.store_word(stretch.offset, 5);
                        taken.push(stretch);
                    }
                    None => {
                        let kept = if purpose == Purpose::Move { 0 } else { KEPT };
                        let used = |page: &u32| pages.entry(*page).used.load(Relaxed) > 0;
                        let all = (0..PAGES as u32).filter(used).flat_map(|page| pages.stretches(page));
                        assert!(all.max().unwrap_or(0) < least && alloc.free.len() <= kept, "{least} lines");
                        refused += 1;
                    }
                }
            } else if !taken.is_empty() {
                let stretch = taken.swap_remove(below(taken.len()));
                let (_, line) = pages.line_of(stretch.offset);
                let place = pages.use_of(pages.page_of(stretch.offset)).place(line);
                medium.store_word(stretch.offset, place.free());
                pages.give(&mut alloc, stretch.offset);
            }
            check(&medium, &pages, &alloc, &taken);
        }
        assert!(refused > 100, "{refused} times nothing was free");
    }
}
