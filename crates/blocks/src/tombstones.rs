//! Dropping tombstones: one may go once no older copy of its key is left anywhere.
//!
//! A sweep collects the tombstones of some blocks, then walks the footers of everything that exists and strikes off those
//! whose key has an older record somewhere; what is left is dropped from the index. Footers are a small part of a block,
//! so a sweep costs little next to the writes that made the tombstones.
//!
//! # Invariants
//! * Only tombstones at or below the log floor are considered: the log brings back nothing that old.
//! * What is in no block yet is walked before blocks, so that a page sealed meanwhile is seen at least once.
//! * No older copy of a collected key can appear during the sweep: only records that the index holds are moved, and it
//!   holds the tombstone.

use std::sync::atomic::Ordering::*;

use terrace_engine::Progress;
use terrace_engine::record::Kind;
use terrace_engine::space::Context;
use terrace_index::{Address, AnyIndex, Index};

use crate::blocks::Blocks;
use crate::candidates::{Candidate, Candidates, droppable};
use crate::image::Block;
use crate::layout::{BLOCK_HEADER_BYTES, FooterEntry, Header, Stored};
use crate::listed::Listed;
use crate::lower::Lower;
use crate::slots::State;

/// Slots walked in one step: few, for who waits for room waits for whole steps.
const SLOTS_A_STEP: usize = 2;
/// So many times as many where tombstones are half as many as keys, and fewer where there are fewer. A store that evicts makes one for
/// each key that comes, beside this: they must not come faster than they go.
const HASTE_MOST: u64 = 16;
/// Fewer tombstones than this part of the keys are no reason to sweep, or to hurry.
const MANY_PART: u64 = 8;
/// Between two sweeps one part of so many of the tier is written: each reads the footers of all of it.
const PART_WRITTEN: usize = 16;
/// So many steps in which no block was written: there is no need to wait for more.
const QUIET_STEPS: u32 = 64;
/// A sweep that drops less than one of so many tombstones was in vain: what they are above is still there.
const FRUIT_PART: usize = 8;
/// The next one waits for twice as many new blocks, and again, up to so many times.
const VAIN_MAX: u32 = 4;

/// What a space knows of records that blocks don't say.
pub trait Copies {
    /// The address of a record of a sealed block: its slot, what the footer says of it, the words of its place.
    fn address(&self, slot: u32, entry: &FooterEntry, words: u32) -> Address;
    /// A sealed block with its bytes.
    fn load(&self, slot: u32, context: &dyn Context) -> Option<Block>;
    /// Shows every record that is in no block yet, or was in none when this was called with 0; in several calls, for who waits for
    /// room waits for each: the next one is to be called with what this one returned, until that is `None`.
    fn not_yet_in_blocks(
        &self,
        from: u32,
        context: &dyn Context,
        show: &mut dyn FnMut(&[FooterEntry]),
    ) -> Option<u32>;
}

/// What a sweep remembers between steps.
#[derive(Default)]
pub struct Sweep {
    phase: Phase,
    candidates: Candidates,
    /// Where the next part of this one begins to collect: behind what the last one had no room for any more.
    from: usize,
    /// Where the next one begins, this one having ended there in vain.
    resume: usize,
    /// This one began with the first block.
    is_whole: bool,
    /// How many times [`SLOTS_A_STEP`] this one walks in a step.
    haste: u64,
    /// What had been reached when the last sweep ended: nothing changes before it moves on.
    done_floor: u64,
    done_seq: u64,
    /// The newest block when it was looked whether to sweep, and how often in a row it was that.
    seen_seq: u64,
    quiet: u32,
    /// How many blocks had been freed when the last sweep ended, and how many sweeps in a row were in vain.
    done_freed: u64,
    vain: u32,
    /// The last one did not see many of the tombstones: they were in no block, or the log could still bring back what is older.
    missed: bool,
    /// Tombstones that there were when this one began, that it has collected, and dropped.
    all: usize,
    collected: usize,
    dropped: usize,
}

impl Sweep {
    /// Whether there is reason to sweep again, the newest of `slots` blocks being this one and so many having been freed.
    /// `pressing`: writes are refused.
    fn has_news(&mut self, floor: u64, (newest, freed): (u64, u64), slots: usize, pressing: bool) -> bool {
        self.quiet = if newest == self.seen_seq { self.quiet.saturating_add(1) } else { 0 };
        self.seen_seq = newest;
        let part = (slots / PART_WRITTEN) as u64;
        let enough = newest >= self.done_seq + (part << self.vain);
        // Where nothing was freed the same ones are above the same as before.
        let has_changed = self.vain == 0
            || freed >= self.done_freed + part.max(1)
            || self.missed && floor > self.done_floor;
        let news = floor > self.done_floor || newest > self.done_seq;
        news && (enough || pressing || has_changed && self.quiet >= QUIET_STEPS)
    }

    fn slots_a_step(&self) -> usize {
        SLOTS_A_STEP * self.haste as usize
    }

    /// Whether a part more is of use: each reads the footers of all blocks once more.
    fn goes_on(&mut self, pressing: bool) -> bool {
        let in_vain = self.dropped * FRUIT_PART < self.collected;
        if self.from > 0 && in_vain && !pressing {
            self.resume = std::mem::take(&mut self.from);
        }
        self.from > 0
    }

    /// No part follows.
    fn ends(&mut self, freed: u64) {
        let is_whole = self.is_whole && self.resume == 0;
        self.missed = is_whole && self.all.saturating_sub(self.collected) * FRUIT_PART > self.all;
        self.vain = match self.dropped * FRUIT_PART >= self.collected.max(1) {
            true => 0,
            false => (self.vain + u32::from(!self.missed)).min(VAIN_MAX),
        };
        (self.collected, self.dropped, self.done_freed) = (0, 0, freed);
    }
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Collect {
        slot: usize,
    },
    Pages {
        from: u32,
    },
    Strike {
        slot: usize,
    },
}

impl<L: Lower> Blocks<L> {
    /// One step of a sweep; one at a time. The store has `dram_bytes` for records, of which it takes a small part.
    pub fn sweep_step(
        &self,
        sweep: &mut Sweep,
        dram_bytes: u64,
        copies: &impl Copies,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> Progress {
        match sweep.phase {
            Phase::Idle => {
                let (tombstones, keys) = context.tombstones_and_keys();
                let short_of_space = self.free.hungry.load(SeqCst) || self.free.refuses();
                let many = tombstones > 1024 && tombstones > keys / MANY_PART;
                let floor = context.log_floor();
                let newest = self.last_seq.load(SeqCst);
                let freed = self.counts.reused.load(Relaxed);
                let news = sweep.has_news(floor, (newest, freed), self.slots.len(), self.free.refuses());
                let unfinished = sweep.from > 0;
                if tombstones == 0 || !(news || unfinished) || !(many || short_of_space) {
                    sweep.from = 0;
                    return Progress::Idle;
                }
                (sweep.done_floor, sweep.done_seq) = (floor, newest);
                sweep.haste = (tombstones * MANY_PART * 4 / keys.max(1)).clamp(1, HASTE_MOST);
                let slot = if unfinished {
                    std::mem::take(&mut sweep.from)
                } else {
                    let resume = std::mem::take(&mut sweep.resume) % self.slots.len().max(1);
                    (sweep.all, sweep.is_whole) = (tombstones as usize, resume == 0);
                    resume
                };
                sweep.phase = Phase::Collect { slot };
                Progress::Worked
            }
            Phase::Collect { slot } => {
                let most = Candidates::most(dram_bytes);
                let end = (slot + sweep.slots_a_step()).min(self.slots.len());
                let sealed = (slot..end).filter(|&number| self.slots[number].state() == State::Sealed);
                for number in sealed {
                    self.collect(number as u32, most, sweep, copies, index, context);
                    if sweep.candidates.len() >= most {
                        // The rest of this one's, too.
                        sweep.from = number.max(1);
                        break;
                    }
                }
                let more = end < self.slots.len() && sweep.from == 0;
                sweep.phase = if more { Phase::Collect { slot: end } } else { Phase::Pages { from: 0 } };
                Progress::Worked
            }
            Phase::Pages { from } => {
                let candidates = &mut sweep.candidates;
                if from == 0 {
                    candidates.sort();
                    sweep.collected += candidates.len();
                }
                let more = match candidates.is_empty() {
                    true => None,
                    false => {
                        copies.not_yet_in_blocks(from, context, &mut |entries| candidates.strike(entries))
                    }
                };
                sweep.phase = more.map_or(Phase::Strike { slot: 0 }, |from| Phase::Pages { from });
                Progress::Worked
            }
            Phase::Strike { slot } => {
                let end = (slot + sweep.slots_a_step()).min(self.slots.len());
                for number in slot..end {
                    if self.on_medium(number as u32) {
                        match self.footer_entries(number as u32) {
                            Some((entries, _)) => sweep.candidates.strike(&entries),
                            None if self.held_large_values(number as u32) => {}
                            // What can't be read may hold anything.
                            None => drop(sweep.candidates.take()),
                        }
                    }
                }
                if end < self.slots.len() && !sweep.candidates.is_empty() {
                    sweep.phase = Phase::Strike { slot: end };
                    return Progress::Worked;
                }
                self.drop_tombstones(sweep, index, context);
                if !sweep.goes_on(self.free.hungry.load(SeqCst) || self.free.refuses()) {
                    sweep.ends(self.counts.reused.load(Relaxed));
                }
                sweep.phase = Phase::Idle;
                Progress::Worked
            }
        }
    }

    /// Whether a block on its way to be free is one of large values: it has no footer, and no record.
    fn held_large_values(&self, number: u32) -> bool {
        let slot = &self.slots[number as usize];
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        slot.state() == State::Freeing
            && self.lower.read(self.block_offset(number), &mut bytes).is_ok()
            && matches!(
                Header::decode(&bytes, self.store_id, number),
                Stored::Valid(header) if header.kind.is_of_large_values() && header.seq == slot.seq.load(Acquire)
            )
    }

    fn collect(
        &self,
        number: u32,
        most: usize,
        sweep: &mut Sweep,
        copies: &impl Copies,
        index: &AnyIndex,
        context: &dyn Context,
    ) {
        let Some((entries, data_end)) = self.footer_entries(number) else { return };
        let droppable = |entry: &FooterEntry| droppable(entry, sweep.done_floor);
        let seq = self.slots[number as usize].seq.load(Acquire);
        let mut block = None;
        if index.needs_key() && entries.iter().any(droppable) {
            block = copies.load(number, context);
            if block.is_none() {
                return;
            }
        }
        for (i, entry) in entries.iter().enumerate().filter(|(_, entry)| droppable(entry)) {
            let end = entries.get(i + 1).map_or(data_end, |next| next.offset);
            let words = (end - entry.offset) / 8;
            let address = copies.address(number, entry, words);
            let view = block.as_ref().and_then(|block| block.record(entry));
            if index.needs_key() && view.is_none() {
                continue;
            }
            let listed = Listed::new(entry, view.as_ref(), address);
            if listed.is_in(index) {
                if sweep.candidates.len() >= most {
                    return;
                }
                let candidate = Candidate::new(number, entry, (address, words), listed.key());
                sweep.candidates.push(candidate, seq, most);
            }
        }
    }

    fn drop_tombstones(&self, sweep: &mut Sweep, index: &AnyIndex, context: &dyn Context) {
        for (candidate, seq) in sweep.candidates.take() {
            let slot = &self.slots[candidate.slot as usize];
            // A block that was freed and is used again may hold a live record of the same key at the same address. Blocks
            // are freed by background steps alone, so this one stays what it is until the end of this step.
            if slot.state() != State::Sealed || slot.seq.load(Acquire) != seq {
                continue;
            }
            // New versions of the key must be above what is forgotten here.
            context.raise_version_floor(candidate.version);
            if index.remove(&candidate.key(), candidate.address) {
                slot.live_bytes.fetch_sub(i64::from(candidate.words) * 8, SeqCst);
                context.forgotten(Kind::Tombstone);
                sweep.dropped += 1;
                self.counts.tombstones_dropped.fetch_add(1, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_engine::Barrier;
    use terrace_engine::hash::KeyHasher;
    use terrace_engine::record::Lifetime;
    use terrace_engine::space::Replaced;
    use terrace_index::{Change, Clht, Verdict};
    use terrace_media::HeapRegion;

    use super::*;
    use crate::byte_tier::ByteTier;
    use crate::layout::BlockKind;

    /// Dropping asks the machine for nothing and only tells it.
    struct Told;

    impl Context for Told {
        fn raise_version_floor(&self, _version: u64) {}
        fn forgotten(&self, _kind: Kind) {}
        fn advance_epoch(&self) -> u64 {
            unreachable!()
        }
        fn epoch_passed(&self, _epoch: u64) -> bool {
            unreachable!()
        }
        fn barrier(&self) -> Barrier {
            unreachable!()
        }
        fn barrier_passed(&self, _barrier: &Barrier) -> bool {
            unreachable!()
        }
        fn settled(&self, _version: u64) -> bool {
            unreachable!()
        }
        fn logged(&self) -> bool {
            unreachable!()
        }
        fn trusts(&self, _seq: u64) -> bool {
            unreachable!()
        }
        fn log_floor(&self) -> u64 {
            unreachable!()
        }
        fn flush_wanted(&self) -> u64 {
            unreachable!()
        }
        fn flush_version(&self, _db: u8) -> u64 {
            unreachable!()
        }
        fn now_ms(&self) -> u64 {
            unreachable!()
        }
        fn poisoned(&self, _kind: Kind, _db: u8, _expires: bool) {
            unreachable!()
        }
        fn recount(&self, _db: u8, _version: u64, _found: Option<Replaced>) {
            unreachable!()
        }
        fn tombstones_and_keys(&self) -> (u64, u64) {
            unreachable!()
        }
        fn hasher(&self) -> KeyHasher {
            unreachable!()
        }
    }

    /// Each page that was written began another one, which read all footers.
    #[test]
    fn a_sweep_waits_until_it_may_find_more() {
        let mut sweep = Sweep { done_floor: 5, done_seq: 100, ..Sweep::default() };
        assert!(!sweep.has_news(6, (101, 0), 160, false), "a page more");
        assert!(sweep.has_news(6, (102, 0), 160, true), "writes are refused");
        assert!(sweep.has_news(6, (110, 0), 160, false), "a sixteenth is new");
        assert!(!sweep.has_news(5, (100, 0), 160, true), "nothing is");
        assert!(!(1..QUIET_STEPS).any(|_| sweep.has_news(6, (100, 0), 160, false)));
        assert!(sweep.has_news(6, (100, 0), 160, false), "and no page comes");
    }

    /// Where few writes come and many tombstones are above what is still there, each page began another one.
    #[test]
    fn after_a_sweep_in_vain_more_must_have_changed() {
        let mut sweep = Sweep { done_floor: 5, done_seq: 100, ..Sweep::default() };
        let rests = |sweep: &mut Sweep, freed| {
            (0..2 * QUIET_STEPS).any(|_| sweep.has_news(6, (101, freed), 160, false))
        };
        (sweep.all, sweep.collected, sweep.is_whole) = (800, 600, true);
        sweep.ends(7);
        assert!(rests(&mut sweep, 7), "it did not see all of them");
        (sweep.all, sweep.collected, sweep.dropped) = (800, 800, 99);
        sweep.ends(7);
        assert!(!rests(&mut sweep, 7) && !rests(&mut sweep, 16));
        assert!(rests(&mut sweep, 17), "what they were above may be gone");
        assert!(!sweep.has_news(6, (119, 7), 160, false) && sweep.has_news(6, (120, 7), 160, false));
        for _ in 0..9 {
            sweep.collected = 800;
            sweep.ends(7);
        }
        assert!(!sweep.has_news(6, (259, 7), 160, false) && sweep.has_news(6, (260, 7), 160, false));
        assert!(sweep.has_news(6, (102, 7), 160, true), "writes are refused");
        // The first part of it tells.
        (sweep.collected, sweep.dropped, sweep.from) = (800, 99, 50);
        assert!(!sweep.goes_on(false) && sweep.resume == 50 && sweep.from == 0);
        (sweep.collected, sweep.dropped, sweep.from) = (800, 99, 50);
        assert!(sweep.goes_on(true), "room is wanted");
        (sweep.collected, sweep.dropped) = (800, 100);
        assert!(sweep.goes_on(false));
        sweep.ends(7);
        assert!(rests(&mut sweep, 7) && sweep.has_news(6, (110, 7), 160, false));
    }

    /// Each of them made the sweep forget all that it had collected: tombstones stayed as long as large values went.
    #[test]
    fn a_block_of_large_values_on_its_way_to_be_free_may_not_hold_anything() {
        let bytes = 64 << 10;
        let lower = ByteTier::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes, String::new());
        let blocks = Blocks::new(lower, 1024, 1).unwrap();
        for (kind, state, seq, none) in [
            (BlockKind::Extents, State::Freeing, 7, true),
            (BlockKind::Gathered, State::Freeing, 7, true),
            (BlockKind::Extents, State::Freeing, 8, false),
            (BlockKind::Extents, State::Sealed, 7, false),
            (BlockKind::Records, State::Freeing, 7, false),
        ] {
            let header = Header { store_id: 1, seq: 7, slot: 3, kind };
            blocks.lower.write(blocks.block_offset(3), &header.encode()).unwrap();
            blocks.slots[3].begin(state, seq, None, 1000);
            assert_eq!(blocks.held_large_values(3), none, "{kind:?} {state:?} {seq}");
        }
    }

    #[test]
    fn a_tombstone_is_dropped_from_its_own_block_alone() {
        let bytes = 64 << 10;
        let lower = ByteTier::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes, String::new());
        let blocks = Blocks::new(lower, 1024, 1).unwrap();
        let index = Clht::with_min_buckets(4);
        let key = KeyHasher::new(7).key(0, b"key");
        let address = Address::new(3 << 7 | 8);
        index.update(&key, |_| Verdict::Differs, |_| (Change::Set(address), ()));
        // The sweep saw the tombstone in use 8 of the slot. A later use may hold a live record of the key at its place.
        for (state, seq, stays) in [
            (State::Mutable, 9, true),
            (State::Sealed, 9, true),
            (State::Freeing, 8, true),
            (State::Sealed, 8, false),
        ] {
            blocks.slots[3].begin(state, seq, None, 1000);
            let mut sweep = Sweep::default();
            let (kind, db) = (Kind::Tombstone, 0);
            let entry = FooterEntry {
                hash: key.hash,
                version: 5,
                check: 1,
                offset: 64,
                kind,
                db,
                life: Lifetime::NEVER,
            };
            sweep.candidates.push(Candidate::new(3, &entry, (address, 4), b""), 8, 1);
            blocks.drop_tombstones(&mut sweep, AnyIndex::of(&index), &Told);
            assert_eq!(index.contains(&key, address), stays, "{state:?} in use {seq}");
        }
    }
}
