//! Never full by surprise: writes are let in only while the lower tier could take all that is dirty, beside what it holds.
//!
//! So rounds, a clean stop and recovery always find room, and a full store says so before anything is written.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{BLOCK_HEADER_BYTES, ENTRY_BYTES, Lower, RECLAIM_SLOTS, State, TRAILER_BYTES};

use crate::defrag::USABLE_PERCENT;
use crate::space::SlabSpace;

/// Of the room that there is, so much is counted on.
const COUNTED_ON_PERCENT: u64 = 90;

impl<L: Lower> SlabSpace<L> {
    /// Decides whether writes, and whether deletes, find room from now on.
    pub(crate) fn admit_step(&self) {
        let free = self.blocks.free.slots.lock().len();
        let dirty = self.dirty_bytes();
        let usable =
            (self.blocks.block_bytes - BLOCK_HEADER_BYTES - TRAILER_BYTES) as u64 * USABLE_PERCENT / 100;
        let (reserve, least) = (self.blocks.reserve() as u64 * usable, RECLAIM_SLOTS as u64 * usable);
        let counted = |room: u64| room * COUNTED_ON_PERCENT / 100;
        let (mut full, mut stuck) = (false, false);
        if counted(free as u64 * usable) < dirty + reserve {
            // What defragmentation can gain counts, too.
            let numbers = 0..self.blocks.slots.len() as u32;
            let gains = numbers.map(|number| match self.blocks.slots[number as usize].state() {
                State::Free | State::Freeing => usable,
                State::Sealed => self.to_gain(number),
                _ => 0,
            });
            let room = counted(gains.sum());
            (full, stuck) = (room < dirty + reserve, room < dirty + least);
        }
        // A large value needs whole blocks, and none can be had: who waits for them must be told.
        let out = self.whole_blocks_out.load(Relaxed) == 1;
        let out_for_all = out && free <= RECLAIM_SLOTS;
        self.blocks.free.full.store(full || out, SeqCst);
        self.blocks.free.stuck.store(stuck || out_for_all, SeqCst);
    }

    /// What would have to be written if nothing were written over any more.
    fn dirty_bytes(&self) -> u64 {
        let of_slab = |(number, slab): (usize, &crate::slab::Slab)| {
            let dirty = slab.dirty.load(Relaxed).max(0) as u64;
            let class = self.slabs.class_of(number as u32)?;
            Some(dirty * (self.slabs.classes.bytes(class) + ENTRY_BYTES) as u64)
        };
        self.slabs.table.iter().enumerate().filter_map(of_slab).sum()
    }
}
