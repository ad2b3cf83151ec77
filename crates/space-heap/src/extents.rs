//! What a session has of pages of objects: extents of free lines, which it fills from their starts on, and chunks of its step. The order
//! of what is stored, and why a crash leaves what can be told: `map`.
//!
//! # Invariants
//! * An extent stays in its place of the run until it is left: so a run that a crash left half stored names all that were in both.
//! * An extent is left once a free word stands where its rest starts, durably.

use std::sync::atomic::Ordering::Relaxed;

use terrace_engine::space::Room;
use terrace_media::ByteRegion;

use crate::layout::{CHUNK_HEAD_BYTES, LINE_BYTES, RUN_CHUNKS, lines_of};
use crate::medium::extent_word;
use crate::objects::{Purpose, Stretch};
use crate::pages::Alloc;
use crate::session::{Local, REFILL_CHUNKS};
use crate::space::HeapSpace;

/// Lines that a session takes at a time, and the part of a page that this may be.
const REFILL_LINES: usize = 64;
const REFILL_PART: usize = 4;
/// A part of a large value has so many lines, if the value has, whatever the stretches are that are free.
const PART_LINES_MIN: usize = 16;

#[derive(Clone, Copy, Default)]
struct Extent {
    start: u64,
    /// Where the next chunk is filled.
    at: u64,
    end: u64,
}

impl Extent {
    fn rest(self) -> Stretch {
        Stretch { offset: self.at, lines: (self.end - self.at) as usize / LINE_BYTES }
    }
}

/// The extents of a session.
#[derive(Default)]
pub(crate) struct Extents([Extent; RUN_CHUNKS]);

/// A chunk that may be filled.
pub(crate) struct Fillable {
    pub offset: u64,
    /// Where the rest of its extent starts, if it has one.
    pub rest: Option<u64>,
}

impl Extents {
    fn shortest_with(&self, lines: usize) -> Option<usize> {
        let with = (0..RUN_CHUNKS).filter(|place| self.0[*place].rest().lines >= lines.max(1));
        with.min_by_key(|place| self.0[*place].rest().lines)
    }
    pub fn has(&self, lines: usize) -> bool {
        self.shortest_with(lines).is_some()
    }
    pub fn take(&mut self, lines: usize) -> Option<Fillable> {
        let extent = &mut self.0[self.shortest_with(lines)?];
        let offset = extent.at;
        extent.at += (lines * LINE_BYTES) as u64;
        Some(Fillable { offset, rest: (extent.at < extent.end).then_some(extent.at) })
    }
    fn is_empty(&self) -> bool {
        self.0.iter().all(|extent| extent.rest().lines == 0)
    }
    /// Puts an extent in the place of the one with least left that was not put there just now; what is left of that.
    fn put(&mut self, fresh: &mut u32, stretch: Stretch) -> Stretch {
        let old = (0..RUN_CHUNKS).filter(|place| *fresh >> place & 1 == 0);
        let Some(place) = old.min_by_key(|place| self.0[*place].rest().lines) else {
            panic!("a run has more places than are filled at once");
        };
        *fresh |= 1 << place;
        let (start, end) = (stretch.offset, stretch.end());
        std::mem::replace(&mut self.0[place], Extent { start, at: start, end }).rest()
    }
    fn words(&self) -> [u64; RUN_CHUNKS] {
        self.0.map(|extent| if extent.end == 0 { 0 } else { extent_word(extent.start, extent.end) })
    }
}

impl<R: ByteRegion> HeapSpace<R> {
    /// Gets extents for records of so many lines.
    #[cold]
    pub(crate) fn refill_extents(&self, local: &mut Local, lines: usize) -> Room {
        let wanted = lines.max(REFILL_LINES.min(self.pages.room_lines() / REFILL_PART));
        let mut taken = [None; REFILL_CHUNKS];
        let mut total = 0;
        {
            let mut alloc = self.pages.alloc();
            for taken in &mut taken {
                let range = (lines, lines.max(wanted - total));
                *taken = self.pages.take_lines(&mut alloc, &self.medium, range, Purpose::Record);
                total += taken.map_or(wanted, |taken| taken.lines);
                if total >= wanted {
                    break;
                }
            }
            if taken[0].is_none() && local.extents.is_empty() {
                return self.no_room(&alloc, lines, 0);
            }
        }
        if taken[0].is_none() {
            // What it has lies beside what is free, perhaps.
            self.give_extents_back(local);
            return self.refill_extents(local, lines);
        }
        let (mut left, mut fresh) = ([None; REFILL_CHUNKS], 0);
        for (left, taken) in left.iter_mut().zip(taken.into_iter().flatten()) {
            *left = Some(local.extents.put(&mut fresh, taken));
        }
        let left = || left.into_iter().flatten();
        self.leave(left());
        taken.into_iter().flatten().for_each(|taken| self.pages.divide(&self.medium, taken));
        self.medium.store_run(local.slot, &local.extents.words());
        if left().any(|rest| rest.lines > 0) {
            let mut alloc = self.pages.alloc();
            left().for_each(|rest| self.give_rest(&mut alloc, rest));
        }
        Room::Ready
    }
    /// Stores free words where rests of extents start; durable when it returns.
    fn leave(&self, rests: impl Iterator<Item = Stretch>) {
        let words = rests.filter(|rest| rest.lines > 0);
        self.medium.free(words.map(|rest| (rest.offset, self.pages.place(rest.offset).free())));
    }

    /// Gives all of them back.
    pub(crate) fn give_extents_back(&self, local: &mut Local) {
        if local.extents.is_empty() {
            return;
        }
        let extents = std::mem::take(&mut local.extents);
        self.leave(extents.0.iter().map(|extent| extent.rest()));
        let mut alloc = self.pages.alloc();
        extents.0.iter().for_each(|extent| self.give_rest(&mut alloc, extent.rest()));
    }
    fn give_rest(&self, alloc: &mut Alloc, rest: Stretch) {
        if rest.lines > 0 {
            // It may have been what could not be moved.
            self.pages.table[self.pages.page_of(rest.offset) as usize].stuck.store(false, Relaxed);
            self.pages.give_stretch(alloc, rest);
        }
    }

    /// Lines that were taken become chunks, each by itself; durable when it returns.
    fn make_chunks(&self, taken: impl Iterator<Item = Stretch>) {
        self.medium.region.fence();
        taken.for_each(|stretch| self.pages.divide(&self.medium, stretch));
        self.medium.region.fence();
    }

    /// Room for the records of a step, of so many lines each.
    pub(crate) fn hold_objects(&self, local: &mut Local, mut wanted: Vec<usize>) -> Room {
        for (lines, _) in &local.held {
            if let Some(same) = wanted.iter().position(|wanted| wanted == lines) {
                wanted.swap_remove(same);
            }
        }
        let before = local.held.len();
        let total = wanted.iter().sum();
        let mut alloc = self.pages.alloc();
        for lines in wanted {
            match self.pages.take_lines(&mut alloc, &self.medium, (lines, lines), Purpose::Record) {
                Some(taken) => local.held.push((lines, taken.offset)),
                None => {
                    let taken = local.held.drain(before..);
                    taken.for_each(|(lines, offset)| {
                        self.pages.give_stretch(&mut alloc, Stretch { offset, lines });
                    });
                    return self.no_room(&alloc, lines, total);
                }
            }
        }
        drop(alloc);
        self.make_chunks(local.held[before..].iter().map(|&(lines, offset)| Stretch { offset, lines }));
        Room::Ready
    }

    /// A chunk of so many lines for a record that moves.
    pub(crate) fn take_object_to_move(&self, lines: usize) -> Option<u64> {
        let taken = {
            let mut alloc = self.pages.alloc();
            self.pages.take_lines(&mut alloc, &self.medium, (lines, lines), Purpose::Move)
        };
        let Some(taken) = taken else {
            self.wanted.store(lines as u32, Relaxed);
            return None;
        };
        self.make_chunks(std::iter::once(taken));
        Some(taken.offset)
    }

    /// Takes chunks for a large value of so many bytes, of up to so many parts: each with the bytes that go there.
    pub(crate) fn take_objects_for_parts(
        &self,
        bytes: usize,
        parts_max: usize,
    ) -> Result<Vec<(u64, usize)>, Room> {
        let (mut taken, mut rest): (Vec<Stretch>, usize) = (Vec::new(), bytes);
        let lines_for = |bytes: usize| lines_of(bytes + CHUNK_HEAD_BYTES);
        let room_of = |stretch: &Stretch| stretch.lines * LINE_BYTES - CHUNK_HEAD_BYTES;
        let mut alloc = self.pages.alloc();
        while rest > 0 {
            let most = lines_for(rest).min(self.pages.room_lines());
            let each = rest.div_ceil(parts_max.saturating_sub(taken.len()).max(1));
            let least = lines_for(each).max(PART_LINES_MIN).min(most);
            match self.pages.take_lines(&mut alloc, &self.medium, (least, most), Purpose::Part) {
                Some(stretch) => {
                    rest -= rest.min(room_of(&stretch));
                    taken.push(stretch);
                }
                None => {
                    taken.into_iter().for_each(|stretch| self.pages.give_stretch(&mut alloc, stretch));
                    return Err(self.no_room(&alloc, least, lines_for(bytes)));
                }
            }
        }
        drop(alloc);
        self.make_chunks(taken.iter().copied());
        let mut rest = bytes;
        Ok(taken
            .iter()
            .map(|stretch| {
                let part = room_of(stretch).min(rest);
                rest -= part;
                (stretch.offset, part)
            })
            .collect())
    }
}
