//! Flushing, in two stages (HeterMM section 4.1.2): the oldest mutable pages turn read-only and, once no session can still
//! be writing in them and all that they hold is durable in the log, become blocks; their frames are given back when DRAM is
//! needed.
//!
//! # Invariants
//! * A page is sealed only when (1) every session has left the epoch in which it turned read-only, so that its bytes are
//!   final, and (2) everything published before that is safe from power loss, with what it depends on: a page never becomes
//!   the recoverable copy of something that a crash could still take back.
//! * Pages are sealed in the order of their sequence numbers; everything up to `persisted_seq` is on the medium.
//! * A frame is given back only after an epoch in which no look-up could still find it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{BLOCK_HEADER_BYTES, Image, Lower, State, Words};
use terrace_engine::space::Context;
use terrace_engine::{Barrier, Progress, StoreError};
use terrace_index::AnyIndex;

use crate::space::{HybridLog, Pool};

/// Pages that turn read-only, or are sealed, in one step.
const PAGES_A_STEP: usize = 8;

/// What flushing remembers between steps.
#[derive(Default)]
pub(crate) struct Flushing {
    readonly: VecDeque<ReadOnly>,
    /// Frames that nobody can find any more, and the epoch after which nobody uses them.
    cooling: VecDeque<(u64, u32)>,
    image: Image,
}

impl Flushing {
    /// Nobody can find what is in a frame any more; it is free after this epoch.
    pub(crate) fn cool(&mut self, epoch: u64, frame: u32) {
        self.cooling.push_back((epoch, frame));
    }
}

struct ReadOnly {
    slot: u32,
    epoch: u64,
    barrier: Option<Barrier>,
}

impl<L: Lower> HybridLog<L> {
    pub(crate) fn flush_step(&self, flushing: &mut Flushing, context: &dyn Context) -> Progress {
        let mut progress = self.cool_frames(flushing, context);
        if self.turn_read_only(flushing, context) {
            progress = Progress::Worked;
        }
        match self.seal_ready(flushing, context) {
            Progress::Idle => {}
            other => progress = if progress == Progress::Worked { progress } else { other },
        }
        if self.give_frames_back(flushing, context) { Progress::Worked } else { progress }
    }

    fn cool_frames(&self, flushing: &mut Flushing, context: &dyn Context) -> Progress {
        let mut progress = Progress::Idle;
        while flushing.cooling.front().is_some_and(|(epoch, _)| context.epoch_passed(*epoch)) {
            if let Some((_, frame)) = flushing.cooling.pop_front() {
                self.pool.lock().frames.push(frame);
                progress = Progress::Worked;
            }
        }
        progress
    }

    /// Free frames that are kept ready for writers.
    pub(crate) fn frames_wanted(&self) -> usize {
        let part = if self.resting.load(Relaxed) { 64 } else { 16 };
        (self.target.frames() / part).max(2)
    }

    fn turn_read_only(&self, flushing: &mut Flushing, context: &dyn Context) -> bool {
        let target = self.flush_target.load(SeqCst).max(context.flush_wanted());
        let pages: Vec<u32> = {
            let pool = self.pool.lock();
            let unsealed = pool.unsealed.len();
            // A quarter of DRAM is free or holds blocks that are clean: the hot ones among those come back in time.
            let allowed = self.target.frames();
            let limit = allowed.saturating_sub((allowed / 4).max(self.frames_wanted()));
            let starving = pool.frames.is_empty() && pool.clean.is_empty() && flushing.cooling.is_empty();
            let mut over = unsealed.saturating_sub(limit);
            if starving && self.blocks.free.hungry.load(SeqCst) {
                over = over.max(1);
            }
            let already = flushing.readonly.len();
            pool.unsealed
                .iter()
                .enumerate()
                .skip(already)
                .take_while(|(i, slot)| {
                    *i < over || self.blocks.slots[**slot as usize].seq.load(Relaxed) <= target
                })
                .take(PAGES_A_STEP)
                .map(|(_, slot)| *slot)
                .collect()
        };
        for &slot in &pages {
            self.blocks.slots[slot as usize].set_state(State::ReadOnly);
        }
        if pages.is_empty() {
            return false;
        }
        let epoch = context.advance_epoch();
        flushing.readonly.extend(pages.iter().map(|&slot| ReadOnly { slot, epoch, barrier: None }));
        true
    }

    fn seal_ready(&self, flushing: &mut Flushing, context: &dyn Context) -> Progress {
        if self.blocks.failure.has_failed() {
            return Progress::Idle;
        }
        let mut sealed = Vec::new();
        let mut progress = Progress::Idle;
        while sealed.len() < PAGES_A_STEP {
            let Some(page) = flushing.readonly.get_mut(sealed.len()) else { break };
            progress = Progress::Blocked;
            if !context.epoch_passed(page.epoch) {
                break;
            }
            let barrier = page.barrier.get_or_insert_with(|| context.barrier());
            if !context.barrier_passed(barrier) {
                break;
            }
            let slot = page.slot;
            // The block may outlive power loss before the sync below: the extents that it describes must be there by then.
            if let Err(error) = terrace_engine::space::Durable::sync(self) {
                self.blocks.failure.fail("syncing large values", &error);
                return Progress::Blocked;
            }
            let drawn = self.draw(slot, flushing, context);
            let offset = self.blocks.block_offset(slot);
            if let Err(error) = drawn.and_then(|()| self.blocks.lower.write(offset, flushing.image.bytes())) {
                // The page stays in DRAM and in the log; trying again would hide what the device lost.
                self.blocks.failure.fail(&format!("flushing block {slot}"), &error);
                return Progress::Blocked;
            }
            sealed.push(slot);
        }
        if sealed.is_empty() {
            return progress;
        }
        if let Err(error) = self.blocks.lower.sync() {
            self.blocks.failure.fail("syncing flushed blocks", &error);
            return Progress::Blocked;
        }
        let mut pool = self.pool.lock();
        for slot in sealed {
            flushing.readonly.pop_front();
            let oldest = pool.unsealed.pop_front();
            debug_assert_eq!(oldest, Some(slot), "pages are sealed in order");
            let state = &self.blocks.slots[slot as usize];
            state.written.store(true, Release);
            state.set_state(State::Sealed);
            pool.clean.push_back((slot, state.seq.load(Relaxed)));
            self.details.sealed.fetch_add(1, Relaxed);
        }
        Progress::Worked
    }

    /// Makes the block's image, whole, from its page.
    fn draw(&self, number: u32, flushing: &mut Flushing, context: &dyn Context) -> io::Result<()> {
        let slot = &self.blocks.slots[number as usize];
        self.blocks.draw(number, context.hasher(), &mut flushing.image, |used, image| {
            let Some(frame) = slot.frame() else { return };
            Words(&self.frames.words(frame)[BLOCK_HEADER_BYTES / 8..]).copy_bytes(
                0,
                used - BLOCK_HEADER_BYTES,
                image,
            );
        })
    }

    /// Takes frames from the oldest clean blocks and pages of the read cache until enough are free or cooling.
    fn give_frames_back(&self, flushing: &mut Flushing, context: &dyn Context) -> bool {
        let mut pool = self.pool.lock();
        let mut any = self.balance(&mut pool);
        loop {
            let over = (self.frames.count() - pool.parked.len()).saturating_sub(self.target.frames());
            if pool.frames.len() + flushing.cooling.len() >= self.frames_wanted() + over {
                return any;
            }
            let oldest = self.oldest_clean(&mut pool);
            if self.cache.is_possible() {
                // Emptying a page of the cache takes a while, and writers need the pool.
                drop(pool);
                let taken = self.take_from_cache(flushing, oldest.map(|(_, seq)| seq), context);
                pool = self.pool.lock();
                if taken {
                    any = true;
                    continue;
                }
            }
            let Some((slot, _)) = oldest else { return any };
            pool.clean.pop_front();
            if let Some(frame) = self.blocks.slots[slot as usize].frame.swap(0, SeqCst).checked_sub(1) {
                flushing.cool(context.advance_epoch(), frame);
            }
            any = true;
        }
    }

    /// The oldest sealed block that has a frame, and its sequence number.
    fn oldest_clean(&self, pool: &mut Pool) -> Option<(u32, u64)> {
        while let Some(&(number, seq)) = pool.clean.front() {
            let slot = &self.blocks.slots[number as usize];
            if slot.seq.load(Relaxed) == seq && slot.state() == State::Sealed && slot.frame().is_some() {
                return Some((number, seq));
            }
            pool.clean.pop_front();
        }
        None
    }

    /// As many frames are with the system as may not be in use, if they are free.
    fn balance(&self, pool: &mut Pool) -> bool {
        let (mut any, allowed) = (false, self.target.frames());
        // What is free beyond the allowance goes back to the system, and comes from there if that has grown.
        while pool.parked.len() + allowed < self.frames.count()
            && let Some(frame) = pool.frames.pop()
        {
            self.frames.release(frame);
            pool.parked.push(frame);
            any = true;
        }
        while pool.parked.len() + allowed > self.frames.count()
            && let Some(frame) = pool.parked.pop()
        {
            self.frames.take_back(frame);
            pool.frames.push(frame);
            any = true;
        }
        any
    }

    /// Flushes every page; no session is open.
    pub(crate) fn flush_all(&self, index: &AnyIndex, context: &dyn Context) -> Result<(), StoreError> {
        let mut steps = self.steps.lock();
        steps.reclaiming.let_go();
        loop {
            self.flush_target.store(self.blocks.last_seq.load(SeqCst), SeqCst);
            if self.pool.lock().unsealed.is_empty() {
                // A step now would move records to pages that nobody flushes, and free blocks that a snapshot tells of.
                self.stopped.store(true, SeqCst);
                return Ok(());
            }
            let progress = self.flush_step(&mut steps.flushing, context);
            if self.blocks.failure.has_failed() {
                return Err(StoreError::Corrupt(format!(
                    "the lower tier failed while pages were flushed ({}): what was acknowledged is in the log",
                    self.blocks.failure.get().map_or("", |failure| &failure.what)
                )));
            }
            let _ = index;
            if progress != Progress::Worked {
                crate::sync::yield_now();
            }
        }
    }
}
