//! Which block is reclaimed next: the one in which most is to gain, found without a walk over all.
//!
//! ```text
//!   block table   | .. | .. | .. | .. | .. | .. | .. | .. |
//!                            |--- looks --->|                 each choice looks at some more slots, in turn
//!                                   v
//!                 what there is to gain in each, as noted     `Emptiest` of `terrace_blocks`
//!                                   v
//!                 the first of those with most                looked at again, some of them, before one is chosen
//! ```
//!
//! A choice costs a number of looks that does not grow with the table, and some for each block that began since the one
//! before: no note is older than it takes to write a small part of the store. Blocks on the medium only get emptier, so
//! that what was noted is at least there, but for large values: those lists are right once a slot has been looked at
//! again, and it is before it is chosen.
//!
//! # Thread safety
//! What is noted belongs to the background step; live bytes change meanwhile, as they do while a victim is moved.
//!
//! # Invariants
//! * Only blocks on the medium are noted that could be read when they were tried last, and not the one that large
//!   values go to.
//! * Nothing is said not to be there before every slot was looked at since a victim was found last.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Gains, Lower, State};
use terrace_engine::space::Context;

use crate::reclaim::{GAIN_BLOCKS, Reclaiming, Victim};
use crate::space::HybridLog;

/// Slots looked at for a choice.
pub(crate) const LOOKS: usize = 4096;
/// The same for each block that began since the choice before.
const LOOKS_A_BLOCK: u64 = 16;
/// Slots with about as much to gain that are compared.
const COMPARED: usize = 32;

/// What came of choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// There is a victim, or what lives in one was put elsewhere.
    Made,
    /// There is none, or there are empty blocks.
    None,
    /// None was found yet, but not all slots have been looked at.
    Looking,
}

/// Where the looks are.
#[derive(Default)]
pub(crate) struct Turn {
    /// The next slot.
    next: usize,
    /// Slots looked at in turn since the last choice that came to an end.
    looked: usize,
    /// The newest block at the last choice.
    seq: u64,
    /// Blocks of large values that were chosen, and may still be staged.
    staged: Vec<u32>,
}

impl<L: Lower> HybridLog<L> {
    /// What there is to gain in blocks that are on the medium.
    pub(crate) fn gains(&self, reclaiming: &Reclaiming<L>) -> Gains {
        let (pages, extents) = reclaiming.emptiest.sums();
        Gains::of(pages, extents, self.blocks.block_bytes)
    }

    /// Picks blocks that can go: empty ones are put on their way at once, the emptiest other becomes the victim.
    pub(crate) fn choose(&self, reclaiming: &mut Reclaiming<L>, context: &dyn Context) -> Choice {
        let any = self.look_in_turn(reclaiming, context) | self.look_at_gathered(reclaiming, context);
        let whole = reclaiming.turn.looked >= self.blocks.slots.len();
        let worth = self.worth_choosing(reclaiming);
        let choice = if any && whole {
            Choice::None
        } else if worth.is_some_and(|kinds| self.choose_noted(reclaiming, kinds, context)) {
            Choice::Made
        } else if any {
            // They come first, and nobody takes this for the end of a turn.
            return Choice::None;
        } else if whole {
            Choice::None
        } else {
            return Choice::Looking;
        };
        reclaiming.turn.looked = 0;
        choice
    }

    /// Looks at the next slots. Whether there were empty blocks.
    fn look_in_turn(&self, reclaiming: &mut Reclaiming<L>, context: &dyn Context) -> bool {
        let slots = self.blocks.slots.len();
        let is_new = reclaiming.emptiest.begin(slots, self.blocks.block_bytes);
        let seq = self.blocks.last_seq.load(SeqCst);
        let begun = seq.saturating_sub(std::mem::replace(&mut reclaiming.turn.seq, seq));
        // The first time nothing is known of any.
        let looks = if is_new { slots } else { LOOKS.saturating_add((begun * LOOKS_A_BLOCK) as usize) };
        let (looks, open) = (looks.min(slots), self.left_alone(context));
        let mut any = false;
        for _ in 0..looks {
            let number = reclaiming.turn.next % slots;
            reclaiming.turn.next = number + 1;
            any |= self.look(reclaiming, number as u32, open, context);
        }
        reclaiming.turn.looked += looks;
        self.blocks.counts.looked_at.fetch_add(looks as u64, Relaxed);
        any
    }

    /// Notes what there is to gain in a slot. An empty block is put on its way: whether it was one.
    fn look(
        &self,
        reclaiming: &mut Reclaiming<L>,
        number: u32,
        (open, going): (Option<u32>, Option<u32>),
        context: &dyn Context,
    ) -> bool {
        let slot = &self.blocks.slots[number as usize];
        let state = slot.state();
        if !matches!(state, State::Sealed | State::Extents) {
            reclaiming.emptiest.forget(number);
            return false;
        }
        if slot.live_bytes.load(SeqCst) <= 0 {
            self.begin_freeing(reclaiming, number, context);
            return true;
        }
        let of_extents = state == State::Extents;
        let unreadable = reclaiming.unreadable.get(&number) == Some(&slot.seq.load(Relaxed));
        let is_left = unreadable || of_extents && open == Some(number) || going == Some(number);
        let gain = if is_left { 0 } else { self.to_gain(number) };
        reclaiming.emptiest.note(number, of_extents, gain);
        if of_extents && reclaiming.gathering.has(number) {
            reclaiming.emptiest.hide(number);
        }
        false
    }

    /// Looks at the blocks of large values that were put elsewhere since they were chosen: they may be empty. Whether
    /// any is.
    fn look_at_gathered(&self, reclaiming: &mut Reclaiming<L>, context: &dyn Context) -> bool {
        let (mut any, open) = (false, self.left_alone(context));
        for number in std::mem::take(&mut reclaiming.turn.staged) {
            if reclaiming.gathering.has(number) {
                reclaiming.turn.staged.push(number);
            } else {
                self.blocks.counts.looked_at.fetch_add(1, Relaxed);
                any |= self.look(reclaiming, number, open, context);
            }
        }
        any
    }

    /// Whether choosing among blocks of records and among those of large values is worth it; `None` if neither is.
    fn worth_choosing(&self, reclaiming: &mut Reclaiming<L>) -> Option<(bool, bool)> {
        // The page being filled has room for others: without it, a page that holds the records of one victim would be
        // given up, and be the next victim.
        let filling = reclaiming.page.as_ref().map_or(0, |page| self.to_gain(page.slot));
        let gains = self.gains(reclaiming);
        let gain = gains.sum() + filling;
        if reclaiming.futile > self.blocks.slots.len() {
            (reclaiming.futile, reclaiming.elusive_bytes) = (0, gain);
        }
        reclaiming.elusive_bytes = reclaiming.elusive_bytes.min(gain);
        // A page that moves alone gains nothing, whatever there is to gain of large values, and the other way round.
        let pages = gains.pages + filling >= GAIN_BLOCKS * self.blocks.block_bytes as u64;
        self.worth_it(reclaiming, gain).then_some((pages, gains.extents > 0))
    }

    /// Of the slots of these kinds that are noted, the one in which most is to gain becomes the victim.
    fn choose_noted(
        &self,
        reclaiming: &mut Reclaiming<L>,
        kinds: (bool, bool),
        context: &dyn Context,
    ) -> bool {
        while let Some(slot) = self.emptiest(reclaiming, kinds, context) {
            if self.blocks.slots[slot as usize].state() == State::Extents {
                // Where it can't be read nothing is lost: it may be later.
                if let Ok(all) = self.blocks.gather(&mut reclaiming.gathering, slot) {
                    reclaiming.turn.staged.push(slot);
                    reclaiming.futile += usize::from(all);
                    return all;
                }
            } else if let Some(block) = self.load_block(slot, context) {
                reclaiming.victim = Some(Victim { slot, block, next: 0 });
                return true;
            }
            // Others may do; with this one alone in view nothing would ever be freed.
            reclaiming.unreadable.insert(slot, self.blocks.slots[slot as usize].seq.load(Relaxed));
            reclaiming.emptiest.forget(slot);
        }
        false
    }

    /// The slot in which most is to gain, of blocks of records, of large values, or of both: by what was noted, and of
    /// some with about as much by what there is now.
    fn emptiest(
        &self,
        reclaiming: &mut Reclaiming<L>,
        (pages, extents): (bool, bool),
        context: &dyn Context,
    ) -> Option<u32> {
        let (open, least) = (self.left_alone(context), self.least_gain(context));
        loop {
            let first = reclaiming.emptiest.first(pages, extents)?;
            let share = reclaiming.emptiest.gain(first).map(|gain| reclaiming.emptiest.share(gain));
            let (mut next, mut most) = (Some(first), None);
            for _ in 0..COMPARED {
                let Some(slot) = next else { break };
                next = reclaiming.emptiest.next(slot);
                self.blocks.counts.looked_at.fetch_add(1, Relaxed);
                self.look(reclaiming, slot, open, context);
                most = most.max(reclaiming.emptiest.gain(slot).map(|gain| (gain, slot)));
            }
            // Else those were not as empty as they had been: there are others that are emptier.
            if let Some((gain, slot)) = most
                && Some(reclaiming.emptiest.share(gain)) >= share
            {
                return (gain >= least).then_some(slot);
            }
        }
    }

    /// Blocks that are not moved whatever they hold: that which large values go to, and that whose keys are being evicted.
    fn left_alone(&self, context: &dyn Context) -> (Option<u32>, Option<u32>) {
        let going = if context.evicts() { self.blocks.next_to_go() } else { None };
        (self.blocks.open_extents(), going)
    }
}

#[cfg(test)]
mod tests;
