//! Never full by surprise: writes are let in only while the lower tier could take all that is dirty, beside what it holds.
//!
//! So rounds, a clean stop and recovery always find room, and a full store says so before anything is written. Each step
//! works out a *credit* of bytes; what becomes dirty takes from it, and with none left writes wait for another step.
//!
//! Without a log a page is free only once what replaced its records is written, too: then dirty bytes count on free blocks
//! alone, and are written down when those run short.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{BLOCK_HEADER_BYTES, ENTRY_BYTES, Lower, RECLAIM_SLOTS, State, TRAILER_BYTES};
use terrace_engine::space::{Class, Context, Former, Room};

use crate::defrag::USABLE_PERCENT;
use crate::space::SlabSpace;
use crate::write::Local;

/// Verdicts against a large value after which it finds the space full.
const VERDICTS: u32 = 2;
/// Steps for which it is remembered what a large value asked for.
const STEPS_REMEMBERED: u64 = 16;
/// A full store writes down what is dirty if that fills so many pages: fewer would be nearly empty.
const PAGES_WORTH_A_ROUND: u64 = 4;
/// Of the room that there is, so much is counted on.
pub(crate) const COUNTED_ON_PERCENT: u64 = 90;

impl<L: Lower> SlabSpace<L> {
    /// Whether a write may make more bytes dirty now.
    #[inline]
    pub(crate) fn has_credit(&self, class: Class) -> bool {
        let overdraft = match class {
            Class::Write => 0,
            Class::Release => self.overdraft.load(Relaxed),
            // Nothing of them has to be written before there is a slot for them.
            Class::Restore => return true,
        };
        self.credit.load(Relaxed) > -overdraft
    }
    /// A slot of so many bytes is dirty now.
    #[inline]
    pub(crate) fn take_credit(&self, bytes: usize) {
        self.credit.fetch_sub((bytes + ENTRY_BYTES) as i64, Relaxed);
    }

    /// Of a block, counted on for records and what describes them.
    fn usable_bytes(&self) -> u64 {
        (self.blocks.block_bytes - BLOCK_HEADER_BYTES - TRAILER_BYTES) as u64 * USABLE_PERCENT / 100
    }

    /// Whether so many bytes of a group's records may become dirty now: what one page does not hold must have its place, as a large
    /// value has.
    pub(crate) fn has_credit_for(&self, local: &mut Local<L>, bytes: usize) -> Result<(), Room> {
        let bytes = bytes as u64;
        if bytes <= self.usable_bytes() {
            return Ok(());
        }
        self.await_credit(local, bytes * 5 / 4)?;
        self.credit_wanted.store(0, SeqCst);
        Ok(())
    }

    /// Whether the credit is so large; if not, who waits for it is heard, and told once it is in vain.
    fn await_credit(&self, local: &mut Local<L>, total: u64) -> Result<(), Room> {
        // Before the credit: another one takes from that, which is no verdict.
        let judged = *self.judged.lock();
        if self.credit.load(Relaxed) >= total as i64 {
            local.against = None;
            return Ok(());
        }
        self.credit_wanted.fetch_max(total, SeqCst);
        self.credit_asked_at.store(judged.step, SeqCst);
        let against = local.against.get_or_insert(Against { step: judged.step, verdicts: 0 });
        if judged.step != against.step {
            against.step = judged.step;
            against.verdicts += u32::from(judged.is_against(total));
        }
        let coming = judged.coming && !self.blocks.failure.has_failed();
        if against.verdicts < VERDICTS || coming {
            return Err(Room::Wait);
        }
        local.against = None;
        Err(Room::Full)
    }

    /// Stores a large value, if there is room for it beside what is dirty: it takes blocks that this counts on.
    pub(crate) fn admit_extent(
        &self,
        local: &mut Local<L>,
        value: &[u8],
        former: Option<Former<'_>>,
        description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>> {
        // Whole blocks, as they are counted when they are free: where a block's header is much of it, bytes would leave the
        // tier with less than is kept for deletes.
        let parts = self.blocks.parts_of(value, former);
        let blocks = self.blocks.extent_blocks(parts.bytes());
        let total = blocks as u64 * self.usable_bytes();
        self.await_credit(local, total).map_err(Some)?;
        self.blocks.store_extent(value, &parts, description)?;
        self.credit.fetch_sub(total as i64, Relaxed);
        self.credit_wanted.store(0, SeqCst);
        Ok(())
    }

    /// Decides whether writes, and whether deletes, find room from now on.
    pub(crate) fn admit_step(&self, context: &dyn Context) {
        let purges = Purges { now: context.is_purging(), refused: context.has_unpurged() };
        self.judge(context.logged(), || self.debts.hurry() || self.has_dead(context), purges);
    }

    /// The same; `has_dead`: whether something goes by itself, one slab or page a step, because it has expired, was forgotten, or has
    /// a newer version that was put beside it; `purges`: whether some of that was found already.
    fn judge(&self, logged: bool, has_dead: impl FnOnce() -> bool, purges: Purges) {
        let step = self.judged.lock().step + 1;
        if step > self.credit_asked_at.load(SeqCst) + STEPS_REMEMBERED {
            self.credit_wanted.store(0, SeqCst);
        }
        let wanted = self.credit_wanted.load(SeqCst) as i64;
        // What lands while this counts is aloft, too.
        let was_aloft = self.is_aloft();
        let usable = self.usable_bytes();
        let dirty = self.dirty_bytes();
        let reserve = self.blocks.reserve() as u64 * usable + self.bytes_to_move();
        // What DRAM holds is to have its place before it is looked for.
        let needed = (dirty + reserve + wanted.max(0) as u64) * 100 / COUNTED_ON_PERCENT;
        let needed =
            needed.div_ceil(usable.max(1)) as usize + self.blocks.free.wanted.load(SeqCst) + Self::KEEP;
        self.blocks.back(needed + self.blocks.ahead());
        let free = self.blocks.free.slots.lock().len();
        // The last blocks are defragmentation's.
        let at_once = counted(free.saturating_sub(Self::KEEP) as u64 * usable);
        let sums = Sums { usable, at_once, dirty, reserve, wanted };
        let mut verdict = if logged { self.judge_logged(&sums) } else { self.judge_unlogged(&sums) };
        let starving = wanted > verdict.credit.max(0);
        let out = self.whole_blocks_out.load(Relaxed) == 1;
        // Nothing is refused while what has expired takes room, were it due only in a while.
        let short = starving || verdict.full || out;
        self.blocks.hurry_expiry(short);
        // A large value needs whole blocks, and none can be had: who waits for them must be told.
        let out_for_all = out && free <= RECLAIM_SLOTS;
        // What is aloft is counted twice, as dirty and in a block that is not free.
        let aloft = was_aloft || self.is_aloft();
        let stuck = verdict.stuck || out_for_all;
        let more = aloft || (short && (has_dead() || !stuck && (purges.now || purges.refused)));
        verdict.full &= !more;
        // A purge that waits for room keeps others from being found.
        verdict.stuck = stuck && !aloft && (!more || purges.now);
        self.credit.store(verdict.credit, Relaxed);
        // Where free blocks alone give credit, whoever moves records says when there are none to be had.
        let coming = more || (self.free_wanted.load(SeqCst) > 0 && self.exhausted.load(SeqCst) == 0);
        *self.judged.lock() = Judged { step, wanted, credit: verdict.credit, coming };
        // Until a block is left: the reserve is there for deletes, by which a full store gets room again.
        self.overdraft.store(sums.reserve.saturating_sub(usable).max(usable) as i64, Relaxed);
        self.starving.store(u64::from(starving && !more), SeqCst);
        self.blocks.free.full_for_large.store(out && !more, SeqCst);
        // With none beyond the reserve no page can be written, either.
        let none = out && free <= self.blocks.reserve();
        self.blocks.free.full.store(verdict.full || (none && !more), SeqCst);
        self.blocks.free.stuck.store(verdict.stuck, SeqCst);
    }

    /// With a log what defragmentation can gain counts, too.
    fn judge_logged(&self, sums: &Sums) -> Verdict {
        let Sums { usable, at_once, dirty, reserve, wanted } = *sums;
        let credit = at_once - (dirty + reserve) as i64;
        if credit > wanted {
            return Verdict { credit, full: false, stuck: false };
        }
        let (mut room, mut sparse) = (0, Vec::new());
        for (number, slot) in self.blocks.slots.iter().take(self.blocks.obtainable()).enumerate() {
            match slot.state() {
                State::Free | State::Freeing => room += usable,
                State::Extents if slot.live_bytes.load(SeqCst) <= 0 => room += usable,
                State::Sealed | State::Extents => sparse.push(number as u32),
                _ => {}
            }
        }
        let gain = self.gains_of(sparse.into_iter()).sum();
        // Part of what is dirty may go to a page that holds little else, and moving leaves gaps behind.
        let kept = Self::KEEP as u64 * usable + (Self::LEFT_BEHIND + 1) * self.blocks.block_bytes as u64;
        let room = counted((room + self.within_reach(gain)).saturating_sub(kept));
        let full = room <= (dirty + reserve) as i64;
        if full && !self.is_shrinking() && dirty >= PAGES_WORTH_A_ROUND * usable {
            // In pages it takes less than is counted on for it: a store that refused writes for that alone would go on for ever. While
            // a tier shrinks these pages might lie behind its end, and would have to move.
            self.rounds.target.fetch_max(self.rounds.current.load(SeqCst), SeqCst);
        }
        Verdict { credit: room - (dirty + reserve) as i64, full, stuck: room <= (dirty + usable) as i64 }
    }

    /// Without a log free blocks alone count; those who defragment are told how many it takes.
    fn judge_unlogged(&self, sums: &Sums) -> Verdict {
        let Sums { usable, at_once, dirty, reserve, wanted } = *sums;
        let credit = at_once - (dirty + reserve) as i64;
        let needed = (wanted as u64 + dirty + reserve) * 100 / COUNTED_ON_PERCENT + usable;
        let blocks = needed.div_ceil(usable) + Self::KEEP as u64;
        let can_be = credit <= wanted && blocks <= self.blocks.obtainable() as u64;
        self.free_wanted.store(if can_be { blocks } else { 0 }, SeqCst);
        if credit <= wanted && dirty > 0 {
            self.rounds.target.fetch_max(self.rounds.current.load(SeqCst), SeqCst);
        }
        let settled = dirty == 0 && self.exhausted.load(Relaxed) == 1;
        Verdict { credit, full: settled && credit <= 0, stuck: settled && at_once <= usable as i64 }
    }

    /// What would have to be written if nothing were written over any more.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        let page = self.blocks.block_bytes - BLOCK_HEADER_BYTES - TRAILER_BYTES;
        let of_slab = |(number, slab): (usize, &crate::slab::Slab)| {
            let dirty = slab.dirty.load(Relaxed).max(0) as u64;
            let bytes = self.slabs.classes.bytes(self.slabs.class_of(number as u32)?) + ENTRY_BYTES;
            // Of long records a page has room for few, and what is left over may be of no use.
            Some(dirty * (page / (page / bytes).max(1)) as u64)
        };
        self.slabs.table.iter().enumerate().filter_map(of_slab).sum()
    }
}

/// The verdict of a step, for large values.
#[derive(Clone, Copy, Default)]
pub(crate) struct Judged {
    step: u64,
    /// The credit that was looked for, and what was found, before anybody took from it.
    wanted: i64,
    credit: i64,
    /// More is on its way, whatever was found.
    coming: bool,
}

impl Judged {
    /// Whether there was none for so many bytes. Who looked for fewer may have counted less than there is.
    fn is_against(&self, bytes: u64) -> bool {
        self.wanted >= bytes as i64 && self.credit < bytes as i64
    }
}

/// What a session's large value heard so far.
#[derive(Clone, Copy)]
pub(crate) struct Against {
    /// The last step whose verdict it knows.
    step: u64,
    verdicts: u32,
}

/// Dead keys that were found.
#[derive(Clone, Copy, Default)]
struct Purges {
    /// Some are being deleted.
    now: bool,
    /// For the tombstones of some there was no room.
    refused: bool,
}

/// What a verdict follows from, in bytes.
struct Sums {
    /// Of a block.
    usable: u64,
    /// What free blocks take.
    at_once: i64,
    dirty: u64,
    /// Kept free, and what lies behind the end of a tier that shrinks.
    reserve: u64,
    /// Credit that a large value waits for.
    wanted: i64,
}

struct Verdict {
    credit: i64,
    /// Writes are refused.
    full: bool,
    /// Deletes are, too.
    stuck: bool,
}

fn counted(room: u64) -> i64 {
    (room * COUNTED_ON_PERCENT / 100) as i64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_blocks::{ByteTier, Reads};
    use terrace_engine::space::Background;
    use terrace_media::HeapRegion;

    use super::*;
    use crate::open::SlabOptions;
    use crate::placement::Placement;

    const BLOCK: usize = 64 << 10;
    type Tested = SlabSpace<ByteTier<HeapRegion>>;

    fn space() -> Tested {
        let region = Arc::new(HeapRegion::new(4 << 20).unwrap());
        let options = SlabOptions {
            block_bytes: BLOCK,
            dram_bytes: 1 << 20,
            dram_budget: None,
            store_id: 1,
            placement: Placement::Tac,
            eviction: Default::default(),
            swap: Default::default(),
            partitions: 1,
        };
        SlabSpace::new(ByteTier::new(region, 0, 4 << 20, String::new()), None, options).unwrap()
    }
    fn local(space: &Tested) -> Local<ByteTier<HeapRegion>> {
        let queue = space.blocks.lower.queue();
        queue.map(|queue| Local::new(Reads::new(queue), 0)).unwrap()
    }

    /// A space with a few free blocks and many that only have to be taken back, and what `ask` for a large value hears.
    fn with_dead_extents() -> Tested {
        let space = space();
        let value = vec![1u8; 8 * BLOCK];
        let mut extents = Vec::new();
        let mut owner = local(&space);
        loop {
            space.judge(true, || false, Purges::default());
            let mut description = Vec::new();
            match space.admit_extent(&mut owner, &value, None, &mut description) {
                Ok(()) => extents.push(description),
                Err(_) => break,
            }
        }
        assert!(extents.len() >= 3, "{}", extents.len());
        for description in &extents {
            space.blocks.forget_extent(description);
        }
        space
    }
    fn ask(space: &Tested, local: &mut Local<ByteTier<HeapRegion>>, blocks: usize) -> Option<Room> {
        space.admit_extent(local, &vec![2u8; blocks * BLOCK], None, &mut Vec::new()).err().flatten()
    }

    #[test]
    fn what_the_log_brought_back_finds_room_where_deletes_find_none() {
        let space = space();
        let mut local = local(&space);
        space.blocks.free.stuck.store(true, SeqCst);
        space.credit.store(i64::MIN / 2, SeqCst);
        assert_eq!(space.prepare_slots(&mut local, &[8], Class::Release), Room::Full);
        assert_eq!(space.prepare_slots(&mut local, &[8], Class::Restore), Room::Ready);
        space.rest_local(&mut local);
    }

    /// Others' writes, of a few bytes, were refused while a large value waited for more blocks than could be had.
    #[test]
    fn a_large_value_that_finds_no_blocks_refuses_no_other_write() {
        let space = space();
        let mut local = local(&space);
        // As defragmentation says it.
        space.whole_blocks_out.store(1, Relaxed);
        space.judge(true, || false, Purges::default());
        assert!(space.blocks.free.refuses());
        assert_eq!(space.prepare_slots(&mut local, &[8], Class::Write), Room::Ready);
        space.rest_local(&mut local);
        while space.blocks.free.slots.lock().len() > space.blocks.reserve() {
            space.blocks.free.slots.lock().pop();
        }
        space.judge(true, || false, Purges::default());
        assert_eq!(space.prepare_slots(&mut local, &[8], Class::Write), Room::Full);
    }

    /// In pages it takes less than is counted on for it: a store refused thousands of writes for that alone.
    #[test]
    fn a_full_store_writes_down_what_is_dirty_if_that_fills_pages_and_no_tier_shrinks() {
        let space = space();
        let mut local = local(&space);
        space.judge(true, || false, Purges::default());
        assert_eq!(space.prepare_slots(&mut local, &[8], Class::Write), Room::Ready);
        let slab = (0..).find(|&slab| space.slabs.class_of(slab).is_some()).unwrap();
        let wanted_with = |dirty| {
            space.slabs.table[slab as usize].dirty.store(dirty, SeqCst);
            space.judge(true, || false, Purges::default());
            space.rounds.target.swap(0, SeqCst)
        };
        assert_eq!(wanted_with(5_000), 0, "there is room");
        space.blocks.free.slots.lock().clear();
        space.blocks.slots.iter().for_each(|slot| slot.begin(State::ReadOnly, 1, None, 0));
        assert_eq!([10, 5_000].map(wanted_with), [0, 1]);
        space.blocks.set_end(space.blocks.slots.len() as u32 - 1);
        assert_eq!(wanted_with(5_000), 0, "pages might lie behind the end");
    }

    #[test]
    fn a_large_value_is_counted_in_whole_blocks() {
        let space = space();
        space.judge(true, || false, Purges::default());
        let before = space.credit.load(SeqCst);
        let value = vec![1u8; BLOCK / 2];
        space.admit_extent(&mut local(&space), &value, None, &mut Vec::new()).unwrap();
        assert_eq!(before - space.credit.load(SeqCst), space.usable_bytes() as i64);
    }

    #[test]
    fn who_takes_what_others_wait_for_does_not_speak_for_them() {
        let space = with_dead_extents();
        let (mut one, mut other) = (local(&space), local(&space));
        let (small, large) = (1, 20);
        assert_eq!(ask(&space, &mut one, large), Some(Room::Wait));
        for step in 0..6 {
            space.judge(true, || false, Purges::default());
            // Nobody looks for much any more.
            assert_eq!(ask(&space, &mut other, small), None, "step {step}");
            space.judge(true, || false, Purges::default());
            // There are not that many free blocks, but there will be.
            assert_eq!(ask(&space, &mut one, large), Some(Room::Wait), "step {step}");
        }
    }

    /// A purge that was never told waited for ever, and as nothing else was searched meanwhile nothing else expired.
    #[test]
    fn what_was_found_dead_makes_room_but_is_told_where_there_is_none_for_its_tombstones() {
        let space = space();
        let flags = || (space.blocks.free.full.load(SeqCst), space.blocks.free.stuck.load(SeqCst));
        let some = [Purges { now: true, refused: false }, Purges { now: false, refused: true }];
        space.whole_blocks_out.store(1, Relaxed);
        let leave = |blocks: usize| {
            let mut slots = space.blocks.free.slots.lock();
            let keep = slots.len().min(blocks);
            slots.truncate(keep);
        };
        leave(space.blocks.reserve());
        space.judge(true, || false, Purges::default());
        assert_eq!(flags(), (true, false));
        for purges in some {
            space.judge(true, || false, purges);
            assert_eq!(flags(), (false, false), "what was found makes room");
        }
        leave(RECLAIM_SLOTS);
        space.judge(true, || true, Purges::default());
        assert_eq!(flags(), (false, false), "more will be found");
        space.judge(true, || true, some[0]);
        assert_eq!(flags(), (false, true), "what was found is to wait for nothing");
        space.judge(true, || false, some[1]);
        assert_eq!(flags(), (true, true));
    }

    #[test]
    fn a_value_is_too_large_only_once_nothing_goes_by_itself() {
        let space = with_dead_extents();
        let mut one = local(&space);
        for step in 0..6 {
            assert_eq!(ask(&space, &mut one, 60), Some(Room::Wait), "step {step}");
            space.judge(true, || true, Purges::default());
            assert!(!space.is_full(), "nothing has to be evicted");
        }
        let mut told = Vec::new();
        for _ in 0..3 {
            space.judge(true, || false, Purges::default());
            told.push(ask(&space, &mut one, 60));
        }
        assert!(told.contains(&Some(Room::Full)), "{told:?}");
    }
}
