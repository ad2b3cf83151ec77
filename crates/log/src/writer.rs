//! One session's end of the log: entries are combined in DRAM and go out as groups.
//!
//! # Invariants
//! - `buffer` holds whole entries only; every version in it is above `last_written`.
//! - A block's header goes out in the same write as its first group, and its base version is the last version written
//!   before: recovery goes from block to block only where the two agree.
//! - After a failed write nothing is ever written again for this slot: what reached the medium is unknown.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::block_format::{BlockHeader, CHAIN_MAX, HEADER_BYTES};
use crate::device::{LogDevice, Tail};
use crate::error::LogError;
use crate::group::{CONTINUES, GroupHead, encode, encode_entry, first_entry, first_step, group_bytes};
use crate::log::Shared;
use crate::table::{Current, UsedBlock};

/// Appends one session's entries. Belongs to one thread. Dropping it drops entries that were not written; the next writer
/// of the slot goes on where it stopped.
pub struct Writer<D: LogDevice> {
    shared: Arc<Shared<D>>,
    slot: u16,
    buffer: Vec<u8>,
    buffered_entries: u32,
    buffered_max_seq: u64,
    last_buffered: u64,
    /// Where the last entry's length stands, if the next entry belongs to the same atomic step.
    step: Step,
    scratch: Vec<u8>,
    current: Option<Current>,
    /// Blocks held for when the current one is full: one, or as many as a step that is about to come needs.
    reserve: Vec<u32>,
    /// The last version of what is written whole, atomic steps included.
    last_written: u64,
    /// The last version of the last group: beyond `last_written` between two groups of a step.
    in_log: u64,
    /// The end of the newest group that is known to be durable. Positions that callers name may lie between two groups, or
    /// before the first one: a claim to such a position would turn the loss of the next group into damage.
    claim: u64,
    /// Ends of later groups, in order.
    unclaimed: VecDeque<u64>,
    tail: Tail,
    broken: bool,
}

enum Step {
    None,
    Begun,
    After { length_at: usize },
}

/// Entries for one group.
struct Take {
    bytes: usize,
    entries: u32,
    last_version: u64,
    /// The step of its last entry goes on in the next group.
    is_open: bool,
}

impl<D: LogDevice> Writer<D> {
    pub(crate) fn new(shared: Arc<Shared<D>>, slot: u16, last_version: u64) -> Self {
        let (current, tail, last_written, start, broken) = {
            let mut table = shared.table.lock();
            let state = table.slots.entry(slot).or_default();
            assert!(!state.open, "slot {slot} already has a writer");
            state.open = true;
            // Not the session's if the slot's log ends earlier: bases must agree with the blocks before.
            let last_written = *state.last_version.get_or_insert(last_version);
            let start = *state.start.get_or_insert((last_version, last_written));
            let (current, tail) = state.parked.take().map_or((None, Tail::new()), |(c, t)| (Some(c), t));
            (current, tail, last_written, start, state.broken)
        };
        Self {
            shared,
            slot,
            buffer: Vec::new(),
            buffered_entries: 0,
            buffered_max_seq: 0,
            last_buffered: last_version.max(last_written),
            step: Step::None,
            scratch: Vec::new(),
            current,
            reserve: Vec::new(),
            last_written,
            in_log: last_written,
            claim: start.1,
            // Of what an earlier writer of this slot wrote, the end alone is known.
            unclaimed: (last_written > start.1).then_some(last_written).into_iter().collect(),
            tail,
            broken,
        }
    }

    /// Adds an entry to the buffer: `parts` one behind the other. As [`entry_with`](Self::entry_with).
    pub fn entry(&mut self, version: u64, seq: u64, parts: &[&[u8]]) {
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.entry_with(version, seq, bytes, |out| {
            parts.iter().fold(out, |out, part| {
                let (front, rest) = out.split_at_mut(part.len());
                front.copy_from_slice(part);
                rest
            });
        });
    }
    /// Adds an entry of so many bytes, which are zeros before `write` writes them, to the buffer. `seq` is the sequence number of the page that holds the
    /// record: the entry's block is kept until that is persisted.
    ///
    /// # Panics
    /// If `version` is not above every earlier one of this session.
    #[inline]
    pub fn entry_with(&mut self, version: u64, seq: u64, bytes: usize, write: impl FnOnce(&mut [u8])) {
        assert!(version > self.last_buffered, "version {version} after {}", self.last_buffered);
        self.last_buffered = version;
        self.buffered_max_seq = self.buffered_max_seq.max(seq);
        if let Step::After { length_at } = self.step {
            // CONTINUES is the top bit of a little-endian u32.
            self.buffer[length_at + 3] |= (CONTINUES >> 24) as u8;
        }
        let length_at = encode_entry(&mut self.buffer, version, bytes, write);
        self.buffered_entries += 1;
        if !matches!(self.step, Step::None) {
            self.step = Step::After { length_at };
        }
    }
    /// The entries added until [`end_atomic`](Self::end_atomic) are one step: recovery finds all of them or none, in
    /// however many groups and blocks they are.
    pub fn begin_atomic(&mut self) {
        debug_assert!(matches!(self.step, Step::None), "atomic steps don't nest");
        self.step = Step::Begun;
    }
    /// Ends the step begun by [`begin_atomic`](Self::begin_atomic).
    pub fn end_atomic(&mut self) {
        self.step = Step::None;
    }
    /// Bytes that the buffered entries take in groups, each 12 + its length, rounded up to 8.
    #[inline]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }
    /// Whether nothing is buffered.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
    /// The last version that [`write`](Self::write) wrote, or the slot's position where it took up. Of a step that is written in
    /// part, nothing counts.
    pub fn last_written(&self) -> u64 {
        self.last_written
    }
    /// DRAM held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.scratch.capacity() + self.tail.memory_bytes()
    }
    /// If [`buffered_bytes`](Self::buffered_bytes) is at most this when [`write`](Self::write) is called with at most
    /// this many dependencies, then it won't answer [`LogError::Full`], whatever other sessions do meanwhile. Each writer
    /// that has written holds one block in reserve for this, while there are any.
    #[inline]
    pub fn room(&mut self, dependencies: usize) -> usize {
        if self.reserve.is_empty() {
            self.take_reserve();
        }
        let overhead = group_bytes(dependencies, 0);
        let free = match self.reserve.is_empty() {
            false => self.shared.groups_end() - HEADER_BYTES,
            true => self.rest(),
        };
        free.saturating_sub(overhead)
    }

    #[cold]
    fn take_reserve(&mut self) {
        self.reserve.extend(self.shared.table.lock().take());
    }

    /// Holds blocks for what is buffered and a step of `entries` entries beside it, which take `bytes` (counted as
    /// [`buffered_bytes`](Self::buffered_bytes) counts) and the longest of them `longest`. If it answers `true`, the next
    /// [`write`](Self::write) with that step and at most this many dependencies won't answer [`LogError::Full`]. If not, that
    /// many blocks are not free now: nothing is held but what was, and [`Log::reclaim`](crate::Log::reclaim) knows that they are
    /// waited for.
    pub fn reserve_step(
        &mut self,
        entries: usize,
        bytes: usize,
        longest: usize,
        dependencies: usize,
    ) -> bool {
        let wanted = self.shared.blocks_for(entries, self.buffer.len() + bytes, longest, dependencies);
        if self.reserve.len() < wanted {
            let mut table = self.shared.table.lock();
            let missing = wanted - self.reserve.len();
            if table.free.len() < missing {
                table.wanted = missing;
                return false;
            }
            table.wanted = 0;
            let from = table.free.len() - missing;
            self.reserve.extend(table.free.drain(from..));
        }
        true
    }

    /// Whether [`reserve_step`](Self::reserve_step) holds blocks that were not written.
    pub fn holds_step(&self) -> bool {
        self.reserve.len() > 1
    }

    /// Gives back what [`reserve_step`](Self::reserve_step) holds, but for the one block that each writer has.
    pub fn give_reserve_back(&mut self) {
        let held = self.reserve.len().min(1)..;
        let mut table = self.shared.table.lock();
        table.free.extend(self.reserve.drain(held));
        table.wanted = 0;
    }

    fn rest(&self) -> usize {
        self.current.map_or(0, |current| self.shared.groups_end() - current.used)
    }

    /// Writes what is buffered: one group and one write, or several where it exceeds a group, or where one step does;
    /// dependencies (versions of other sessions that the entries rest on) are in the first. Returns the last version written, `None` if the buffer
    /// was empty. When it returns the write has completed; on [immediate](LogDevice::immediate) media it is durable.
    ///
    /// `durable` is this session's durable position: 0, or the `last_written` of some earlier time, all of which is safe
    /// from power loss together with what it depends on.
    ///
    /// # Errors
    /// [`LogError::Full`]: what is not written ([`last_written`](Self::last_written)) stays buffered; reclaim and call
    /// again with the same dependencies, before anything else of the slot is written. [`LogError::TooLarge`]: an entry that
    /// can't be written stays buffered.
    /// [`LogError::Io`], and [`LogError::Broken`] from then on.
    ///
    /// # Panics
    /// If an atomic step is open.
    pub fn write(&mut self, durable: u64, dependencies: &[(u16, u64)]) -> Result<Option<u64>, LogError> {
        assert!(matches!(self.step, Step::None), "a write inside an atomic step");
        if self.buffer.is_empty() {
            return Ok(None);
        }
        if self.broken {
            return Err(LogError::Broken);
        }
        while let Some(end) = self.unclaimed.front().copied().filter(|end| *end <= durable) {
            self.claim = end;
            self.unclaimed.pop_front();
        }
        let mut done = 0;
        let result = self.write_groups(dependencies, &mut done);
        if done == self.buffer.len() {
            self.buffer.clear();
            // A long step is rare, and its room is DRAM that records could have.
            self.buffer.shrink_to(self.shared.options.block_bytes);
            (self.buffered_entries, self.buffered_max_seq) = (0, 0);
        } else {
            self.buffer.drain(..done);
        }
        result.map(|()| Some(self.last_written))
    }

    fn write_groups(&mut self, dependencies: &[(u16, u64)], done: &mut usize) -> Result<(), LogError> {
        let mut dependencies = dependencies;
        while *done < self.buffer.len() {
            let take = self.take(*done, dependencies.len())?;
            self.write_group(dependencies, *done, &take)?;
            *done += take.bytes;
            self.buffered_entries -= take.entries;
            self.in_log = take.last_version;
            if !take.is_open {
                self.last_written = take.last_version;
                self.unclaimed.push_back(take.last_version);
            }
            dependencies = &[];
        }
        Ok(())
    }

    /// As many atomic steps from `from` on as one group holds, or as much of the first one.
    fn take(&self, from: usize, dependencies: usize) -> Result<Take, LogError> {
        let max = self.shared.groups_end() - HEADER_BYTES;
        let all = self.buffer.len() - from;
        if group_bytes(dependencies, all) <= max && dependencies <= u16::MAX as usize {
            let (entries, last_version) = (self.buffered_entries, self.last_buffered);
            return Ok(Take { bytes: all, entries, last_version, is_open: false });
        }
        let mut take = Take { bytes: 0, entries: 0, last_version: 0, is_open: false };
        while from + take.bytes < self.buffer.len() {
            let (bytes, entries, last_version) = first_step(&self.buffer[from + take.bytes..]);
            let needed = group_bytes(dependencies, take.bytes + bytes);
            if needed > max || dependencies > u16::MAX as usize {
                if take.bytes == 0 {
                    return self.take_part(from, max, dependencies);
                }
                break;
            }
            let (bytes, entries) = (take.bytes + bytes, take.entries + entries);
            take = Take { bytes, entries, last_version, is_open: false };
        }
        Ok(take)
    }

    /// As many entries of the step at `from`, which exceeds a group, as one holds.
    fn take_part(&self, from: usize, max: usize, dependencies: usize) -> Result<Take, LogError> {
        let mut take = Take { bytes: 0, entries: 0, last_version: 0, is_open: true };
        loop {
            let (bytes, last_version) = first_entry(&self.buffer[from + take.bytes..]);
            let needed = group_bytes(dependencies, take.bytes + bytes);
            if needed > max || dependencies > u16::MAX as usize {
                return if take.bytes == 0 {
                    Err(LogError::TooLarge { bytes: needed, max })
                } else {
                    Ok(take)
                };
            }
            take = Take { bytes: take.bytes + bytes, entries: take.entries + 1, last_version, ..take };
        }
    }

    fn write_group(&mut self, dependencies: &[(u16, u64)], from: usize, take: &Take) -> Result<(), LogError> {
        let bytes = group_bytes(dependencies.len(), take.bytes);
        self.scratch.clear();
        let fits = bytes <= self.rest();
        let mut current = match self.current {
            Some(current) if fits => current,
            _ => self.begin_block()?,
        };
        let head = GroupHead {
            entries: take.entries,
            last_version: take.last_version,
            durable: self.claim,
            dependencies,
        };
        let place = self.shared.place(current.block, current.generation);
        let at = current.used + self.scratch.len();
        encode(&mut self.scratch, place, at, &head, &self.buffer[from..from + take.bytes]);
        let offset = place.block_offset + current.used as u64;
        if let Err(error) = self.shared.device.append(&mut self.tail, offset, &self.scratch) {
            self.broken = true;
            return Err(error.into());
        }
        if !fits {
            self.write_copy(&current)?;
        }
        current.used += self.scratch.len();
        current.max_seq = current.max_seq.max(self.buffered_max_seq);
        if !fits {
            self.change_block(&current);
        }
        self.current = Some(current);
        Ok(())
    }

    /// Takes a block and puts its header in `scratch`; the table learns that the block is being begun.
    fn begin_block(&mut self) -> Result<Current, LogError> {
        let shared = &*self.shared;
        let mut table = shared.table.lock();
        let Some(block) = self.reserve.pop().or_else(|| table.take()) else { return Err(LogError::Full) };
        let generation = table.next_generation;
        table.next_generation += 1;
        table.opening.push(generation);
        let slot = table.slots.entry(self.slot).or_default();
        let header = BlockHeader {
            slot: self.slot,
            chain: slot.next_chain,
            generation,
            base_version: self.in_log,
            first: shared.device.immediate() || slot.used.is_empty(),
            synced: if shared.device.immediate() { 0 } else { shared.synced.load(Ordering::Acquire) },
        };
        assert!(header.chain < CHAIN_MAX, "chain numbers are used up");
        slot.next_chain += 1;
        slot.used.push_back(UsedBlock {
            block,
            chain: header.chain,
            generation,
            base_version: header.base_version,
            max_seq: u64::MAX,
            last_version: u64::MAX,
            needless: false,
        });
        self.scratch.extend_from_slice(&header.encode(shared.options.store_id, block));
        Ok(Current { block, generation, used: 0, max_seq: 0 })
    }

    /// The header that `scratch` begins with is durable: now its copy.
    fn write_copy(&mut self, begun: &Current) -> Result<(), LogError> {
        let shared = &*self.shared;
        if shared.groups_end() == shared.options.block_bytes {
            return Ok(());
        }
        let copy = &self.scratch[..HEADER_BYTES];
        if let Err(error) = shared.device.overwrite(shared.copy_offset(begun.block), copy) {
            self.broken = true;
            return Err(error.into());
        }
        Ok(())
    }

    /// The new block's header is written: the one before it is closed.
    fn change_block(&mut self, now: &Current) {
        let mut table = self.shared.table.lock();
        table.opening.retain(|generation| *generation != now.generation);
        if self.reserve.is_empty() {
            self.reserve.extend(table.take());
        }
        let slot = table.slots.entry(self.slot).or_default();
        if let Some(before) = &self.current {
            settle(&mut slot.used, before, self.in_log);
        }
        slot.current = Some(now.block);
    }
}

/// Notes what a block holds, once no live writer appends to it.
fn settle(used: &mut VecDeque<UsedBlock>, current: &Current, last_version: u64) {
    if let Some(used) = used.iter_mut().find(|used| used.block == current.block) {
        used.max_seq = current.max_seq;
        used.last_version = last_version;
    }
}

impl<D: LogDevice> Drop for Writer<D> {
    fn drop(&mut self) {
        let mut table = self.shared.table.lock();
        table.free.append(&mut self.reserve);
        let slot = table.slots.entry(self.slot).or_default();
        slot.open = false;
        // What would follow half a step would be taken for its other half.
        self.broken |= self.in_log != self.last_written;
        slot.broken |= self.broken;
        slot.last_version = Some(self.last_written);
        if let (Some(current), false) = (self.current.take(), self.broken) {
            settle(&mut slot.used, &current, self.last_written);
            slot.parked = Some((current, std::mem::take(&mut self.tail)));
        }
    }
}
