//! Rounds: the hash table is made to lead to what the sessions' logs hold, all up to one version at a time.
//!
//! ```text
//! round  every session has passed | V: the newest version, all to come are newer | every session has passed | all settled
//!        | entries up to V, the newest of each key, by version | slices of them
//! slice  by bucket | chains | fence | root: v is coming | buckets | fence | root: v is there | what is in DRAM up to v leaves the front
//! ```
//!
//! # Invariants
//! * The versions of a key ascend: so all that are older than one of a round are in it, or in an earlier one, and a tombstone that the
//!   table has followed needs no place in it.
//! * Counts are of the root's version. Who finds a root that is coming makes its round again, and takes its counts.
//! * A record may be left out if the log has a newer one of the key: as long as the table does not lead to that, an opening redoes it.
//! * A block leaves its session's chain once the round of all of its entries is over.

use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering::*;

use terrace_engine::Progress;
use terrace_engine::op::DATABASES;
use terrace_engine::record::Kind as RecordKind;
use terrace_engine::space::Context;
use terrace_index::{Index, Key};
use terrace_media::ByteRegion;

use crate::apply::{Edit, is_same_key};
use crate::directory::Directory;
use crate::keeper::{Keeper, Round, Work};
use crate::space::ScmSpace;

/// A round begins when so much waits for it, or so long after the last one.
const ROUND_BYTES: u64 = 256 << 10;
const ROUND_MS: u64 = 5;
/// Or after so many steps with nothing to do, whatever the clock says.
const IDLE_STEPS: u32 = 8;
/// So many records reach the table at once at most, or one for so many bytes of a page: then sessions get frames back, and chains of the
/// next ones need few pages.
const SLICE_MAX: usize = 4096;
const SLICE_BYTES: usize = 256;
/// Buckets of the front are loaded so many records ahead.
const AHEAD: usize = 16;

/// What became of a slice of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// The table leads to all of the round.
    All,
    /// To a part of it.
    Some,
    /// There is no page for its chains: cleaning makes one.
    Nothing,
}

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// A part of a round.
    pub(crate) fn round_step(&self, keeper: &mut Keeper<T::Changes>, context: &dyn Context) -> Progress {
        match std::mem::take(&mut keeper.round) {
            Round::Idle => {
                let begun = self.begun.load(Relaxed);
                let flush = |db| context.flush_version(db as u8);
                let newest = (0..DATABASES).map(flush).max().unwrap_or(0);
                self.forgotten.fetch_max(newest, Relaxed);
                // What a flush has forgotten goes once the root says so, whether or not anything is written.
                let is_flushed = (0..DATABASES).any(|db| flush(db) > keeper.root.flushed[db]);
                if self.last_given.load(Acquire) <= begun && !is_flushed {
                    return Progress::Idle;
                }
                keeper.idle += 1;
                let is_due = context.now_ms().saturating_sub(keeper.ended_ms) >= ROUND_MS
                    || self.waiting_bytes.load(Relaxed) >= ROUND_BYTES
                    || self.dram.is_wanted.load(Relaxed)
                    || context.flush_wanted() > begun
                    || keeper.idle >= IDLE_STEPS;
                if !is_due {
                    return Progress::Blocked;
                }
                keeper.idle = 0;
                self.waiting_bytes.store(0, Relaxed);
                let seq = begun + 1;
                self.begun.store(seq, SeqCst);
                self.directory.round_begins();
                keeper.let_go = None;
                keeper.round = Round::Issuing { seq, epoch: context.advance_epoch() };
                Progress::Worked
            }
            Round::Issuing { seq, epoch } => {
                if !context.epoch_passed(epoch) {
                    keeper.round = Round::Issuing { seq, epoch };
                    return Progress::Blocked;
                }
                self.directory.every_session_has_left();
                let upto = context.barrier().positions().iter().copied().max().unwrap_or(0);
                context.raise_version_floor(upto);
                keeper.round = Round::Passing { seq, upto, epoch: context.advance_epoch() };
                Progress::Worked
            }
            Round::Passing { seq, upto, epoch } => {
                if !context.epoch_passed(epoch) {
                    keeper.round = Round::Passing { seq, upto, epoch };
                    return Progress::Blocked;
                }
                keeper.round = Round::Settling { seq, upto, barrier: context.barrier() };
                Progress::Worked
            }
            Round::Settling { seq, upto, barrier } => {
                if !context.barrier_passed(&barrier) {
                    keeper.round = Round::Settling { seq, upto, barrier };
                    return Progress::Blocked;
                }
                let mut flushed = [0; DATABASES];
                context.hold_flushes(&mut || {
                    // One that is newer is not settled yet: the next round knows it.
                    flushed = std::array::from_fn(|db| match context.flush_version(db as u8) {
                        settled if settled <= upto => settled,
                        _ => keeper.root.flushed[db],
                    });
                });
                if upto <= keeper.root.upto {
                    self.end_round(keeper, context, seq);
                    return Progress::Worked;
                }
                if let Err(why) = self.read_tails(keeper, upto, barrier.positions()) {
                    self.fail(why);
                    return Progress::Idle;
                }
                keeper.round = Round::Applying { seq, upto, flushed };
                Progress::Worked
            }
            Round::Applying { seq, upto, flushed } => {
                match self.apply_slice(keeper, upto, &flushed) {
                    Applied::All => {
                        std::mem::swap(&mut keeper.tails, &mut keeper.work.tails);
                        self.end_round(keeper, context, seq);
                        return Progress::Worked;
                    }
                    // What it freed is not waited for until the round is over.
                    Applied::Some => self.free_frames(keeper, context),
                    Applied::Nothing => {
                        self.lacks_page.store(true, Relaxed);
                        self.use_again(keeper, context);
                    }
                }
                keeper.round = Round::Applying { seq, upto, flushed };
                if self.lacks_page.load(Relaxed) { Progress::Blocked } else { Progress::Worked }
            }
        }
    }

    /// What the round has let go itself may be used again once every session has left.
    fn use_again(&self, keeper: &mut Keeper<T::Changes>, context: &dyn Context) {
        match keeper.let_go {
            None => {
                self.directory.round_begins();
                keeper.let_go = Some(context.advance_epoch());
            }
            Some(epoch) if context.epoch_passed(epoch) => {
                self.directory.every_session_has_left();
                keeper.let_go = None;
            }
            Some(_) => {}
        }
    }

    /// A round is over.
    fn end_round(&self, keeper: &mut Keeper<T::Changes>, context: &dyn Context, seq: u64) {
        keeper.work.clear();
        keeper.ended_ms = context.now_ms();
        self.free_frames(keeper, context);
        self.completed.store(seq, SeqCst);
        self.directory.tell_crowding(keeper.root.keys.iter().sum());
    }

    /// Puts what the sessions' logs hold above the root's version, up to another one, into the keeper's work.
    fn read_tails(
        &self,
        keeper: &mut Keeper<T::Changes>,
        upto: u64,
        positions: &[u64],
    ) -> Result<(), String> {
        let Keeper { work, tails, root, start, .. } = keeper;
        work.clear();
        work.tails.clone_from(tails);
        work.tails.resize(positions.len().max(tails.len()), Default::default());
        for (slot, tail) in work.tails.iter_mut().enumerate() {
            let (mut newest, from) = (tail.last, root.upto);
            self.log
                .visit_tail(slot as u16, tail, upto, |entry| {
                    newest = newest.max(entry.version);
                    if entry.version > from {
                        work.items.extend(self.item_of(entry.version, entry.place, entry.bytes));
                    }
                })
                .map_err(|error| format!("reading the log: {error}"))?;
            let issued = positions.get(slot).copied().unwrap_or(0);
            if issued > *start && issued <= upto && newest.max(tail.last) < issued {
                return Err(format!(
                    "the log of session {slot} ends at version {}, and {issued} was written to it",
                    newest.max(tail.last)
                ));
            }
        }
        self.arrange(work);
        Ok(())
    }

    /// Sorts what is to be done by version, and drops what is older than another record of the same key: the table need not lead to it,
    /// for the log still has the newer one as long as the table does not.
    pub(crate) fn arrange(&self, work: &mut Work<T::Changes>) {
        let Work { items, order, newest, .. } = work;
        order.clear();
        order.extend(items.iter().zip(0..).map(|(item, i)| (item.version, i)));
        order.sort_unstable();
        newest.clear();
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let mut kept = order.len();
        for at in (0..order.len()).rev() {
            let item = &items[order[at].1 as usize];
            let is_older = match newest.entry(item.hash) {
                Entry::Vacant(none) => {
                    none.insert(order[at].1);
                    false
                }
                Entry::Occupied(newer) => match (item.edit, items[*newer.get() as usize].edit) {
                    (Edit::Newest(old), Edit::Newest(new)) => {
                        let old = self.medium.read_entry(old.place, &mut one);
                        let new = self.medium.read_entry(new.place, &mut other);
                        old.zip(new).is_some_and(|(old, new)| is_same_key(&old, &new))
                    }
                    _ => false,
                },
            };
            if !is_older {
                kept -= 1;
                order[kept] = order[at];
            }
        }
        order.drain(..kept);
    }

    /// Makes the table lead to the oldest that is left of the keeper's work, which is all up to `upto`.
    pub(crate) fn apply_slice(
        &self,
        keeper: &mut Keeper<T::Changes>,
        upto: u64,
        flushed: &[u64; DATABASES],
    ) -> Applied {
        let most = (self.medium.geometry.page_bytes / SLICE_BYTES).clamp(1, SLICE_MAX);
        if keeper.slice == 0 {
            keeper.slice = most;
        }
        let Work { items, order, done: from, slice, .. } = &mut keeper.work;
        let (from, all) = (*from, order.len());
        let end = (from + keeper.slice).min(all);
        let is_last = end == all;
        let slice_upto = if is_last { upto } else { order[end - 1].0 };
        slice.clear();
        slice.extend(order[from..end].iter().map(|(_, i)| items[*i as usize]));
        let mut slice = std::mem::take(slice);
        let is_done = self.apply(keeper, &mut slice, (slice_upto, upto), flushed, None);
        keeper.work.slice = slice;
        if is_done {
            keeper.work.done = end;
            keeper.slice = (keeper.slice * 2).min(most);
        } else {
            // Fewer take fewer pages for their chains.
            keeper.slice = (keeper.slice / 2).max(1);
        }
        match (is_done, is_last) {
            (false, _) => Applied::Nothing,
            (true, false) => Applied::Some,
            (true, true) => Applied::All,
        }
    }

    /// Frames of which the table has everything leave the front.
    fn free_frames(&self, keeper: &mut Keeper<T::Changes>, context: &dyn Context) {
        let (mut frames, mut key) = (Vec::new(), Vec::new());
        let mut leaving = std::mem::take(&mut keeper.leaving);
        self.dram.leave_up_to(keeper.root.upto, &mut frames, |address, version, meta| {
            let db = self.dram.key_of(address, &mut key);
            let hash = self.directory.hasher().key(db, &key).hash;
            leaving.push((address, version, meta, hash));
        });
        let mut bytes = Vec::new();
        for (i, (address, version, meta, hash)) in leaving.iter().enumerate() {
            // Of an index of keys a hash says nothing.
            if !self.front.needs_key()
                && let Some((.., hash)) = leaving.get(i + AHEAD)
            {
                self.front.prefetch(&Key { hash: *hash, db: 0, bytes: &[] });
            }
            let is_tombstone = meta.kind() == RecordKind::Tombstone;
            if is_tombstone {
                // Before it is gone: what is written then is newer.
                context.raise_version_floor(*version);
            }
            if self.front.needs_key() {
                self.dram.key_of(*address, &mut bytes);
            }
            let key = Key { hash: *hash, db: meta.db(), bytes: &bytes };
            if self.front.remove(&key, *address) && is_tombstone {
                context.forgotten(RecordKind::Tombstone);
            }
        }
        leaving.clear();
        leaving.shrink_to(SLICE_MAX);
        keeper.leaving = leaving;
        if !frames.is_empty() {
            keeper.leaving_frames.push_back((context.advance_epoch(), frames));
        }
    }

    /// What every session has left is free.
    pub(crate) fn reclaim(&self, keeper: &mut Keeper<T::Changes>, context: &dyn Context) -> Progress {
        let mut progress = Progress::Idle;
        while keeper.leaving_frames.front().is_some_and(|(epoch, _)| context.epoch_passed(*epoch)) {
            if let Some((_, frames)) = keeper.leaving_frames.pop_front() {
                self.dram.give(&frames);
                self.dram.is_wanted.store(false, Relaxed);
                progress = Progress::Worked;
            }
        }
        while keeper.leaving_pages.front().is_some_and(|(epoch, _)| context.epoch_passed(*epoch)) {
            if let Some((_, page)) = keeper.leaving_pages.pop_front() {
                self.pages.page(page).is_leaving.store(false, Relaxed);
                self.give_page(keeper, page);
                progress = Progress::Worked;
            }
        }
        let waits = !keeper.leaving_frames.is_empty() || !keeper.leaving_pages.is_empty();
        if progress == Progress::Idle && waits { Progress::Blocked } else { progress }
    }
}
