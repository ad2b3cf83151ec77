//! Which chunks are taken, learned while the store is open, of a heap that keeps its index: a chunk is taken if an entry leads to it.
//!
//! ```text
//! a page after the other: free word --> free | record --> the index is asked, under its key's lock | line, part of a value --> noted
//!     --> an epoch passes --> its chunks may be taken
//! at the end every bucket is read once: lines that it does not use, and what nobody can tell and nothing leads to, are free
//! ```
//!
//! Until then a page's chunks are nobody's to take: writes take those of pages that are free or known.
//!
//! # Invariants
//! * A chunk's bit is set under the lock of its record's key, or of `noted`. Who lets a chunk go that is not set leaves it: it is found free.
//! * A part of a value that was there at the start is freed at the end alone.
//!
//! Lock order: the learner, stripes, `noted`, the pages' lists.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering::*;

use parking_lot::Mutex;
use terrace_blocks::u64_at;
use terrace_engine::Progress;
use terrace_engine::record::{Head, Kind};
use terrace_engine::space::Context;
use terrace_media::ByteRegion;

use crate::large::number_of;
use crate::layout::{FRONT_BYTES, Front, Sort};
use crate::space::HeapSpace;
use crate::table::PmTable;

/// Chunks looked at in one step, and buckets.
const CHUNKS_A_STEP: usize = 256;
const BUCKETS_A_STEP: u64 = 256;

/// See the module.
pub(crate) struct Learning {
    learner: Mutex<Learner>,
    /// `None` once all is known.
    pub noted: Mutex<Option<Noted>>,
}

/// Where it goes on.
#[derive(Default)]
struct Learner {
    /// Pages that nobody has looked at.
    pages: Vec<u32>,
    /// The chunk that is looked at next, of the page taken last.
    current: Option<(u32, usize)>,
    /// Known pages, and epochs to pass.
    waiting: VecDeque<(u64, u32)>,
    /// The bucket that is read next, once all pages are known.
    bucket: u64,
}

/// What was found so far, and may turn out to be free.
#[derive(Default)]
pub(crate) struct Noted {
    /// The newest value that was there at the start.
    newest_value: u64,
    /// Parts of values, and whose.
    parts: HashMap<u64, u64>,
    /// Values that a record describes, and those that none does any more.
    live: HashSet<u64>,
    dead: HashSet<u64>,
    /// Lines of the index.
    lines: HashSet<u64>,
    /// Chunks that nobody can tell.
    lost: HashSet<u64>,
    /// Those of them that an entry leads to.
    led_to: HashSet<u64>,
    /// A line of the index does not hold together: nobody knows what it led to.
    is_unsure: bool,
}

impl Learning {
    /// All is known.
    pub fn done() -> Self {
        Self { learner: Mutex::default(), noted: Mutex::new(None) }
    }
    /// Begins with these pages; large values up to this number are there.
    pub fn begin(&self, pages: Vec<u32>, newest_value: u64) {
        *self.noted.lock() = Some(Noted { newest_value, ..Noted::default() });
        *self.learner.lock() = Learner { pages, ..Learner::default() };
    }
}

impl<R: ByteRegion> HeapSpace<R> {
    /// Whether some chunks are not known yet.
    pub(crate) fn is_learning(&self) -> bool {
        self.unknown_pages.load(Relaxed) > 0
    }

    /// A step of it.
    pub(crate) fn learn(&self, context: &dyn Context) -> Progress {
        let Some(table) = self.table.as_deref().filter(|_| self.is_learning()) else { return Progress::Idle };
        let Some(mut learner) = self.learning.learner.try_lock() else { return Progress::Idle };
        let opened = self.open_known(&mut learner, context);
        if learner.current.is_none() {
            learner.current = learner.pages.pop().map(|page| (page, 0));
        }
        let Some((page, next)) = learner.current else {
            let waits = !learner.waiting.is_empty();
            return match (opened, waits) {
                (true, _) => Progress::Worked,
                (false, true) => Progress::Blocked,
                (false, false) => self.sweep(&mut learner, table),
            };
        };
        let Some(class) = self.pages.class_of(page) else { return Progress::Idle };
        let end = self.pages.chunks_in(class).min(next + CHUNKS_A_STEP);
        (next..end).for_each(|chunk| self.learn_chunk(table, (page, class, chunk)));
        learner.current = (end < self.pages.chunks_in(class)).then_some((page, end));
        if learner.current.is_none() {
            learner.waiting.push_back((context.advance_epoch(), page));
            // What has expired there was not looked for.
            self.look_for_expired();
        }
        Progress::Worked
    }

    /// Chunks of pages that are known may be taken once nobody reads what was let go meanwhile.
    fn open_known(&self, learner: &mut Learner, context: &dyn Context) -> bool {
        let mut any = false;
        while let Some((_, page)) = learner.waiting.front().filter(|(epoch, _)| context.epoch_passed(*epoch))
        {
            self.pages.known(*page);
            self.unknown_pages.fetch_sub(1, Relaxed);
            learner.waiting.pop_front();
            any = true;
        }
        any
    }

    fn learn_chunk(&self, table: &PmTable<R>, (page, class, chunk): (u32, usize, usize)) {
        let offset = self.pages.offset(page, class, chunk);
        let mut bytes = [0; FRONT_BYTES];
        self.medium.region.read(self.medium.at(offset), &mut bytes);
        let (place, word) = (self.pages.place(offset), u64_at(&bytes, 0));
        if word == place.free() {
            return;
        }
        let front = place.front(&bytes);
        let number = front.hash;
        let is_part = word == place.word(Sort::Piece, number);
        let is_line = word == place.word(Sort::Link, 0);
        let front = if is_part || is_line { None } else { self.told(offset, &front) };
        if let Some((front, head)) = front {
            table.while_held(front.hash, offset, |is_led_to| {
                if is_led_to {
                    if let Some(head) = head {
                        self.store_head(offset, head);
                        self.medium.region.fence();
                    }
                    self.learn_record(offset, &front);
                    self.pages.note_known(page, class, chunk);
                } else {
                    // A crash left the word of what it let go: an index that is made anew would take it for a key's record.
                    self.medium.store_word(offset, place.free());
                }
            });
            return;
        }
        let mut noted = self.learning.noted.lock();
        let Some(noted) = &mut *noted else { return };
        // Let go meanwhile.
        if self.medium.region.load_u64(self.medium.at(offset)) == place.free() {
            return;
        }
        self.pages.note_known(page, class, chunk);
        if is_part {
            noted.parts.insert(offset, number);
        } else if is_line {
            noted.lines.insert(offset);
        } else {
            noted.lost.insert(offset);
        }
    }

    /// What the front of a record's chunk says; where that does not hold together and the record does, with the head that it must have.
    pub(crate) fn told(&self, offset: u64, front: &Front) -> Option<(Front, Option<[u64; 2]>)> {
        if front.sound {
            return Some((*front, None));
        }
        let bytes = self.whole(offset)?;
        let view = self.view(offset, &bytes)?;
        let (hash, check) = (
            self.hasher.key(view.head.meta.db(), view.key).hash,
            self.hasher.check(view.head.meta.db(), view.key),
        );
        let Head { version, meta, expire_at, .. } = view.head;
        let head = self.pages.place(offset).head(hash, check, &bytes);
        Some((Front { hash, check, version, meta, expire_at, sound: true }, Some(head)))
    }

    fn learn_record(&self, offset: u64, front: &Front) {
        self.live_bytes.fetch_add(front.meta.slot_words() as u64 * 8, Relaxed);
        if front.expire_at != 0 {
            self.note_expiry(offset, front.expire_at);
        }
        if front.meta.kind() == Kind::Extent
            && let Some(bytes) = self.whole(offset)
            && let Some(view) = self.view(offset, &bytes)
        {
            self.live_bytes
                .fetch_add(terrace_engine::space::LargeValues::extent_bytes(self, view.value), Relaxed);
            self.keep_parts(view.value);
        }
    }

    /// A record describes a value whose parts may be there from the start.
    pub(crate) fn keep_parts(&self, description: &[u8]) {
        if self.is_learning()
            && let Some(noted) = &mut *self.learning.noted.lock()
        {
            noted.live.insert(number_of(description));
        }
    }

    /// Whether the parts of a value are freed at the end: it was there at the start, and not all is known.
    pub(crate) fn is_freed_later(&self, number: u64) -> bool {
        if !self.is_learning() {
            return false;
        }
        match &mut *self.learning.noted.lock() {
            Some(noted) if number <= noted.newest_value => {
                noted.dead.insert(number);
                true
            }
            Some(_) | None => false,
        }
    }

    /// A line of the index was let go: whether its chunk can be retired.
    pub(crate) fn forget_line(&self, offset: u64) -> bool {
        let Some((page, _, chunk)) = self.pages.number(offset) else { return false };
        let mut noted = self.learning.noted.lock();
        let is_known = self.pages.table[page as usize].taken.is_set(chunk);
        if let Some(noted) = noted.as_mut().filter(|_| is_known) {
            noted.lines.remove(&offset);
        }
        is_known
    }

    /// Reads buckets once all pages are known, and ends.
    fn sweep(&self, learner: &mut Learner, table: &PmTable<R>) -> Progress {
        let end = table.buckets().min(learner.bucket + BUCKETS_A_STEP);
        for bucket in learner.bucket..end {
            let (mut entries, mut lines) = (Vec::new(), Vec::new());
            let is_whole = table.led_to(bucket, |chunk| entries.push(chunk), |line| lines.push(line));
            let mut noted = self.learning.noted.lock();
            let Some(noted) = &mut *noted else { return Progress::Idle };
            noted.is_unsure |= !is_whole;
            for chunk in entries.into_iter().filter(|chunk| noted.lost.contains(chunk)) {
                noted.led_to.insert(chunk);
            }
            for line in lines {
                noted.lines.remove(&line);
            }
        }
        learner.bucket = end;
        if end < table.buckets() {
            return Progress::Worked;
        }
        let mut guard = self.learning.noted.lock();
        if let Some(noted) = guard.take().filter(|noted| !noted.is_unsure) {
            let lost = noted.lost.iter().filter(|chunk| !noted.led_to.contains(chunk));
            lost.chain(&noted.lines).for_each(|chunk| self.retire(*chunk));
            let is_dead = |number: &u64| noted.dead.contains(number) || !noted.live.contains(number);
            noted.parts.iter().filter(|(_, number)| is_dead(number)).for_each(|(part, _)| self.retire(*part));
        }
        self.unknown_pages.fetch_sub(1, Relaxed);
        Progress::Worked
    }
}
