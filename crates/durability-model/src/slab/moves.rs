//! Moving records: copy, make durable, then swing what refers to the source, if that is still what was copied.

use super::{Cell, Commit, FROM_DRAM, Hot, Location, PAGES, Source, Step, Warm, content, place, sealed_seq};
use crate::bug::Bug;
use crate::positions::{Level, physical};
use crate::protocol::Protocol;
use crate::state::*;

impl Protocol {
    pub(super) fn move_steps(&self, state: &State, out: &mut Vec<Step>) {
        let slab = &state.dram.slab;
        for key in 0..usize::from(self.bounds.keys) {
            for source in [Source::Dram, Source::Home, Source::Low] {
                if self.may_copy(state, key, source) {
                    if self.may_stage(state, key, source) {
                        out.push(Step::Stage(key as u8, source));
                    }
                    if self.may_fill(state, key, source) {
                        out.push(Step::Fill(key as u8, source));
                    }
                }
            }
            let hot = slab.hot[key];
            let under = hot.unsettled == 1 && self.has(Bug::PromotedUnderUnsettled);
            if slab.low[key] != 0 && (hot.write == 0 || under) {
                out.push(Step::Promote(key as u8));
            }
            if hot.write != 0 && hot.home != 0 && self.may_leave(&hot) {
                out.push(Step::EvictClean(key as u8));
            }
        }
        if staging(state).is_some() && !state.dram.slots.iter().any(|slot| slot.state == Use::ReadOnly) {
            out.push(Step::WritePage);
        }
        if state.tier.iter().any(|place| place.change != Change::None) {
            out.push(Step::SyncPages);
        }
        for (page, slot) in state.dram.slots.iter().enumerate() {
            let durable =
                slot.state == Use::Sealed || (slot.state == Use::ReadOnly && self.has(Bug::SwungBeforeSync));
            for i in (0..RECORDS).filter(|i| durable && slab.from[page][*i] != 0) {
                let to = super::page_location(page as u8, i as u8);
                let (swing, home) = self.may_swing(state, to);
                if swing {
                    out.push(Step::Swing(page as u8, i as u8));
                }
                // Its page need not be trusted: the round waits for that, and the log keeps the record until then.
                if home && slot.state == Use::Sealed {
                    out.push(Step::Home(page as u8, i as u8));
                }
            }
        }
        for (slot, warm) in slab.warm.iter().enumerate() {
            if warm.state == 1 || (slab.clearing.what == slot as u8 + 1 && slab.clearing.written == 1) {
                out.push(Step::FenceSlot(slot as u8));
            }
            let durable = warm.state == 2 || (warm.state == 1 && self.has(Bug::SwungBeforeSecondFence));
            if durable && warm.from != 0 {
                let (swing, home) = self.may_swing(state, slot as u8 + 1);
                if swing {
                    out.push(Step::SwingSlot(slot as u8));
                }
                if home && self.bounds.pages == 0 {
                    out.push(Step::HomeSlot(slot as u8));
                }
            }
        }
    }

    /// R1, and there is something to copy that is not on its way already.
    fn may_copy(&self, state: &State, key: usize, source: Source) -> bool {
        let slab = &state.dram.slab;
        let new = copied(state, key, source);
        let is_there = match source {
            Source::Dram => slab.hot[key].write != 0 && slab.hot[key].home == 0,
            Source::Home => slab.hot[key].write != 0 && slab.hot[key].home != 0,
            Source::Low => slab.low[key] != 0,
        };
        if !is_there || state.is_flushed(state.dram.flush, parts(new).0, key) {
            return false;
        }
        let mut pages = state.dram.slots.iter().zip(&slab.from);
        let on_page = pages.any(|(slot, from)| {
            slot.records.iter().zip(from).any(|(record, from)| *record == new && *from != 0)
        });
        let in_slot = slab.warm.iter().zip(&state.cells).any(|(w, cell)| w.from != 0 && cell.record == new);
        !on_page && !in_slot && self.is_settled(state, parts(new).0)
    }

    /// `Context::settled`.
    fn is_settled(&self, state: &State, write: Number) -> bool {
        let Write { session, version, .. } = *state.write(write);
        let positions = match self.bug {
            Some(Bug::CopiedUnsettled) => return true,
            Some(Bug::CopiedWithoutDependencies) => physical(state, Level::Power),
            _ => self.settled(state, Level::Power),
        };
        positions[usize::from(session)] >= version
    }

    /// Dirty records and those of the middle tier go down; a page's records leave it if it holds garbage.
    fn may_stage(&self, state: &State, key: usize, source: Source) -> bool {
        if self.bounds.pages == 0 {
            return false;
        }
        let worth = match place(source_location(state, key, source)) {
            Some((page, _)) => {
                let slot = &state.dram.slots[page];
                let mut records = super::locations(page).zip(slot.records);
                slot.state == Use::Sealed
                    && state.dram.slab.from[page] == [0; RECORDS]
                    && records.any(|(at, record)| record != 0 && !super::is_referred(&state.dram, at))
            }
            None => true,
        };
        let has_place =
            state.dram.slots.iter().any(|slot| slot.state == Use::Mutable && slot.records.contains(&0));
        worth && (has_place || (staging(state).is_none() && self.may_begin_page(state)))
    }

    fn may_begin_page(&self, state: &State) -> bool {
        let slots = &state.dram.slots[..usize::from(self.bounds.slots)];
        state.dram.last_seq < self.bounds.pages && slots.iter().any(|slot| slot.state == Use::Free)
    }

    fn may_fill(&self, state: &State, key: usize, source: Source) -> bool {
        let location = source_location(state, key, source);
        let from_above_or_below =
            location == FROM_DRAM || (location >= PAGES && matches!(source, Source::Low));
        from_above_or_below && self.free_cell(state).is_some()
    }

    fn free_cell(&self, state: &State) -> Option<usize> {
        let warm = &state.dram.slab.warm[..usize::from(self.bounds.warm)];
        warm.iter().position(|warm| warm.state == 0)
    }

    pub(super) fn stage(&self, state: &mut State, key: usize, source: Source) {
        let (new, from) = (copied(state, key, source), source_location(state, key, source));
        let slots = &state.dram.slots;
        let Some(page) = staging(state).or_else(|| slots.iter().position(|slot| slot.state == Use::Free))
        else {
            return;
        };
        let slot = &mut state.dram.slots[page];
        slot.state = Use::Mutable;
        if let Some(i) = slot.records.iter().position(|record| *record == 0) {
            slot.records[i] = new;
            state.dram.slab.from[page][i] = from;
        }
    }

    /// Streams a record, fences, and stores its commit word: until that is fenced nothing of it is found.
    pub(super) fn fill(&self, state: &mut State, key: usize, source: Source) {
        let (record, from) = (copied(state, key, source), source_location(state, key, source));
        let Some(slot) = self.free_cell(state) else { return };
        let old = state.cells[slot];
        state.cells[slot] = Cell {
            record,
            commit: Commit::Setting,
            unfenced: u8::from(self.has(Bug::CommitInFirstFence)),
            stale: u8::from(old.commit != Commit::Clear),
            torn: 0,
        };
        state.dram.slab.warm[slot] = Warm { state: 1, from };
    }

    /// Whether the index may be swung to a copy (or the copy is garbage), and whether it may become a home.
    fn may_swing(&self, state: &State, to: Location) -> (bool, bool) {
        let (write, key) = parts(content(state, to));
        let hot = &state.dram.slab.hot[key];
        if from_of(state, to) != FROM_DRAM || !self.is_same(state, key, write) {
            return (true, false);
        }
        (self.may_leave(hot), true)
    }

    /// Whether the dirty record in DRAM is the one that was copied.
    fn is_same(&self, state: &State, key: usize, write: Number) -> bool {
        let hot = &state.dram.slab.hot[key];
        hot.home == 0 && hot.write != 0 && (hot.write == write || self.has(Bug::SwungWithoutComparing))
    }

    /// A blind set stays until its candidate was read.
    fn may_leave(&self, hot: &Hot) -> bool {
        hot.unsettled == 0 || self.has(Bug::UnsettledEvicted)
    }

    /// In the key's critical section.
    pub(super) fn swing(&self, state: &mut State, to: Location) {
        let (write, key) = parts(content(state, to));
        let from = from_of(state, to);
        let same_hot = self.is_same(state, key, write);
        let same_low = content(state, from & !FROM_DRAM) == content(state, to);
        let slab = &mut state.dram.slab;
        if from == FROM_DRAM {
            if same_hot {
                leave(slab, key, to);
            }
        } else if slab.low[key] == from && (same_low || self.has(Bug::MovedWithoutComparing)) {
            slab.low[key] = to;
        } else if slab.hot[key].home == from
            && (slab.hot[key].write == write || self.has(Bug::RehomedWithoutComparing))
        {
            slab.hot[key].home = to;
        }
        forget_source(state, to);
    }

    pub(super) fn promote(&self, state: &mut State, key: usize) {
        let write = parts(content(state, state.dram.slab.low[key])).0;
        let slab = &mut state.dram.slab;
        let home = std::mem::take(&mut slab.low[key]);
        let home = if self.has(Bug::HomeGivenUpAtPromotion) { 0 } else { home };
        slab.hot[key] = Hot { write, home, ..Hot::default() };
    }
}

/// A copy becomes the home of a dirty record that is still the same.
pub(super) fn set_home(state: &mut State, to: Location) {
    let key = parts(content(state, to)).1;
    let hot = &mut state.dram.slab.hot[key];
    (hot.home, hot.stamp) = (to, 0);
    forget_source(state, to);
}

pub(super) fn evict_clean(state: &mut State, key: usize) {
    let home = state.dram.slab.hot[key].home;
    leave(&mut state.dram.slab, key, home);
}

/// A record leaves DRAM. With an unread candidate (a planted bug) there are two in the index, and that one is read first.
fn leave(slab: &mut super::Slab, key: usize, to: Location) {
    slab.hot[key] = Hot::default();
    if slab.low[key] == 0 {
        slab.low[key] = to;
    }
}

/// What was copied there has found its place, or is garbage.
fn forget_source(state: &mut State, to: Location) {
    match place(to) {
        Some((page, i)) => {
            state.dram.slab.from[page][i] = 0;
            state.dram.moved_seq = state.dram.moved_seq.max(state.dram.slots[page].seq);
        }
        None => state.dram.slab.warm[usize::from(to) - 1].from = 0,
    }
}

fn from_of(state: &State, to: Location) -> Location {
    match place(to) {
        Some((page, i)) => state.dram.slab.from[page][i],
        None => state.dram.slab.warm[usize::from(to) - 1].from,
    }
}

fn source_location(state: &State, key: usize, source: Source) -> Location {
    match source {
        Source::Dram => FROM_DRAM,
        Source::Home => state.dram.slab.hot[key].home,
        Source::Low => state.dram.slab.low[key],
    }
}

fn copied(state: &State, key: usize, source: Source) -> Record {
    match source {
        Source::Low => content(state, state.dram.slab.low[key]),
        Source::Dram | Source::Home => record(state.dram.slab.hot[key].write, key),
    }
}

fn staging(state: &State) -> Option<usize> {
    state.dram.slots.iter().position(|slot| slot.state == Use::Mutable)
}

/// A page gets its number when it is written.
pub(super) fn write_page(state: &mut State) {
    if let Some(page) = staging(state) {
        debug_assert_eq!(sealed_seq(state), state.dram.last_seq, "one page at a time");
        state.dram.last_seq += 1;
        let slot = &mut state.dram.slots[page];
        (slot.state, slot.seq) = (Use::ReadOnly, state.dram.last_seq);
        state.tier[page].change = Change::Image;
        state.tier[page].new = Image { seq: slot.seq, torn: 0, records: slot.records };
    }
}
