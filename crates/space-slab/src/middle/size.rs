//! The middle tier grows and shrinks while it is used.
//!
//! ```text
//! grow     medium longer, headers of its new slabs, fence --> size stored --> they are free
//! shrink   no slot behind the end is taken --> records there go to pages, slots are cleared --> size stored --> medium cut
//! ```
//!
//! The size is stored with the manifests of the tier below (`size.rs` of `terrace_blocks`), in both copies. What leaves does so as
//! victims do (`leave.rs`): copy, page, swing, and its slot is cleared by the rules of `mod.rs`. So when no slot behind the end is
//! taken any more, nothing that counts lies there, durably.
//!
//! # Invariants
//! * The end moves, and the medium changes its length, while no step is under way.
//! * What has to move counts as taken below from the moment that it has to: else writes would take its room.

use std::collections::HashSet;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{ENTRY_BYTES, Lower, manifest_area};
use terrace_engine::StoreError;
use terrace_engine::space::Context;
use terrace_index::AnyIndex;

use super::Middle;
use super::leave::Left;
use crate::location::Location;
use crate::open::PMEM_SLABS_MIN;
use crate::space::SlabSpace;
use crate::stage::Stage;

/// What background steps remember of slabs that have to go.
#[derive(Default)]
pub(crate) struct Shrinking {
    /// The slab to look at next.
    cursor: usize,
    /// Slots whose record is damaged: it stays, and so does the end of the tier.
    stuck: HashSet<u64>,
}

impl Shrinking {
    /// What could not leave is tried again.
    pub fn begin_again(&mut self) {
        self.stuck.clear();
    }
}

impl Middle {
    /// Whether slabs have to go.
    pub fn is_shrinking(&self) -> bool {
        self.slabs.end() < self.slabs.table.len()
    }
    /// Room that what lies in the slabs from one on takes below.
    fn bytes_below(&self, first: usize) -> u64 {
        (first..self.slabs.table.len()).map(|slab| self.bytes_below_of(slab as u32)).sum()
    }
    fn bytes_below_of(&self, slab: u32) -> u64 {
        let live = u64::from(self.slabs.table[slab as usize].live.load(Relaxed));
        // What has a home counts below already.
        let alone = live.saturating_sub(self.slabs.homes_of(slab));
        let slot_bytes = self.slabs.class_of(slab).map_or(0, |class| self.slabs.slot_bytes(class));
        alone * (slot_bytes + ENTRY_BYTES) as u64
    }
    /// Room that what lies behind the end takes below.
    pub fn bytes_to_move(&self) -> u64 {
        self.bytes_below(self.slabs.end())
    }
}

impl<L: Lower> SlabSpace<L> {
    /// See [`Store::resize_tier`](terrace_engine::Store::resize_tier): `bytes` for slabs. No step is under way.
    pub(crate) fn resize_middle(&self, middle: &Middle, bytes: u64) -> Result<(), StoreError> {
        let refused = |text: String| Err(StoreError::Options(text));
        let slabs = &middle.slabs;
        let Some(most) = slabs.most() else {
            return refused(format!("tier pmem keeps its size: {} can't be resized", slabs.describe()));
        };
        let (count, slab) = ((bytes / slabs.slab_bytes as u64) as usize, slabs.slab_bytes);
        if count > most || (count > 0 && count < PMEM_SLABS_MIN) {
            return refused(format!(
                "{bytes} bytes for the slabs of tier pmem: with slabs of {slab} bytes it can have none, or {} to {} until the store is opened again",
                slabs.bytes_of(PMEM_SLABS_MIN),
                slabs.bytes_of(most)
            ));
        }
        if count > slabs.table.len() {
            // A crash may leave the medium longer, and its new part without headers: who opens it must know where that begins.
            let known = match self.blocks.has_middle_bytes() {
                true => Ok(()),
                false => self.blocks.store_middle_bytes(slabs.bytes_of(slabs.table.len())),
            };
            let grown = known
                .and_then(|()| slabs.lengthen(count))
                .and_then(|()| self.blocks.store_middle_bytes(slabs.bytes_of(count)));
            grown.map_err(StoreError::io("growing tier pmem"))?;
            slabs.set_count(count);
            self.details.middle_resizes.fetch_add(1, Relaxed);
            return Ok(());
        }
        let more = middle.bytes_below(count).saturating_sub(middle.bytes_to_move());
        let (room, needed) =
            (self.blocks.usable() as u64, self.blocks_needed_with(middle.bytes_below(count)));
        if count < slabs.end() && more > 0 && needed > room {
            let least = self.least_slabs(middle, room);
            let below = |blocks| manifest_area::<L>() + blocks * self.blocks.block_bytes as u64;
            return refused(format!(
                "{bytes} bytes for the slabs of tier pmem: what they hold would need {} of tier {}, which has {}; make that larger, delete or let expire what is not wanted first, or leave {} bytes",
                below(needed),
                L::NAME,
                below(room),
                slabs.bytes_of(least)
            ));
        }
        slabs.set_end(count);
        // The next step reckons anew; writes until then must not take what moves.
        self.credit.fetch_sub(more as i64, Relaxed);
        Ok(())
    }

    /// As few slabs as the tier can have if the rest has to find room below.
    fn least_slabs(&self, middle: &Middle, room: u64) -> usize {
        let (mut least, mut fits) = (0, middle.slabs.end());
        while least < fits {
            let count = least.midpoint(fits);
            if self.blocks_needed_with(middle.bytes_below(count)) > room {
                least = count + 1;
            } else {
                fits = count;
            }
        }
        if least == 0 { 0 } else { least.max(PMEM_SLABS_MIN) }
    }

    /// Cuts off what a crash left behind the end, once both copies of the manifest say where that is.
    pub(super) fn cut_middle_leftovers(&self, middle: &Middle) {
        if middle.uncut.load(Relaxed) && self.blocks.sizes_agree() {
            // Once: what the medium does not let go of now it need not let go of later.
            middle.uncut.store(false, Relaxed);
            if let Err(error) = middle.slabs.cut() {
                tracing::warn!("what a crash left behind the end of tier pmem stays there: {error}");
            }
        }
    }

    /// Stages records of slabs that have to go, or ends the tier once none is left there.
    pub(super) fn shrink_middle(
        &self,
        middle: &Middle,
        (shrinking, budget): (&mut Shrinking, &mut usize),
        stage: &mut Stage,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Option<Left> {
        let slabs = &middle.slabs;
        let (end, all) = (slabs.end(), slabs.table.len());
        if end == all || self.blocks.failure.has_failed() {
            return None;
        }
        if slabs.to_empty() == 0 {
            self.finish_shrinking(middle, end);
            return Some(Left::Yes);
        }
        // What is kept for them is theirs.
        let kept = middle.bytes_to_move() as i64;
        let mut left = None;
        'all: for _ in end..all {
            let slab = shrinking.cursor.clamp(end, all - 1) as u32;
            let class = slabs.class_of(slab).filter(|_| slabs.table[slab as usize].live.load(Relaxed) > 0);
            for number in 0..class.map_or(0, |class| slabs.slots_in(class)) {
                let at = slabs.at(slab, class.unwrap_or_default(), number);
                if !slabs.may_leave(slab, number) || shrinking.stuck.contains(&at) {
                    continue;
                }
                if *budget == 0 {
                    return left;
                }
                if self.credit.load(Relaxed) + kept <= 0 {
                    break 'all;
                }
                *budget -= 1;
                match self.leave_middle(middle, at, stage, index, context) {
                    Left::Yes => left = Some(Left::Yes),
                    Left::PageFull => return Some(Left::PageFull),
                    Left::Not => {
                        tracing::error!(
                            "the record at {at} of tier pmem is damaged: it can't move, and the tier can't end before it"
                        );
                        shrinking.stuck.insert(at);
                    }
                }
            }
            shrinking.cursor = if slab as usize + 1 < all { slab as usize + 1 } else { end };
        }
        // The last ones don't wait for others that would fill their page.
        let is_going = |from| matches!(self.locations.location(from), Location::Pmem(at) if slabs.slab_of(at) as usize >= end);
        let last = left.is_none() && stage.moves.iter().any(|of| is_going(of.from));
        if last { Some(Left::PageFull) } else { left }
    }

    fn finish_shrinking(&self, middle: &Middle, end: usize) {
        if let Err(error) = self.blocks.store_middle_bytes(middle.slabs.bytes_of(end)) {
            tracing::error!("the new size of tier pmem can't be stored: {error}");
            return;
        }
        middle.slabs.set_count(end);
        if let Err(error) = middle.slabs.cut() {
            // Nothing there counts; growing, or the next opening, cuts it off.
            tracing::warn!("tier pmem can't be cut off: {error}");
        }
        self.details.middle_resizes.fetch_add(1, Relaxed);
    }
}
