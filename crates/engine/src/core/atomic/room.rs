//! Room for a group: in the space, and in the log.
//!
//! A short group fits in a page and in one log block; a *long* one takes many. Where there is no room at once it is gathered:
//! what there is of slots, pages and log blocks is held while background work makes more, which makes none of a kind of which
//! some is free. Two sessions that do so would wait for each other, so one does at a time, and others wait in vain for what it
//! holds until its group is written.

use std::sync::atomic::Ordering::*;

use terrace_index::Index;
use terrace_log::{LogDevice, Writer};

use super::super::{Awaited, Core, LOG_SLACK};
use super::plan::{ENTRY_SLACK, Plan};
use crate::reply::OpError;
use crate::space::{Class, Room, Space};

/// Rounds of waiting after which what is held is given back once: a slab that is to be emptied may hold some of it.
const ROUNDS_HELD: u32 = 1 << 5;

/// How long the records of a group are.
pub(super) struct Sizes {
    records: usize,
    words: usize,
    longest: usize,
}

impl Sizes {
    /// Of records of so many words.
    pub fn of(words: &[usize]) -> Self {
        Self {
            records: words.len(),
            words: words.iter().sum(),
            longest: words.iter().copied().max().unwrap_or(0),
        }
    }
    /// Whether the log has room for these where it has room for others.
    pub fn is_within(&self, other: &Self) -> bool {
        self.records <= other.records && self.words <= other.words && self.longest <= other.longest
    }
    /// What they take in the log at most.
    fn log_bytes(&self) -> usize {
        self.words * 8 + self.records * LOG_SLACK
    }
    fn longest_log_bytes(&self) -> usize {
        self.longest * 8 + LOG_SLACK
    }
}

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Bytes of records that one group may have at once; of more, room must be gathered.
    pub(super) fn short_group_bytes(&self) -> usize {
        let log = self.machine.log.keeper();
        let log_max = log.map_or(usize::MAX, |log| log.max_group_bytes(self.seen.len()));
        self.machine.space.limits().short_group_bytes.min(log_max)
    }

    /// Whether a group of these records is more than there can ever be room for, and then how long one may be.
    fn too_long(&self, sizes: &Sizes) -> Option<OpError> {
        let bytes = sizes.words * 8 + sizes.records * ENTRY_SLACK;
        let short = self.short_group_bytes();
        if bytes <= short {
            return None;
        }
        let space_max = self.machine.space.limits().group_bytes;
        let Some(log) = self.machine.log.keeper() else {
            return (bytes > space_max).then_some(OpError::GroupTooLong(space_max as u64));
        };
        let (dependencies, sessions) = (self.seen.len(), self.shared().sessions_open());
        let step = (sizes.records, sizes.log_bytes(), sizes.longest_log_bytes());
        let max = space_max.min(log.max_step_bytes(dependencies, sessions)).max(short);
        let fits = bytes <= space_max && log.takes_step(step, dependencies, sessions);
        (!fits).then_some(OpError::GroupTooLong(max as u64))
    }

    /// Makes room for records of these sizes, in words.
    pub(super) fn make_group_room(&mut self, plan: &Plan<'_>, words: &[usize]) -> Result<(), OpError> {
        if words.is_empty() {
            return Ok(());
        }
        let sizes = Sizes::of(words);
        if let Some(error) = self.too_long(&sizes) {
            return Err(error);
        }
        let is_long = sizes.words * 8 + sizes.records * ENTRY_SLACK > self.short_group_bytes();
        if is_long || !self.has_room_now(plan.class, words, &sizes)? {
            self.gather(plan.class, words, &sizes, is_long)?;
        }
        Ok(())
    }

    /// Whether there is room for a short group without waiting for more than the log's pace.
    fn has_room_now(&mut self, class: Class, words: &[usize], sizes: &Sizes) -> Result<bool, OpError> {
        if !self.fits_beside_what_is_buffered(sizes) {
            return Ok(false);
        }
        // Once more where it has waited.
        let is_paced = self.make_log_room(sizes.words, sizes.records)?
            || self.make_log_room(sizes.words, sizes.records)?;
        Ok(is_paced && self.machine.space.prepare(&mut self.local, words, class) == Room::Ready)
    }

    /// Whether the log takes a short group together with what is buffered. Both go to one block.
    fn fits_beside_what_is_buffered(&mut self, sizes: &Sizes) -> bool {
        let sessions = self.seen.len();
        let log_max = self.machine.log.keeper().map_or(usize::MAX, |log| log.max_group_bytes(sessions));
        let Some(writer) = self.writer.keeper_mut() else { return true };
        let bytes = writer.buffered_bytes() + sizes.log_bytes();
        bytes <= writer.room(sessions) && bytes <= log_max
    }

    /// Waits for room, and holds what there is meanwhile.
    #[cold]
    fn gather(&mut self, class: Class, words: &[usize], sizes: &Sizes, is_long: bool) -> Result<(), OpError> {
        while !self.is_gathering {
            if self.shared().log_failed.load(Relaxed) {
                return Err(self.shared().log_error());
            }
            self.is_gathering =
                self.shared().gathering.compare_exchange(false, true, SeqCst, Relaxed).is_ok();
            if !self.is_gathering {
                self.stall()?;
            }
        }
        let (mut waited, mut rounds, mut is_paced) = (Awaited::default(), 0, false);
        loop {
            if self.shared().log_failed.load(Relaxed) {
                return Err(self.shared().log_error());
            }
            rounds += 1;
            if rounds % ROUNDS_HELD == 0 {
                self.machine.space.rest(&mut self.local);
            }
            // First, for pages that have begun don't wait.
            if !(if is_long { self.gather_in_log(sizes, &mut is_paced)? } else { self.clear_log(sizes)? }) {
                continue;
            }
            match self.machine.space.prepare(&mut self.local, words, class) {
                Room::Ready => return Ok(()),
                Room::Full if class == Class::Write => {
                    self.await_eviction(&mut waited)?;
                }
                // That was said to a purge, so that it ends: more may be found after it.
                Room::Full if !self.is_internal && self.shared().is_purging.load(SeqCst) => self.stall()?,
                Room::Full => return Err(OpError::Full),
                Room::Wait => self.stall()?,
            }
        }
    }

    /// Makes room in the log for a short group; `false` if the session left its epoch for that.
    fn clear_log(&mut self, sizes: &Sizes) -> Result<bool, OpError> {
        if self.fits_beside_what_is_buffered(sizes) {
            return Ok(true);
        }
        if self.writer.keeper().is_some_and(|writer| !writer.is_empty()) {
            self.write_buffered()?;
            return Ok(false);
        }
        self.make_log_room(sizes.words, sizes.records)
    }

    /// Holds log blocks for a long group, and keeps the log's pace once; `false` if more blocks must become free first.
    fn gather_in_log(&mut self, sizes: &Sizes, is_paced: &mut bool) -> Result<bool, OpError> {
        let sessions = self.seen.len();
        let Some(writer) = self.writer.keeper_mut() else { return Ok(true) };
        let bytes = sizes.log_bytes();
        if writer.reserve_step(sizes.records, bytes, sizes.longest_log_bytes(), sessions) {
            if !*is_paced && self.shared().pace.is_limited() {
                *is_paced = self.keep_pace(bytes)?;
                return Ok(*is_paced);
            }
            return Ok(true);
        }
        // Blocks are freed as pages land, and many are needed.
        let newest = self.machine.space.last_seq();
        self.shared().flush_wanted.fetch_max(newest, SeqCst);
        self.stall()?;
        Ok(false)
    }

    /// What was gathered for a group, written or not, is free for others.
    pub(super) fn give_group_room_back(&mut self) {
        if !std::mem::take(&mut self.is_gathering) {
            return;
        }
        self.machine.space.rest(&mut self.local);
        if self.writer.keeper().is_some_and(Writer::holds_step) {
            // The blocks are for what is buffered. If it can't be written, nothing is any more: the batch's end says so.
            let _ = self.write_buffered();
        }
        if let Some(writer) = self.writer.keeper_mut() {
            writer.give_reserve_back();
        }
        self.shared().gathering.store(false, SeqCst);
        self.shared().notify_work();
    }
}
