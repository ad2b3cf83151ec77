//! The tier below grows and shrinks while it is used. (The one between DRAM and it: `middle/size.rs`.)
//!
//! ```text
//! grow     medium longer, synced --> size stored --> its blocks are free
//! shrink   no block behind the end is taken --> what lives in pages and blocks of large values there moves
//!             --> what went meanwhile is gone for good --> size stored --> medium cut
//! ```
//!
//! In which order this is safe: `size.rs` and `gather.rs` of `terrace_blocks`. Pages are emptied as by defragmentation, and freed by
//! its rules: so nothing is cut off before what replaced it is durable and trusted.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Lower, State, manifest_area, slots_max};
use terrace_engine::StoreError;
use terrace_engine::space::Context;

use crate::admit::COUNTED_ON_PERCENT;
use crate::defrag::{Defrag, USABLE_PERCENT};
use crate::location::PAGE_BYTES_MAX;
use crate::middle::Middle;
use crate::open::{PAGES_OVER, SLABS_MIN};
use crate::space::SlabSpace;

/// The middle tier's name in statistics.
const MIDDLE: &str = "pmem";

impl<L: Lower> SlabSpace<L> {
    /// Whether the index has taken the DRAM: then what would make it grow is refused.
    pub(crate) fn index_has_dram(&self) -> bool {
        self.slabs.target.index_has_it()
    }

    /// Whether blocks lie behind the end that the tier is to have.
    pub(crate) fn is_shrinking(&self) -> bool {
        self.blocks.usable() < self.blocks.slots.len()
    }

    /// See [`Store::resize_tier`](terrace_engine::Store::resize_tier).
    pub(crate) fn resize_tier_to(&self, tier: &str, bytes: u64) -> Result<(), StoreError> {
        let refused = |text: String| Err(StoreError::Options(text));
        let middle = self.middle.as_ref().filter(|_| tier == MIDDLE);
        if tier != L::NAME && middle.is_none() {
            return refused(format!("tier {tier} can't be resized while the store is open"));
        }
        // No block is on its way into use.
        let mut steps = self.steps.lock();
        let _nobody_launches = self.flights.lock();
        if self.stopped.load(SeqCst) == 1 {
            return refused("the store was closed: it must be opened again".into());
        }
        if let Some(failure) = self.blocks.failure.get() {
            return refused(format!("nothing more is written to tier {tier} ({})", failure.what));
        }
        if let Some(middle) = middle {
            steps.middle.shrinking.begin_again();
            return self.resize_middle(middle, bytes);
        }
        let Some(longest) = self.blocks.lower.len_max() else {
            return refused(format!(
                "tier {tier} keeps its size: {} can't be resized",
                self.blocks.lower.describe()
            ));
        };
        let block = self.blocks.block_bytes as u64;
        let size_of = |blocks: u64| manifest_area::<L>() + blocks * block;
        let count = bytes.saturating_sub(manifest_area::<L>()) / block;
        let (least, most) = (self.least_blocks(), self.most_blocks(longest));
        if !(least..=most).contains(&count) {
            return refused(format!(
                "{bytes} bytes for tier {tier}: with pages of {block} bytes, and this much DRAM above, it can have {} to {}",
                size_of(least),
                size_of(most)
            ));
        }
        if count > self.blocks.slots.len() as u64 {
            self.blocks.grow(count as u32).map_err(StoreError::io(format!("growing tier {tier}")))?;
            self.details.resizes.fetch_add(1, Relaxed);
            return Ok(());
        }
        let needed = self.blocks_needed_with(self.middle_bytes_to_move());
        if count < needed && count < self.blocks.usable() as u64 {
            return refused(format!(
                "{bytes} bytes for tier {tier}: what it holds needs {}; delete or let expire what is not wanted first",
                size_of(needed)
            ));
        }
        self.blocks.set_end(count as u32);
        steps.defrag.unreadable.clear();
        steps.defrag.ending = None;
        Ok(())
    }

    /// What DRAM may hold must find room, the steps that write it down, and a large value beside them.
    fn least_blocks(&self) -> u64 {
        let dram = self.slabs.target.frames().max(SLABS_MIN) * self.slabs.slab_bytes;
        let least = (dram.div_ceil(self.blocks.block_bytes) + PAGES_OVER + self.blocks.reserve()) as u64;
        least.max(terrace_blocks::slots_between(&self.blocks.lower, self.blocks.block_bytes))
    }
    fn most_blocks(&self, longest: u64) -> u64 {
        let bytes = longest.min(PAGE_BYTES_MAX);
        let named = bytes.saturating_sub(manifest_area::<L>()) / self.blocks.block_bytes as u64;
        named.min(slots_max(self.blocks.block_bytes)).min(self.blocks.slots.most() as u64)
    }

    /// Blocks for what is live, written anew and with gaps as usual, for what is dirty, and for bytes that come from elsewhere, beside
    /// those that are kept free.
    pub(crate) fn blocks_needed_with(&self, more: u64) -> u64 {
        let (mut bytes, mut whole) = (self.dirty_bytes() + more, 0);
        for (number, slot) in self.blocks.slots.iter().enumerate() {
            match slot.state() {
                State::Sealed => bytes += self.live_with_entries(number as u32),
                State::Extents if slot.live_bytes.load(SeqCst) > 0 => whole += 1,
                State::Mutable | State::ReadOnly => whole += 1,
                _ => {}
            }
        }
        let usable = self.blocks.block_bytes as u64 * USABLE_PERCENT / 100;
        let pages = (bytes * 100 / COUNTED_ON_PERCENT).div_ceil(usable);
        pages + whole + (self.blocks.reserve() + Self::KEEP) as u64 + Self::LEFT_BEHIND + 1
    }

    fn live_with_entries(&self, number: u32) -> u64 {
        let slot = &self.blocks.slots[number as usize];
        let live = slot.live_bytes.load(SeqCst).max(0) as u64;
        let used = u64::from(slot.used_bytes.load(Relaxed)).max(1);
        live + slot.footer_bytes() as u64 * live / used
    }

    /// Room that what lies behind the end takes before it, and what comes from a middle tier that shrinks.
    pub(crate) fn bytes_to_move(&self) -> u64 {
        let (end, all) = (self.blocks.usable(), self.blocks.slots.len());
        let of = |number: usize| match self.blocks.slots[number].state() {
            State::Sealed => self.live_with_entries(number as u32),
            State::Free | State::Freeing => 0,
            _ => self.blocks.block_bytes as u64,
        };
        (end..all).map(of).sum::<u64>() + self.middle_bytes_to_move()
    }
    /// What of it comes from the middle tier.
    fn middle_bytes_to_move(&self) -> u64 {
        self.middle.as_ref().map_or(0, Middle::bytes_to_move)
    }

    /// Gathers a block of large values from behind the end, or begins with a page; ends the tier there once nothing is left. `false`
    /// if nothing could be done now.
    pub(crate) fn shrink_step(&self, defrag: &mut Defrag, context: &dyn Context) -> bool {
        if self.blocks.failure.has_failed() {
            return false;
        }
        let (end, all) = (self.blocks.usable() as u32, self.blocks.slots.len() as u32);
        let ended = {
            // Who launches may take a block behind the end.
            let _nobody_launches = self.flights.lock();
            self.may_end(defrag, context) && self.blocks.end_tier()
        };
        if ended {
            if let Err(error) = self.blocks.finish_shrinking() {
                tracing::error!("cutting tier {} off: {error}", L::NAME);
                return false;
            }
            self.details.resizes.fetch_add(1, Relaxed);
            defrag.ending = None;
            return true;
        }
        for number in end..all {
            let slot = &self.blocks.slots[number as usize];
            let seq = slot.seq.load(Relaxed);
            let live = slot.live_bytes.load(SeqCst) > 0;
            let passed_by = |map: &std::collections::HashMap<u32, u64>| map.get(&number) == Some(&seq);
            match slot.state() {
                State::Extents
                    if live
                        && !passed_by(&defrag.unreadable)
                        && !defrag.gathering.has(number)
                        && self.can_gather()
                        && self.gather(defrag, number) =>
                {
                    return true;
                }
                State::Sealed
                    if live
                        && !passed_by(&defrag.unreadable)
                        && !passed_by(&defrag.emptied)
                        && self.has_spare() =>
                {
                    // What was gained by moving is another matter.
                    defrag.begin_again();
                    self.begin_emptying(defrag, number);
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Whether nothing is left behind the end, and what went to make that so can't come back. Deletes are not answered for here, and
    /// the machine's own, evictions, are not synced by anybody: a crash may take them, and then the shorter tier had to take
    /// what they had made room for.
    fn may_end(&self, defrag: &mut Defrag, context: &dyn Context) -> bool {
        // Without a block to move to before it, nothing could move ever after.
        if self.blocks.to_move() > 0 || !self.has_spare() {
            return false;
        }
        let end = self.blocks.usable();
        match &defrag.ending {
            Some((last, gone)) if *last == end => context.barrier_passed(gone),
            _ => {
                let gone = context.barrier();
                let passed = context.barrier_passed(&gone);
                defrag.ending = Some((end, gone));
                passed
            }
        }
    }

    /// Whether a page more can be written without taking what others rest on.
    fn has_spare(&self) -> bool {
        self.blocks.free.slots.lock().len() > Self::KEEP
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, OnceLock, Weak};

    use terrace_blocks::BlockTier;
    use terrace_engine::manifest::Manifest;
    use terrace_media::{AlignedBuf, BlockDevice, Counters};
    use terrace_media_sim::{SimBlock, SimQueue};

    use super::*;
    use crate::calm::{Calm, Unsynced};
    use crate::open::SlabOptions;

    #[test]
    fn a_tier_ends_once_what_went_before_is_safe() {
        let device = SimBlock::from_image(vec![0; 4 << 20]);
        let lower = BlockTier::new(Arc::new(device), 0, String::new());
        let space = SlabSpace::new(lower, None, SlabOptions::of_tests()).unwrap();
        space.blocks.save_manifest(&Manifest::default().encode()).unwrap();
        let blocks = space.blocks.slots.len();
        space.blocks.set_end(blocks as u32 - 1);
        let mut defrag = Defrag::default();
        assert!(!space.shrink_step(&mut defrag, &Unsynced), "an eviction may come back");
        assert_eq!(space.blocks.slots.len(), blocks);
        let free = std::mem::take(&mut *space.blocks.free.slots.lock());
        assert!(!space.shrink_step(&mut defrag, &Calm), "nothing could move ever after");
        *space.blocks.free.slots.lock() = free;
        assert!(space.shrink_step(&mut defrag, &Calm));
        assert_eq!(space.blocks.slots.len(), blocks - 1);
    }

    type Watched = SlabSpace<BlockTier<Watching>>;

    /// A device at each access to which pages must be able to land.
    struct Watching {
        device: SimBlock,
        space: OnceLock<Weak<Watched>>,
    }

    impl Watching {
        fn look(&self) {
            if let Some(space) = self.space.get().and_then(Weak::upgrade) {
                assert!(space.flights.try_lock().is_some(), "pages that were written can't land");
            }
        }
    }

    impl BlockDevice for Watching {
        type Queue = SimQueue;
        fn len(&self) -> u64 {
            self.device.len()
        }
        fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
            self.look();
            self.device.read_at(offset, buf)
        }
        fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
            self.look();
            self.device.write_at(offset, buf)
        }
        fn sync(&self) -> io::Result<()> {
            self.look();
            self.device.sync()
        }
        fn resize(&self, len: u64) -> io::Result<()> {
            self.look();
            self.device.resize(len)
        }
        fn queue(&self, depth: usize) -> io::Result<SimQueue> {
            self.device.queue(depth)
        }
        fn counters(&self) -> &Counters {
            self.device.counters()
        }
    }

    fn watching() -> Arc<Watching> {
        Arc::new(Watching { device: SimBlock::from_image(vec![0; 4 << 20]), space: OnceLock::new() })
    }

    #[test]
    fn pages_land_while_a_tier_is_cut_off() {
        let device = watching();
        let lower = BlockTier::new(device.clone(), 0, String::new());
        let space = Arc::new(SlabSpace::new(lower, None, SlabOptions::of_tests()).unwrap());
        space.blocks.save_manifest(&Manifest::default().encode()).unwrap();
        let blocks = space.blocks.slots.len();
        space.blocks.set_end(blocks as u32 - 1);
        device.space.set(Arc::downgrade(&space)).unwrap();
        let before = device.counters().snapshot().writes;
        assert!(space.shrink_step(&mut Defrag::default(), &Calm));
        assert!(device.counters().snapshot().writes > before, "where it ends is stored");
    }

    #[test]
    fn pages_land_while_large_values_are_gathered_in_a_tier_that_shrinks() {
        let device = watching();
        let lower = BlockTier::new(device.clone(), 0, String::new());
        let space = Arc::new(SlabSpace::new(lower, None, SlabOptions::of_tests()).unwrap());
        let blocks = &space.blocks;
        let value = vec![7; 20 << 10];
        for _ in 0..6 {
            blocks.store_extent(&value, &blocks.parts_of(&value, None), &mut Vec::new()).unwrap();
        }
        blocks.close_open_extents();
        let holds = |number: &u32| blocks.slots[*number as usize].state() == State::Extents;
        let victims: Vec<u32> = (0..blocks.slots.len() as u32).filter(holds).collect();
        blocks.set_end(blocks.slots.len() as u32 - 1);
        device.space.set(Arc::downgrade(&space)).unwrap();
        let before = device.counters().snapshot();
        let mut defrag = Defrag::default();
        assert!(victims.iter().all(|&victim| space.gather(&mut defrag, victim)));
        let after = device.counters().snapshot();
        assert!(after.writes > before.writes && after.reads > before.reads, "{victims:?}");
    }
}
