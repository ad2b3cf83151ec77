//! Gathering: what lives in sparse blocks of large values is copied to one, so that they can be free.
//!
//! ```text
//! victims   | a . . b . . c |   | . . d . . . |   | . e . . . f |       '.' is dead
//!                  '-----------+-----'---------------'-----'
//!                              v
//! gathered  | header | a | b | c | d | e | f | table, trailer |         the table says which piece of which block lies where
//! ```
//!
//! The same empties the blocks behind the end of a tier that shrinks.
//!
//! ```text
//! 0        64                             first piece                                                  size
//! +--------+------------------------------+---------------------------------------------------------------+
//! | header | table                        | pieces, each at a multiple of 512 (64 on byte-addressable media)|
//! +--------+------------------------------+---------------------------------------------------------------+
//! table    0 entries:u64  8 crc of store id, seq and the entries:u64  16.. entries of 24 bytes
//! entry    0 seq of the block that the piece was written to  8 where it started there:u32, where it starts here:u32
//!          16 bytes:u32 zero:u32
//! ```
//!
//! # Invariants
//! * The header is written once all else of the block is durable: whoever finds it may take it for whole. Until then it stands there as
//!   if it had been cleared, so that the slot does not look as if it had lost what it held.
//! * A victim is freed as any block that holds nothing: once what replaced its dead pieces is durable. So a crash leaves each piece in
//!   its victim, in the gathered block, or in both; recovery takes the newest gathered one that has it (`held.rs`).
//! * What is staged is nowhere else: it can be given up at any time, and victims may go meanwhile.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering::*;

use crate::blocks::{Blocks, RECLAIM_SLOTS};
use crate::held::Held;
use crate::layout::{BLOCK_HEADER_BYTES, BlockKind, Header, put, u32_at, u64_at};
use crate::lower::Lower;
use crate::slots::State;

const TABLE_HEAD_BYTES: usize = 16;
const ENTRY_BYTES: usize = 24;
/// Gathered pieces start at multiples of this: all of the block is written at once, so that none needs units of its own. What is gained
/// is much for values of a few units.
const GRAIN: usize = 512;
/// A block has room in its table for a piece of so many of its bytes, and for a few at least.
const BYTES_A_PIECE: usize = 8 << 10;
const PIECES_MIN: usize = 4;

/// Blocks before the end of a tier that shrinks that must be free for one behind it: what is full leaves others sparser, so that one
/// will do; the rest of what was gathered would only lie elsewhere.
const FREED_BY_FULL: usize = 1;
const FREED_BY_REST: usize = 2;

/// Pieces that a block can gather: as many as there is room for in front of the first one.
fn pieces_max<L: Lower>(block_bytes: usize) -> usize {
    (first_piece_at::<L>(block_bytes) - BLOCK_HEADER_BYTES - TABLE_HEAD_BYTES) / ENTRY_BYTES
}

/// Where the first piece of a block of large values starts, gathered or not, so that what one holds fits in another.
pub(crate) fn first_piece_at<L: Lower>(block_bytes: usize) -> usize {
    let pieces = (block_bytes / BYTES_A_PIECE).max(PIECES_MIN);
    let table = TABLE_HEAD_BYTES + pieces * ENTRY_BYTES;
    (BLOCK_HEADER_BYTES + table).next_multiple_of(L::UNIT)
}

/// A block that is being put together.
#[derive(Default)]
pub struct Gathering {
    image: Vec<u8>,
    used: usize,
    /// What is in it, with the block that it is from.
    copied: Vec<(u32, Held)>,
    /// Blocks that hold nothing any more, less those that their pieces went to, since somebody asked.
    gained: i64,
}

/// Bytes that moving what lives elsewhere would gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gains {
    /// Of blocks of records.
    pub pages: u64,
    /// Of blocks of large values.
    pub extents: u64,
}

impl Gains {
    /// So much in blocks of that size. What is gathered last may fill little of its block.
    pub fn of(pages: u64, extents: u64, block_bytes: usize) -> Self {
        Self { pages, extents: extents.saturating_sub(block_bytes as u64) }
    }
    /// Of both.
    pub fn sum(self) -> u64 {
        self.pages + self.extents
    }
}

impl Gathering {
    /// Whether nothing is staged.
    pub fn is_empty(&self) -> bool {
        self.copied.is_empty()
    }
    /// Whether something of this block is staged.
    pub fn has(&self, number: u32) -> bool {
        self.copied.iter().any(|(from, _)| *from == number)
    }
    /// Gives up what is staged: nothing has changed.
    pub fn give_up(&mut self) {
        *self = Self { gained: self.gained, ..Self::default() };
    }
    /// Blocks that hold nothing any more, less those that their pieces went to, since this was called last.
    pub fn take_gained(&mut self) -> i64 {
        std::mem::take(&mut self.gained)
    }
}

impl<L: Lower> Blocks<L> {
    /// Bytes of a block of large values that gathering is sure to gain, on average over many: a piece that does not fit leaves a gap as
    /// long as itself at most, each starts at a multiple of `GRAIN`, and a table has room for so many. 0 for any other block, and for one that is written to.
    pub fn extent_gain(&self, number: u32) -> u64 {
        let slot = &self.slots[number as usize];
        let live = slot.live_bytes.load(SeqCst).max(0) as u64;
        if slot.state() != State::Extents || live == 0 || slot.count.load(SeqCst) > 0 {
            return 0;
        }
        let room = (self.block_bytes - self.first_piece() as usize) as u64;
        let largest = u64::from(slot.largest().load(Relaxed)) + GRAIN as u64;
        let filled = room.saturating_sub(largest);
        if filled == 0 {
            return 0;
        }
        let (block, pieces) = (self.block_bytes as u64, slot.pieces().load(Relaxed));
        let laid_out = live + pieces * L::UNIT.min(GRAIN) as u64;
        let listed = pieces * block / pieces_max::<L>(self.block_bytes) as u64;
        block.saturating_sub((laid_out * block).div_ceil(filled).max(listed))
    }

    /// What there is to gain in blocks of which each gains so much.
    pub fn gains(&self, each: impl Iterator<Item = (u32, u64)>) -> Gains {
        let (mut pages, mut extents) = (0, 0);
        for (number, gain) in each {
            match self.slots[number as usize].state() {
                State::Extents => extents += gain,
                _ => pages += gain,
            }
        }
        Gains::of(pages, extents, self.block_bytes)
    }

    /// The block of large values that is being filled.
    pub fn open_extents(&self) -> Option<u32> {
        self.extents.open_slot()
    }

    /// Stages what lives in a block of large values; blocks that fill up on the way are written. `false` if that is not all of it: there
    /// is no slot for the next one, or somebody still writes to this one. Nobody begins to any more: it is not the open one.
    ///
    /// # Errors
    /// The device's: nothing is lost. A write or sync that fails makes the tier count as failed.
    pub fn gather(&self, gathering: &mut Gathering, number: u32) -> io::Result<bool> {
        let mut left = self.held_in(number);
        // Not before: what is found must have been written.
        if self.slots[number as usize].count.load(SeqCst) > 0 {
            return Ok(false);
        }
        // A block that gathers takes pieces of several; what it took of this one earlier it needs not take again.
        left.retain(|held| !gathering.copied.iter().any(|(_, copied)| is_same(copied, held)));
        left.sort_unstable_by_key(|held| std::cmp::Reverse(held.bytes));
        loop {
            let mut too_long = Vec::new();
            for held in left {
                if !self.stage_piece(gathering, number, held)? {
                    too_long.push(held);
                }
            }
            if too_long.is_empty() {
                return Ok(true);
            }
            if gathering.is_empty() || !self.seal_gathered(gathering, FREED_BY_FULL)? {
                return Ok(false);
            }
            left = too_long;
        }
    }

    /// Copies a piece to what is staged, if it fits.
    fn stage_piece(&self, gathering: &mut Gathering, from: u32, held: Held) -> io::Result<bool> {
        let at = gathering.used.max(self.first_piece() as usize);
        let end = at + (held.bytes as usize).next_multiple_of(L::UNIT.min(GRAIN));
        if end > self.block_bytes || gathering.copied.len() >= pieces_max::<L>(self.block_bytes) {
            return Ok(false);
        }
        if gathering.image.is_empty() {
            gathering.image = vec![0; self.block_bytes];
        }
        let piece = &mut gathering.image[at..end];
        self.lower.read(self.block_offset(from) + u64::from(held.at), &mut piece[..held.bytes as usize])?;
        piece[held.bytes as usize..].fill(0);
        gathering.used = end;
        gathering.copied.push((from, Held { at: at as u32, ..held }));
        Ok(true)
    }

    /// The same for what does not fill a block, if that frees more than it takes; else it is given up, and this returns `false`.
    ///
    /// # Errors
    /// See there.
    pub fn seal_rest(&self, gathering: &mut Gathering) -> io::Result<bool> {
        if self.emptied_by(gathering, u32::MAX) < 2 {
            gathering.give_up();
            return Ok(false);
        }
        self.seal_staged(gathering)
    }

    /// Blocks before this one in which nothing else lives than what is staged.
    fn emptied_by(&self, gathering: &Gathering, end: u32) -> usize {
        let mut victims: HashMap<u32, i64> = HashMap::new();
        for (from, held) in gathering.copied.iter().filter(|(from, _)| *from < end) {
            *victims.entry(*from).or_default() += i64::from(held.bytes);
        }
        let is_all =
            |(from, bytes): &(&u32, &i64)| self.slots[**from as usize].live_bytes.load(SeqCst) <= **bytes;
        victims.iter().filter(is_all).count()
    }

    /// Begins the block that what is staged goes to: a free one, or one behind the end of a tier that shrinks if so many blocks before
    /// it get free by that: with all before the end full of sparse blocks nothing could move.
    fn begin_gathered(&self, gathering: &Gathering, freed: usize) -> Option<(u32, u64)> {
        let free = {
            let mut free = self.free.slots.lock();
            if free.len() <= RECLAIM_SLOTS { None } else { free.pop() }
        };
        let _nobody_else = self.free.beyond.lock();
        let to = free.or_else(|| {
            let is_worth_it = self.emptied_by(gathering, self.usable() as u32) >= freed;
            if is_worth_it { self.free_beyond(0) } else { None }
        })?;
        let seq = self.last_seq.fetch_add(1, SeqCst) + 1;
        self.slots[to as usize].begin_open(seq);
        Some((to, seq))
    }

    /// A free slot behind the end of a tier that shrinks, if there are more than so many. Whoever begins it holds
    /// [`beyond`](crate::free::Free::beyond) from before this.
    pub fn free_beyond(&self, keep: usize) -> Option<u32> {
        let (end, all) = (self.usable() as u32, self.slots.len() as u32);
        (end..all).filter(|&number| self.slots[number as usize].state() == State::Free).nth(keep)
    }

    /// Writes what is staged, and lets its pieces lie there. `false` if there is no slot for it now.
    ///
    /// # Errors
    /// The device's; then the tier counts as failed.
    pub fn seal_staged(&self, gathering: &mut Gathering) -> io::Result<bool> {
        self.seal_gathered(gathering, FREED_BY_REST)
    }

    fn seal_gathered(&self, gathering: &mut Gathering, freed: usize) -> io::Result<bool> {
        if gathering.is_empty() {
            return Ok(true);
        }
        let Some((to, seq)) = self.begin_gathered(gathering, freed) else { return Ok(false) };
        let target = &self.slots[to as usize];
        let Gathering { mut image, used, copied, gained } = std::mem::take(gathering);
        let header = Header { store_id: self.store_id, seq, slot: to, kind: BlockKind::Gathered }.encode();
        image[..BLOCK_HEADER_BYTES].copy_from_slice(&header);
        image[..8].fill(0);
        encode_table(
            self.store_id,
            seq,
            copied.iter().map(|(_, held)| held),
            &mut image[BLOCK_HEADER_BYTES..],
        );
        let start = self.block_offset(to);
        let end = used.next_multiple_of(L::UNIT).min(self.block_bytes);
        let whole = self.lower.write(start, &image[..end]).and_then(|()| self.lower.sync());
        image[..8].copy_from_slice(&header[..8]);
        let unit = &image[..BLOCK_HEADER_BYTES.next_multiple_of(L::UNIT)];
        let begun = whole.and_then(|()| self.lower.write(start, unit));
        if let Err(error) = begun.and_then(|()| self.lower.sync()) {
            self.failure.fail(&format!("gathering large values in block {to}"), &error);
            return Err(error);
        }
        target.written.store(true, Release);
        target.used_bytes.store(used as u32, Relaxed);
        let mut victims: Vec<u32> = copied.iter().map(|(from, _)| *from).collect();
        victims.sort_unstable();
        victims.dedup();
        let before = victims.iter().filter(|&&from| self.holds_something(from)).count();
        self.have_moved(&copied, to);
        let after = victims.iter().filter(|&&from| self.holds_something(from)).count();
        // It counted one byte, so that nobody found it empty.
        target.live_bytes.fetch_sub(1, SeqCst);
        gathering.gained = gained + before as i64 - after as i64 - 1;
        self.counts.extents_moved.fetch_add((before - after) as u64, Relaxed);
        self.counts.gathered_bytes.fetch_add(end as u64, Relaxed);
        Ok(true)
    }

    fn holds_something(&self, number: u32) -> bool {
        self.slots[number as usize].live_bytes.load(SeqCst) > 0
    }
}

fn is_same(one: &Held, other: &Held) -> bool {
    (one.seq, one.offset) == (other.seq, other.offset)
}

/// The checksum of a table's entries in a block.
fn checksum(store_id: u64, seq: u64, entries: &[u8]) -> u64 {
    let crc = crc32c::crc32c(&[store_id.to_le_bytes(), seq.to_le_bytes()].concat());
    u64::from(crc32c::crc32c_append(crc, entries))
}

/// Writes the table to what lies behind a block's header.
fn encode_table<'a>(store_id: u64, seq: u64, table: impl ExactSizeIterator<Item = &'a Held>, out: &mut [u8]) {
    let (head, entries) = out.split_at_mut(TABLE_HEAD_BYTES);
    let entries = &mut entries[..table.len() * ENTRY_BYTES];
    put(head, 0, table.len() as u64);
    for (entry, held) in entries.chunks_exact_mut(ENTRY_BYTES).zip(table) {
        put(entry, 0, held.seq);
        put(entry, 8, u64::from(held.offset) | u64::from(held.at) << 32);
        put(entry, 16, u64::from(held.bytes));
    }
    put(head, 8, checksum(store_id, seq, entries));
}

/// The table of a gathered block of this seq, from where the block starts on the tier; `None` if it is damaged.
///
/// # Errors
/// The device's.
pub(crate) fn read_table<L: Lower>(
    lower: &L,
    (block_offset, block_bytes): (u64, usize),
    (store_id, seq): (u64, u64),
) -> io::Result<Option<Vec<Held>>> {
    let mut bytes = vec![0; first_piece_at::<L>(block_bytes).min(block_bytes) - BLOCK_HEADER_BYTES];
    lower.read(block_offset + BLOCK_HEADER_BYTES as u64, &mut bytes)?;
    let (head, entries) = bytes.split_at(TABLE_HEAD_BYTES);
    let length = (u64_at(head, 0) as usize).saturating_mul(ENTRY_BYTES);
    let Some(entries) = entries.get(..length) else { return Ok(None) };
    if checksum(store_id, seq, entries) != u64_at(head, 8) {
        return Ok(None);
    }
    let held = |entry: &[u8]| Held {
        seq: u64_at(entry, 0),
        offset: u32_at(entry, 8),
        at: u32_at(entry, 12),
        bytes: u32_at(entry, 16),
    };
    let table: Vec<_> = entries.chunks_exact(ENTRY_BYTES).map(held).collect();
    let inside = |held: &Held| u64::from(held.at) + u64::from(held.bytes) <= block_bytes as u64;
    Ok(table.iter().all(inside).then_some(table))
}

#[cfg(test)]
pub(crate) mod tests;
