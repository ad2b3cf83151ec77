//! Freeing blocks that nothing refers to.
//!
//! # Invariants
//! A block is freed only when (1) the index refers to nothing in it, (2) every session has left the epochs in which it
//! could have held an address in it, (3) every copy that replaced one of its records is durable: the page it was moved to
//! is persisted and the stored manifest says so (else rot in it would be taken for a torn flush, and dropped), or the log
//! group of its successor is, and (4) its header is cleared on the medium.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;

use terrace_engine::space::Context;
use terrace_engine::{Barrier, Progress};

use crate::blocks::Blocks;
use crate::layout::TRAILER_BYTES;
use crate::lower::Lower;
use crate::slots::State;

/// So often in a row clearing freed blocks may fail before the tier counts as failed.
const CLEARINGS_MAX: u32 = 3;

/// So many blocks one step frees at most: after a stored manifest hundreds may be ready at once, each costs a few accesses, and
/// writers wait for the same thread to write what they replace.
const FREED_A_STEP: usize = 8;

/// Blocks on their way to be free.
#[derive(Default)]
pub struct Freeing {
    waiting: VecDeque<Waiting>,
    clearings_failed: u32,
}

impl Freeing {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// The newest block that any of them waits for.
    pub fn newest_awaited(&self) -> u64 {
        self.waiting.iter().map(|waiting| waiting.seq).max().unwrap_or(0)
    }
}

/// A block on its way.
struct Waiting {
    slot: u32,
    frame: Option<u32>,
    epoch: u64,
    seq: u64,
    barrier: Barrier,
}

impl<L: Lower> Blocks<L> {
    /// Nothing in the index refers to a block (1), and its successors lie in blocks up to `seq` or in the log.
    pub fn begin_freeing(&self, freeing: &mut Freeing, number: u32, seq: u64, context: &dyn Context) {
        let slot = &self.slots[number as usize];
        slot.set_state(State::Freeing);
        let frame = slot.frame.swap(0, SeqCst).checked_sub(1);
        let (epoch, barrier) = (context.advance_epoch(), context.barrier());
        freeing.waiting.push_back(Waiting { slot: number, frame, epoch, seq, barrier });
    }

    /// Frees some of the blocks that nobody can reach any more. Everything up to `persisted` is on the medium; `take_frame` gets
    /// the frames that held them.
    pub fn free_ready(
        &self,
        freeing: &mut Freeing,
        persisted: u64,
        context: &dyn Context,
        take_frame: &mut dyn FnMut(u32),
    ) -> Progress {
        let all = freeing;
        if all.is_empty() || self.failure.has_failed() {
            return Progress::Idle;
        }
        let mut ready = Vec::new();
        let mut waiting = VecDeque::new();
        for mut freeing in all.waiting.drain(..) {
            let passed = context.epoch_passed(freeing.epoch);
            if passed && let Some(frame) = freeing.frame.take() {
                take_frame(frame);
            }
            let persisted = freeing.seq <= persisted && context.trusts(freeing.seq);
            if ready.len() < FREED_A_STEP && passed && persisted && context.barrier_passed(&freeing.barrier) {
                ready.push(freeing);
            } else {
                waiting.push_back(freeing);
            }
        }
        all.waiting = waiting;
        if ready.is_empty() {
            return Progress::Blocked;
        }
        let trailer = (self.block_bytes - TRAILER_BYTES) as u64;
        // Where a page has its trailer, a block of large values has bytes of them, which nobody needs any more.
        let starts = ready.iter().map(|freeing| self.block_offset(freeing.slot));
        let words: Vec<u64> = starts.flat_map(|start| [start, start + trailer]).collect();
        if let Err(error) = self.lower.clear_words(&words).and_then(|()| self.lower.sync()) {
            // Clearing twice does no harm. A sync that failed stays failed.
            all.waiting.extend(ready);
            all.clearings_failed += 1;
            if all.clearings_failed == CLEARINGS_MAX {
                self.failure.fail("clearing blocks that hold nothing", &error);
            }
            return Progress::Blocked;
        }
        all.clearings_failed = 0;
        let mut free = self.free.slots.lock();
        for freeing in ready {
            let slot = &self.slots[freeing.slot as usize];
            slot.seq.store(0, SeqCst);
            self.forget_held(freeing.slot);
            slot.used_bytes.store(0, Relaxed);
            slot.count.store(0, Relaxed);
            self.deadlines.forget(freeing.slot);
            slot.set_state(State::Free);
            if !self.is_beyond(freeing.slot) {
                free.push(freeing.slot);
            }
            self.counts.reused.fetch_add(1, Relaxed);
        }
        Progress::Worked
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_media_sim::SimBlock;

    use super::*;
    use crate::block_tier::BlockTier;
    use crate::gather::tests::Come;

    #[test]
    fn a_step_frees_few_blocks_and_writes_only_words_that_are_not_clear() {
        let device = SimBlock::from_image(vec![0; (40 + 1) * (8 << 10)]);
        let blocks = Blocks::new(BlockTier::new(Arc::new(device), 0, String::new()), 8 << 10, 1).unwrap();
        for slot in 0..40 {
            blocks.write_extent_header(slot).unwrap();
        }
        let mut freeing = Freeing::default();
        for slot in 0..40 {
            blocks.begin_freeing(&mut freeing, slot, 0, &Come);
        }
        let accesses = || {
            let counters = blocks.lower.counters();
            (counters.reads, counters.writes)
        };
        let (mut steps, mut free) = (0, blocks.free_slots());
        let begun = free;
        loop {
            let before = accesses();
            let progress = blocks.free_ready(&mut freeing, u64::MAX, &Come, &mut |_| unreachable!());
            let (reads, writes) = (accesses().0 - before.0, accesses().1 - before.1);
            let freed = blocks.free_slots() - free;
            assert!(freed <= FREED_A_STEP, "{freed}");
            // Both words of a block, each read twice; the second one is clear.
            assert_eq!((reads, writes), (4 * freed as u64, freed as u64));
            if progress == Progress::Idle {
                break;
            }
            (steps, free) = (steps + 1, blocks.free_slots());
        }
        assert_eq!((steps, free - begun), (40 / FREED_A_STEP, 40));
    }
}
