//! Rounds: how the log is cut although records stay in DRAM; the log floor, and tombstones that nobody needs.

use super::{Commit, Hot, Step, sealed_seq};
use crate::bug::Bug;
use crate::positions::Level;
use crate::protocol::Protocol;
use crate::state::*;

impl Protocol {
    pub(super) fn round_steps(&self, state: &State, out: &mut Vec<Step>) {
        let slab = &state.dram.slab;
        if slab.walking == 0 {
            if slab.round > 0 && slab.round < self.bounds.rounds {
                out.push(Step::OpenRound);
            }
        } else if slab.retiring.what == 0 {
            self.walk_steps(state, out);
        } else if self.passed(state, &slab.retiring.barrier)
            && (slab.retiring.seq <= state.manifest.persisted || self.has(Bug::RoundBeforeTrust))
        {
            out.push(Step::RetireRound);
        }
        if self.slab_manifest(state) != state.manifest {
            out.push(Step::StoreManifest);
        }
        let floor = &state.dram.floor;
        if floor.what != 0 && slab.retired >= floor.seq && self.passed(state, &floor.barrier) {
            out.push(Step::StoreFloor);
        }
    }

    fn walk_steps(&self, state: &State, out: &mut Vec<Step>) {
        let slab = &state.dram.slab;
        let waits = |hot: &&Hot| hot.write != 0 && hot.stamp != 0 && hot.stamp <= slab.walking;
        if !self.has(Bug::WalkMissesMoved) {
            if !slab.hot.iter().any(|hot| waits(&hot)) {
                out.push(Step::WalkEnds);
            }
            return;
        }
        let in_half = |half: u8| slab.hot.iter().filter(waits).any(|hot| hot.half == half);
        if !in_half(slab.half) {
            out.push(if slab.half == 0 { Step::WalkHalf } else { Step::WalkEnds });
        }
        let dirty = slab.hot.iter().enumerate().filter(|(_, hot)| waits(hot));
        out.extend(dirty.map(|(key, _)| Step::MoveHot(key as u8)));
    }

    pub(super) fn walk_ends(&self, state: &mut State) {
        let barrier =
            if self.has(Bug::RoundWithoutBarrier) { Positions::default() } else { state.dram.issued };
        let seq = sealed_seq(state);
        state.dram.slab.half = 0;
        state.dram.slab.retiring = Pending { what: 1, written: 0, seq, barrier };
    }

    /// `Machine::save_manifest`: what is true now.
    fn slab_manifest(&self, state: &State) -> Manifest {
        let mut manifest = state.manifest;
        manifest.persisted = manifest.persisted.max(sealed_seq(state));
        let flush = state.dram.flush;
        if flush != 0 {
            let settled = self.settled(state, Level::Power)[usize::from(state.write(flush).session)];
            if settled >= state.version(flush) {
                manifest.flush = flush;
            }
        }
        manifest
    }

    /// One step, for it is old or new, and what lies between is explored with the hybrid log.
    pub(super) fn store_manifest(&self, state: &mut State, floor: bool) {
        let mut manifest = self.slab_manifest(state);
        if floor {
            if manifest.flush == state.dram.flush {
                manifest.floor = manifest.floor.max(state.dram.floor.what - 1);
            }
            state.dram.floor = Pending::default();
        }
        state.manifest = manifest;
    }

    /// No older copy of its key can come back: not from a page, staged or about to be cleared, and not from a slot.
    pub(super) fn may_drop_cold_tombstone(&self, state: &State, key: usize) -> bool {
        let write = super::current(state, key);
        if write == 0 || state.write(write).kind != Kind::Delete {
            return false;
        }
        let version = state.version(write);
        let older = |record: &Record| {
            let (write, of) = parts(*record);
            write != 0 && of == key && state.version(write) < version
        };
        let hot = &state.dram.slab.hot[key];
        let unsettled = hot.unsettled == 1 && !self.has(Bug::UnsettledTombstoneDropped);
        let staged = state.dram.slots.iter().flat_map(|slot| &slot.records).any(older);
        let images = state.tier.iter().flat_map(|place| [&place.durable, &place.new]);
        let on_page = images.flat_map(|image| &image.records).any(older);
        let in_slot = !self.has(Bug::TombstoneDroppedOverSlot)
            && state.cells.iter().any(|cell| match cell.commit {
                Commit::Clear => false,
                Commit::Clearing => !self.has(Bug::TombstoneDroppedOverClearing) && older(&cell.record),
                Commit::Set | Commit::Setting => older(&cell.record),
            });
        let below = version <= state.manifest.floor || self.has(Bug::TombstoneDroppedAboveFloor);
        below && !unsettled && !staged && !on_page && !in_slot
    }

    pub(crate) fn drop_cold_tombstone(&self, state: &mut State, key: usize) {
        let slab = &mut state.dram.slab;
        (slab.hot[key], slab.low[key]) = (Hot::default(), 0);
    }
}
