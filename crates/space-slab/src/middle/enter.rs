//! Records that come to the middle tier: what leaves DRAM, and what was read from pages and is warm.
//!
//! # Invariants
//! * Only settled versions come here (rule R1): what leaves DRAM is asked for, what a page holds was.
//! * A slot is found only once it is filled, durably (rule R2).
//! * Large values are safe before slots describe them: without a log nobody else has waited for that.
//! * What comes from a page is still referred to when its slot is filled: else an older version than that of a tombstone which
//!   is just being dropped could appear here.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{FooterEntry, Lower};
use terrace_engine::record::{Head, Kind, NewRecord, RecordView};
use terrace_engine::space::{Context, Durable, Records};
use terrace_index::{Address, AnyIndex, Index, Key};

use super::Middle;
use crate::placement::Down;
use crate::read::Comes;
use crate::space::SlabSpace;
use crate::stage::{Stage, Staged, What};
use crate::temperature::NO_RIVAL;
use terrace_pmem_slots::Fills;
use terrace_policy::{Beats, Count, Gate, Thresholds, Tier};

/// Slots that are filled together, at most.
const FILLS_MAX: usize = 64;
/// Records that wait to come up from pages, at most.
const ARRIVED_MAX: usize = 64;

/// Records for slots that were taken for them.
#[derive(Default)]
pub(crate) struct Filling {
    stage: Stage,
    slots: Vec<u64>,
    fills: Fills,
}

/// A record that was read from a page: its address, the page's use, and itself, encoded.
pub(super) struct Arrived {
    from: Address,
    seq: u64,
    words: u32,
    hash: u64,
    db: u8,
    record: Vec<u8>,
}

impl Middle {
    /// Whether a record may come here that was read so often.
    pub(super) fn admits(&self, class: usize, count: Count) -> bool {
        let rival = match self.rivals[class].load(Relaxed) {
            NO_RIVAL => None,
            sixteenths => Some(Count::sixteenths(sixteenths)),
        };
        let admitted = Beats.admits(Tier::Pmem, count, rival, &Thresholds::default());
        self.kept_out[class].fetch_add(u32::from(!admitted), Relaxed);
        admitted
    }
    /// A slot for it, if it is worth one.
    fn slot_if_worth(&self, words: usize, count: Count) -> Option<u64> {
        let class = self.slabs.class_for(words)?;
        if self.admits(class, count) { self.slot_for(words) } else { None }
    }
    /// A slot for it.
    fn slot_for(&self, words: usize) -> Option<u64> {
        let class = self.slabs.class_for(words)?;
        let slot = self.slabs.take(class);
        if slot.is_none() {
            self.wanting.store(class as u32, SeqCst);
        }
        slot
    }
}

impl<L: Lower> SlabSpace<L> {
    /// Whether another record of any length finds room in what is filled together.
    fn has_room(&self, filling: &Filling) -> bool {
        let longest = self.options.record_bytes_max() / 8;
        filling.slots.len() < FILLS_MAX && filling.stage.has_room(longest, true, self.blocks.block_bytes)
    }

    /// A record leaves DRAM for a slot, or gets its home there, if a slot is to be had and `down` says so.
    pub(crate) fn stage_for_middle(
        &self,
        filling: &mut Filling,
        (offset, what, down): (u64, What, Down),
        head: &Head,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> bool {
        let Some(middle) = &self.middle else { return false };
        if !matches!(head.meta.kind(), Kind::Value | Kind::Extent) {
            return false;
        }
        let access = self.slabs.slot(offset).access();
        let count = self.policy.count(access, self.temperature.now());
        let slot = match down {
            Down::Worth => middle.slot_if_worth(head.meta.used_words(), count),
            Down::Middle => middle.slot_for(head.meta.used_words()),
            Down::Page => None,
        };
        let Some(at) = slot else { return false };
        if !self.has_room(filling) {
            self.fill_middle(filling, index);
        }
        let staged = self.stage_slot(&mut filling.stage, offset, what, context);
        let fits = filling
            .stage
            .moves
            .last()
            .is_some_and(|of| staged == Staged::Yes && middle.slabs.holds(at, of.words));
        if !fits {
            if staged == Staged::Yes {
                self.slabs.slot(offset).unstage();
                filling.stage.pop();
            }
            middle.slabs.give_back(at);
            return false;
        }
        if let Some(last) = filling.stage.moves.last() {
            self.temperature.leaves(last.entry.hash, access, &self.policy);
        }
        filling.slots.push(at);
        true
    }

    /// A record stays in DRAM and gets its home in a slot, if one is to be had.
    pub(crate) fn stage_home(
        &self,
        filling: &mut Filling,
        offset: u64,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> bool {
        let head = self.slabs.slot(offset).record().consistently(|head| head);
        self.stage_for_middle(filling, (offset, What::Home, Down::Middle), &head, index, context)
    }

    /// Fills the slots, and swings the records to them. Whether there were any.
    pub(crate) fn fill_middle(&self, filling: &mut Filling, index: &AnyIndex) -> bool {
        let Some(middle) = &self.middle else { return false };
        let Filling { stage, slots, fills } = filling;
        if slots.is_empty() {
            return false;
        }
        // What a slot describes must be there as soon as the slot is.
        if let Err(error) = Durable::sync(self) {
            self.blocks.failure.fail("syncing large values", &error);
            stage.moves.iter().for_each(|of| self.unstage(of.from));
            slots.drain(..).for_each(|at| middle.slabs.give_back(at));
            stage.clear();
            return false;
        }
        for (of, at) in stage.moves.iter().zip(slots.iter()) {
            let Some(view) = stage.view(of) else { unreachable!("what was staged is a record") };
            let count = self.temperature.count_below(of.entry.hash, &self.policy).in_sixteenths() / 16;
            middle.slabs.add(fills, *at, &of.entry, count as u8, &view.to_new());
        }
        middle.slabs.fill(fills);
        for (of, at) in stage.moves.iter().zip(slots.iter()) {
            if self.swing(stage, of, self.locations.pmem(*at), index) {
                let counter = match of.what {
                    What::Page { .. } => &self.details.to_middle_up,
                    What::Evict | What::Home | What::Slot => &self.details.to_middle_down,
                };
                counter.fetch_add(1, Relaxed);
                if of.what == What::Home {
                    middle.lend(*at);
                }
            } else {
                self.details.copies_in_vain.fetch_add(1, Relaxed);
                self.unstage(of.from);
                middle.release(*at);
            }
        }
        stage.clear();
        slots.clear();
        fills.clear();
        true
    }

    /// A record was read from a page, and is not worth a place in DRAM. Whether it waits for one here.
    pub(crate) fn offer_to_middle(
        &self,
        key: &Key<'_>,
        from: Address,
        (head, record): (&Head, &NewRecord<'_>),
        count: Count,
        comes: Comes,
    ) -> bool {
        let Some(middle) = &self.middle else { return false };
        let Some(class) = middle.slabs.class_for(record.words()) else { return false };
        if !middle.admits(class, count) {
            return false;
        }
        let seq = self.generation(from);
        let mut arrived = middle.arrived.lock();
        if arrived.iter().any(|other| other.from == from && other.seq == seq) {
            return true;
        }
        // What comes along comes in the very step that takes them.
        if arrived.len() >= ARRIVED_MAX && comes == Comes::Asked {
            self.details.promotions_dropped.fetch_add(1, Relaxed);
            return false;
        }
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        arrived.push(Arrived {
            from,
            seq,
            words: head.meta.slot_words() as u32,
            hash: key.hash,
            db: key.db,
            record: bytes,
        });
        true
    }

    /// Fills slots with what was read from pages.
    pub(super) fn take_arrived(
        &self,
        middle: &Middle,
        filling: &mut Filling,
        index: &AnyIndex,
        context: &dyn Context,
    ) -> bool {
        let arrived = std::mem::take(&mut *middle.arrived.lock());
        for Arrived { from, seq, words, hash, db, record } in &arrived {
            let Some(view) = RecordView::decode(record) else { continue };
            let (version, kind) = (view.head.version, view.head.meta.kind());
            let key = Key { hash: *hash, db: *db, bytes: view.key };
            let is_there = self.generation(*from) == *seq && index.contains(&key, *from);
            if !is_there || version <= context.flush_version(*db) {
                continue;
            }
            let record = view.to_new();
            let count = self.temperature.count_below(*hash, &self.policy);
            let Some(at) = middle.slot_if_worth(record.words(), count) else { continue };
            if !self.has_room(filling) {
                self.fill_middle(filling, index);
            }
            let check = context.hasher().check(*db, view.key);
            let life = view.head.life();
            let entry = FooterEntry { hash: *hash, check, version, offset: 0, kind, db: *db, life };
            filling.stage.push(What::Page { words: *words, seq: *seq }, *from, entry, &record);
            filling.slots.push(at);
        }
        self.fill_middle(filling, index)
    }
}
