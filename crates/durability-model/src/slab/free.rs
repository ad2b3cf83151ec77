//! Slots and pages that nothing refers to: let go by barrier and trust, cleared, and used again.

use super::{Cell, Commit, Step, Warm, is_referred, locations, place};
use crate::bug::Bug;
use crate::protocol::{Action, Protocol};
use crate::state::*;
use crate::tier::settle;

impl Protocol {
    pub(super) fn free_steps(&self, state: &State, out: &mut Vec<Step>) {
        let slab = &state.dram.slab;
        if slab.clearing.what == 0 {
            for (slot, warm) in slab.warm.iter().enumerate() {
                if warm.state == 2 && warm.from == 0 && !is_referred(&state.dram, slot as u8 + 1) {
                    out.push(Step::LetGo(slot as u8));
                }
            }
        } else if slab.clearing.written == 0 && self.may_clear(state, &slab.clearing) {
            out.push(Step::ClearSlot);
        }
        if self.has(Bug::GarbageWithoutLock) && state.dram.freeing.what == 0 {
            if slab.looked == 0 {
                let sealed =
                    state.dram.slots.iter().enumerate().filter(|(_, slot)| slot.state == Use::Sealed);
                let unseen = sealed.filter(|(page, _)| !locations(*page).any(|at| slab.low.contains(&at)));
                out.extend(unseen.map(|(page, _)| Step::LookIndex(page as u8)));
            } else {
                let page = Some(usize::from(slab.looked) - 1);
                let home = |hot: &super::Hot| hot.write != 0 && place(hot.home).map(|(page, _)| page) == page;
                if !slab.hot.iter().any(home) {
                    out.push(Step::LookHomes);
                }
            }
        }
    }

    /// What replaced it is safe from power loss, and its page is trusted.
    fn may_clear(&self, state: &State, pending: &Pending) -> bool {
        let trusted = pending.seq <= state.manifest.persisted || self.has(Bug::ReleasedBeforeTrust);
        trusted && (self.passed(state, &pending.barrier) || self.has(Bug::ReleasedWithoutBarrier))
    }

    pub(super) fn slab_free_actions(&self, state: &State, out: &mut Vec<Action>) {
        for key in 0..KEYS {
            if self.may_drop_cold_tombstone(state, key) {
                out.push(Action::DropTombstone(key as u8));
            }
        }
        for session in 0..SESSIONS {
            if self.may_free_group(state, session) {
                out.push(Action::FreeGroup(session as u8));
            }
        }
        let freeing = &state.dram.freeing;
        if freeing.what == 0 {
            for (page, slot) in state.dram.slots.iter().enumerate() {
                let pending = state.dram.slab.from[page] != [0; RECORDS];
                if slot.state == Use::Sealed
                    && !pending
                    && !locations(page).any(|at| is_referred(&state.dram, at))
                {
                    out.push(Action::BeginFreeing(page as u8));
                }
            }
        } else if freeing.written == 0 && self.may_clear(state, freeing) {
            out.push(Action::ClearBlock);
        }
    }

    pub(crate) fn begin_freeing_page(&self, state: &mut State, page: usize) {
        state.dram.slots[page].state = Use::Freeing;
        state.dram.slab.from[page] = [0; RECORDS];
        let (seq, barrier) = (state.dram.moved_seq, state.dram.issued);
        state.dram.freeing = Pending { what: page as u8 + 1, written: 0, seq, barrier };
    }

    pub(super) fn clear_slot(&self, state: &mut State) {
        let slot = usize::from(state.dram.slab.clearing.what - 1);
        state.cells[slot].commit = Commit::Clearing;
        if self.has(Bug::SlotReusedBeforeCleared) {
            state.dram.slab.warm[slot] = Warm::default();
            state.dram.slab.clearing = Pending::default();
        } else {
            state.dram.slab.clearing.written = 1;
        }
    }

    /// A fence covers what this process stored in the slot.
    pub(super) fn fence_slot(&self, state: &mut State, slot: usize) {
        fence(&mut state.cells[slot]);
        let slab = &mut state.dram.slab;
        if slab.warm[slot].state == 1 {
            slab.warm[slot].state = 2;
        } else {
            slab.warm[slot] = Warm::default();
            slab.clearing = Pending::default();
        }
    }
}

pub(super) fn fence(cell: &mut Cell) {
    match cell.commit {
        Commit::Setting => *cell = Cell { commit: Commit::Set, unfenced: 0, stale: 0, ..*cell },
        Commit::Clearing => *cell = Cell::default(),
        Commit::Clear | Commit::Set => {}
    }
}

/// One sync of the file: pages written are sealed, and cleared ones free.
pub(super) fn sync_pages(state: &mut State) {
    state.tier.iter_mut().for_each(settle);
    for slot in state.dram.slots.iter_mut().filter(|slot| slot.state == Use::ReadOnly) {
        slot.state = Use::Sealed;
    }
    if state.dram.freeing.written == 1 {
        state.dram.slots[usize::from(state.dram.freeing.what - 1)] = Slot::default();
        state.dram.freeing = Pending::default();
    }
}
