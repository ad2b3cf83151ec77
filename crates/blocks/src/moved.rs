//! Blocks of large values that move, for a tier that shrinks: as they are, to another slot.
//!
//! ```text
//! description of a value -> piece (seq, slot) --- the slot has that seq ------------------> there
//!                                             '-- else, the block is found by its seq ---> where it lies now
//! ```
//!
//! A piece names its block by `seq`, which is unique, and by the slot that it lay in when the value was written. A block that has
//! moved keeps its seq, and its header says that it has (`BlockKind::Moved`), so that descriptions in records, in the log and in
//! other tiers stay as they are, versions too.
//!
//! # Invariants
//! * The copy's header is written once all else of it is durable: whoever finds it may take it for whole.
//! * The source is cleared after that, its header alone: a crash leaves the source whole, or both, or the copy; of two either will
//!   do, and recovery frees the other one.
//! * Live bytes of a block that moves are handed over, and let go, under the lock of `by_seq`.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering::*;

use terrace_engine::space::Context;

use crate::blocks::{Blocks, RECLAIM_SLOTS};
use crate::freeing::Freeing;
use crate::layout::{BLOCK_HEADER_BYTES, BlockKind};
use crate::lower::Lower;
use crate::pieces::Piece;
use crate::slots::State;
use crate::sync::Mutex;

/// Where blocks of large values are that have moved.
#[derive(Default)]
pub(crate) struct Moved {
    /// `None`: it is lost, as recovery found.
    by_seq: Mutex<HashMap<u64, Option<u32>>>,
}

/// Why a piece is nowhere to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Its value was replaced since.
    Freed,
    /// Its block is not on the medium.
    Lost,
}

impl Moved {
    /// A block with this seq, which has moved, lies there (recovery). Of two the lower one, whatever order they come in: one that
    /// moved again went down, and of what an opening doesn't take a crash may leave a part.
    pub fn found(&self, seq: u64, slot: u32) {
        let mut by_seq = self.by_seq.lock();
        let known = by_seq.entry(seq).or_insert(Some(slot));
        *known = known.map(|known| known.min(slot)).or(Some(slot));
    }
    fn slot_of(&self, seq: u64) -> Option<Option<u32>> {
        self.by_seq.lock().get(&seq).copied()
    }
    /// A live piece's block is nowhere (recovery).
    pub fn is_lost(&self, seq: u64) {
        self.by_seq.lock().entry(seq).or_insert(None);
    }
}

impl<L: Lower> Blocks<L> {
    /// The piece with the slot that its block lies in now.
    pub(crate) fn find_piece(&self, piece: Piece) -> Result<Piece, Gone> {
        let is_here = self.has_seq(piece.slot, piece.seq);
        // One that is to be free may be cleared any moment: the copy, if there is one.
        if is_here && self.slots[piece.slot as usize].state() != State::Freeing {
            return Ok(piece);
        }
        match self.moved.slot_of(piece.seq) {
            Some(Some(slot)) if self.has_seq(slot, piece.seq) => Ok(Piece { slot, ..piece }),
            _ if is_here => Ok(piece),
            Some(None) => Err(Gone::Lost),
            _ => Err(Gone::Freed),
        }
    }

    /// Whether a piece that was read from this slot has left it since, or is about to: what was read may be of a block that was
    /// being cleared.
    pub(crate) fn has_left(&self, piece: Piece, slot: u32) -> bool {
        let there = self.find_piece(piece).ok().filter(|there| there.slot == slot);
        there.is_none_or(|there| self.slots[there.slot as usize].state() != State::Extents)
    }

    fn has_seq(&self, slot: u32, seq: u64) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| slot.seq.load(Acquire) == seq)
    }

    /// Nothing refers to a piece any more.
    pub(crate) fn drop_piece(&self, piece: &Piece) {
        let moved = self.moved.by_seq.lock();
        // The copy first: the source has its seq until it is free.
        let copy = moved.get(&piece.seq).copied().flatten().filter(|&slot| self.has_seq(slot, piece.seq));
        if let Some(slot) = self.slots.get(copy.unwrap_or(piece.slot) as usize) {
            slot.live_bytes.fetch_sub(i64::from(piece.bytes), SeqCst);
        }
    }

    /// The slot in which recovery adopts a piece, if there is a block with its seq.
    pub(crate) fn adopting_slot(&self, piece: &Piece) -> Option<u32> {
        let is_there =
            |slot: u32| self.has_seq(slot, piece.seq) && self.slots[slot as usize].state() == State::Extents;
        if is_there(piece.slot) {
            // A copy that nobody needs then.
            self.moved.by_seq.lock().remove(&piece.seq);
            return Some(piece.slot);
        }
        self.moved.slot_of(piece.seq).flatten().filter(|&slot| is_there(slot))
    }

    /// Moves a block of large values that lies behind the tier's end; `false` if it can't be now: somebody writes to it, or there
    /// is no room. One step at a time calls this.
    ///
    /// # Errors
    /// The device's. A write or sync that fails makes the tier count as failed.
    pub fn move_extents(&self, from: u32, freeing: &mut Freeing, context: &dyn Context) -> io::Result<bool> {
        let source = &self.slots[from as usize];
        debug_assert!(self.is_beyond(from) && source.state() == State::Extents);
        // Nobody fills it any more, for it is closed; who began before may still be writing.
        if source.count.load(SeqCst) > 0 {
            return Ok(false);
        }
        let seq = source.seq.load(Acquire);
        let mut bytes = vec![0; self.block_bytes];
        self.lower.read(self.block_offset(from), &mut bytes)?;
        let to = {
            let mut free = self.free.slots.lock();
            if free.len() <= RECLAIM_SLOTS { None } else { free.pop() }
        };
        let Some(to) = to else { return Ok(false) };
        let target = &self.slots[to as usize];
        target.begin(State::Extents, seq, None, source.used_bytes.load(Relaxed));
        let first = BLOCK_HEADER_BYTES.next_multiple_of(L::UNIT);
        let body = self.lower.write(self.block_offset(to) + first as u64, &bytes[first..]);
        let whole = body.and_then(|()| self.lower.sync());
        let header = whole.and_then(|()| self.write_header_of(to, BlockKind::Moved));
        if let Err(error) = header.and_then(|()| self.lower.sync()) {
            self.failure.fail(&format!("moving block {from} to {to}"), &error);
            return Err(error);
        }
        target.written.store(true, Release);
        {
            let mut moved = self.moved.by_seq.lock();
            target.live_bytes.store(source.live_bytes.swap(0, SeqCst), SeqCst);
            moved.insert(seq, Some(to));
        }
        self.begin_freeing_moved(freeing, from, context);
        self.counts.extents_moved.fetch_add(1, Relaxed);
        Ok(true)
    }

    /// A block of large values is free: nobody asks where it is any more.
    pub(crate) fn forget_moved(&self, seq: u64, slot: u32) {
        let mut moved = self.moved.by_seq.lock();
        if moved.get(&seq) == Some(&Some(slot)) {
            moved.remove(&seq);
        }
    }
}

#[cfg(test)]
mod tests;
