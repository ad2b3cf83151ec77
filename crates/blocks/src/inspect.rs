//! The format without the engine: what a checker reads of a tier that nobody uses, and the two repairs of a block.
//!
//! Everything here takes bytes for what they may be, damage included; nothing is decided about what counts.

use std::io;

use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::{MANIFEST_BYTES, Manifest};
use terrace_engine::record::{Kind, RecordView};

use crate::footer;
use crate::gather::read_table;
use crate::held::Held;
use crate::layout::{
    BLOCK_HEADER_BYTES, BlockKind, BlockTrailer, FooterEntry, Header, Stored, TRAILER_BYTES, checked,
    encode_footer, entries, u32_at, u64_at,
};
use crate::lower::Lower;
use crate::manifest_copies::{block_at, manifest_area, read_copy};
use crate::pieces;
use crate::place::{least_block_bytes, slots_max};
use crate::size::stored_bytes;
use crate::snapshot;
use crate::written::stored_count;

pub use crate::pieces::Piece;

/// A tier that nobody uses, block by block.
pub struct Inspector<L> {
    lower: L,
    block_bytes: usize,
    store_id: u64,
}

/// One block as it is on the medium.
pub struct BlockImage {
    /// Its slot.
    pub slot: u32,
    /// What its first 64 bytes are.
    pub header: Stored<Header>,
    /// What its last 64 bytes are, if it is a block of records.
    pub trailer: Stored<BlockTrailer>,
    /// Whether both are zeros, as if it had never been written.
    pub blank: bool,
    bytes: Vec<u8>,
}

/// What a large value's record says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The value's length.
    pub bytes: u64,
    /// CRC-32C of the value.
    pub checksum: u32,
    /// Where it lies, in order.
    pub pieces: Vec<Piece>,
}

/// A piece of a large value that was gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatheredPiece {
    /// The block that it was written to.
    pub seq: u64,
    /// Where it started there.
    pub offset: u32,
    /// Where it starts in the block that gathered it.
    pub at: u32,
}

/// A block made whole again from the records in it whose own checksums hold.
pub struct Rebuilt {
    /// Records that it lists.
    pub records: u32,
    /// Whether nothing is missing between them, as far as the block can tell.
    pub complete: bool,
    bytes: Vec<u8>,
}

impl Extent {
    /// Decodes a record's value; `None` if it can't be a description.
    pub fn decode(description: &[u8]) -> Option<Self> {
        let (bytes, checksum, pieces) = pieces::pieces(description)?;
        Some(Self { bytes, checksum, pieces })
    }
}

impl<L: Lower> Inspector<L> {
    /// A reader of a tier with blocks of this size; `None` if the size is impossible.
    pub fn new(lower: L, block_bytes: usize, store_id: u64) -> Option<Self> {
        let sound =
            block_bytes.is_power_of_two() && (least_block_bytes::<L>()..=32 << 20).contains(&block_bytes);
        sound.then_some(Self { lower, block_bytes, store_id })
    }
    /// Blocks on the tier.
    pub fn blocks(&self) -> u32 {
        // What a crash left behind the end is no block.
        let stored = stored_bytes(&self.lower, self.store_id).ok().flatten().unwrap_or(u64::MAX);
        let bytes = self.lower.len().min(stored);
        let blocks = bytes.saturating_sub(manifest_area::<L>()) / self.block_bytes as u64;
        blocks.min(slots_max(self.block_bytes)) as u32
    }
    /// Size of a block in bytes.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }
    /// Where a block starts on the tier, in bytes.
    pub fn block_offset(&self, slot: u32) -> u64 {
        block_at(&self.lower, slot, self.block_bytes)
    }
    /// Both copies of the manifest.
    ///
    /// # Errors
    /// The device's.
    pub fn manifests(&self) -> io::Result<[Stored<Manifest>; 2]> {
        let mut copies = [Stored::Empty; 2];
        for (i, copy) in copies.iter_mut().enumerate() {
            let mut bytes = [0; MANIFEST_BYTES];
            read_copy(&self.lower, i as u64, 0, &mut bytes)?;
            *copy = match Manifest::decode(&bytes) {
                Some(manifest) => Stored::Valid(manifest),
                None if bytes.iter().all(|byte| *byte == 0) => Stored::Empty,
                None => Stored::Bad,
            };
        }
        Ok(copies)
    }
    /// Reads a block. One that is free is not read further. A header or trailer that is empty counts as bad where the other one
    /// says that it was not cleared.
    ///
    /// # Errors
    /// The device's.
    pub fn read(&self, slot: u32) -> io::Result<BlockImage> {
        let start = self.block_offset(slot);
        let mut head = vec![0; BLOCK_HEADER_BYTES];
        self.lower.read(start, &mut head)?;
        let mut header = Header::decode(&head, self.store_id, slot);
        if header == Stored::Empty && self.lost_header(slot, &head)? {
            header = Stored::Bad;
        }
        let other = matches!(header, Stored::Valid(Header { kind, .. }) if kind != BlockKind::Records);
        if header == Stored::Empty || other {
            let blank = header == Stored::Empty && self.blank(slot, &head)?;
            return Ok(BlockImage { slot, header, trailer: Stored::Empty, blank, bytes: head });
        }
        let mut bytes = vec![0; self.block_bytes];
        self.lower.read(start, &mut bytes)?;
        let tail = &bytes[self.block_bytes - TRAILER_BYTES..];
        let mut trailer = BlockTrailer::decode(tail, self.block_bytes);
        if let (Stored::Empty, Stored::Valid(header)) = (trailer, header)
            && BlockTrailer::cleared(tail, self.block_bytes).is_none_or(|cleared| cleared.seq != header.seq)
        {
            trailer = Stored::Bad;
        }
        Ok(BlockImage { slot, header, trailer, blank: false, bytes })
    }
    fn blank(&self, slot: u32, head: &[u8]) -> io::Result<bool> {
        let mut tail = [0; TRAILER_BYTES];
        self.lower.read(self.block_offset(slot) + (self.block_bytes - TRAILER_BYTES) as u64, &mut tail)?;
        Ok(head.iter().chain(&tail).all(|byte| *byte == 0))
    }
    /// Slots from the first one on that are known to have been written: none of them may be [`blank`](BlockImage::blank).
    ///
    /// # Errors
    /// The device's.
    pub fn written(&self) -> io::Result<u64> {
        stored_count(&self.lower, self.store_id)
    }
    /// Verifies the snapshot whose head lies in a slot: how many blocks it has, or why it is not the one that the manifest with
    /// this sequence number names. `None` if it was given up.
    ///
    /// # Errors
    /// The device's.
    pub fn snapshot(&self, slot: u32, sequence: u64) -> io::Result<Option<Result<usize, String>>> {
        let block = |slot: u32| {
            let mut bytes = vec![0; self.block_bytes];
            self.lower.read(self.block_offset(slot), &mut bytes).map(|()| bytes)
        };
        if slot >= self.blocks() {
            return Ok(Some(Err(format!("there is no block {slot}"))));
        }
        let bytes = block(slot)?;
        let Some(head) = snapshot::Head::decode(&bytes, self.store_id, slot) else {
            let given_up = Header::cleared(&bytes, self.store_id, slot);
            let given_up = given_up.is_some_and(|header| header.kind == BlockKind::Snapshot);
            return Ok((!given_up).then(|| Err(format!("block {slot} is not its head"))));
        };
        if head.sequence != sequence {
            return Ok(Some(Err(format!("it is of manifest {}", head.sequence))));
        }
        for (number, &slot) in (0u32..).zip(&head.slots) {
            let whole = slot < self.blocks()
                && snapshot::part_in(
                    &block(slot)?,
                    self.store_id,
                    slot,
                    head.seq_of(number as usize),
                    number,
                )
                .is_some();
            if !whole {
                return Ok(Some(Err(format!("block {slot} is not part {number} of it"))));
            }
        }
        Ok(Some(Ok(head.slots.len() + 1)))
    }
    /// Sees to it that the snapshot whose head lies in a slot is not used: before anything else changes. `false` if something
    /// else lies there, so that there is none to be used.
    ///
    /// # Errors
    /// The device's.
    pub fn give_up_snapshot(&self, slot: u32) -> io::Result<bool> {
        let image = self.read(slot)?;
        let seq = match (image.header, image.trailer) {
            (Stored::Valid(header), _) if header.kind == BlockKind::Snapshot => header.seq,
            // Nothing else was written where the manifest says that its head is.
            (Stored::Empty | Stored::Bad, Stored::Empty | Stored::Bad) => 0,
            _ => return Ok(false),
        };
        // All of the header, for it may be what is damaged: cleared, it says that something was given up.
        let header = Header { store_id: self.store_id, seq, slot, kind: BlockKind::Snapshot };
        let mut unit = vec![0; BLOCK_HEADER_BYTES.next_multiple_of(L::UNIT)];
        unit[8..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode()[8..]);
        self.lower.write(self.block_offset(slot), &unit)?;
        self.lower.sync()?;
        Ok(true)
    }
    /// Whether an empty header was not cleared, for its block's trailer is there.
    fn lost_header(&self, slot: u32, head: &[u8]) -> io::Result<bool> {
        let mut tail = [0; TRAILER_BYTES];
        let at = self.block_offset(slot) + (self.block_bytes - TRAILER_BYTES) as u64;
        self.lower.read(at, &mut tail)?;
        let Stored::Valid(trailer) = BlockTrailer::decode(&tail, self.block_bytes) else { return Ok(false) };
        let cleared = Header::cleared(head, self.store_id, slot);
        Ok(cleared.is_none_or(|header| header.kind == BlockKind::Records && header.seq != trailer.seq))
    }
    /// Reads a piece of an extent, appended to `out`.
    ///
    /// # Errors
    /// The device's; `InvalidData` if the piece can't lie where it says.
    pub fn read_piece(&self, piece: &Piece, out: &mut Vec<u8>) -> io::Result<()> {
        let end = u64::from(piece.offset) + u64::from(piece.bytes);
        let inside = piece.offset as usize >= BLOCK_HEADER_BYTES && end <= self.block_bytes as u64;
        if piece.slot >= self.blocks() || !inside {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it lies outside of its block"));
        }
        let from = out.len();
        out.resize(from + piece.bytes as usize, 0);
        self.lower.read(self.block_offset(piece.slot) + u64::from(piece.offset), &mut out[from..])
    }
    /// What large values' pieces a block of this seq gathered; `None` if its table is damaged.
    ///
    /// # Errors
    /// The device's.
    pub fn gathered(&self, slot: u32, seq: u64) -> io::Result<Option<Vec<GatheredPiece>>> {
        let place = (self.block_offset(slot), self.block_bytes);
        let table = read_table(&self.lower, place, (self.store_id, seq))?;
        let piece = |held: Held| GatheredPiece { seq: held.seq, offset: held.offset, at: held.at };
        Ok(table.map(|table| table.into_iter().map(piece).collect()))
    }
    /// Frees a block, whatever it holds: the first words of its header and its trailer are cleared. One that vanished gets a
    /// cleared header, for a slot that was written must not look as if it never had been.
    ///
    /// # Errors
    /// The device's.
    pub fn give_up(&self, image: &BlockImage) -> io::Result<()> {
        let slot = image.slot;
        if image.blank {
            let header = Header { store_id: self.store_id, seq: 0, slot, kind: BlockKind::Records };
            let mut bytes = vec![0; self.block_bytes];
            bytes[8..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode()[8..]);
            return self.write(image, &Rebuilt { records: 0, complete: false, bytes });
        }
        let start = self.block_offset(slot);
        self.lower.clear_words(&[start, start + (self.block_bytes - TRAILER_BYTES) as u64])?;
        self.lower.sync()
    }
    /// Writes a block that was made whole again. An interrupted write leaves it damaged, to be rebuilt again: its records
    /// stay as they are.
    ///
    /// # Errors
    /// The device's.
    pub fn write(&self, image: &BlockImage, rebuilt: &Rebuilt) -> io::Result<()> {
        self.lower.write(self.block_offset(image.slot), &rebuilt.bytes)?;
        self.lower.sync()
    }
}

impl BlockImage {
    /// The footer's entries, in the order of their records; `None` if trailer or footer are damaged.
    pub fn footer(&self) -> Option<Vec<FooterEntry>> {
        footer::footer(&self.bytes, self.bytes.len()).map(|(_, entries)| entries)
    }
    /// Whether its end is that of a block of a snapshot, whatever became of its header: it holds no records.
    pub fn ends_a_snapshot(&self) -> bool {
        snapshot::ends_one(&self.bytes)
    }
    /// Whether the checksum over all records holds.
    pub fn data_holds(&self, trailer: &BlockTrailer) -> bool {
        let data = self.bytes.get(BLOCK_HEADER_BYTES..trailer.data_end as usize);
        data.is_some_and(|data| crc32c::crc32c(data) == trailer.data_crc)
    }
    /// The record at an offset, if its checksum holds.
    pub fn record(&self, seq: u64, offset: u32) -> Option<RecordView<'_>> {
        checked(seq, self.slot, offset, self.bytes.get(offset as usize..)?)
    }
    /// The block's sequence number, from its header or else its trailer.
    pub fn seq(&self) -> Option<u64> {
        match (&self.header, &self.trailer) {
            (Stored::Valid(header), _) => Some(header.seq),
            (_, Stored::Valid(trailer)) => Some(trailer.seq),
            _ => None,
        }
    }
    /// Makes header, footer and trailer anew from the records whose checksums hold; `None` if there are none.
    pub fn rebuild(&self, store_id: u64, hasher: KeyHasher) -> Option<Rebuilt> {
        let (seq, size) = (self.seq()?, self.bytes.len());
        let header = Header { store_id, seq, slot: self.slot, kind: BlockKind::Records }.encode();
        if let (Stored::Valid(trailer), Some(_)) = (self.trailer, self.footer())
            && trailer.seq == seq
        {
            // The header alone is damaged: every key can be identified, those of damaged records too.
            let mut bytes = self.bytes.clone();
            bytes[..BLOCK_HEADER_BYTES].copy_from_slice(&header);
            return Some(Rebuilt { records: trailer.count, complete: true, bytes });
        }
        let limit = match self.trailer {
            Stored::Valid(trailer) => trailer.data_end as usize,
            _ => size - TRAILER_BYTES,
        };
        let mut list = Vec::new();
        let (mut at, mut end, mut gaps) = (BLOCK_HEADER_BYTES, BLOCK_HEADER_BYTES, false);
        let (mut max_version, mut min_expire) = (0, u64::MAX);
        while at < limit {
            let Some(view) = self.record(seq, at as u32) else {
                at += 8;
                continue;
            };
            gaps |= at != end;
            let entry = footer_entry(&view, at as u32, hasher);
            max_version = max_version.max(entry.version);
            if view.head.expire_at != 0 {
                min_expire = min_expire.min(view.head.expire_at);
            }
            list.push(entry);
            at += view.head.meta.slot_words() * 8;
            end = at;
        }
        let mut footer = Vec::new();
        let deadlines = encode_footer(&list, &mut footer);
        let footer_at = size.checked_sub(TRAILER_BYTES + footer.len())?;
        if list.is_empty() || end > footer_at {
            return None;
        }
        // Where the trailer is gone, a footer that is still as it must be says that nothing is missing.
        let complete = match self.trailer {
            Stored::Valid(trailer) => !gaps && end == limit && trailer.count as usize == list.len(),
            _ => !gaps && self.bytes[footer_at..size - TRAILER_BYTES] == footer[..],
        };
        let mut bytes = self.bytes.clone();
        let trailer = BlockTrailer {
            seq,
            count: list.len() as u32,
            data_end: end as u32,
            max_version,
            min_expire,
            deadlines,
            footer_crc: crc32c::crc32c(&footer),
            data_crc: crc32c::crc32c(&bytes[BLOCK_HEADER_BYTES..end]),
        };
        bytes[..BLOCK_HEADER_BYTES].copy_from_slice(&header);
        bytes[footer_at..size - TRAILER_BYTES].copy_from_slice(&footer);
        bytes[size - TRAILER_BYTES..].copy_from_slice(&trailer.encode());
        debug_assert_eq!(entries(&trailer, &footer).count(), list.len(), "what is written reads back");
        Some(Rebuilt { records: list.len() as u32, complete, bytes })
    }
}

/// What a footer must say of a record.
pub fn footer_entry(view: &RecordView<'_>, offset: u32, hasher: KeyHasher) -> FooterEntry {
    let (kind, db) = (view.head.meta.kind(), view.head.meta.db());
    let (hash, check) = match kind {
        // Its "key" is the hash and the check of the key that was lost.
        Kind::Poison => (u64_at(view.key, 0), u32_at(view.key, 8)),
        _ => (hasher.key(db, view.key).hash, hasher.check(db, view.key)),
    };
    let (version, life) = (view.head.version, view.head.life());
    FooterEntry { hash, version, check, offset, kind, db, life }
}
