//! Reclaiming space: empty blocks are freed, the live records of the emptiest are appended again (a simple form of
//! HeterMM section 5.2). What lives in the emptiest blocks of large values is put together (`gather.rs` of `terrace_blocks`).
//! Which block that is: `choose.rs`. A store that evicts packs only blocks that have lost half: keys that came first go instead.
//!
//! When a block may be freed: `freeing.rs` of `terrace_blocks`.

use std::collections::HashMap;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{
    BLOCK_HEADER_BYTES, Block, Emptiest, FooterEntry, Freeing, Gathering, Listed, Lower, Place,
    RECLAIM_SLOTS, State, Words, u32_at, u64_at,
};
use terrace_engine::Progress;
use terrace_engine::record::{Kind, NewRecord, RecordView};
use terrace_engine::space::{Context, Room};
use terrace_index::AnyIndex;

use crate::choose::{Choice, Turn};
use crate::space::HybridLog;
use crate::write::OpenPage;

/// Records looked at in one step.
const RECORDS_A_STEP: usize = 512;
/// A block of which a larger share is taken by live records and their footer entries isn't worth moving.
const WORTH_PERCENT: u64 = 95;
/// Keys are evicted when this part of the blocks is free, and two that nobody keeps.
const SOON_FULL_PART: usize = 64;
/// A page of which more is used counts as full.
const FULL_PERCENT: u64 = 90;
/// Blocks that moving the live records of all others together must free at least: moving leaves pages that are not full,
/// which are victims again, and would go on for ever with nothing to gain.
pub(crate) const GAIN_BLOCKS: u64 = 2;

/// Victims whose records are moved before a page is flushed for them that somebody still fills: pages are flushed in their order, and
/// one that goes half full takes a block all the same.
const MOVED_TOGETHER: usize = 8;
/// They are not held back longer than this many milliseconds: a page does not grow while its session waits for a block, and the
/// blocks that it waits for are free once these pages are flushed.
const HELD_MS: u64 = 30;
/// One such page is of no weight among so many that go with it. Where DRAM is full of pages that were never flushed, writers would soon
/// wait for all of them.
const FULL_FOR_ONE: usize = 16;

/// Victims that wait for the page that reclamation still fills to be flushed, from which on it is given up half full if writers wait for
/// them: nearly empty ones fill a page slowly, and each takes a read of the medium.
const BEHIND_ONE_PAGE: usize = 3;

/// What reclamation remembers between steps.
pub(crate) struct Reclaiming<L> {
    pub(crate) page: Option<OpenPage>,
    /// The newest page that records were moved to.
    moved_seq: u64,
    pub(crate) victim: Option<Victim>,
    /// Victims emptied since pages were flushed for any.
    emptied: usize,
    /// When the first page was held back since then, in milliseconds of the store's clock.
    held_since_ms: Option<u64>,
    /// Victims emptied into the page with this sequence number, the last ones.
    behind: (u64, usize),
    pub(crate) gathering: Gathering,
    freeing: Freeing,
    /// Victims in a row that left writers without a block.
    pub(crate) futile: usize,
    /// What the last such row showed not to be there to gain, whatever the counters say: large records leave gaps.
    pub(crate) elusive_bytes: u64,
    /// Blocks that could not be read, by slot, with their sequence numbers: tried again once nothing else is left.
    pub(crate) unreadable: HashMap<u32, u64>,
    /// What there is to gain in which block, and which slots are looked at next for that.
    pub(crate) emptiest: Emptiest,
    pub(crate) turn: Turn,
    _tier: std::marker::PhantomData<fn() -> L>,
}

impl<L> Default for Reclaiming<L> {
    fn default() -> Self {
        Self {
            page: None,
            moved_seq: 0,
            victim: None,
            emptied: 0,
            held_since_ms: None,
            behind: (0, 0),
            gathering: Gathering::default(),
            freeing: Freeing::default(),
            futile: 0,
            elusive_bytes: 0,
            unreadable: HashMap::new(),
            emptiest: Emptiest::default(),
            turn: Turn::default(),
            _tier: std::marker::PhantomData,
        }
    }
}

impl<L> Reclaiming<L> {
    /// Gives the open page up, so that it can be flushed.
    pub fn let_go(&mut self) {
        self.page = None;
    }
}

/// A block whose live records are being moved.
pub(crate) struct Victim {
    pub(crate) slot: u32,
    pub(crate) block: Block,
    /// The first of its records that was not looked at.
    pub(crate) next: usize,
}

impl<L: Lower> HybridLog<L> {
    pub(crate) fn reclaim_step(
        &self,
        reclaiming: &mut Reclaiming<L>,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Progress {
        let persisted = terrace_engine::space::Durable::persisted_seq(self);
        let mut take_frame = |frame| self.pool.lock().frames.push(frame);
        let freed = self.blocks.free_ready(&mut reclaiming.freeing, persisted, context, &mut take_frame);
        let kept = self.blocks.reserve() + self.blocks.free.wanted.load(SeqCst);
        self.blocks.back(kept + self.blocks.ahead());
        let free = self.blocks.free_slots();
        let low = (kept + 2).max(self.blocks.obtainable() / 16);
        if free > kept {
            self.blocks.free.full.store(false, SeqCst);
            self.blocks.hurry_expiry(false);
            reclaiming.futile = 0;
        }
        if free > RECLAIM_SLOTS {
            self.blocks.free.stuck.store(false, SeqCst);
        }
        let soon = kept + 2 + self.blocks.obtainable() / SOON_FULL_PART;
        if free + reclaiming.freeing.len() >= soon {
            self.blocks.free.soon_full.store(false, SeqCst);
        }
        if free >= low && reclaiming.victim.is_none() {
            self.blocks.free.hungry.store(false, SeqCst);
            return freed;
        }
        if freed == Progress::Worked && free > self.blocks.reserve() {
            // Writers look first: the next victim's page would take what was just freed, over and over.
            return freed;
        }
        if reclaiming.victim.is_none() {
            match self.choose(reclaiming, context) {
                Choice::Made => {}
                Choice::None if freed != Progress::Worked => {
                    let is_soon = context.evicts() && free + reclaiming.freeing.len() < soon;
                    self.blocks.free.soon_full.store(is_soon, SeqCst);
                    return self.out_of_victims(reclaiming, free, context);
                }
                // Whether there is a victim shows once all have been looked at.
                Choice::None | Choice::Looking => return Progress::Worked,
            }
        }
        if reclaiming.victim.is_none() {
            self.blocks.free.full.store(false, SeqCst);
            return Progress::Worked;
        }
        match self.move_live(reclaiming, index, context) {
            Progress::Blocked => freed,
            other => {
                // There is something to gain again: nobody is refused before it shows that it was nothing.
                self.blocks.free.full.store(false, SeqCst);
                other
            }
        }
    }

    /// Nothing is worth moving: push along what is under way, or say that the space is full.
    fn out_of_victims(&self, reclaiming: &mut Reclaiming<L>, free: usize, context: &dyn Context) -> Progress {
        if !reclaiming.freeing.is_empty() {
            // No page is flushed for those that wait for the log or for sessions: it would be flushed nearly empty.
            let awaited = reclaiming.freeing.newest_awaited();
            if awaited > terrace_engine::space::Durable::persisted_seq(self) {
                if reclaiming.page.as_ref().is_some_and(|page| page.seq <= awaited) {
                    reclaiming.page = None;
                }
                self.flush_target.fetch_max(awaited, SeqCst);
            }
            self.blocks.free.full.store(false, SeqCst);
            return Progress::Blocked;
        }
        if !reclaiming.gathering.is_empty()
            && self.blocks.seal_rest(&mut reclaiming.gathering).is_ok_and(|sealed| sealed)
        {
            return Progress::Worked;
        }
        if free > self.blocks.reserve() + self.blocks.free.wanted.load(SeqCst) {
            return Progress::Idle;
        }
        // Garbage in pages that are still in DRAM can be reclaimed once they are blocks.
        let unsealed: Vec<u32> = self.pool.lock().unsealed.iter().copied().collect();
        let least = self.least_gain(context);
        let in_dram =
            unsealed.iter().map(|&slot| self.to_gain(slot)).filter(|&gain| gain >= least).sum::<u64>();
        // Where keys are evicted instead, there is more to gain than is taken.
        let on_medium = if context.evicts() { 0 } else { self.gains(reclaiming).sum() };
        if !unsealed.is_empty() && self.worth_it(reclaiming, in_dram + on_medium) {
            reclaiming.page = None;
            self.flush_target.store(self.blocks.last_seq.load(SeqCst), SeqCst);
            self.blocks.close_open_extents();
            return Progress::Blocked;
        }
        self.blocks.close_open_extents();
        reclaiming.unreadable.clear();
        // Nothing is refused while what has expired takes room, were it due only in a while.
        self.blocks.hurry_expiry(true);
        let (stuck, purging) = (free <= RECLAIM_SLOTS, context.is_purging());
        let dead = self.blocks.has_dead(context);
        let more = dead || !stuck && (purging || context.has_unpurged());
        self.blocks.free.full.store(!more, SeqCst);
        // A purge that waits for room keeps others from being found.
        self.blocks.free.stuck.store(stuck && (!more || purging), SeqCst);
        if more { Progress::Blocked } else { Progress::Idle }
    }

    /// Bytes of a block that other records could take if its own lay elsewhere.
    pub(crate) fn to_gain(&self, number: u32) -> u64 {
        let slot = &self.blocks.slots[number as usize];
        if slot.state() == State::Extents {
            return self.blocks.extent_gain(number);
        }
        let live = slot.live_bytes.load(SeqCst).max(0) as u64;
        let used = u64::from(slot.used_bytes.load(Relaxed)).max(1);
        let entries = slot.footer_bytes() as u64 * live / used;
        (self.blocks.block_bytes as u64 * WORTH_PERCENT / 100).saturating_sub(live + entries)
    }

    /// A block is not worth moving for less.
    pub(crate) fn least_gain(&self, context: &dyn Context) -> u64 {
        if context.evicts() { self.blocks.least_gain() } else { 0 }
    }

    pub(crate) fn worth_it(&self, reclaiming: &Reclaiming<L>, gain: u64) -> bool {
        gain >= reclaiming.elusive_bytes + GAIN_BLOCKS * self.blocks.block_bytes as u64
    }

    /// Reads a whole block, from its frame or from the medium. Only background steps call it: frames don't change hands
    /// meanwhile.
    pub(crate) fn load_block(&self, number: u32, context: &dyn Context) -> Option<Block> {
        let slot = &self.blocks.slots[number as usize];
        let seq = slot.seq.load(Acquire);
        if let Some(frame) = slot.frame() {
            return Some(self.walk_frame(number, seq, frame, context));
        }
        self.blocks.read_block(number)
    }

    /// A page as a block, while it may still be changed: each record is read consistently.
    fn walk_frame(&self, number: u32, seq: u64, frame: u32, context: &dyn Context) -> Block {
        let slot = &self.blocks.slots[number as usize];
        let used = slot.used_bytes.load(Acquire) as usize;
        let words = self.frames.words(frame);
        let hasher = context.hasher();
        let mut block = Block {
            slot: number,
            seq,
            sealed: false,
            bytes: vec![0; BLOCK_HEADER_BYTES],
            entries: Vec::new(),
        };
        while block.bytes.len() < used {
            let at = block.bytes.len();
            let record = Words(&words[at / 8..]);
            let slot_words = record.consistently(|head| {
                block.bytes.truncate(at);
                record.copy_bytes(0, head.meta.slot_words() * 8, &mut block.bytes);
                head.meta.slot_words()
            });
            if slot_words == 0 || block.bytes.len() != at + slot_words * 8 {
                block.bytes.truncate(at);
                break;
            }
            if let Some(view) = RecordView::decode(&block.bytes[at..]) {
                let (db, kind) = (view.head.meta.db(), view.head.meta.kind());
                let (hash, check) = if kind == Kind::Poison {
                    (u64_at(view.key, 0), u32_at(view.key, 8))
                } else {
                    (hasher.key(db, view.key).hash, hasher.check(db, view.key))
                };
                let (version, life) = (view.head.version, view.head.life());
                block.entries.push(FooterEntry { hash, version, check, offset: at as u32, kind, db, life });
            }
        }
        block
    }

    /// Moves live records of the victim; `Blocked` if there is no room to move to now.
    fn move_live(&self, reclaiming: &mut Reclaiming<L>, index: &AnyIndex, context: &dyn Context) -> Progress {
        let Some(mut victim) = reclaiming.victim.take() else { return Progress::Idle };
        let slot = &self.blocks.slots[victim.slot as usize];
        let end = (victim.next + RECORDS_A_STEP).min(victim.block.entries.len());
        while victim.next < end {
            let entry = victim.block.entries[victim.next];
            let address = self.addresses.address(Place { slot: victim.slot, offset: entry.offset });
            let view = victim.block.record(&entry);
            let listed = Listed::new(&entry, view.as_ref(), address);
            if listed.is_in(index) {
                let words = match &view {
                    Some(view) => view.head.meta.slot_words(),
                    None => victim.block.words(victim.next, slot.used_bytes.load(Relaxed) as usize),
                } as i64;
                if entry.version <= context.flush_version(entry.db) {
                    if listed.remove(index) {
                        if let Some(view) = view.filter(|view| view.head.meta.kind() == Kind::Extent) {
                            self.blocks.forget_extent(view.value);
                        }
                        context.forgotten(entry.kind);
                        slot.live_bytes.fetch_sub(words * 8, SeqCst);
                    }
                } else {
                    let poison = poison_key(&entry);
                    let damaged = view.is_none();
                    let record = view.map_or_else(|| poison_record(&entry, &poison), |view| view.to_new());
                    let needed = record.words();
                    match self.prepare_page(&mut reclaiming.page, needed, 1, 0) {
                        Room::Ready => {}
                        Room::Wait | Room::Full => {
                            // The pages that were filled must become blocks before any of what was moved is free.
                            reclaiming.emptied = MOVED_TOGETHER;
                            self.push_moved(reclaiming, context.now_ms());
                            reclaiming.victim = Some(victim);
                            return Progress::Blocked;
                        }
                    }
                    let (to, seq) = self.put_record(&mut reclaiming.page, None, &record);
                    reclaiming.moved_seq = reclaiming.moved_seq.max(seq);
                    let moved_to = &self.blocks.slots[self.addresses.place(to).slot as usize];
                    if listed.replace(index, to) {
                        slot.live_bytes.fetch_sub(words * 8, SeqCst);
                        self.details.moved.fetch_add(1, Relaxed);
                        if damaged {
                            context.poisoned(entry.kind, entry.db, entry.life.expires());
                        }
                    } else {
                        moved_to.live_bytes.fetch_sub(needed as i64 * 8, SeqCst);
                    }
                }
            }
            victim.next += 1;
        }
        if victim.next < victim.block.entries.len() {
            reclaiming.victim = Some(victim);
            return Progress::Worked;
        }
        self.details.reclaimed.fetch_add(1, Relaxed);
        reclaiming.futile += 1;
        // Whatever its counter says: the index was asked about every record.
        slot.live_bytes.store(0, SeqCst);
        self.begin_freeing(reclaiming, victim.slot, context);
        reclaiming.emptied += 1;
        if !self.give_up_for_writers(reclaiming) {
            self.push_moved(reclaiming, context.now_ms());
        }
        Progress::Worked
    }

    /// A victim was emptied: gives the page up that reclamation fills, and has it flushed, if victims wait for it that writers wait
    /// for.
    fn give_up_for_writers(&self, reclaiming: &mut Reclaiming<L>) -> bool {
        let Some(seq) = reclaiming.page.as_ref().map(|page| page.seq) else { return false };
        let (before, count) = reclaiming.behind;
        reclaiming.behind = (seq, if before == seq { count + 1 } else { 1 });
        let kept = self.blocks.reserve() + self.blocks.free.wanted.load(SeqCst);
        let gives_up = reclaiming.behind.1 >= BEHIND_ONE_PAGE && self.blocks.free_slots() <= kept;
        if gives_up {
            reclaiming.page = None;
            (reclaiming.emptied, reclaiming.held_since_ms) = (0, None);
            // No more than that: what sessions fill behind it goes when it is full.
            self.flush_target.fetch_max(seq, SeqCst);
        }
        gives_up
    }

    /// Asks for the pages that reclamation filled to be flushed; the one it still fills can wait. So can the others for a while, where
    /// a session's page would go with them before it is full.
    fn push_moved(&self, reclaiming: &mut Reclaiming<L>, now_ms: u64) {
        let open = reclaiming.page.as_ref().map(|page| page.seq);
        let target = open.unwrap_or(self.blocks.last_seq.load(SeqCst) + 1).saturating_sub(1);
        if reclaiming.emptied < MOVED_TOGETHER && self.is_filling_up_to(target) {
            let since = *reclaiming.held_since_ms.get_or_insert(now_ms);
            if now_ms.saturating_sub(since) < HELD_MS {
                return;
            }
        }
        (reclaiming.emptied, reclaiming.held_since_ms) = (0, None);
        self.flush_target.fetch_max(target, SeqCst);
    }

    /// Whether too many of the pages that would be flushed with this one may still be filled.
    fn is_filling_up_to(&self, target: u64) -> bool {
        let full = self.blocks.block_bytes as u64 * FULL_PERCENT / 100;
        let pool = self.pool.lock();
        let slots = pool.unsealed.iter().map(|&slot| &self.blocks.slots[slot as usize]);
        let (mut flushed, mut filling) = (0, 0);
        for slot in slots.take_while(|slot| slot.seq.load(Relaxed) <= target) {
            flushed += 1;
            let is_full = u64::from(slot.used_bytes.load(Relaxed)) >= full;
            filling += usize::from(slot.state() == State::Mutable && !is_full);
        }
        filling * FULL_FOR_ONE > flushed
    }

    /// Nothing in the index refers to a block any more.
    pub(crate) fn begin_freeing(&self, reclaiming: &mut Reclaiming<L>, number: u32, context: &dyn Context) {
        reclaiming.emptiest.forget(number);
        let seq = self.successors_up_to(reclaiming.moved_seq, context.logged());
        self.blocks.begin_freeing(&mut reclaiming.freeing, number, seq, context);
    }

    /// The newest page that must be persisted before a block is free whose records have successors elsewhere. They may lie in any
    /// page up to the newest; with a log, those that it holds need not be waited for. Those that were moved always: the page
    /// that holds them may have been given up meanwhile, but not yet persisted.
    fn successors_up_to(&self, moved_seq: u64, logged: bool) -> u64 {
        if logged { moved_seq } else { self.blocks.last_seq.load(SeqCst) }
    }
}

/// The "key" of a record that stands for a damaged one.
fn poison_key(entry: &FooterEntry) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&entry.hash.to_le_bytes());
    key[8..].copy_from_slice(&entry.check.to_le_bytes());
    key
}

fn poison_record<'a>(entry: &FooterEntry, key: &'a [u8]) -> NewRecord<'a> {
    NewRecord {
        version: entry.version,
        kind: Kind::Poison,
        db: entry.db,
        flags: 0,
        state: 0,
        expire_at: 0,
        token: 0,
        key,
        value: &[],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_blocks::ByteTier;
    use terrace_media::HeapRegion;

    use super::*;
    use crate::open::HybridOptions;

    fn space(bytes: u64, dram_bytes: u64) -> HybridLog<ByteTier<HeapRegion>> {
        let lower = ByteTier::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes, String::new());
        let options = HybridOptions { block_bytes: 1024, dram_bytes, dram_budget: None, store_id: 1 };
        HybridLog::new(lower, options).unwrap()
    }

    #[test]
    fn without_a_log_a_block_waits_for_every_page_that_may_hold_a_successor() {
        let space = space(64 << 10, 8 << 10);
        space.blocks.last_seq.store(9, SeqCst);
        assert_eq!(space.successors_up_to(5, false), 9);
        assert_eq!(space.successors_up_to(5, true), 5);
    }

    #[test]
    fn a_page_that_writers_wait_for_goes_though_it_is_not_full() {
        let space = space(128 << 10, 48 << 10);
        let mut reclaiming = Reclaiming::default();
        assert_eq!(space.prepare_page(&mut reclaiming.page, 4, 1, 0), Room::Ready);
        let seq = reclaiming.page.as_ref().unwrap().seq;
        for _ in 0..2 * BEHIND_ONE_PAGE {
            assert!(!space.give_up_for_writers(&mut reclaiming), "nobody waits");
        }
        space.blocks.free.slots.lock().truncate(space.blocks.reserve());
        reclaiming.behind = (0, 0);
        for victim in 1..=BEHIND_ONE_PAGE {
            assert_eq!(space.give_up_for_writers(&mut reclaiming), victim == BEHIND_ONE_PAGE, "{victim}");
        }
        assert!(reclaiming.page.is_none());
        assert_eq!(space.flush_target.load(SeqCst), seq);
    }

    #[test]
    fn a_page_that_a_session_fills_holds_those_before_it_back_for_a_while_only() {
        let space = space(128 << 10, 48 << 10);
        let (mut reclaiming, mut page) = (Reclaiming::default(), None);
        assert_eq!(space.prepare_page(&mut page, 4, 1, 0), Room::Ready);
        let seq = page.as_ref().unwrap().seq;
        for (now_ms, target) in [(1000, 0), (1000 + HELD_MS - 1, 0), (1000 + HELD_MS, seq)] {
            reclaiming.emptied += 1;
            space.push_moved(&mut reclaiming, now_ms);
            assert_eq!(space.flush_target.load(SeqCst), target, "{now_ms}");
        }
        // The next ones have as long.
        space.flush_target.store(0, SeqCst);
        reclaiming.emptied += 1;
        space.push_moved(&mut reclaiming, 1000 + 2 * HELD_MS);
        assert_eq!(space.flush_target.load(SeqCst), 0);
    }

    #[test]
    fn one_page_that_is_not_full_holds_up_no_dram_full_of_others() {
        let space = space(128 << 10, 48 << 10);
        let mut target = 0;
        for pages in 1..=20 {
            let mut page = None;
            assert_eq!(space.prepare_page(&mut page, 4, 1, 0), Room::Ready, "{pages}");
            let page = page.unwrap();
            if pages > 1 {
                space.blocks.slots[page.slot as usize].used_bytes.store(1000, SeqCst);
            }
            target = page.seq;
            assert_eq!(space.is_filling_up_to(target), pages < FULL_FOR_ONE, "{pages}");
        }
        let first = space.pool.lock().unsealed[0];
        space.blocks.slots[first as usize].used_bytes.store(1000, SeqCst);
        assert!(!space.is_filling_up_to(target));
    }
}
