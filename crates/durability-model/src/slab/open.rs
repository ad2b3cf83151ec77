//! What a crash leaves of the middle tier, and what an opening makes of it.

use super::free::fence;
use super::{Cell, Commit, Hot, PAGES, RECORDS, Slab, Warm};
use crate::bug::Bug;
use crate::protocol::Protocol;
use crate::recover::{Found, Winner};
use crate::state::*;

impl Cell {
    /// Power fails; `pick` chooses among so many outcomes.
    pub(crate) fn lose_power(&mut self, pick: &mut dyn FnMut(u16) -> u16) {
        *self = match self.commit {
            Commit::Clear | Commit::Set => *self,
            Commit::Clearing => {
                [Cell { commit: Commit::Set, ..*self }, Cell::default()][usize::from(pick(2))]
            }
            Commit::Setting => {
                let arrived = Cell { commit: Commit::Set, unfenced: 0, stale: 0, ..*self };
                let torn = Cell { torn: 1, ..arrived };
                match pick(2 + u16::from(self.unfenced) + u16::from(self.stale)) {
                    0 => Cell::default(),
                    1 => arrived,
                    _ => torn,
                }
            }
        };
    }
}

impl Protocol {
    /// The slots' winners: before those of pages, so that of two equal versions the slot's is taken.
    pub(crate) fn find_in_slots(&self, state: &State, found: &mut Found) {
        for (slot, cell) in state.cells.iter().enumerate().filter(|(_, cell)| cell.is_set()) {
            found.damage |= cell.torn == 1;
            let (write, key) = parts(cell.record);
            found.newest = found.newest.max(state.version(write));
            if state.version(found.winners[key].write()) < state.version(write) {
                found.winners[key] = Winner::Slot { write, slot };
            }
        }
    }

    /// What the dead process had stored and not fenced is made safe before anything is cleared on its account.
    pub(crate) fn secure_slots(&self, state: &mut State) {
        if !self.has(Bug::FoundSlotsNotPersisted) {
            state.cells.iter_mut().for_each(fence);
        }
    }

    /// Slots that no winner lies in.
    pub(crate) fn clear_unadopted_slots(&self, state: &mut State, found: &Found) {
        if self.has(Bug::UnadoptedSlotsKept) {
            return;
        }
        for (slot, cell) in state.cells.iter_mut().enumerate().filter(|(_, cell)| cell.is_set()) {
            let adopted = |winner: &Winner| matches!(winner, Winner::Slot { slot: at, .. } if *at == slot);
            if !found.winners.iter().any(adopted) {
                cell.commit = Commit::Clearing;
            }
        }
    }

    /// The fence after that. It covers what this process stored.
    pub(crate) fn fence_cleared_slots(&self, state: &mut State) {
        state.cells.iter_mut().filter(|cell| cell.commit == Commit::Clearing).for_each(fence);
    }

    /// The end of an opening: the index is filled, log winners are dirty records of the first round.
    pub(crate) fn go_on_with_slots(&self, state: &mut State, found: &Found) {
        let mut slab = Slab { round: 1, ..Slab::default() };
        for (key, winner) in found.winners.iter().enumerate() {
            let write = winner.write();
            if write == 0 || state.is_flushed(found.flush, write, key) {
                continue;
            }
            slab.count[key] = i8::from(state.write(write).kind != Kind::Delete);
            match *winner {
                Winner::None => {}
                Winner::Log { .. } => slab.hot[key] = Hot { write, stamp: 1, ..Hot::default() },
                Winner::Slot { slot, .. } => {
                    slab.low[key] = slot as u8 + 1;
                    slab.warm[slot] = Warm { state: 2, from: 0 };
                }
                Winner::Block { slot, .. } => {
                    let records = &state.dram.slots[slot].records;
                    let at = records.iter().position(|held| *held == record(write, key)).unwrap_or(0);
                    slab.low[key] = PAGES + (slot * RECORDS + at) as u8;
                }
            }
        }
        state.dram.slab = slab;
        for group in state.log.iter_mut().flatten().filter(|group| group.at != At::Nowhere) {
            group.max_seq = if self.has(Bug::ReplayCutEarly) { 0 } else { 1 };
        }
    }

    /// A page at rest may go bad while the store is down, once.
    pub(crate) fn rot_actions(&self, state: &State, out: &mut Vec<crate::protocol::Action>) {
        if !self.bounds.rot || state.rotten == 1 || state.phase != Phase::Down {
            return;
        }
        for (page, place) in state.tier.iter().enumerate() {
            if place.change == Change::None && place.durable.seq != 0 && place.durable.torn == 0 {
                out.push(crate::protocol::Action::Slab(super::Step::Rot(page as u8)));
            }
        }
    }
}
