//! What a session keeps: chunks that it may fill, and the step that it is writing.
//!
//! A chunk for a single record comes from the session's *run*, a list on the medium of the chunks that a crash may find torn. It is
//! stored for some chunks at a time, so that a set costs a small part of a burst for it.

use std::sync::atomic::Ordering::*;

use terrace_engine::space::Room;
use terrace_media::ByteRegion;

use crate::extents::{Extents, Fillable};
use crate::layout::RUN_CHUNKS;
use crate::pages::Alloc;
use crate::space::HeapSpace;
use crate::step::Step;

/// A session takes so many bytes of short chunks at a time.
const REFILL_BYTES: usize = 2048;
pub(crate) const REFILL_CHUNKS: usize = 8;

/// See the module.
pub struct Local {
    pub(crate) slot: usize,
    /// Chunks of its run that are not filled yet: class and start.
    run: Vec<(usize, u64)>,
    /// What it has of pages of objects, in place of these.
    pub(crate) extents: Extents,
    /// Chunks for a step: size and start.
    pub(crate) held: Vec<(usize, u64)>,
    pub(crate) in_step: bool,
    /// Lines of an index that are promised to its step.
    pub(crate) lines: usize,
    pub(crate) step: Step,
    /// Bytes of a chunk that is being made.
    pub(crate) chunk: Vec<u8>,
}

impl Local {
    pub fn new(slot: usize) -> Self {
        let (run, held) = (Vec::with_capacity(RUN_CHUNKS), Vec::new());
        let extents = Extents::default();
        Self { slot, run, extents, held, in_step: false, lines: 0, step: Step::default(), chunk: Vec::new() }
    }

    /// Takes a chunk of this size from those that room was made of.
    pub(crate) fn take(&mut self, size: usize) -> Option<Fillable> {
        // A step fills any chunk, and a single record one of the run alone.
        let held = self.held.iter().rposition(|(of, _)| *of == size).filter(|_| self.in_step);
        if let Some(found) = held {
            return Some(Fillable { offset: self.held.swap_remove(found).1, rest: None });
        }
        let Some(found) = self.run.iter().rposition(|(of, _)| *of == size) else {
            return self.extents.take(size);
        };
        // In their order: what an opening finds half filled was filled last.
        Some(Fillable { offset: self.run.remove(found).1, rest: None })
    }
    /// Whether there is one for a single record.
    fn has(&self, size: usize) -> bool {
        self.run.iter().any(|(of, _)| *of == size) || self.extents.has(size)
    }
}

impl<R: ByteRegion> HeapSpace<R> {
    /// The size of a chunk for a record of so many words.
    #[inline]
    pub(crate) fn size_for_words(&self, words: usize) -> Option<usize> {
        self.pages.size_for(words * 8)
    }

    /// Room for one record.
    #[inline]
    pub(crate) fn prepare_one(&self, local: &mut Local, words: usize) -> Room {
        let Some(of) = self.size_for_words(words) else { return Room::Full };
        if local.has(of) {
            return Room::Ready;
        }
        if self.pages.has_objects() { self.refill_extents(local, of) } else { self.refill(local, of) }
    }

    /// In a heap that keeps its index nothing has to name the chunks that a crash may tear: no entry leads to one.
    #[cold]
    fn refill(&self, local: &mut Local, of: usize) -> Room {
        let wanted = (REFILL_BYTES / self.pages.chunk_bytes(of)).clamp(1, REFILL_CHUNKS);
        let mut alloc = self.pages.alloc();
        while local.run.len() + wanted > RUN_CHUNKS {
            let (_, offset) = local.run.remove(0);
            self.pages.give(&mut alloc, offset);
        }
        for _ in 0..wanted {
            let Some(offset) = self.pages.take(&mut alloc, &self.medium, of) else { break };
            local.run.push((of, offset));
        }
        if local.run.last().is_none_or(|(class, _)| *class != of) {
            return self.no_room(&alloc, of, 0);
        }
        drop(alloc);
        if self.table.is_some() {
            return Room::Ready;
        }
        let mut run = [0; RUN_CHUNKS];
        run.iter_mut().zip(&local.run).for_each(|(word, (_, offset))| *word = *offset);
        self.medium.store_run(local.slot, &run);
        Room::Ready
    }

    /// Room for the records of a step.
    pub(crate) fn prepare_step(&self, local: &mut Local, records: &[usize]) -> Room {
        let sizes: Option<Vec<usize>> = records.iter().map(|words| self.size_for_words(*words)).collect();
        let Some(sizes) = sizes else { return Room::Full };
        if self.pages.has_objects() {
            return self.hold_objects(local, sizes);
        }
        let mut wanted = vec![0usize; self.pages.classes.count()];
        sizes.into_iter().for_each(|of| wanted[of] += 1);
        for (of, _) in &local.held {
            wanted[*of] = wanted[*of].saturating_sub(1);
        }
        let mut alloc = self.pages.alloc();
        if let Some((of, pages)) = self.missing(&alloc, &wanted) {
            return self.no_room(&alloc, of, pages);
        }
        for (of, count) in wanted.into_iter().enumerate() {
            for _ in 0..count {
                match self.pages.take(&mut alloc, &self.medium, of) {
                    Some(offset) => local.held.push((of, offset)),
                    None => return self.no_room(&alloc, of, 0),
                }
            }
        }
        Room::Ready
    }

    /// Of which class chunks are missing for so many of each, and how many pages all of them need.
    pub(crate) fn missing(&self, alloc: &Alloc, wanted: &[usize]) -> Option<(usize, usize)> {
        let pages = |(of, count): (usize, &usize)| {
            let beyond = count.saturating_sub(self.pages.free_chunks(alloc, of));
            beyond.div_ceil(self.pages.chunks_in(of))
        };
        let needed: usize = wanted.iter().enumerate().map(pages).sum();
        let of = wanted.iter().enumerate().rposition(|(of, count)| pages((of, count)) > 0)?;
        (needed > alloc.free.len()).then_some((of, needed))
    }

    /// Whether records of these lengths have room.
    pub(crate) fn has_room(&self, local: &Local, records: &[usize]) -> bool {
        if let [words] = records {
            return self.size_for_words(*words).is_some_and(|of| local.has(of));
        }
        let mut held: Vec<usize> = local.held.iter().map(|(of, _)| *of).collect();
        records.iter().all(|words| {
            let found = held.iter().position(|of| Some(*of) == self.size_for_words(*words));
            found.map(|found| held.swap_remove(found)).is_some()
        })
    }

    /// Gives back what a step did not use.
    pub(crate) fn give_held_back(&self, local: &mut Local) {
        if let Some(table) = &self.table {
            table.end_promise(&mut local.lines);
        }
        if !local.held.is_empty() {
            let mut alloc = self.pages.alloc();
            local.held.drain(..).for_each(|(_, offset)| self.pages.give(&mut alloc, offset));
        }
    }

    /// Gives everything back.
    pub(crate) fn give_all_back(&self, local: &mut Local) {
        self.give_held_back(local);
        self.give_extents_back(local);
        if !local.run.is_empty() {
            let mut alloc = self.pages.alloc();
            local.run.drain(..).for_each(|(_, offset)| self.pages.give(&mut alloc, offset));
        }
    }

    /// No chunk of a size could be taken, and so many free pages would do (of objects, lines), or a chunk alone where that is 0: whether
    /// there may be some by themselves.
    #[cold]
    pub(crate) fn no_room(&self, alloc: &Alloc, of: usize, pages: usize) -> Room {
        self.wanted_pages.fetch_max(pages, Relaxed);
        self.wanted.store(of as u32, Relaxed);
        // What was released is free once every session has passed.
        let is_coming = self.retired.load(Relaxed) > 0 || self.may_gain.load(Relaxed) || self.is_learning();
        if is_coming || self.page_to_empty(alloc, of).is_some() { Room::Wait } else { Room::Full }
    }
}
