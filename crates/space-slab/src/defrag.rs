//! Space on the lower tier: empty pages are freed, the live records of the emptiest others move to new ones. So do the pieces of the
//! emptiest blocks of large values (`gather.rs` of `terrace_blocks`).
//!
//! When a page may be freed: `freeing.rs` of `terrace_blocks`. Without a log, what replaced a record may lie in DRAM alone:
//! then a page waits until the round in which it was found empty is retired.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::*;

use terrace_blocks::{
    Block, FooterEntry, Freeing, Gains, Gathering, Image, Listed, Lower, Place, RECLAIM_SLOTS, State,
};
use terrace_engine::record::{Kind, Lifetime, NewRecord};
use terrace_engine::space::Context;
use terrace_engine::{Barrier, Progress};
use terrace_index::{Address, AnyIndex, Change, Index, Key, Lookup, Verdict};

use crate::location::Location;
use crate::space::SlabSpace;
use crate::stage::{Stage, Staged, What};

/// Records of a page that are looked at in one step.
const RECORDS_A_STEP: usize = 256;
/// Of a block so much can be used, as a rule: records leave gaps.
pub(crate) const USABLE_PERCENT: u64 = 95;

/// What defragmentation remembers between steps.
#[derive(Default)]
pub(crate) struct Defrag {
    pub(crate) victim: Option<Victim>,
    /// Victims whose records are staged, with their sequence numbers.
    pub(crate) emptied: HashMap<u32, u64>,
    /// Pages that could not be read, with their sequence numbers.
    pub(crate) unreadable: HashMap<u32, u64>,
    pub stage: Stage,
    /// What lives in sparse blocks of large values, on its way to be put together.
    pub(crate) gathering: Gathering,
    pub freeing: Freeing,
    /// Empty pages that wait for a round, and which.
    waiting: VecDeque<(u32, u64)>,
    /// The newest page that took records of others.
    moved_seq: u64,
    /// Pages emptied, less those that their records went to; and the most that this ever was.
    net: i64,
    best: i64,
    /// Victims since it was that, or since there were blocks enough.
    futile: usize,
    /// Where a tier that shrinks is to end, and what must be safe before it does.
    pub(crate) ending: Option<(usize, Barrier)>,
}

impl Defrag {
    /// So many blocks more hold nothing than took what lived in them.
    fn gains(&mut self, blocks: i64) {
        self.net += blocks;
        if self.net > self.best {
            (self.best, self.futile) = (self.net, 0);
        }
    }
    /// What many victims in a row did not gain is not counted against the next.
    pub fn begin_again(&mut self) {
        self.futile = 0;
    }
}

pub(crate) struct Victim {
    number: u32,
    block: Block,
    next: usize,
    data_end: usize,
}

impl<L: Lower> SlabSpace<L> {
    /// One step of freeing and moving.
    pub(crate) fn defrag_step(
        &self,
        defrag: &mut Defrag,
        image: &mut Image,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Progress {
        if let Err(error) = self.blocks.cut_leftovers() {
            tracing::warn!("what a crash left behind the end of tier {} stays there: {error}", L::NAME);
        }
        let sealed = self.sealed();
        let freed = self.blocks.free_ready(&mut defrag.freeing, sealed, context, &mut |_| {});
        let free = self.blocks.free_slots();
        let kept = self.blocks.reserve() + self.blocks.free.wanted.load(SeqCst);
        let low = (kept + 2).max(self.blocks.obtainable() / 16);
        let low = low.max(self.free_wanted.load(SeqCst) as usize);
        let (shrinking, enough) = (self.is_shrinking(), free >= low);
        if free > kept {
            self.whole_blocks_out.store(0, Relaxed);
        }
        if enough && (shrinking || defrag.victim.is_none()) {
            defrag.futile = 0;
            self.blocks.free.hungry.store(false, SeqCst);
            self.exhausted.store(0, Relaxed);
        }
        if enough && !shrinking && defrag.victim.is_none() {
            // What holds nothing counts as room, whether or not anybody needs it now.
            let short = self.blocks.free.refuses() || self.starving.load(SeqCst) == 1;
            return if short && self.free_empty(defrag, context) { Progress::Worked } else { freed };
        }
        if freed == Progress::Worked {
            self.exhausted.store(0, Relaxed);
            return freed;
        }
        if let Some(progress) = self.move_victim(defrag, image, index, context) {
            return progress;
        }
        let found = self.free_empty(defrag, context);
        let to_spare = shrinking && free > kept;
        if !context.logged() && !to_spare && !found && (!defrag.waiting.is_empty() || self.dirty_bytes() > 0)
        {
            // What is dirty needs free blocks before pages can be free: moving must not take them.
            self.rounds.target.fetch_max(self.rounds.current.load(SeqCst), SeqCst);
            return Progress::Blocked;
        }
        // Whoever waits for a block waits for one before the end. What lies behind it would take each as soon as it is free.
        let first = shrinking && !enough && self.blocks.free.hungry.load(SeqCst);
        if found
            || first && self.choose(defrag, self.blocks.usable())
            || shrinking && self.shrink_step(defrag, context)
            || !enough && self.choose(defrag, self.last_to_move())
        {
            return Progress::Worked;
        }
        if !defrag.stage.is_empty() {
            // Nothing more is worth moving, and what was emptied is free once this is written.
            return self.seal_moved(defrag, image, index, context);
        }
        if !defrag.gathering.is_empty() && self.put_together(defrag) {
            return Progress::Worked;
        }
        if !defrag.freeing.is_empty() || !defrag.waiting.is_empty() {
            return Progress::Blocked;
        }
        if enough {
            // What could not be read behind the end is tried again when somebody asks for the size again.
            return Progress::Idle;
        }
        self.blocks.close_open_extents();
        defrag.unreadable.clear();
        self.whole_blocks_out.store(u64::from(free <= kept), Relaxed);
        self.exhausted.store(1, Relaxed);
        Progress::Idle
    }

    /// Of what moving could gain in all, what there is. Large records leave gaps wherever they are: what many victims in a row
    /// did not gain is not there.
    pub(crate) fn within_reach(&self, gain: u64) -> u64 {
        gain.saturating_sub(self.elusive_bytes.load(Relaxed))
    }
    /// Whether moving is worth it.
    fn is_worth_moving(&self, gain: u64) -> bool {
        self.within_reach(gain) > Self::LEFT_BEHIND * self.blocks.block_bytes as u64
    }
    /// Blocks' worth of gaps that nobody moves anything for.
    pub(crate) const LEFT_BEHIND: u64 = 1;

    fn seal_moved(
        &self,
        defrag: &mut Defrag,
        image: &mut Image,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Progress {
        let progress = self.seal(&mut defrag.stage, image, 0, index, context);
        if progress == Progress::Worked {
            defrag.moved_seq = self.last_page.load(SeqCst);
            let slots = &self.blocks.slots;
            let emptied = defrag.emptied.drain();
            let freed = emptied.filter(|(number, _)| slots[*number as usize].live_bytes.load(Relaxed) <= 0);
            let gained = freed.count() as i64 - 1;
            defrag.gains(gained);
        }
        progress
    }

    /// Writes what was gathered of large values; `false` if it can't be now.
    fn put_together(&self, defrag: &mut Defrag) -> bool {
        // From behind the end of a tier that shrinks they must go, whatever that gains.
        let sealed = if self.is_shrinking() {
            let sealed = self.blocks.seal_staged(&mut defrag.gathering);
            if matches!(sealed, Ok(false)) && !self.can_gather() {
                // What frees blocks before the end goes first.
                defrag.gathering.give_up();
            }
            sealed
        } else {
            self.blocks.seal_rest(&mut defrag.gathering)
        };
        let gained = defrag.gathering.take_gained();
        defrag.gains(gained);
        // A device that failed has said so.
        sealed.unwrap_or(false)
    }

    /// Bytes of a block that others could take if what lives in it lay elsewhere.
    pub(crate) fn to_gain(&self, number: u32) -> u64 {
        let slot = &self.blocks.slots[number as usize];
        if slot.state() == State::Extents {
            return self.blocks.extent_gain(number);
        }
        let live = slot.live_bytes.load(SeqCst).max(0) as u64;
        let used = u64::from(slot.used_bytes.load(Relaxed)).max(1);
        let entries = slot.footer_bytes() as u64 * live / used;
        (self.blocks.block_bytes as u64 * USABLE_PERCENT / 100).saturating_sub(live + entries)
    }

    /// What there is to gain in blocks of either kind.
    pub(crate) fn gains_of(&self, blocks: impl Iterator<Item = u32>) -> Gains {
        self.blocks.gains(blocks.map(|number| (number, self.to_gain(number))))
    }

    /// Puts blocks and pages that hold nothing on their way to be free.
    fn free_empty(&self, defrag: &mut Defrag, context: &dyn Context) -> bool {
        let mut any = false;
        for (number, slot) in self.blocks.slots.iter().enumerate() {
            let number = number as u32;
            let empty = matches!(slot.state(), State::Extents | State::Sealed)
                && slot.live_bytes.load(SeqCst) <= 0
                && !defrag.waiting.iter().any(|(waiting, _)| *waiting == number);
            if !empty {
                continue;
            }
            any = true;
            if context.logged() {
                self.blocks.begin_freeing(&mut defrag.freeing, number, defrag.moved_seq, context);
            } else {
                let round = self.rounds.current.load(SeqCst);
                self.rounds.target.fetch_max(round, SeqCst);
                defrag.waiting.push_back((number, round));
            }
        }
        let retired = self.rounds.retired.load(SeqCst);
        while defrag.waiting.front().is_some_and(|(_, round)| *round <= retired) {
            let Some((number, _)) = defrag.waiting.pop_front() else { break };
            self.blocks.begin_freeing(&mut defrag.freeing, number, self.last_page.load(SeqCst), context);
            any = true;
        }
        any
    }

    /// Blocks among which a victim is looked for.
    fn last_to_move(&self) -> usize {
        if self.can_gather() { self.blocks.slots.len() } else { self.blocks.usable() }
    }

    /// Picks the page that has most to gain, of so many.
    fn choose(&self, defrag: &mut Defrag, last: usize) -> bool {
        let is = |set: &HashMap<u32, u64>, number| {
            set.get(&number).copied() == Some(self.blocks.slots[number as usize].seq.load(Relaxed))
        };
        let open = self.blocks.open_extents();
        let readable = |number: &u32| {
            let slot = &self.blocks.slots[*number as usize];
            matches!(slot.state(), State::Sealed | State::Extents)
                && slot.live_bytes.load(Relaxed) > 0
                && open != Some(*number)
                && !is(&defrag.unreadable, *number)
        };
        let all = || (0..last as u32).filter(readable);
        // Those whose records are staged are part of it: with them alone nothing would be gained.
        let gains = self.gains_of(all());
        let gain = gains.sum();
        if defrag.futile > self.blocks.slots.len() {
            defrag.futile = 0;
            self.elusive_bytes.store(gain, Relaxed);
        }
        self.elusive_bytes.fetch_min(gain, Relaxed);
        if !self.is_worth_moving(gain) {
            return false;
        }
        // A page that moves alone gains nothing, whatever there is to gain of large values, and the other way round.
        let pages = gains.pages > Self::LEFT_BEHIND * self.blocks.block_bytes as u64;
        let is_of_use = |number: &u32| match self.blocks.slots[*number as usize].state() {
            State::Extents => gains.extents > 0 && !defrag.gathering.has(*number),
            _ => pages && !is(&defrag.emptied, *number),
        };
        let best = |holds: &dyn Fn(u32) -> bool| {
            let left = all().filter(|number| is_of_use(number) && holds(*number));
            left.max_by_key(|&number| self.to_gain(number)).filter(|&number| self.to_gain(number) > 0)
        };
        let is_page = |number| self.blocks.slots[number as usize].state() == State::Sealed;
        let Some(number) = best(&|_| true) else { return false };
        if is_page(number) {
            self.begin_emptying(defrag, number);
            return true;
        }
        // While a tier shrinks a page may find a slot where there is none for what is gathered.
        let page = if self.can_move_beyond() { best(&is_page) } else { None };
        if self.gather(defrag, number) {
            return true;
        }
        page.inspect(|&page| self.begin_emptying(defrag, page)).is_some()
    }

    /// Whether there is none there and a page that is emptied may go behind it.
    fn can_move_beyond(&self) -> bool {
        self.is_shrinking() && !self.can_gather() && self.blocks.free_beyond(Self::KEEP).is_some()
    }

    /// Whether what is gathered finds a block before the end of the tier.
    pub(crate) fn can_gather(&self) -> bool {
        self.blocks.free.slots.lock().len() > RECLAIM_SLOTS
    }

    /// Stages what lives in a block of large values; `false` if nothing can be done for it now.
    pub(crate) fn gather(&self, defrag: &mut Defrag, number: u32) -> bool {
        let seq = self.blocks.slots[number as usize].seq.load(Relaxed);
        let gathered = self.blocks.gather(&mut defrag.gathering, number);
        let gained = defrag.gathering.take_gained();
        defrag.gains(gained);
        match gathered {
            Ok(all) => {
                defrag.futile += usize::from(all);
                all
            }
            Err(error) => {
                tracing::warn!("the large values in block {number} can't be moved: {error}");
                defrag.unreadable.insert(number, seq);
                !self.blocks.failure.has_failed()
            }
        }
    }

    /// The next victim is this one, if it can be read.
    pub(crate) fn begin_emptying(&self, defrag: &mut Defrag, number: u32) {
        let slot = &self.blocks.slots[number as usize];
        match self.blocks.read_block(number) {
            Some(block) => {
                let data_end = slot.used_bytes.load(Relaxed) as usize;
                defrag.victim = Some(Victim { number, block, next: 0, data_end });
            }
            // Others may do; with this one alone in view nothing would ever be freed.
            None => {
                defrag.unreadable.insert(number, slot.seq.load(Relaxed));
            }
        }
    }

    /// Stages live records of the victim; `None` if there is no victim.
    fn move_victim(
        &self,
        defrag: &mut Defrag,
        image: &mut Image,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Option<Progress> {
        let mut victim = defrag.victim.take()?;
        if self.blocks.slots[victim.number as usize].seq.load(Acquire) != victim.block.seq {
            // All that was live in it was overwritten since the last step, and something else is there by now.
            return Some(Progress::Worked);
        }
        let end = (victim.next + RECORDS_A_STEP).min(victim.block.entries.len());
        while victim.next < end {
            if !self.stage_copy(&mut defrag.stage, &victim, index, context) {
                defrag.victim = Some(victim);
                return Some(self.seal_moved(defrag, image, index, context));
            }
            victim.next += 1;
        }
        if victim.next < victim.block.entries.len() {
            defrag.victim = Some(victim);
        } else {
            defrag.emptied.insert(victim.number, victim.block.seq);
            defrag.futile += 1;
            self.details.pages_emptied.fetch_add(1, Relaxed);
        }
        Some(Progress::Worked)
    }

    /// Stages the victim's next record if anything refers to it; `false` if the stage is full.
    fn stage_copy(
        &self,
        stage: &mut Stage,
        victim: &Victim,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> bool {
        let entry = victim.block.entries[victim.next];
        let view = victim.block.record(&entry);
        let words = match &view {
            Some(view) => view.head.meta.slot_words(),
            None => victim.block.words(victim.next, victim.data_end),
        };
        let place = Place { slot: victim.number, offset: entry.offset };
        let from = self.locations.page(place, entry.kind, words);
        let what = What::Page { words: words as u32, seq: victim.block.seq };
        let listed = Listed::new(&entry, view.as_ref(), from);
        let Some(view) = view.filter(|_| entry.kind != Kind::Poison) else {
            if self.drop_home_below((from, words)) {
                return true;
            }
            return self.stage_damaged(stage, &listed, &entry, (from, what), index, context);
        };
        let key = Key { hash: entry.hash, db: entry.db, bytes: view.key };
        // Under the key's lock: a record that is promoted or evicted right now refers to it all the time.
        let verify = |at| if self.is_or_has_home(at, from) { Verdict::Match } else { Verdict::Differs };
        if entry.version <= context.flush_version(entry.db) {
            if index.update(&key, verify, |found| self.forget_copy(found, from, (&entry, words))) {
                if entry.kind == Kind::Extent {
                    self.large.forget(view.value);
                    self.blocks.forget_extent(view.value);
                }
                context.forgotten(entry.kind);
            }
            return true;
        }
        if !index.update(&key, verify, |found| (Change::Keep, matches!(found, Lookup::Found(_)))) {
            return true;
        }
        let record = view.to_new();
        if !stage.has_room(record.words(), record.expire_at != 0, self.blocks.block_bytes) {
            return false;
        }
        stage.push(what, from, entry, &record);
        true
    }

    /// In the critical section of the key of a record that a whole-database flush forgot: nothing refers to it any more,
    /// neither the index nor a slot that has it for a home.
    pub(crate) fn forget_copy(
        &self,
        found: Lookup,
        from: Address,
        (entry, words): (&FooterEntry, usize),
    ) -> (Change, bool) {
        let Lookup::Found(at) = found else { return (Change::Keep, false) };
        match self.locations.location(at) {
            Location::Pmem(slot) if at != from && !self.middle_holds(slot, entry.version) => {
                return (Change::Keep, false);
            }
            Location::Pmem(_) | Location::Page(..) => self.release_copy(at, words),
            Location::Dram(offset) if self.slabs.slot(offset).version() == entry.version => {
                if let Some(home) = self.clear_slot(offset) {
                    self.release_copy(home, words);
                }
            }
            Location::Dram(_) => return (Change::Keep, false),
        }
        (Change::Remove, true)
    }

    /// A copy that can't be read: if a slot has it for a home, that gets another one; else it becomes a poison.
    fn stage_damaged(
        &self,
        stage: &mut Stage,
        listed: &Listed<'_>,
        entry: &FooterEntry,
        (from, what): (Address, What),
        index: &AnyIndex,
        context: &dyn Context,
    ) -> bool {
        if let Some(offset) = self.slot_with_home(from) {
            return self.stage_slot(stage, offset, What::Home, context) != Staged::Full;
        }
        if !listed.is_in(index) {
            return true;
        }
        let mut poison = [0; 12];
        poison[..8].copy_from_slice(&entry.hash.to_le_bytes());
        poison[8..].copy_from_slice(&entry.check.to_le_bytes());
        let record = NewRecord {
            version: entry.version,
            kind: Kind::Poison,
            db: entry.db,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: &poison,
            value: &[],
        };
        if !stage.has_room(record.words(), record.expire_at != 0, self.blocks.block_bytes) {
            return false;
        }
        let poisoned = FooterEntry { kind: Kind::Poison, life: Lifetime::NEVER, ..*entry };
        stage.push(what, from, poisoned, &record);
        if entry.kind != Kind::Poison {
            context.poisoned(entry.kind, entry.db, entry.life.expires());
        }
        true
    }

    /// The slot whose home is there: damage is rare enough to look at all of them.
    fn slot_with_home(&self, there: Address) -> Option<u64> {
        for class in 0..self.slabs.classes.count() {
            for slab in self.slabs.slabs_of(class) {
                for number in 0..self.slabs.used_slots(slab) {
                    let offset = self.slabs.offset(slab, class, number);
                    if self.slabs.slot(offset).home() == Some(there) {
                        return Some(offset);
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_blocks::BlockTier;
    use terrace_index::Clht;
    use terrace_media_sim::SimBlock;

    use super::*;
    use crate::calm::Calm;
    use crate::open::SlabOptions;

    /// What lies behind the end would take each block that becomes free, and whoever waits for one would wait until all of it had moved.
    #[test]
    fn while_a_tier_shrinks_whoever_waits_for_a_block_comes_before_what_lies_behind_the_end() {
        let lower = BlockTier::new(Arc::new(SimBlock::from_image(vec![0; 4 << 20])), 0, String::new());
        let space = SlabSpace::new(lower, None, SlabOptions::of_tests()).unwrap();
        let blocks = &space.blocks;
        let keep = blocks.reserve() + 2;
        let (mut values, value) = (Vec::new(), vec![7; 16 << 10]);
        while blocks.free_slots() > keep {
            let mut description = Vec::new();
            blocks.store_extent(&value, &blocks.parts_of(&value, None), &mut description).unwrap();
            values.push(description);
        }
        blocks.close_open_extents();
        // Four blocks hold nothing, and elsewhere one value in three lives.
        let lives = |i: usize| i >= 16 && i.is_multiple_of(3);
        values
            .iter()
            .enumerate()
            .filter(|(i, _)| !lives(*i))
            .for_each(|(_, gone)| blocks.forget_extent(gone));
        blocks.set_end((blocks.slots.len() - keep - 6) as u32);
        blocks.free.hungry.store(true, SeqCst);

        let (index, mut defrag, mut image) = (Clht::with_min_buckets(4), Defrag::default(), Image::default());
        let behind = blocks.to_move();
        assert!(behind > 4 && blocks.free_slots() < keep, "{behind} behind the end");
        while blocks.free_slots() < keep {
            space.defrag_step(&mut defrag, &mut image, AnyIndex::of(&index), &Calm);
            assert_eq!(blocks.to_move(), behind, "{} of {keep} free", blocks.free_slots());
        }
        blocks.free.hungry.store(false, SeqCst);
        for _ in 0..1000 {
            space.defrag_step(&mut defrag, &mut image, AnyIndex::of(&index), &Calm);
        }
        assert_eq!(blocks.to_move(), 0);
    }
}
