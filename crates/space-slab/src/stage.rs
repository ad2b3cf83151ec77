//! Records on their way to a page: collected until a page is full, written and synced at once, and only then found there.
//!
//! ```text
//!   evict, round --> [ stage ] --+ (`flights.rs`)
//!   defragment   --> [ stage ] --+--> write, sync --> for each record, in its key's critical section: the index, or the
//!                                                     slot that has the old copy for a home, gets the new place
//! ```
//!
//! # Invariants
//! * Only settled versions are staged (rule R1), so that a page never holds what a crash could still take back.
//! * A copy is found only once it is durable (rule R2).
//! * What is swung is of the very version that was copied; else the copy is garbage. Of a record in a page the address does not
//!   tell: all that the page held may have been overwritten while the copy waited, and another page written there.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{
    BLOCK_HEADER_BYTES, FooterEntry, Image, Listed, Lower, Place, RECLAIM_SLOTS, State, TRAILER_BYTES,
    footer_bytes,
};
use terrace_engine::Progress;
use terrace_engine::record::{Kind, NewRecord, RecordView};
use terrace_engine::space::{Context, Durable, Records};
use terrace_index::{Address, AnyIndex, Change, Index, Key, Lookup, Verdict};

use crate::location::{Location, Locations};
use crate::space::SlabSpace;

/// Where a staged record comes from, and what becomes of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// It leaves DRAM.
    Evict,
    /// It stays in DRAM; the page is its home.
    Home,
    /// It leaves another page, the slot's use `seq`, where it took so many words.
    Page { words: u32, seq: u64 },
    /// It leaves the middle tier.
    Slot,
}

/// A staged record.
pub(crate) struct Move {
    pub what: What,
    pub from: Address,
    pub entry: FooterEntry,
    pub words: usize,
}

/// Records for one page.
#[derive(Default)]
pub(crate) struct Stage {
    pub moves: Vec<Move>,
    /// Those of them that expire.
    expiring: usize,
    bytes: Vec<u8>,
    /// Buffers for a record that is copied from DRAM.
    pub key: Vec<u8>,
    value: Vec<u8>,
}

/// What came of an attempt to stage a slot's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staged {
    /// It is staged.
    Yes,
    /// A crash could still take it back.
    Unsettled,
    /// The page is full.
    Full,
    /// A whole-database flush forgot it, or it is gone.
    Gone,
}

impl Stage {
    /// Whether a record of so many words still fits, which expires or not.
    pub fn has_room(&self, words: usize, expires: bool, block_bytes: usize) -> bool {
        let expiring = self.expiring + usize::from(expires);
        let footer = footer_bytes(self.moves.len() + 1, expiring) + TRAILER_BYTES;
        BLOCK_HEADER_BYTES + self.bytes.len() + words * 8 + footer <= block_bytes
    }
    /// How long what is staged is.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
    /// Whether nothing is staged.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }
    /// Adds a record; there is room.
    pub fn push(&mut self, what: What, from: Address, entry: FooterEntry, record: &NewRecord<'_>) {
        let offset = (BLOCK_HEADER_BYTES + self.bytes.len()) as u32;
        record.encode(&mut self.bytes);
        self.expiring += usize::from(entry.life.expires());
        self.moves.push(Move { what, from, entry: FooterEntry { offset, ..entry }, words: record.words() });
    }
    /// Takes back what was added last.
    pub fn pop(&mut self) {
        if let Some(last) = self.moves.pop() {
            self.expiring -= usize::from(last.entry.life.expires());
            self.bytes.truncate(last.entry.offset as usize - BLOCK_HEADER_BYTES);
        }
    }
    /// Nothing is staged any more.
    pub fn clear(&mut self) {
        self.moves.clear();
        self.expiring = 0;
        self.bytes.clear();
    }
    /// The record of a move.
    pub fn view(&self, of: &Move) -> Option<RecordView<'_>> {
        RecordView::decode(&self.bytes[of.entry.offset as usize - BLOCK_HEADER_BYTES..])
    }
}

impl<L: Lower> SlabSpace<L> {
    /// Copies a slot's record to the stage.
    pub(crate) fn stage_slot(
        &self,
        stage: &mut Stage,
        offset: u64,
        what: What,
        context: &dyn Context,
    ) -> Staged {
        let slot = self.slabs.slot(offset);
        let (mut key, mut value) = (std::mem::take(&mut stage.key), std::mem::take(&mut stage.value));
        let words = slot.record();
        let head = words.consistently(|head| {
            key.clear();
            value.clear();
            words.copy_bytes(head.meta.key_word(), head.meta.key_bytes(), &mut key);
            words.copy_bytes(head.meta.value_word(), head.meta.value_bytes(), &mut value);
            head
        });
        let (kind, db) = (head.meta.kind(), head.meta.db());
        let record = NewRecord {
            version: head.version,
            kind,
            db,
            flags: head.flags,
            state: head.meta.state_and_alone(),
            expire_at: head.expire_at,
            token: head.token,
            key: &key,
            value: &value,
        };
        let staged = if !slot.is_live() || head.version <= context.flush_version(db) {
            Staged::Gone
        } else if slot.version() != head.version || !context.settled(head.version) {
            // Another record is there, or is about to be: the copy may be of both.
            Staged::Unsettled
        } else if !stage.has_room(record.words(), record.expire_at != 0, self.blocks.block_bytes) {
            Staged::Full
        } else {
            let hasher = context.hasher();
            let (hash, check) = (hasher.key(db, &key).hash, hasher.check(db, &key));
            let life = head.life();
            let entry = FooterEntry { hash, check, version: head.version, offset: 0, kind, db, life };
            stage.push(what, self.locations.dram(offset), entry, &record);
            if slot.stage() {
                Staged::Yes
            } else {
                stage.pop();
                Staged::Gone
            }
        };
        (stage.key, stage.value) = (key, value);
        staged
    }

    /// Writes a stage's page, and swings its records to it. At least `keep` free blocks stay.
    pub(crate) fn seal(
        &self,
        stage: &mut Stage,
        image: &mut Image,
        keep: usize,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Progress {
        if stage.is_empty() {
            return Progress::Idle;
        }
        let begun = self.begin_page(stage, keep).or_else(|| self.begin_page_beyond(stage, keep));
        let Some((number, seq)) = begun else { return Progress::Blocked };
        if !self.write_page(number, stage, image, context) {
            return Progress::Blocked;
        }
        self.land_page((number, seq), stage, index);
        stage.clear();
        Progress::Worked
    }

    /// Takes a free block for a stage's page, if more than `keep` are there. From here on nobody trusts pages, until this one is
    /// there whole.
    pub(crate) fn begin_page(&self, stage: &Stage, keep: usize) -> Option<(u32, u64)> {
        if self.blocks.failure.has_failed() {
            return None;
        }
        let number = {
            let mut free = self.blocks.free.slots.lock();
            if free.len() <= keep { None } else { free.pop() }
        };
        self.begin_page_in(number, stage)
    }

    /// The same behind the end of a tier that shrinks, for what has no block before it: what is dirty was let in when there were,
    /// and moving, which waits for that, makes room only where it finds some. It moves later, like what was there before.
    pub(crate) fn begin_page_beyond(&self, stage: &Stage, keep: usize) -> Option<(u32, u64)> {
        if self.blocks.failure.has_failed() {
            return None;
        }
        let _nobody_else = self.blocks.free.beyond.lock();
        self.begin_page_in(self.blocks.free_beyond(keep), stage)
    }

    /// The same in this block, if it is one.
    fn begin_page_in(&self, number: Option<u32>, stage: &Stage) -> Option<(u32, u64)> {
        let Some(number) = number else {
            self.blocks.free.hungry.store(true, SeqCst);
            return None;
        };
        let seq = {
            let mut aloft = self.aloft.lock();
            let seq = self.blocks.last_seq.fetch_add(1, SeqCst) + 1;
            aloft.push(seq);
            seq
        };
        let used = BLOCK_HEADER_BYTES + stage.bytes.len();
        self.blocks.slots[number as usize].begin(State::ReadOnly, seq, None, used as u32);
        self.blocks.has_begun(number);
        Some((number, seq))
    }

    /// The page is durable: its records are found there, and it counts as one.
    pub(crate) fn land_page(&self, (number, seq): (u32, u64), stage: &Stage, index: &AnyIndex) {
        let page = &self.blocks.slots[number as usize];
        page.written.store(true, Release);
        page.live_bytes.store(stage.bytes.len() as i64, SeqCst);
        self.details.pages_written.fetch_add(1, Relaxed);
        self.details.records_written.fetch_add(stage.moves.len() as u64, Relaxed);
        if let Some(middle) = &self.middle
            && stage.moves.iter().any(|of| of.what == What::Slot)
        {
            // Before their slots are let go: whoever clears those waits for trust in this page.
            middle.moved_seq.fetch_max(seq, SeqCst);
        }
        for staged in &stage.moves {
            let place = Place { slot: number, offset: staged.entry.offset };
            let to = self.locations.page(place, staged.entry.kind, staged.words);
            if self.swing(stage, staged, to, index) {
                self.details.from_middle_down.fetch_add(u64::from(staged.what == What::Slot), Relaxed);
            } else {
                page.live_bytes.fetch_sub(staged.words as i64 * 8, Release);
                self.details.copies_in_vain.fetch_add(1, Relaxed);
                self.unstage(staged.from);
            }
        }
        // Last: a page that others move or free must not have records on their way to it.
        page.set_state(State::Sealed);
        self.last_page.fetch_max(seq, SeqCst);
        self.aloft.lock().retain(|&aloft| aloft != seq);
    }

    /// What was copied stays where it is, or has gone from there: its slab may have another class by now, and keeps that as long as
    /// the caller has a partition.
    pub(crate) fn unstage(&self, from: Address) {
        match self.locations.location(from) {
            Location::Dram(offset) if self.slabs.is_slot(offset) => self.slabs.slot(offset).unstage(),
            Location::Dram(_) => {}
            Location::Pmem(at) => {
                if let Some(middle) = &self.middle {
                    middle.slabs.set_staged(at, false);
                }
            }
            Location::Page(..) => {}
        }
    }

    /// Makes a page durable that was begun; nothing refers to it yet.
    pub(crate) fn write_page(
        &self,
        number: u32,
        stage: &Stage,
        image: &mut Image,
        context: &dyn Context,
    ) -> bool {
        // The page may outlive power loss before the sync below: the extents that it describes must be there by then.
        if let Err(error) = Durable::sync(self) {
            self.blocks.failure.fail("syncing large values", &error);
            return false;
        }
        let page = &self.blocks.slots[number as usize];
        let records = |_, bytes: &mut Vec<u8>| bytes.extend_from_slice(&stage.bytes);
        let drawn = self.blocks.draw(number, context.hasher(), image, records);
        page.count.store(stage.moves.len() as u32, Relaxed);
        let versions = stage.moves.iter().map(|of| of.entry.version);
        // Before anything is found there: a set that does not read it must have a newer version.
        self.page_versions.fetch_max(versions.max().unwrap_or(0), SeqCst);
        let offset = self.blocks.block_offset(number);
        let written = drawn.and_then(|()| self.blocks.lower.write(offset, image.bytes()));
        if let Err(error) = written.and_then(|()| self.blocks.lower.sync()) {
            // What it would have held is where it was, and in the log; trying again would hide what the device lost.
            self.blocks.failure.fail(&format!("writing block {number}"), &error);
            return false;
        }
        true
    }

    /// Makes a record's new place the one that counts, if the version there is still the one that does.
    pub(crate) fn swing(&self, stage: &Stage, staged: &Move, to: Address, index: &AnyIndex) -> bool {
        let (from, entry) = (staged.from, &staged.entry);
        let is_same_page = match staged.what {
            What::Page { seq, .. } => self.generation(from) == seq,
            What::Evict | What::Home | What::Slot => false,
        };
        if entry.kind == Kind::Poison {
            let moved = is_same_page && Listed::new(entry, None, from).replace(index, to);
            if moved && let What::Page { words, .. } = staged.what {
                self.release_copy(from, words as usize);
            }
            return moved;
        }
        let Some(view) = stage.view(staged) else { return false };
        let key = Key { hash: entry.hash, db: entry.db, bytes: view.key };
        // What leaves a page for a tier that is read at once must not come to lie beside a newer version of its key there: among
        // records that need a read and one that matches, the match wins.
        let comes_up = matches!(staged.what, What::Page { .. }) && self.is_in_middle(to);
        let verify = |address| match address {
            address if address == from => Verdict::NeedsRead,
            address if self.is_or_has_home(address, from) => Verdict::Match,
            address if comes_up && self.is_in_dram(address, &key) => Verdict::Match,
            _ => Verdict::Differs,
        };
        let slot_of = |address| match self.locations.location(address) {
            Location::Dram(offset) => Some((offset, self.slabs.slot(offset))),
            Location::Pmem(_) | Location::Page(..) => None,
        };
        // A slot that the index refers to is not filled anew: what stands in it now is what the copy must be of.
        let is_same_slot = || match (&self.middle, self.locations.location(from)) {
            (Some(middle), Location::Pmem(at)) => middle.slabs.version(at) == entry.version,
            _ => false,
        };
        index.update(&key, verify, |found| {
            let (Lookup::Found(at) | Lookup::Unread(at)) = found else { return (Change::Keep, false) };
            match (slot_of(at), staged.what) {
                // A slot whose record the page now holds: it may have been used again since.
                (Some((offset, slot)), _) if slot.is_live() && slot.version() == entry.version => {
                    if staged.what == What::Evict {
                        self.temperature.leaves(entry.hash, slot.access(), &self.policy);
                        if let Some(home) = self.clear_slot(offset) {
                            self.keep_home(to, home, staged.words);
                        }
                        self.details.evicted.fetch_add(1, Relaxed);
                        return (Change::Set(to), true);
                    }
                    if let Some(home) = slot.home()
                        && self.move_home_below(home, entry.version, (from, to))
                    {
                        self.release_copy(from, staged.words);
                        self.details.moved.fetch_add(1, Relaxed);
                        return (Change::Keep, true);
                    }
                    let slab = &self.slabs.table[self.slabs.slab_of(offset) as usize];
                    let (home, was_dirty) = slot.settle(to);
                    if was_dirty {
                        slab.dirty.fetch_sub(1, Relaxed);
                    }
                    if let Some(home) = home {
                        self.keep_home(to, home, staged.words);
                    }
                    self.details.homes.fetch_add(1, Relaxed);
                    (Change::Keep, true)
                }
                (None, What::Page { words, .. }) if at == from && is_same_page => {
                    self.keep_home(to, from, words as usize);
                    self.details.moved.fetch_add(1, Relaxed);
                    (Change::Set(to), true)
                }
                (None, What::Page { words, .. })
                    if is_same_page && self.move_home_below(at, entry.version, (from, to)) =>
                {
                    self.release_copy(from, words as usize);
                    self.details.moved.fetch_add(1, Relaxed);
                    (Change::Keep, true)
                }
                (None, What::Slot) if at == from && is_same_slot() => {
                    self.release_copy(from, staged.words);
                    (Change::Set(to), true)
                }
                _ => (Change::Keep, false),
            }
        })
    }

    /// Whether an address is this one, or that of a slot whose home, or its home's, is there.
    pub(crate) fn is_or_has_home(&self, address: Address, there: Address) -> bool {
        if address == there {
            return true;
        }
        let is_below = |slot| self.slot_and_home(slot).is_some_and(|(_, _, home)| home == there);
        match self.locations.location(address) {
            Location::Dram(offset) if !Locations::is_dram(there) => {
                self.slabs.slot(offset).home().is_some_and(|home| home == there || is_below(home))
            }
            Location::Pmem(_) => is_below(address),
            _ => false,
        }
    }

    /// Blocks that pages of evicted records leave to defragmentation, which could move nothing without.
    pub(crate) const KEEP: usize = RECLAIM_SLOTS;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_blocks::ByteTier;
    use terrace_engine::record::Lifetime;
    use terrace_index::Clht;
    use terrace_media::HeapRegion;

    use super::*;
    use crate::calm::entry_of;
    use crate::open::{MiddleTier, SlabOptions};
    use terrace_pmem_slots::Fills;
    use terrace_policy::Count;

    const USE: u64 = 7;

    fn space() -> SlabSpace<ByteTier<HeapRegion>> {
        space_over(None)
    }

    fn space_over(middle: Option<MiddleTier>) -> SlabSpace<ByteTier<HeapRegion>> {
        let region = Arc::new(HeapRegion::new(4 << 20).unwrap());
        let options = SlabOptions::of_tests();
        SlabSpace::new(ByteTier::new(region, 0, 4 << 20, String::new()), middle, options).unwrap()
    }

    /// What is dirty was let in when there were blocks for it before the end; now all of them are taken.
    #[test]
    fn a_page_that_finds_no_block_before_the_end_of_a_tier_that_shrinks_goes_behind_it() {
        let space = space();
        let end = space.blocks.slots.len() as u32 - 2;
        space.blocks.set_end(end);
        space.blocks.free.slots.lock().clear();
        let (stage, mut begun) = (Stage::default(), Vec::new());
        assert_eq!(space.begin_page(&stage, 0), None);
        assert_eq!(space.begin_page_beyond(&stage, 2), None, "as many are to be left");
        begun.extend(space.begin_page_beyond(&stage, 0));
        begun.extend(space.begin_page_beyond(&stage, 0));
        let numbers: Vec<u32> = begun.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [end, end + 1]);
        assert_eq!(space.begin_page_beyond(&stage, 0), None, "all are taken");
    }

    /// Whether a copy of what a page held is swung to, when the page is in use `now`.
    fn is_swung(now: u64, kind: Kind) -> bool {
        let space = space();
        let index = Clht::with_min_buckets(4);
        let record = NewRecord {
            version: 5,
            kind,
            db: 0,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: b"key",
            value: b"copied",
        };
        let page = |slot| space.locations.page(Place { slot, offset: 64 }, kind, record.words());
        let (from, to) = (page(3), page(4));
        let mut stage = Stage::default();
        let entry =
            FooterEntry { hash: 9, check: 1, version: 5, offset: 0, kind, db: 0, life: Lifetime::NEVER };
        stage.push(What::Page { words: 4, seq: USE }, from, entry, &record);
        space.blocks.slots[3].seq.store(now, SeqCst);
        let key = Key { hash: 9, db: 0, bytes: b"key" };
        index.update(&key, |_| Verdict::Differs, |_| (Change::Set(from), ()));
        let swung = space.swing(&stage, &stage.moves[0], to, AnyIndex::of(&index));
        assert!(index.contains(&key, if swung { to } else { from }));
        swung
    }

    #[test]
    fn a_copy_of_another_use_of_the_page_is_garbage() {
        for kind in [Kind::Value, Kind::Tombstone, Kind::Poison] {
            assert!(is_swung(USE, kind), "{kind:?}: it is what was copied");
            assert!(!is_swung(USE + 1, kind), "{kind:?}: the page holds something else by now");
        }
    }

    /// While a copy waits its slot may be let go and filled again, with a newer version of the same key.
    #[test]
    fn a_copy_of_what_a_slot_held_before_is_garbage() {
        let record = |version| {
            let (kind, key, value) = (Kind::Value, &b"key"[..], &b"value"[..]);
            NewRecord { version, kind, db: 0, flags: 0, state: 0, expire_at: 0, token: 0, key, value }
        };
        let entry = |version| entry_of(9, 1, version);
        for (now, is_same) in [(5, true), (6, false)] {
            let bytes = 4 * (64 << 10);
            let region = Arc::new(HeapRegion::new(bytes).unwrap());
            let space = space_over(Some(MiddleTier::new(region, (0, bytes), String::new(), true)));
            let slabs = &space.middle.as_ref().unwrap().slabs;
            let at = slabs.take(slabs.class_for(record(5).words()).unwrap()).unwrap();
            let mut fills = Fills::default();
            slabs.add(&mut fills, at, &entry(now), 0, &record(now));
            slabs.fill(&fills);
            let index = Clht::with_min_buckets(4);
            let from = space.locations.pmem(at);
            let key = Key { hash: 9, db: 0, bytes: b"key" };
            index.update(&key, |_| Verdict::Differs, |_| (Change::Set(from), ()));
            let mut stage = Stage::default();
            stage.push(What::Slot, from, entry(5), &record(5));
            let to = space.locations.page(Place { slot: 4, offset: 64 }, Kind::Value, record(5).words());
            assert_eq!(space.swing(&stage, &stage.moves[0], to, AnyIndex::of(&index)), is_same);
            assert!(index.contains(&key, if is_same { to } else { from }));
            assert_eq!(slabs.table[0].live.load(SeqCst) == 0, is_same, "it is let go with the swing");
        }
    }

    /// What was staged was deleted, and its slab belongs to another class when the page lands.
    #[test]
    fn a_slot_that_is_there_no_more_is_not_written_to() {
        let space = space();
        let record = |value| {
            let (kind, db) = (Kind::Value, 0);
            NewRecord { version: 5, kind, db, flags: 0, state: 0, expire_at: 0, token: 0, key: b"key", value }
        };
        let class = space.slabs.classes.of(record(&[7; 100]).words()).unwrap();
        let taken: Vec<u64> = std::iter::from_fn(|| space.slabs.take(class, 0)).collect();
        let (first, slab) = (taken[1], space.slabs.slab_of(taken[1]));
        space.slabs.drain(slab);
        taken
            .iter()
            .filter(|&&offset| space.slabs.slab_of(offset) == slab)
            .for_each(|&o| space.slabs.give(o));
        assert!(space.slabs.take_empty());
        // All bits: whatever is cleared shows.
        let large = record(&[255; 16_000]);
        let offset = space.slabs.take(space.slabs.classes.of(large.words()).unwrap(), 0).unwrap();
        assert_eq!(space.slabs.slab_of(offset), slab);
        let slot = space.slabs.slot(offset);
        slot.record().write(&large);
        slot.publish(None, 1, space.policy.entering(Count::ONE, space.temperature.now()));
        space.unstage(space.locations.dram(first));
        let (words, mut value) = (slot.record(), Vec::new());
        let head = words.consistently(|head| head);
        words.copy_bytes(head.meta.value_word(), head.meta.value_bytes(), &mut value);
        assert!(value == large.value, "a bit of another record is lost");
    }

    #[test]
    fn a_copy_of_a_record_that_was_rewritten_since_is_garbage() {
        for what in [What::Evict, What::Home] {
            let space = space();
            let index = Clht::with_min_buckets(4);
            let record = |version| {
                let kind = Kind::Value;
                NewRecord {
                    version,
                    kind,
                    db: 0,
                    flags: 0,
                    state: 0,
                    expire_at: 0,
                    token: 0,
                    key: b"key",
                    value: b"value",
                }
            };
            let class = space.slabs.classes.of(record(5).words()).unwrap();
            let offset = space.slabs.take(class, 0).unwrap();
            let slot = space.slabs.slot(offset);
            slot.record().write(&record(5));
            slot.publish(None, 1, space.policy.entering(Count::ONE, space.temperature.now()));
            let from = space.locations.dram(offset);
            let entry = entry_of(9, 1, 5);
            let mut stage = Stage::default();
            stage.push(what, from, entry, &record(5));
            let key = Key { hash: 9, db: 0, bytes: b"key" };
            index.update(&key, |_| Verdict::Differs, |_| (Change::Set(from), ()));
            slot.dirty(1);
            slot.record().replace(&record(6));

            let to = space.locations.page(Place { slot: 4, offset: 64 }, Kind::Value, record(5).words());
            assert!(!space.swing(&stage, &stage.moves[0], to, AnyIndex::of(&index)), "{what:?}");
            assert!(index.contains(&key, from) && slot.home().is_none() && slot.stamp() == 1, "{what:?}");
        }
    }
}
