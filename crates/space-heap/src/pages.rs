//! The table of pages in DRAM: which chunks are taken, and of which length.
//!
//! # Thread safety
//! Chunks are taken and given back under the lock of `alloc`. Anybody reads the table: a page keeps its class as long as one of its
//! chunks is taken, and a chunk that the index led to stays taken until an epoch has passed.
//!
//! # Invariants
//! * A chunk that is not taken is free on the medium, durably.
//! * A page without a taken chunk may change class; on the medium it has the class of the table until then.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use parking_lot::{Mutex, MutexGuard};
use terrace_blocks::Table;
use terrace_engine::Scanned;
use terrace_media::ByteRegion;
use terrace_pmem_slots::Bits;

use crate::layout::{
    CHUNK_HEAD_BYTES, Classes, LINE_BYTES, PAGE_HEADER_BYTES, PageHeader, Place, chunks_in, lines_of,
};
use crate::map::{Starts, first_line};
use crate::medium::{Granularity, Medium};
use crate::objects::Gap;

/// No class.
pub const NONE: u32 = u32::MAX;

/// What is known of a page.
pub struct Page {
    pub seq: AtomicU64,
    class: AtomicU32,
    pub taken: Bits,
    /// Chunks whose record was read since eviction looked at them last.
    pub seen: Bits,
    /// Where chunks start, in a page of objects: there a chunk's number is that of its first line, and all lines of a taken chunk are
    /// taken.
    pub starts: Option<Starts>,
    /// Its free lines.
    pub gap: Gap,
    /// Taken chunks; of a page of objects, taken lines.
    pub used: AtomicU32,
    /// Something in it could not be moved, and nothing has left it since.
    pub stuck: AtomicBool,
    /// An opening went through its chunks.
    scanned: AtomicBool,
    /// It is a part of an index on the medium.
    index: AtomicBool,
    /// Which of its chunks are taken is not known: none is taken, and those that were not read yet are not set.
    pub unknown: AtomicBool,
    /// No record expires before this time.
    pub min_expire: AtomicU64,
    /// Whole-database flushes up to this version were applied.
    pub purged: AtomicU64,
}

impl Page {
    fn new(page_bytes: usize, granularity: Granularity) -> Self {
        let of_objects = granularity == Granularity::Object;
        let chunks = if of_objects { page_bytes / LINE_BYTES } else { chunks_in(page_bytes, 1) };
        Self {
            starts: of_objects.then(|| Starts::new(chunks)),
            gap: Gap::default(),
            seq: AtomicU64::new(0),
            class: AtomicU32::new(NONE),
            taken: Bits::new(chunks),
            seen: Bits::new(chunks),
            used: AtomicU32::new(0),
            stuck: AtomicBool::new(false),
            scanned: AtomicBool::new(false),
            index: AtomicBool::new(false),
            unknown: AtomicBool::new(false),
            min_expire: AtomicU64::new(u64::MAX),
            purged: AtomicU64::new(0),
        }
    }
}

/// Which chunks may be taken.
#[derive(Default)]
pub struct Alloc {
    /// Pages without a taken chunk.
    pub free: Vec<u32>,
    /// By class: pages with a free chunk, perhaps. Of objects: by how long the longest stretch of free lines is.
    pub open: Vec<Vec<u32>>,
    /// By class, of the pages before the end: taken chunks, and pages.
    pub used: Vec<usize>,
    pub pages: Vec<usize>,
    /// The newest use of a page.
    pub seq: u64,
    /// Pages that are to be emptied: no chunk of them is taken any more.
    pub shut: Vec<u32>,
}

/// The pages of a heap.
pub struct Pages {
    pub classes: Classes,
    pub page_bytes: usize,
    pub granularity: Granularity,
    pub table: Table<Page>,
    alloc: Mutex<Alloc>,
    /// No chunk is taken of the pages from here on: they are to go.
    end: AtomicUsize,
    /// Bytes of taken chunks.
    pub used_bytes: AtomicU64,
    /// Pages that are not free.
    pub held: AtomicU64,
}

impl Pages {
    /// So many, none in use.
    pub fn new(page_bytes: usize, granularity: Granularity, count: usize) -> Self {
        let classes = Classes::new(page_bytes);
        // As many as there are lengths of a stretch, by their logarithms.
        let of_classes = classes.count().max(usize::BITS as usize);
        let alloc = Alloc {
            free: (0..count as u32).rev().collect(),
            open: vec![Vec::new(); of_classes],
            used: vec![0; of_classes],
            pages: vec![0; of_classes],
            ..Alloc::default()
        };
        Self {
            classes,
            page_bytes,
            granularity,
            table: Table::with(count, &|| Page::new(page_bytes, granularity)),
            alloc: Mutex::new(alloc),
            end: AtomicUsize::new(count),
            used_bytes: AtomicU64::new(0),
            held: AtomicU64::new(0),
        }
    }
    /// Pages of which chunks may be taken.
    pub fn end(&self) -> usize {
        self.end.load(Acquire)
    }
    /// Chunks may be taken of so many pages from now on, all of which are there.
    pub fn set_end(&self, end: usize) {
        let mut alloc = self.alloc();
        self.end.store(end, Release);
        let alloc = &mut *alloc;
        alloc.free.retain(|page| (*page as usize) < end);
        if self.has_objects() {
            return self.list_all(alloc, end);
        }
        alloc.open.iter_mut().for_each(|open| open.retain(|page| (*page as usize) < end));
        alloc.used.fill(0);
        alloc.pages.fill(0);
        for page in 0..end as u32 {
            let entry = &self.table[page as usize];
            if self.is_index(page) || entry.unknown.load(Relaxed) {
                continue;
            }
            let used = entry.used.load(Relaxed) as usize;
            let Some(class) = self.class_of(page).filter(|_| used > 0) else {
                if !alloc.free.contains(&page) {
                    alloc.free.push(page);
                }
                continue;
            };
            alloc.used[class] += used;
            alloc.pages[class] += 1;
            let has_room = used < self.chunks_in(class);
            if has_room && !alloc.open[class].contains(&page) && !alloc.shut.contains(&page) {
                alloc.open[class].push(page);
            }
        }
    }
    /// Makes entries for more pages; nobody knows of them yet.
    pub fn make(&self, from: usize, to: usize) {
        self.table.reserve_with(to, &|| Page::new(self.page_bytes, self.granularity));
        for page in from..to {
            let entry = &self.table[page];
            entry.class.store(NONE, Release);
            entry.seq.store(0, Release);
            entry.min_expire.store(u64::MAX, Relaxed);
        }
    }
    pub fn alloc(&self) -> MutexGuard<'_, Alloc> {
        self.alloc.lock()
    }
    /// The page that a chunk lies in.
    #[inline]
    pub fn page_of(&self, offset: u64) -> u32 {
        (offset / self.page_bytes as u64) as u32
    }
    /// A page's class, if it has one.
    #[inline]
    pub fn class_of(&self, page: u32) -> Option<usize> {
        let class = self.table.get(page as usize)?.class.load(Acquire);
        (class != NONE).then_some(class as usize)
    }
    /// Whether a page is a part of an index on the medium.
    #[inline]
    pub fn is_index(&self, page: u32) -> bool {
        self.table.get(page as usize).is_some_and(|page| page.index.load(Acquire))
    }
    /// A page is a part of it.
    pub fn set_index(&self, page: u32, seq: u64) {
        self.table[page as usize].seq.store(seq, Release);
        if !self.table[page as usize].index.swap(true, AcqRel) {
            self.held.fetch_add(1, Relaxed);
        }
    }
    /// Takes a free page for it: which, and its use.
    pub fn take_page_for_index(&self) -> Option<(u32, u64)> {
        let mut alloc = self.alloc();
        let page = alloc.free.pop()?;
        alloc.seq += 1;
        self.table[page as usize].class.store(NONE, Release);
        self.set_index(page, alloc.seq);
        Some((page, alloc.seq))
    }
    /// Whether chunks are as long as their records need.
    #[inline]
    pub fn has_objects(&self) -> bool {
        self.granularity == Granularity::Object
    }
    /// Bytes of a page for chunks.
    pub fn room_bytes(&self) -> usize {
        match self.granularity {
            Granularity::Slab => self.page_bytes - PAGE_HEADER_BYTES,
            Granularity::Object => self.page_bytes - first_line(self.page_bytes) * LINE_BYTES,
        }
    }
    /// The size of a chunk for so many bytes behind its head: its class, or of objects its lines; `None` if no page holds it.
    #[inline]
    pub fn size_for(&self, bytes: usize) -> Option<usize> {
        let bytes = CHUNK_HEAD_BYTES + bytes;
        match self.granularity {
            Granularity::Slab => self.classes.of(bytes),
            Granularity::Object => (bytes <= self.room_bytes()).then(|| lines_of(bytes)),
        }
    }
    /// Bytes of a chunk of this size.
    #[inline]
    pub fn chunk_bytes(&self, size: usize) -> usize {
        match self.granularity {
            Granularity::Slab => usize::from(self.classes.lines(size)) * LINE_BYTES,
            Granularity::Object => size * LINE_BYTES,
        }
    }
    /// The chunks of a page, taken or not: size and number of each.
    pub fn chunks(&self, page: u32) -> impl Iterator<Item = (usize, usize)> {
        let class = self.class_of(page);
        let starts = self.table.get(page as usize).and_then(|page| page.starts.as_ref());
        let end = match (class, starts) {
            (None, _) => 0,
            (Some(class), None) => self.chunks_in(class),
            (Some(_), Some(_)) => self.page_bytes / LINE_BYTES,
        };
        let mut next = starts.map_or(0, |starts| starts.bits.next(0, end, true));
        std::iter::from_fn(move || {
            let number = (next < end).then_some(next)?;
            next = starts.map_or(number + 1, |starts| starts.bits.next(number + 1, end, true));
            Some((if starts.is_some() { next - number } else { class? }, number))
        })
    }
    /// Chunks that a page of this class holds.
    pub fn chunks_in(&self, class: usize) -> usize {
        chunks_in(self.page_bytes, self.classes.lines(class))
    }
    /// Where a page's chunk starts.
    #[inline]
    pub fn offset(&self, page: u32, size: usize, chunk: usize) -> u64 {
        let inside = match self.granularity {
            Granularity::Slab => PAGE_HEADER_BYTES + chunk * self.chunk_bytes(size),
            Granularity::Object => chunk * LINE_BYTES,
        };
        u64::from(page) * self.page_bytes as u64 + inside as u64
    }
    /// A chunk's place in its page's use.
    #[inline]
    pub fn place(&self, offset: u64) -> Place {
        let page = self.page_of(offset);
        let seq = self.table[page as usize].seq.load(Acquire);
        Place { seq, page, offset: (offset % self.page_bytes as u64) as u32 }
    }
    /// Which chunk of its page starts there, its page and its size; `None` if none does.
    pub fn number(&self, offset: u64) -> Option<(u32, usize, usize)> {
        let page = self.page_of(offset);
        let class = self.class_of(page)?;
        if let Some(starts) = &self.table[page as usize].starts {
            let inside = (offset % self.page_bytes as u64) as usize;
            let line = inside / LINE_BYTES;
            let is_one = inside.is_multiple_of(LINE_BYTES) && starts.bits.is_set(line);
            let next = || starts.bits.next(line + 1, self.page_bytes / LINE_BYTES, true);
            return is_one.then(|| (page, next() - line, line));
        }
        let inside = ((offset % self.page_bytes as u64) as usize).checked_sub(PAGE_HEADER_BYTES)?;
        let chunk = inside / self.chunk_bytes(class);
        (inside.is_multiple_of(self.chunk_bytes(class)) && chunk < self.chunks_in(class))
            .then_some((page, class, chunk))
    }
    /// An opening reads what is in the page of this byte.
    pub fn note_scanned(&self, offset: u64) {
        self.table[self.page_of(offset) as usize].scanned.store(true, Relaxed);
    }
    /// How many pages it went through.
    pub fn scanned(&self) -> Scanned {
        let count = self.table.len();
        let pages = (0..count).filter(|page| self.table[*page].scanned.load(Relaxed)).count() as u64;
        Scanned { pages, of: count as u64 }
    }
    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        let starts = |page: &Page| page.starts.as_ref().map_or(0, |starts| starts.bits.bytes());
        let bits = |page: &Page| page.taken.bytes() + page.seen.bytes() + starts(page);
        let bits = self.table.get(0).map_or(0, bits);
        (self.table.bytes() + self.table.bytes() / size_of::<Page>() * bits) as u64
    }

    /// Takes a chunk of this class; `None` if there is none. A free page is formatted for it if need be.
    pub fn take<R: ByteRegion>(&self, alloc: &mut Alloc, medium: &Medium<R>, class: usize) -> Option<u64> {
        let chunks = self.chunks_in(class);
        loop {
            let Some(&page) = alloc.open[class].last() else {
                self.begin(alloc, medium, class)?;
                continue;
            };
            let entry = &self.table[page as usize];
            let is_of_class = entry.class.load(Relaxed) == class as u32 && !alloc.shut.contains(&page);
            let Some(chunk) = entry.taken.first_clear(chunks).filter(|_| is_of_class) else {
                alloc.open[class].pop();
                continue;
            };
            self.note_taken(alloc, page, class, chunk);
            return Some(self.offset(page, class, chunk));
        }
    }

    /// A chunk of a page with this class is taken.
    pub fn note_taken(&self, alloc: &mut Alloc, page: u32, class: usize, chunk: usize) {
        let entry = &self.table[page as usize];
        entry.seen.clear(chunk);
        if self.has_objects() {
            entry.taken.set_all(chunk, chunk + class);
            entry.used.fetch_add(class as u32, Relaxed);
            self.used_bytes.fetch_add(self.chunk_bytes(class) as u64, Relaxed);
            return;
        }
        entry.taken.set(chunk);
        entry.used.fetch_add(1, Relaxed);
        alloc.used[class] += 1;
        self.used_bytes.fetch_add(self.chunk_bytes(class) as u64, Relaxed);
    }

    /// A chunk of a page whose chunks are not known yet is taken.
    pub fn note_known(&self, page: u32, class: usize, chunk: usize) {
        let entry = &self.table[page as usize];
        if entry.taken.set(chunk) {
            entry.used.fetch_add(1, Relaxed);
            self.used_bytes.fetch_add(self.chunk_bytes(class) as u64, Relaxed);
        }
    }
    /// All of a page's chunks are known: those that are not taken may be.
    pub fn known(&self, page: u32) {
        let mut alloc = self.alloc();
        let entry = &self.table[page as usize];
        entry.unknown.store(false, Release);
        if page as usize >= self.end() {
            return;
        }
        match (self.class_of(page), entry.used.load(Relaxed)) {
            (Some(class), used @ 1..) => {
                alloc.used[class] += used as usize;
                self.hold(&mut alloc, page, class);
            }
            (None, _) | (_, 0) => alloc.free.push(page),
        }
    }

    /// What is told of a page that has held nothing.
    pub fn forget(&self, page: u32) {
        let entry = &self.table[page as usize];
        entry.min_expire.store(u64::MAX, Relaxed);
        entry.purged.store(0, Relaxed);
    }

    /// Gives a free page to a class.
    fn begin<R: ByteRegion>(&self, alloc: &mut Alloc, medium: &Medium<R>, class: usize) -> Option<()> {
        // One that has been of this class before needs no formatting.
        let same = alloc.free.iter().rposition(|&page| self.class_of(page) == Some(class));
        let page = match same {
            Some(i) => alloc.free.swap_remove(i),
            None => {
                let page = alloc.free.pop()?;
                alloc.seq += 1;
                let lines = self.classes.lines(class);
                medium.format(&PageHeader::of_chunks(medium.store_id, alloc.seq, page, lines));
                self.set_class(page, class, alloc.seq);
                page
            }
        };
        self.forget(page);
        self.hold(alloc, page, class);
        Some(())
    }

    /// A page is of this class from now on.
    pub fn set_class(&self, page: u32, class: usize, seq: u64) {
        let entry = &self.table[page as usize];
        entry.seq.store(seq, Release);
        entry.class.store(class as u32, Release);
    }

    /// A page that is not in the list of free ones has chunks to take.
    pub fn hold(&self, alloc: &mut Alloc, page: u32, class: usize) {
        alloc.open[class].push(page);
        alloc.pages[class] += 1;
        self.held.fetch_add(1, Relaxed);
    }

    /// Chunks of a page that was shut may be taken again.
    pub fn open_again(&self, alloc: &mut Alloc, page: u32) {
        alloc.shut.retain(|shut| *shut != page);
        if self.has_objects() {
            return self.list(alloc, page);
        }
        let Some(class) = self.class_of(page) else { return };
        let used = self.table[page as usize].used.load(Relaxed) as usize;
        let stays = (page as usize) < self.end();
        if stays && (1..self.chunks_in(class)).contains(&used) && !alloc.open[class].contains(&page) {
            alloc.open[class].push(page);
        }
    }

    /// A chunk that is free on the medium, durably, may be taken again.
    pub fn give(&self, alloc: &mut Alloc, offset: u64) {
        let Some((page, class, chunk)) = self.number(offset) else {
            debug_assert!(false, "no chunk starts at {offset}");
            return;
        };
        let entry = &self.table[page as usize];
        debug_assert!(entry.taken.is_set(chunk), "the chunk at {offset} is taken");
        entry.stuck.store(false, Relaxed);
        if self.has_objects() {
            return self.give_lines(alloc, page, chunk, class);
        }
        let chunks = self.chunks_in(class) as u32;
        entry.taken.clear(chunk);
        if entry.unknown.load(Acquire) {
            // It is in no list, and counted in none.
            entry.used.fetch_sub(1, Relaxed);
            self.used_bytes.fetch_sub(self.chunk_bytes(class) as u64, Relaxed);
            return;
        }
        let stays = (page as usize) < self.end();
        if stays {
            alloc.used[class] -= 1;
        }
        self.used_bytes.fetch_sub(self.chunk_bytes(class) as u64, Relaxed);
        let used = entry.used.fetch_sub(1, Relaxed);
        if used == 1 {
            self.held.fetch_sub(1, Relaxed);
        }
        if used == 1 && stays {
            alloc.open[class].retain(|&open| open != page);
            alloc.pages[class] -= 1;
            alloc.free.push(page);
        } else if used == chunks && stays {
            alloc.open[class].push(page);
        }
    }

    /// Of an opening: chunks that hold something and were not adopted. They are not taken any more.
    pub fn unadopted(&self) -> Vec<u64> {
        let mut unadopted = Vec::new();
        for page in 0..self.table.len() as u32 {
            let entry = &self.table[page as usize];
            for (size, chunk) in self.chunks(page) {
                if !entry.seen.clear(chunk) && entry.taken.clear(chunk) {
                    if self.has_objects() {
                        entry.taken.clear_all(chunk, chunk + size);
                    }
                    unadopted.push(self.offset(page, size, chunk));
                }
            }
        }
        unadopted
    }

    /// An opening has noted all taken chunks: pages without one are free, the others open.
    pub fn list_found(&self) {
        let mut alloc = self.alloc();
        alloc.free.clear();
        if self.has_objects() {
            return self.list_all(&mut alloc, self.end());
        }
        for page in (0..self.table.len() as u32).rev().filter(|page| !self.is_index(*page)) {
            match self.class_of(page) {
                Some(class) if self.table[page as usize].used.load(Relaxed) > 0 => {
                    self.hold(&mut alloc, page, class)
                }
                _ => alloc.free.push(page),
            }
        }
    }

    /// Chunks of a class that could be taken without another page.
    pub fn free_chunks(&self, alloc: &Alloc, class: usize) -> usize {
        (alloc.pages[class] * self.chunks_in(class)).saturating_sub(alloc.used[class])
    }
}
