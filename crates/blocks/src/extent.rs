//! Large values: pieces in blocks of their own, written straight to the medium and never changed.
//!
//! An extent is durable before the log entry that describes it: on byte-addressable media it is fenced here, on block
//! media the tier is synced before the log is. Its checksum is in the description, and so in the log entry.

use std::io;
use std::sync::atomic::Ordering::*;

use terrace_engine::record::Head;
use terrace_engine::space::{Fetch, Former, Room};
use terrace_media::Buffer;

use crate::blocks::Blocks;
use crate::gather::first_piece_at;
use crate::layout::{BLOCK_HEADER_BYTES, BlockKind, Header};
use crate::lower::Lower;
use crate::parts::Parts;
use crate::pieces::{Piece, encode_description, pieces, unshared};
use crate::slots::State;
use crate::sync::{AtomicU64, Mutex};

/// The extent block that is being filled, and what is known to be synced.
#[derive(Default)]
pub(crate) struct Extents {
    /// Its slot, and the bytes taken.
    open: Mutex<Option<(u32, u32)>>,
    /// Extents that were written, and how many of them are known to be synced.
    unsynced: AtomicU64,
    synced: AtomicU64,
    syncing: Mutex<()>,
}

impl Extents {
    pub fn open_slot(&self) -> Option<u32> {
        self.open.lock().map(|(slot, _)| slot)
    }
}

impl<L: Lower> Blocks<L> {
    /// How a value would be cut into pieces, some of which the value that it replaces may lend it.
    pub fn parts_of(&self, value: &[u8], former: Option<Former<'_>>) -> Parts {
        Parts::of(value, former, self.block_bytes, L::UNIT)
    }

    /// Writes those of a value's pieces that are not there yet and appends what describes it; see `LargeValues::write_extent` of the engine.
    ///
    /// # Errors
    /// Whether there will be room; `None` if the device failed.
    pub fn store_extent(
        &self,
        value: &[u8],
        parts: &Parts,
        description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>> {
        let reserved = self.reserve_pieces(parts.bytes(), parts.piece_bytes)?;
        let written = self.write_pieces(&value[parts.middle.clone()], &reserved);
        self.reserved_done(&reserved);
        if written.is_err() {
            for (piece, _) in &reserved {
                self.drop_piece(piece);
            }
            return Err(None);
        }
        if L::DIRECT {
            self.lower.sync().map_err(|_| None)?;
        } else {
            self.extents.unsynced.fetch_add(1, SeqCst);
        }
        let middle = reserved.iter().map(|(piece, _)| *piece);
        let all: Vec<Piece> =
            parts.front.iter().copied().chain(middle).chain(parts.back.iter().copied()).collect();
        encode_description(value, all.into_iter(), description);
        self.counts.extents_written.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Writes bytes to the places that were taken for them: what lies side by side at once.
    fn write_pieces(&self, bytes: &[u8], reserved: &[(Piece, usize)]) -> io::Result<()> {
        let is_next = |(one, _): &(Piece, usize), (other, _): &(Piece, usize)| one.is_followed_by(other);
        for run in reserved.chunk_by(is_next) {
            let [(first, at), ..] = run else { continue };
            let length: usize = run.iter().map(|(piece, _)| piece.bytes as usize).sum();
            let mut padded = bytes[*at..*at + length].to_vec();
            padded.resize(length.next_multiple_of(L::UNIT), 0);
            self.lower.write(self.block_offset(first.slot) + u64::from(first.offset), &padded)?;
        }
        Ok(())
    }

    /// What was to be written in these places is, as far as it could be: their blocks may move.
    fn reserved_done(&self, reserved: &[(Piece, usize)]) {
        for (piece, _) in reserved {
            self.slots[piece.slot as usize].count.fetch_sub(1, SeqCst);
        }
    }

    /// Blocks that so many bytes of a large value fill at most, if the open one has no rest for them.
    pub fn extent_blocks(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.block_bytes - self.first_piece() as usize)
    }

    /// Where the first piece of a block starts.
    pub(crate) fn first_piece(&self) -> u32 {
        first_piece_at::<L>(self.block_bytes) as u32
    }

    /// Takes places for `total` bytes, in pieces of so many at most; each with where its bytes start.
    fn reserve_pieces(&self, total: usize, piece_bytes: usize) -> Result<Vec<(Piece, usize)>, Option<Room>> {
        let block = self.block_bytes as u32;
        let first = self.first_piece();
        let mut open = self.extents.open.lock();
        // All blocks or none: several takers of a few each would give them back and take them again for ever.
        let rest = open.map_or(0, |(_, used)| block.saturating_sub(used)) as usize;
        let wanted = self.extent_blocks(total.saturating_sub(rest));
        // What goes to the rest of the open one takes none.
        if wanted > 0 && self.free.slots.lock().len() < self.reserve() + wanted {
            self.free.hungry.store(true, SeqCst);
            self.free.wanted.fetch_max(wanted, SeqCst);
            if !self.free.refuses() {
                return Err(Some(Room::Wait));
            }
            self.free.wanted.store(0, SeqCst);
            return Err(Some(Room::Full));
        }
        let mut reserved = Vec::new();
        let mut done = 0;
        while done < total {
            let (slot, used) = match *open {
                Some((slot, used)) if used < block => (slot, used),
                other => {
                    if let Some((slot, _)) = other {
                        self.close_extents(slot);
                    }
                    *open = None;
                    match self.take_extent_block() {
                        Ok(slot) => (slot, first),
                        Err(room) => {
                            self.reserved_done(&reserved);
                            for (piece, _) in &reserved {
                                self.drop_piece(piece);
                            }
                            return Err(room);
                        }
                    }
                }
            };
            let bytes = (total - done).min((block - used) as usize).min(piece_bytes) as u32;
            let piece = Piece { seq: self.slots[slot as usize].seq.load(Relaxed), slot, offset: used, bytes };
            // In this order: whoever finds the piece, and nobody who writes, finds it written.
            self.slots[slot as usize].count.fetch_add(1, SeqCst);
            self.hold_piece(&piece);
            let used = (used + bytes).next_multiple_of(L::UNIT as u32);
            self.slots[slot as usize].used_bytes.store(used, Relaxed);
            *open = Some((slot, used));
            reserved.push((piece, done));
            done += bytes as usize;
        }
        Ok(reserved)
    }

    /// A slot for extents, its header on the medium. While it is open it counts one byte as live, so that it isn't freed.
    fn take_extent_block(&self) -> Result<u32, Option<Room>> {
        let slot = {
            let mut free = self.free.slots.lock();
            if free.len() <= self.reserve() {
                drop(free);
                self.free.hungry.store(true, SeqCst);
                return Err(Some(if self.free.refuses() { Room::Full } else { Room::Wait }));
            }
            let Some(slot) = free.pop() else { return Err(Some(Room::Wait)) };
            let seq = self.last_seq.fetch_add(1, SeqCst) + 1;
            self.slots[slot as usize].begin_open(seq);
            slot
        };
        // On byte-addressable media a fence is each thread's own: another thread may write the next piece in this block, and its
        // fence would not cover this header.
        let fence = || if L::DIRECT { self.lower.sync() } else { Ok(()) };
        let written = self.write_extent_header(slot).and_then(|()| fence());
        if written.is_err() {
            self.close_extents(slot);
            return Err(None);
        }
        let state = &self.slots[slot as usize];
        if L::DIRECT {
            state.written.store(true, Release);
        } else {
            self.written.header(slot, state);
        }
        Ok(slot)
    }

    /// Writes the header of a block of large values; no piece in it changes.
    pub(crate) fn write_extent_header(&self, slot: u32) -> io::Result<()> {
        let seq = self.slots[slot as usize].seq.load(Relaxed);
        let header = Header { store_id: self.store_id, seq, slot, kind: BlockKind::Extents }.encode();
        let mut unit = header.to_vec();
        unit.resize(BLOCK_HEADER_BYTES.next_multiple_of(L::UNIT), 0);
        self.lower.write(self.block_offset(slot), &unit)
    }

    fn close_extents(&self, slot: u32) {
        self.slots[slot as usize].live_bytes.fetch_sub(1, SeqCst);
    }

    /// Lets the open block be freed once nothing in it is live (a reclaimer that needs room asks).
    pub fn close_open_extents(&self) {
        if let Some((slot, _)) = self.extents.open.lock().take() {
            self.close_extents(slot);
        }
    }

    /// Nothing more goes to the open block if that lies behind the tier's end.
    pub(crate) fn close_extents_beyond(&self) {
        if let Some((slot, _)) = self.extents.open.lock().take_if(|(slot, _)| self.is_beyond(*slot)) {
            self.close_extents(slot);
        }
    }

    /// Nothing refers to a large value any more.
    pub fn forget_extent(&self, description: &[u8]) {
        self.forget_unshared(description, &[]);
    }

    /// The same of one that shares pieces with another (its description; empty: with none): they stay.
    pub fn forget_unshared(&self, description: &[u8], other: &[u8]) {
        for piece in unshared(description, other) {
            self.drop_piece(&piece);
        }
    }

    /// Appends a large value to `out`, on media that are read at once.
    pub fn load_extent(&self, description: &[u8], out: &mut Buffer) -> Fetch {
        if !L::DIRECT {
            return Fetch::NeedsRead;
        }
        let Some((total, crc, list)) = pieces(description) else {
            return Fetch::Damaged(Head::default());
        };
        let start = out.len();
        for piece in list {
            let end = u64::from(piece.offset) + u64::from(piece.bytes);
            let (Ok(lies), true) = (self.find_piece(piece), end <= self.block_bytes as u64) else {
                out.truncate(start);
                return Fetch::Damaged(Head::default());
            };
            out.append(piece.bytes as usize, |out| {
                let at = out.len();
                out.resize(at + piece.bytes as usize, 0);
                self.lower.read_now(self.block_offset(lies.slot) + u64::from(lies.offset), &mut out[at..]);
            });
        }
        if (out.len() - start) as u64 == total && crc32c::crc32c(&out[start..]) == crc {
            return Fetch::Match(Head { tier: L::TIER, ..Head::default() });
        }
        out.truncate(start);
        self.counts.damaged.fetch_add(1, Relaxed);
        Fetch::Damaged(Head::default())
    }

    /// A live record describes this extent (recovery).
    pub fn adopt_pieces(&self, description: &[u8]) {
        for piece in pieces(description).map(|(_, _, list)| list).unwrap_or_default() {
            if self.adopt_piece(&piece) {
                continue;
            }
            let Some(slot) = self.slots.get(piece.slot as usize) else {
                self.is_lost(piece.seq);
                continue;
            };
            let (state, seq) = (slot.state(), slot.seq.load(Relaxed));
            if seq == 0 && matches!(state, State::Free | State::Freeing) {
                // Its header is gone. No block is freed before what describes it is, so the description is to be believed; and
                // the checksum in it says whether the value is still there.
                slot.begin(State::Extents, piece.seq, None, self.block_bytes as u32);
                self.lost_headers.lock().push(piece.slot);
                self.last_seq.fetch_max(piece.seq, SeqCst);
                self.counts.headers_lost.fetch_add(1, Relaxed);
                self.hold_piece(&piece);
            } else {
                self.is_lost(piece.seq);
            }
        }
    }

    /// Makes the large values that were written before this call durable.
    ///
    /// # Errors
    /// The device's.
    #[track_caller]
    pub fn sync_extents(&self) -> io::Result<()> {
        let Extents { unsynced, synced, syncing, .. } = &self.extents;
        let wanted = unsynced.load(SeqCst);
        if synced.load(SeqCst) < wanted {
            let _one_at_a_time = syncing.lock();
            if synced.load(SeqCst) < wanted {
                let covered = unsynced.load(SeqCst);
                let headers = self.written.sync_begins();
                let done = self.lower.sync();
                self.written.synced(&self.slots, done, headers)?;
                synced.store(covered, SeqCst);
            }
        }
        Ok(())
    }
}
