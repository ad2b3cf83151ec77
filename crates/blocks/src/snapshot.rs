//! The blocks of a snapshot: what a clean stop saves of index and block table, so that the next opening need not scan.
//!
//! ```text
//! 0          64                                                       size-64      size
//! +----------+---------------------------------------------------+----+------------+
//! | header   | a part, or the head                               |    | tail       |     as many blocks as there are parts,
//! +----------+---------------------------------------------------+----+------------+     and the head
//! tail   0 magic "TRCSNAPS"  8 seq  16 number of the part:u32 (the head: u32::MAX) bytes:u32  24 crc of the bytes:u64
//!        32.. zero  56 crc of 0..56
//! head   0 sequence of the manifest that names it:u64  8 parts:u32 bytes of what the saver adds:u32
//!        16 slot of each part:u32  .. what the saver adds
//! ```
//!
//! Part `i` of a snapshot whose head has seq `s` and that has `n` parts has seq `s - n + i`, so that a part of another snapshot
//! never passes for one of this.
//!
//! # Invariants
//! * All of it is durable before a manifest names it, and that manifest alone does: its sequence number stands in the head.
//! * Nothing that it tells of changes on the medium before a manifest is durable that does not name it.
//! * To a scan its blocks hold nothing; what is wrong with them is never damage. Their last 64 bytes are not zeros, so that one
//!   that lost its header does not look as if it had vanished.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::blocks::Blocks;
use crate::held::Held;
use crate::layout::{BLOCK_HEADER_BYTES, BlockKind, Header, Stored, TRAILER_BYTES, put, u32_at, u64_at};
use crate::lower::Lower;
use crate::slots::State;
use crate::written::stored_count;

const MAGIC: u64 = u64::from_le_bytes(*b"TRCSNAPS");
/// In the place of a part's number.
const HEAD: u32 = u32::MAX;
const HEAD_FIXED: usize = 16;
/// A slot's entry in a saved block table.
const SLOT_BYTES: usize = 48;
/// What lives in a block of large values: the same for a piece.
const HELD_BYTES: usize = 32;
/// A reading that went wrong is repeated so often.
const READINGS: usize = 2;

fn tail(seq: u64, number: u32, bytes: &[u8]) -> [u8; TRAILER_BYTES] {
    let mut tail = [0; TRAILER_BYTES];
    put(&mut tail, 0, MAGIC);
    put(&mut tail, 8, seq);
    put(&mut tail, 16, u64::from(number) | (bytes.len() as u64) << 32);
    put(&mut tail, 24, u64::from(crc32c::crc32c(bytes)));
    let crc = crc32c::crc32c(&tail[..56]);
    put(&mut tail, 56, u64::from(crc));
    tail
}

/// Whether a block ends as those of snapshots do.
pub(crate) fn ends_one(block: &[u8]) -> bool {
    let Some(at) = block.len().checked_sub(TRAILER_BYTES) else { return false };
    let tail = &block[at..];
    u64_at(tail, 0) == MAGIC && u64_at(tail, 56) == u64::from(crc32c::crc32c(&tail[..56]))
}

/// The bytes of part `number` in a block, if that is what the block holds.
pub(crate) fn part_in(block: &[u8], store_id: u64, slot: u32, seq: u64, number: u32) -> Option<&[u8]> {
    let Stored::Valid(header) = Header::decode(block.get(..BLOCK_HEADER_BYTES)?, store_id, slot) else {
        return None;
    };
    let at = block.len() - TRAILER_BYTES;
    let bytes = u32_at(block, at + 20) as usize;
    let part = block[..at].get(BLOCK_HEADER_BYTES..)?.get(..bytes)?;
    let sound =
        header.kind == BlockKind::Snapshot && header.seq == seq && block[at..] == tail(seq, number, part);
    sound.then_some(part)
}

/// What a head says.
pub(crate) struct Head {
    /// The use of its slot.
    pub seq: u64,
    /// The manifest that names it.
    pub sequence: u64,
    /// The slots of the parts.
    pub slots: Vec<u32>,
    /// What the saver added.
    pub added: Vec<u8>,
}

impl Head {
    /// The head in a slot's block, if one is there.
    pub fn decode(block: &[u8], store_id: u64, slot: u32) -> Option<Self> {
        let Stored::Valid(Header { seq, .. }) =
            Header::decode(block.get(..BLOCK_HEADER_BYTES)?, store_id, slot)
        else {
            return None;
        };
        let bytes = part_in(block, store_id, slot, seq, HEAD)?;
        let (parts, added) = (u32_at(bytes, 8) as usize, u32_at(bytes, 12) as usize);
        let list = bytes.get(HEAD_FIXED..)?.get(..parts * 4)?;
        let rest = &bytes[HEAD_FIXED + list.len()..];
        let slots = (0..parts).map(|i| u32_at(list, i * 4)).collect();
        (rest.len() == added && seq > parts as u64).then(|| Self {
            seq,
            sequence: u64_at(bytes, 0),
            slots,
            added: rest.to_vec(),
        })
    }
    /// The use of the slot that a part lies in.
    pub fn seq_of(&self, part: usize) -> u64 {
        self.seq - self.slots.len() as u64 + part as u64
    }
}

/// Writes a snapshot part by part. Dropped before it is [finished](Self::finish), it gives its slots back.
pub struct SnapshotWriter<'a, L: Lower> {
    blocks: &'a Blocks<L>,
    slots: Vec<u32>,
    first_seq: u64,
    finished: bool,
    image: Vec<u8>,
}

impl<L: Lower> SnapshotWriter<'_, L> {
    /// Bytes of a part, at most.
    pub fn part_bytes(&self) -> usize {
        self.blocks.block_bytes - BLOCK_HEADER_BYTES - TRAILER_BYTES
    }
    /// Parts so far.
    pub fn parts(&self) -> u32 {
        self.slots.len() as u32
    }
    /// Writes the next part.
    ///
    /// # Errors
    /// The device's; `StorageFull` if no slot is free.
    ///
    /// # Panics
    /// If the part is longer than [`part_bytes`](Self::part_bytes).
    pub fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let number = self.parts();
        self.write(number, bytes).map(|_| ())
    }

    fn write(&mut self, number: u32, bytes: &[u8]) -> io::Result<u32> {
        assert!(bytes.len() <= self.part_bytes(), "a part fits in a block");
        let blocks = self.blocks;
        blocks.back(1);
        let slot = blocks.free.slots.lock().pop();
        let slot =
            slot.ok_or_else(|| io::Error::new(io::ErrorKind::StorageFull, "no free block is left for it"))?;
        self.slots.push(slot);
        let seq = blocks.last_seq.fetch_add(1, SeqCst) + 1;
        if seq != self.first_seq + self.slots.len() as u64 - 1 {
            return Err(io::Error::other("somebody else writes blocks meanwhile"));
        }
        blocks.slots[slot as usize].begin(State::Freeing, seq, None, 0);
        let header = Header { store_id: blocks.store_id, seq, slot, kind: BlockKind::Snapshot };
        self.image.clear();
        self.image.extend_from_slice(&header.encode());
        self.image.extend_from_slice(bytes);
        self.image.resize(blocks.block_bytes - TRAILER_BYTES, 0);
        self.image.extend_from_slice(&tail(seq, number, bytes));
        blocks.lower.write(blocks.block_offset(slot), &self.image)?;
        Ok(slot)
    }

    /// Writes the head, for the manifest with this sequence number, and makes all of it durable. Returns the head's slot.
    ///
    /// # Errors
    /// The device's; `StorageFull` if no slot is free, or the parts are more than one block can name.
    pub fn finish(mut self, sequence: u64, added: &[u8]) -> io::Result<u32> {
        let mut head = sequence.to_le_bytes().to_vec();
        head.extend_from_slice(&self.parts().to_le_bytes());
        head.extend_from_slice(&(added.len() as u32).to_le_bytes());
        head.extend(self.slots.iter().flat_map(|slot| slot.to_le_bytes()));
        head.extend_from_slice(added);
        if head.len() > self.part_bytes() {
            let parts = self.slots.len();
            let what = format!("one block can't name its {parts} parts");
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        let slot = self.write(HEAD, &head)?;
        self.blocks.lower.sync()?;
        for &slot in &self.slots {
            self.blocks.slots[slot as usize].written.store(true, Release);
        }
        self.finished = true;
        Ok(slot)
    }
}

impl<L: Lower> Drop for SnapshotWriter<'_, L> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut free = self.blocks.free.slots.lock();
        for &slot in self.slots.iter().rev() {
            self.blocks.slots[slot as usize].begin(State::Free, 0, None, 0);
            free.push(slot);
        }
    }
}

/// A snapshot whose head is whole.
pub struct SnapshotReader<'a, L: Lower> {
    blocks: &'a Blocks<L>,
    slot: u32,
    head: Head,
}

impl<L: Lower> SnapshotReader<'_, L> {
    /// Where its blocks lie, and their seqs.
    pub(crate) fn blocks_by_slot(&self) -> HashMap<u32, u64> {
        let parts = self.head.slots.iter().enumerate();
        let parts = parts.map(|(part, &slot)| (slot, self.head.seq_of(part)));
        parts.chain([(self.slot, self.head.seq)]).collect()
    }
    /// How many parts it has.
    pub fn parts(&self) -> u32 {
        self.head.slots.len() as u32
    }
    /// What the saver added to the head.
    pub fn added(&self) -> &[u8] {
        &self.head.added
    }
    /// Reads a part; its bytes replace what `out` holds.
    ///
    /// # Errors
    /// The device's; `InvalidData` if it is not that part, whole.
    pub fn read(&self, number: u32, out: &mut Vec<u8>) -> io::Result<()> {
        let Some(&slot) = self.head.slots.get(number as usize) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has no part {number}")));
        };
        let seq = self.head.seq_of(number as usize);
        let mut last = None;
        for _ in 0..READINGS {
            let part = |block: &[u8]| Some(part_in(block, self.blocks.store_id, slot, seq, number)?.to_vec());
            match self.blocks.read_snapshot_block(slot, part) {
                Ok(Some(part)) => {
                    *out = part;
                    return Ok(());
                }
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
        }
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, format!("block {slot} is not part {number} of it"));
        Err(last.unwrap_or_else(damaged))
    }
    /// Takes over a block table: all slots are as it says, and those of the snapshot itself wait to be cleared.
    pub fn restore(self, table: &SavedTable) {
        let blocks = self.blocks;
        blocks.written.found(table.written, &blocks.slots);
        for ((slot, saved), oldest) in blocks.slots.iter().zip(&table.slots).zip(&table.oldest) {
            slot.begin(saved.state, saved.seq, None, saved.used_bytes);
            slot.min_version.store(oldest.load(Relaxed), Relaxed);
            slot.live_bytes.store(saved.live_bytes, Relaxed);
            slot.count.store(saved.count, Relaxed);
            slot.min_expire.store(saved.min_expire, Relaxed);
            // An estimate, until its footer is read.
            slot.expiring.store(if saved.min_expire == u64::MAX { 0 } else { saved.count }, Relaxed);
            slot.purged.store(saved.purged, Relaxed);
            slot.written.fetch_or(saved.written, Relaxed);
        }
        blocks.restore_held(&table.held);
        for (slot, seq) in self.blocks_by_slot() {
            blocks.slots[slot as usize].begin(State::Freeing, seq, None, 0);
            blocks.slots[slot as usize].written.store(true, Relaxed);
        }
        blocks.last_seq.fetch_max(self.head.seq, SeqCst);
    }
}

fn encode_held((number, held): &(u32, Held)) -> [u8; HELD_BYTES] {
    let mut bytes = [0; HELD_BYTES];
    put(&mut bytes, 0, held.seq);
    put(&mut bytes, 8, u64::from(held.offset) | u64::from(held.at) << 32);
    put(&mut bytes, 16, u64::from(held.bytes) | u64::from(*number) << 32);
    bytes
}

fn decode_held(bytes: &[u8]) -> (u32, Held) {
    let [offset, at, length, number] = [8, 12, 16, 20].map(|from| u32_at(bytes, from));
    (number, Held { seq: u64_at(bytes, 0), offset, at, bytes: length })
}

/// A block table that was saved: one entry a slot.
pub struct SavedTable {
    /// The slots.
    pub slots: Vec<SavedSlot>,
    /// As many were ever written, says the manifest.
    pub(crate) written: u64,
    /// What lives in blocks of large values.
    held: Vec<(u32, Held)>,
    /// The oldest version of each block, once a survey has seen it.
    pub(crate) oldest: Vec<AtomicU64>,
}

/// What a snapshot says of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedSlot {
    /// `Free`, `Sealed` or `Extents`; `Freeing` where nothing is live.
    pub state: State,
    /// Whether it was ever written.
    pub written: bool,
    /// The use of the slot.
    pub seq: u64,
    /// See [`Slot`](crate::Slot).
    pub live_bytes: i64,
    /// See there.
    pub used_bytes: u32,
    /// See there.
    pub count: u32,
    /// See there.
    pub min_expire: u64,
    /// See there.
    pub purged: u64,
}

impl SavedSlot {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let state = match bytes.get(40)? {
            0 => State::Free,
            3 => State::Sealed,
            4 => State::Extents,
            5 => State::Freeing,
            _ => return None,
        };
        Some(Self {
            state,
            written: *bytes.get(41)? == 1,
            seq: u64_at(bytes, 0),
            live_bytes: u64_at(bytes, 8) as i64,
            used_bytes: u32_at(bytes, 16),
            count: u32_at(bytes, 20),
            min_expire: u64_at(bytes, 24),
            purged: u64_at(bytes, 32),
        })
    }
    fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        put(&mut bytes, 0, self.seq);
        put(&mut bytes, 8, self.live_bytes as u64);
        put(&mut bytes, 16, u64::from(self.used_bytes) | u64::from(self.count) << 32);
        put(&mut bytes, 24, self.min_expire);
        put(&mut bytes, 32, self.purged);
        (bytes[40], bytes[41]) = (self.state as u8, self.written.into());
        bytes
    }
}

impl<L: Lower> Blocks<L> {
    /// Begins a snapshot. Nobody else takes slots meanwhile.
    pub fn begin_snapshot(&self) -> SnapshotWriter<'_, L> {
        let first_seq = self.last_seq.load(SeqCst) + 1;
        SnapshotWriter { blocks: self, slots: Vec::new(), first_seq, finished: false, image: Vec::new() }
    }

    /// Writes the block table to a snapshot.
    ///
    /// # Errors
    /// The writer's; `Other` if a block is neither free nor on the medium.
    pub fn save_table(&self, writer: &mut SnapshotWriter<'_, L>) -> io::Result<()> {
        let slots_a_part = writer.part_bytes() / SLOT_BYTES;
        let mut saved = Vec::with_capacity(self.slots.len());
        for (number, slot) in (0..).zip(self.slots.iter()) {
            let state = match slot.state() {
                State::Mutable | State::ReadOnly => {
                    return Err(io::Error::other("a page is not on the medium"));
                }
                state => state,
            };
            saved.push(SavedSlot {
                state,
                written: slot.written.load(Acquire),
                seq: slot.seq.load(Acquire),
                live_bytes: slot.live_bytes.load(Acquire),
                used_bytes: slot.used_bytes.load(Acquire),
                count: slot.count.load(Acquire),
                min_expire: slot.first_expire().min(self.deadlines.first_of(number)),
                purged: slot.purged.load(Acquire),
            });
        }
        for part in saved.chunks(slots_a_part) {
            let bytes: Vec<u8> = part.iter().flat_map(SavedSlot::encode).collect();
            writer.add(&bytes)?;
        }
        for part in self.all_held().chunks(writer.part_bytes() / HELD_BYTES) {
            let bytes: Vec<u8> = part.iter().flat_map(encode_held).collect();
            writer.add(&bytes)?;
        }
        Ok(())
    }

    /// Reads a block table from these parts of a snapshot.
    ///
    /// # Errors
    /// The reader's; `InvalidData` if it is none.
    pub fn load_table(
        &self,
        reader: &SnapshotReader<'_, L>,
        parts: std::ops::Range<u32>,
    ) -> io::Result<SavedTable> {
        let none = || io::Error::new(io::ErrorKind::InvalidData, "it has no block table");
        let (mut slots, mut held, mut bytes) = (Vec::with_capacity(self.slots.len()), Vec::new(), Vec::new());
        for part in parts {
            reader.read(part, &mut bytes)?;
            if slots.len() == self.slots.len() {
                held.extend(bytes.chunks_exact(HELD_BYTES).map(decode_held));
                continue;
            }
            for slot in bytes.chunks(SLOT_BYTES) {
                slots.push(SavedSlot::decode(slot).ok_or_else(none)?);
            }
        }
        if slots.len() != self.slots.len() {
            return Err(none());
        }
        let oldest = slots.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(SavedTable { slots, held, written: stored_count(&self.lower, self.store_id)?, oldest })
    }

    /// The snapshot whose head lies in a slot, if the manifest of this sequence number names it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open_snapshot(&self, slot: u32, sequence: u64) -> Result<SnapshotReader<'_, L>, String> {
        if slot as usize >= self.slots.len() {
            return Err(format!("there is no block {slot}"));
        }
        let mut why = format!("block {slot} is not its head");
        for _ in 0..READINGS {
            match self.read_snapshot_block(slot, |block| Head::decode(block, self.store_id, slot)) {
                Ok(Some(head)) if head.sequence != sequence => {
                    why = format!("manifest {} names it, and the newest is {sequence}", head.sequence);
                }
                Ok(Some(head)) if head.slots.iter().any(|&slot| slot as usize >= self.slots.len()) => {
                    why = "it has parts in blocks that there are none of".into();
                }
                Ok(Some(head)) => return Ok(SnapshotReader { blocks: self, slot, head }),
                Ok(None) => {}
                Err(error) => why = format!("reading block {slot}: {error}"),
            }
        }
        Err(why)
    }

    fn read_snapshot_block<R>(
        &self,
        slot: u32,
        look: impl FnOnce(&[u8]) -> Option<R>,
    ) -> io::Result<Option<R>> {
        let mut block = vec![0; self.block_bytes];
        self.lower.read(self.block_offset(slot), &mut block)?;
        Ok(look(&block))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_media::HeapRegion;

    use super::*;
    use crate::byte_tier::ByteTier;

    const STORE: u64 = 1;

    fn blocks() -> Blocks<ByteTier<HeapRegion>> {
        let bytes = 64 << 10;
        let lower = ByteTier::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes, String::new());
        Blocks::new(lower, 1024, STORE).unwrap()
    }
    fn saved(blocks: &Blocks<ByteTier<HeapRegion>>, sequence: u64, parts: &[&[u8]]) -> u32 {
        let mut writer = blocks.begin_snapshot();
        parts.iter().for_each(|part| writer.add(part).unwrap());
        writer.finish(sequence, b"added").unwrap()
    }

    #[test]
    fn golden_bytes_of_a_tail_and_a_head() {
        let tail = tail(0x11, 0x22, b"part");
        assert_eq!(
            (&tail[..8], u64_at(&tail, 8), u64_at(&tail, 16)),
            (&b"TRCSNAPS"[..], 0x11, 0x4_0000_0022)
        );
        assert_eq!(u64_at(&tail, 24), u64::from(crc32c::crc32c(b"part")));
        assert_eq!(
            (&tail[32..56], u64_at(&tail, 56)),
            (&[0; 24][..], u64::from(crc32c::crc32c(&tail[..56])))
        );
        let blocks = blocks();
        let slot = saved(&blocks, 0x77, &[b"one", b"two"]);
        let mut head = [0; 96];
        blocks.lower.read(blocks.block_offset(slot), &mut head).unwrap();
        assert_eq!(head[28], 3, "the kind of its block");
        assert_eq!(head[64..93], *b"\x77\0\0\0\0\0\0\0\x02\0\0\0\x05\0\0\0\0\0\0\0\x01\0\0\0added");
    }

    #[test]
    fn it_is_read_as_it_was_written_and_of_its_manifest_alone() {
        let blocks = blocks();
        let slot = saved(&blocks, 7, &[b"one", &[5; 800], b""]);
        for other in [6, 8] {
            let why = blocks.open_snapshot(slot, other).err().unwrap();
            assert!(why.contains("manifest 7"), "{why}");
        }
        assert!(blocks.open_snapshot(slot + 1, 7).is_err() && blocks.open_snapshot(1 << 20, 7).is_err());
        let reader = blocks.open_snapshot(slot, 7).unwrap();
        assert_eq!((reader.parts(), reader.added()), (3, &b"added"[..]));
        let mut bytes = vec![1; 9];
        for (number, part) in [&b"one"[..], &[5; 800], b""].into_iter().enumerate() {
            reader.read(number as u32, &mut bytes).unwrap();
            assert_eq!(bytes, part);
        }
        assert!(reader.read(3, &mut bytes).is_err());
    }

    #[test]
    fn a_part_of_an_older_snapshot_in_the_same_slot_does_not_pass() {
        let blocks = blocks();
        saved(&blocks, 7, &[b"one", b"two"]);
        let mut older = vec![0; 1024];
        blocks.lower.read(blocks.block_offset(1), &mut older).unwrap();
        // Its slots are free again.
        *blocks.free.slots.lock() = (0..8).rev().collect();
        let slot = saved(&blocks, 9, &[b"one", b"two"]);
        let reader = blocks.open_snapshot(slot, 9).unwrap();
        reader.read(1, &mut Vec::new()).unwrap();
        blocks.lower.write(blocks.block_offset(1), &older).unwrap();
        assert!(reader.read(1, &mut Vec::new()).is_err());
    }

    #[test]
    fn one_that_finds_no_room_gives_its_slots_back() {
        let blocks = blocks();
        *blocks.free.slots.lock() = vec![4, 3];
        for parts in [2, 3] {
            let mut writer = blocks.begin_snapshot();
            let added = (0..parts).try_for_each(|_| writer.add(b"part"));
            let finished = added.and_then(|()| writer.finish(7, b""));
            assert_eq!(finished.unwrap_err().kind(), io::ErrorKind::StorageFull);
            assert_eq!(*blocks.free.slots.lock(), [4, 3]);
        }
    }

    #[test]
    fn a_block_table_survives() {
        let blocks = blocks();
        let slot = &blocks.slots[20];
        slot.begin(State::Sealed, 3, None, 500);
        slot.live_bytes.store(77, Relaxed);
        slot.count.store(2, Relaxed);
        slot.min_expire.store(99, Relaxed);
        slot.purged.store(55, Relaxed);
        slot.written.store(true, Relaxed);
        blocks.last_seq.store(3, SeqCst);
        let mut writer = blocks.begin_snapshot();
        blocks.save_table(&mut writer).unwrap();
        let parts = writer.parts();
        let head = writer.finish(1, b"").unwrap();
        let again = Blocks::new(blocks.lower, 1024, STORE).unwrap();
        let reader = again.open_snapshot(head, 1).unwrap();
        let table = again.load_table(&reader, 0..parts).unwrap();
        reader.restore(&table);
        let slot = &again.slots[20];
        assert_eq!(
            (slot.state(), slot.seq.load(Relaxed), slot.used_bytes.load(Relaxed)),
            (State::Sealed, 3, 500)
        );
        let kept = (slot.live_bytes.load(Relaxed), slot.count.load(Relaxed), slot.min_expire.load(Relaxed));
        assert_eq!((kept, slot.purged.load(Relaxed), slot.written.load(Relaxed)), ((77, 2, 99), 55, true));
        // Its own blocks wait to be cleared; new uses of slots are newer.
        assert_eq!(again.slots[head as usize].state(), State::Freeing);
        assert_eq!(again.last_seq.load(SeqCst), 3 + u64::from(parts) + 1);
        assert_eq!(again.slots[40].state(), State::Free);
    }
}
