//! Which pieces of large values live in which block, and where those lie that were gathered.
//!
//! ```text
//! description of a value -> piece (seq, slot, offset) --- the slot has that seq ----------> there
//!                                                     '-- else, or if it is on its way to be free: the block that it was gathered to
//! ```
//!
//! A piece names its block by `seq`, which is unique, the slot that it lay in when the value was written, and its offset there. A
//! piece that was gathered (`gather.rs`) keeps that name, so that descriptions in records, in the log and in other tiers stay as
//! they are, versions too.
//!
//! The lists are in DRAM, 24 bytes a piece and about 40 if it was gathered: they count in the store's budget.
//!
//! # Thread safety
//! One lock. It is taken for each large value that is written or goes, and for reads of those that were gathered.
//!
//! # Invariants
//! * A live piece is in the list of one block: the one whose live bytes count it. Both change under the lock.
//! * Where a piece was gathered to is known as long as it lives.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::*;

use crate::blocks::Blocks;
use crate::lower::Lower;
use crate::pieces::Piece;
use crate::slots::{Slot, State};
use crate::sync::{Mutex, MutexGuard};

/// A piece that a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The block that it was written to.
    pub seq: u64,
    /// Where it started there.
    pub offset: u32,
    /// Where it starts here.
    pub at: u32,
    /// Its length.
    pub bytes: u32,
}

impl Held {
    /// What descriptions call it.
    fn name(&self) -> (u64, u32) {
        (self.seq, self.offset)
    }
}

/// Where a piece was gathered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gathered {
    offset: u32,
    slot: u32,
    at: u32,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Pieces {
    lists: Mutex<Lists>,
}

#[derive(Default)]
pub(crate) struct Lists {
    /// What lives in a slot.
    live: HashMap<u32, Vec<Held>>,
    /// What was gathered, by the seq of its first block.
    gathered: HashMap<u64, Vec<Gathered>>,
    /// Blocks that are nowhere, as recovery found.
    lost: HashSet<u64>,
    /// What the vectors above have room for, in bytes.
    room: usize,
}

/// A vector that has far more room than it needs gives it back.
fn trim<T>(list: &mut Vec<T>) {
    if list.capacity() > list.len() * 2 + 8 {
        list.shrink_to(list.len() + list.len() / 4);
    }
}

/// What a map of so much room takes.
fn map_bytes<K, V>(room: usize) -> usize {
    // One byte beside each entry, and an eighth stays empty.
    room * (size_of::<(K, V)>() + 1) * 8 / 7
}

impl Lists {
    fn gathered(&self, seq: u64, offset: u32) -> Option<Gathered> {
        self.gathered.get(&seq)?.iter().copied().find(|there| there.offset == offset)
    }
    /// A piece lies in a block that it was gathered to; it lies nowhere else.
    fn now_lies(&mut self, held: &Held, slot: u32) {
        let there = Gathered { offset: held.offset, slot, at: held.at };
        let list = self.gathered.entry(held.seq).or_default();
        self.room -= list.capacity() * size_of::<Gathered>();
        match list.iter_mut().find(|known| known.offset == held.offset) {
            Some(known) => *known = there,
            None => list.push(there),
        }
        self.room += list.capacity() * size_of::<Gathered>();
    }
    fn no_more_gathered(&mut self, (seq, offset): (u64, u32)) {
        let Some(list) = self.gathered.get_mut(&seq) else { return };
        self.room -= list.capacity() * size_of::<Gathered>();
        list.retain(|there| there.offset != offset);
        if list.is_empty() {
            self.gathered.remove(&seq);
            return;
        }
        trim(list);
        self.room += list.capacity() * size_of::<Gathered>();
    }
    fn push(&mut self, number: u32, held: Held) {
        let list = self.live.entry(number).or_default();
        self.room -= list.capacity() * size_of::<Held>();
        list.push(held);
        self.room += list.capacity() * size_of::<Held>();
    }
    fn count_room(&mut self) {
        let live: usize = self.live.values().map(Vec::capacity).sum();
        let gathered: usize = self.gathered.values().map(Vec::capacity).sum();
        self.room = live * size_of::<Held>() + gathered * size_of::<Gathered>();
    }
    fn bytes(&self) -> u64 {
        let live = map_bytes::<u32, Vec<Held>>(self.live.capacity());
        let gathered = map_bytes::<u64, Vec<Gathered>>(self.gathered.capacity());
        (self.room + live + gathered + map_bytes::<u64, ()>(self.lost.capacity())) as u64
    }
    fn add(&mut self, number: u32, slot: &Slot, held: Held) {
        self.push(number, held);
        slot.pieces().fetch_add(1, Relaxed);
        slot.live_bytes.fetch_add(i64::from(held.bytes), SeqCst);
        slot.largest().fetch_max(held.bytes, Relaxed);
    }
    fn remove(&mut self, number: u32, slot: &Slot, name: (u64, u32)) -> Option<Held> {
        let list = self.live.get_mut(&number)?;
        let at = list.iter().position(|held| held.name() == name)?;
        let held = list.swap_remove(at);
        slot.pieces().fetch_sub(1, Relaxed);
        self.room -= list.capacity() * size_of::<Held>();
        trim(list);
        self.room += list.capacity() * size_of::<Held>();
        slot.live_bytes.fetch_sub(i64::from(held.bytes), SeqCst);
        Some(held)
    }
}

/// Where a piece lies now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lies {
    pub slot: u32,
    /// The use of that slot.
    pub seq: u64,
    pub offset: u32,
}

/// Why a piece is nowhere to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Its value was replaced since.
    Freed,
    /// Its block is not on the medium.
    Lost,
}

impl<L: Lower> Blocks<L> {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.pieces.lists.lock()
    }

    /// DRAM that the lists take.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.lists().bytes()
    }

    /// Where a piece lies now.
    pub(crate) fn find_piece(&self, piece: Piece) -> Result<Lies, Gone> {
        let home = Lies { slot: piece.slot, seq: piece.seq, offset: piece.offset };
        let is_here = self.has_seq(piece.slot, piece.seq);
        // A block does not change before it is free. One that is to be may be cleared any moment.
        if is_here && self.slots[piece.slot as usize].state() != State::Freeing {
            return Ok(home);
        }
        let lists = self.lists();
        match lists.gathered(piece.seq, piece.offset) {
            // As long as that is known the block is not free, nor in use for anything else.
            Some(Gathered { slot, at, .. }) => {
                Ok(Lies { slot, seq: self.slots[slot as usize].seq.load(Acquire), offset: at })
            }
            None if is_here => Ok(home),
            None if lists.lost.contains(&piece.seq) => Err(Gone::Lost),
            None => Err(Gone::Freed),
        }
    }

    /// Whether a piece that was read from there has left it since, or is about to: what was read may be of a block that was
    /// being cleared.
    pub(crate) fn has_left(&self, piece: Piece, lay: Lies) -> bool {
        let there = self.find_piece(piece).ok().filter(|there| *there == lay);
        there.is_none_or(|there| self.slots[there.slot as usize].state() != State::Extents)
    }

    pub(crate) fn has_seq(&self, slot: u32, seq: u64) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| slot.seq.load(Acquire) == seq)
    }

    /// A piece has its place in a block that is being filled.
    pub(crate) fn hold_piece(&self, piece: &Piece) {
        let held = Held { seq: piece.seq, offset: piece.offset, at: piece.offset, bytes: piece.bytes };
        self.lists().add(piece.slot, &self.slots[piece.slot as usize], held);
    }

    /// Nothing refers to a piece any more.
    pub(crate) fn drop_piece(&self, piece: &Piece) {
        let name = (piece.seq, piece.offset);
        let mut lists = self.lists();
        let gathered = lists.gathered(piece.seq, piece.offset).map(|there| there.slot);
        let number = gathered.unwrap_or(piece.slot);
        if let Some(slot) = self.slots.get(number as usize) {
            lists.remove(number, slot, name);
        }
        if gathered.is_some() {
            lists.no_more_gathered(name);
        }
    }

    /// What lives in a block of large values.
    pub(crate) fn held_in(&self, number: u32) -> Vec<Held> {
        self.lists().live.get(&number).cloned().unwrap_or_default()
    }

    /// Of those that were copied to another block, durably, those that still live lie there from now on. Each has the block that it
    /// lay in, and where it lies in the other one.
    pub(crate) fn have_moved(&self, copied: &[(u32, Held)], to: u32) {
        let mut lists = self.lists();
        for (from, held) in copied {
            if lists.remove(*from, &self.slots[*from as usize], held.name()).is_some() {
                lists.add(to, &self.slots[to as usize], *held);
                lists.now_lies(held, to);
            }
        }
    }

    /// A block is free: nothing lives in it.
    pub(crate) fn forget_held(&self, number: u32) {
        let mut lists = self.lists();
        if let Some(list) = lists.live.remove(&number) {
            lists.room -= list.capacity() * size_of::<Held>();
        }
        if lists.live.capacity() > lists.live.len() * 4 + 64 {
            lists.live.shrink_to_fit();
        }
    }

    /// A block that pieces were gathered to holds these (recovery). A crash may leave more than one block with a piece: they hold
    /// the same bytes, and the newest has all that still lived when it was made.
    pub(crate) fn found_gathered(&self, number: u32, seq: u64, table: &[Held]) {
        let mut lists = self.lists();
        for held in table {
            let known = lists.gathered(held.seq, held.offset);
            if known.is_none_or(|known| self.slots[known.slot as usize].seq.load(Relaxed) < seq) {
                lists.now_lies(held, number);
            }
        }
    }

    /// A live record describes this piece (recovery). `false` if its block is nowhere.
    pub(crate) fn adopt_piece(&self, piece: &Piece) -> bool {
        let mut lists = self.lists();
        let mut held = Held { seq: piece.seq, offset: piece.offset, at: piece.offset, bytes: piece.bytes };
        // Who gathered it may not have got so far as to clear where it lay before.
        let gathered = lists.gathered(piece.seq, piece.offset);
        let gathered = gathered.filter(|there| self.slots[there.slot as usize].state() == State::Extents);
        let number = gathered.map_or(piece.slot, |there| there.slot);
        let Some(slot) = self.slots.get(number as usize) else { return false };
        match gathered {
            Some(there) => held.at = there.at,
            None if !self.has_seq(number, piece.seq) || slot.state() != State::Extents => return false,
            None => {}
        }
        lists.add(number, slot, held);
        true
    }

    /// A live piece's block is nowhere (recovery).
    pub(crate) fn is_lost(&self, seq: u64) {
        self.lists().lost.insert(seq);
    }

    /// All that lives was adopted: nothing else that was gathered is asked for (recovery).
    pub(crate) fn forget_unadopted(&self) {
        let mut lists = self.lists();
        let Lists { live, gathered, .. } = &mut *lists;
        gathered.retain(|seq, list| {
            list.retain(|there| {
                let held = live.get(&there.slot);
                held.is_some_and(|list| list.iter().any(|held| held.name() == (*seq, there.offset)))
            });
            list.shrink_to_fit();
            !list.is_empty()
        });
        gathered.shrink_to_fit();
        lists.count_room();
    }

    /// All that live, with their blocks: what a snapshot saves.
    pub(crate) fn all_held(&self) -> Vec<(u32, Held)> {
        let lists = self.lists();
        lists.live.iter().flat_map(|(number, list)| list.iter().map(|held| (*number, *held))).collect()
    }

    /// Takes them over from a snapshot; the blocks' live bytes are as it says.
    pub(crate) fn restore_held(&self, all: &[(u32, Held)]) {
        let mut lists = self.lists();
        for (number, held) in all {
            let Some(slot) = self.slots.get(*number as usize) else { continue };
            lists.push(*number, *held);
            let all = lists.live.get(number).map_or(0, Vec::len);
            slot.pieces().store(all as u64, Relaxed);
            slot.largest().fetch_max(held.bytes, Relaxed);
            if slot.seq.load(Relaxed) != held.seq {
                lists.now_lies(held, *number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_lists_take_is_counted_and_given_back() {
        const PIECES: u32 = 10_000;
        let (mut lists, slots) = (Lists::default(), crate::slot_table::Slots::new(4));
        let held = |i: u32| Held { seq: 7 + u64::from(i % 50), offset: i * 8, at: i * 8, bytes: 8 };
        for i in 0..PIECES {
            lists.add(i % 4, &slots[i as usize % 4], held(i));
            lists.now_lies(&held(i), i % 4);
        }
        let each = (size_of::<Held>() + size_of::<Gathered>()) as u64;
        let full = lists.bytes();
        assert!((each..each * 5 / 2).contains(&(full / u64::from(PIECES))), "{full} bytes");
        let counted = lists.room;
        lists.count_room();
        assert_eq!(lists.room, counted);
        for i in 0..PIECES - 40 {
            let name = held(i).name();
            lists.remove(i % 4, &slots[i as usize % 4], name).unwrap();
            lists.no_more_gathered(name);
        }
        let counted = lists.room;
        lists.count_room();
        assert_eq!(lists.room, counted);
        assert!(lists.bytes() < full / 20, "{} of {full} bytes", lists.bytes());
    }
}
