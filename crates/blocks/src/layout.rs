//! What a block looks like on the medium (`docs/formats/block.md`).
//!
//! ```text
//! 0                64                                data_end        ...                size-64       size
//! +----------------+----------------------------------+------+------------------------+-------------+
//! | header         | records, each whole words        | free | deadlines; entries,    | trailer     |
//! |                | (see terrace_engine::record)     |      | newest first, 24 bytes |             |
//! +----------------+----------------------------------+------+------------------------+-------------+
//! header   0 magic "TRCBLOCK"+ 8 store  16 seq  24 slot:u32 kind:u32  32.. zero      56 crc of 0..56
//! trailer  0 magic "TRCTRAIL"+ 8 seq   16 count:u32 data_end:u32  24 newest version  32 earliest expiry
//!          40 crc of the footer:u32, of the data:u32   48 deadlines:u32  52.. zero    56 crc of 0..56
//! entry    0 hash  8 version  16 check:u32  20 offset in words:22 kind:2 database:4 expires:1 alone:1 zero:2
//! deadline 0 ms:u64, one for each record that expires, in the order of records
//! ```
//!
//! + the magic's high half is xored with the seq, both halves folded: the magics of two uses of a slot differ.
//!
//! A slot whose header's magic is zero is free: that word is what freeing a block clears, and the trailer's. Where the trailer
//! is that of a block that was flushed whole, the rest of the header must be its block's too: else the header was lost, not
//! cleared; the other way round alike. A block counts if its trailer does, and either its seq is at most the manifest's (it was flushed whole, so damage is damage) or
//! the checksum over all its data holds (else it is a flush that a crash tore).
//!
//! A record's checksum covers the block's seq, the slot, the offset and the record with a zero checksum field: an old or
//! misplaced record never passes.

use terrace_engine::record::{HEAD_BYTES, INLINE_VALUE_BYTES, Kind, Lifetime, RecordView};

/// Bytes before the first record.
pub const BLOCK_HEADER_BYTES: usize = 64;
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 64;
/// Bytes of a footer entry.
pub const ENTRY_BYTES: usize = 24;
/// Bytes of the footer beside the entry, for a record that expires.
pub const DEADLINE_BYTES: usize = 8;
/// No block's sequence number comes near this: a header with a higher one was not written by a store.
const SEQ_MAX: u64 = 1 << 62;
const HEADER_MAGIC: u64 = u64::from_le_bytes(*b"TRCBLOCK");
const TRAILER_MAGIC: u64 = u64::from_le_bytes(*b"TRCTRAIL");

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BlockKind {
    /// Records, a footer and a trailer.
    Records = 1,
    /// Pieces of large values.
    Extents = 2,
    /// A part of what a clean stop saved of index and block table.
    Snapshot = 3,
    /// Pieces of large values that were written in other blocks: see `gather.rs`.
    Gathered = 4,
}

impl BlockKind {
    /// Whether it holds pieces of large values, and no records.
    pub fn is_of_large_values(self) -> bool {
        matches!(self, Self::Extents | Self::Gathered)
    }
}

/// The first 64 bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The store it belongs to.
    pub store_id: u64,
    /// Unique for each use of any slot.
    pub seq: u64,
    /// The slot it belongs in.
    pub slot: u32,
    /// What it holds.
    pub kind: BlockKind,
}

/// What is at the place of a header, a trailer or a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<T> {
    /// Cleared, or never written.
    Empty,
    /// What it says; its checksum holds.
    Valid(T),
    /// Neither: torn or damaged.
    Bad,
}

/// The little-endian word at a byte offset; 0 beyond the end.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(from) = bytes.get(at..at + 8) {
        word.copy_from_slice(from);
    }
    u64::from_le_bytes(word)
}
/// The same for 32 bits.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
pub(crate) fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}
/// The first word of a block's use `seq`, never zero. Freeing clears this word alone: were it the same for every use, its
/// next store would make the old header or trailer whole again until the words behind it arrive.
fn magic(base: u64, seq: u64) -> u64 {
    base ^ (seq ^ seq >> 32) << 32
}
fn seal(bytes: &mut [u8; 64]) {
    let crc = crc32c::crc32c(&bytes[..56]);
    put(bytes, 56, u64::from(crc));
}
fn check(bytes: &[u8], base: u64, seq: u64) -> Stored<()> {
    if u64_at(bytes, 0) == 0 {
        return Stored::Empty;
    }
    let whole =
        u64_at(bytes, 0) == magic(base, seq) && u64_at(bytes, 56) == u64::from(crc32c::crc32c(&bytes[..56]));
    if whole { Stored::Valid(()) } else { Stored::Bad }
}

impl Header {
    /// Its bytes.
    pub fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; 64];
        put(&mut bytes, 0, magic(HEADER_MAGIC, self.seq));
        put(&mut bytes, 8, self.store_id);
        put(&mut bytes, 16, self.seq);
        put(&mut bytes, 24, u64::from(self.slot) | (self.kind as u64) << 32);
        seal(&mut bytes);
        bytes
    }
    /// The header that stood here before its block was freed: but for its first word it is whole.
    pub fn cleared(bytes: &[u8], store_id: u64, slot: u32) -> Option<Self> {
        let mut restored = [0; 64];
        restored.copy_from_slice(bytes.get(..64)?);
        put(&mut restored, 0, magic(HEADER_MAGIC, u64_at(bytes, 16)));
        match Self::decode(&restored, store_id, slot) {
            Stored::Valid(header) if u64_at(bytes, 0) == 0 => Some(header),
            _ => None,
        }
    }
    /// What stands at the start of a slot of this store.
    pub fn decode(bytes: &[u8], store_id: u64, slot: u32) -> Stored<Self> {
        match check(bytes, HEADER_MAGIC, u64_at(bytes, 16)) {
            Stored::Empty => Stored::Empty,
            Stored::Bad => Stored::Bad,
            Stored::Valid(()) => {
                let kind = match u64_at(bytes, 24) >> 32 {
                    1 => BlockKind::Records,
                    2 => BlockKind::Extents,
                    3 => BlockKind::Snapshot,
                    4 => BlockKind::Gathered,
                    _ => return Stored::Bad,
                };
                let header = Self {
                    store_id: u64_at(bytes, 8),
                    seq: u64_at(bytes, 16),
                    slot: u64_at(bytes, 24) as u32,
                    kind,
                };
                if header.store_id == store_id && header.slot == slot && header.seq <= SEQ_MAX {
                    Stored::Valid(header)
                } else {
                    Stored::Bad
                }
            }
        }
    }
}

/// The last 64 bytes of a block of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTrailer {
    /// As in the header.
    pub seq: u64,
    /// Footer entries.
    pub count: u32,
    /// Where the records end.
    pub data_end: u32,
    /// The newest version among the records.
    pub max_version: u64,
    /// No record expires before this time.
    pub min_expire: u64,
    /// Deadlines before the footer entries: one for each record that expires.
    pub deadlines: u32,
    /// Checksum of deadlines and footer entries.
    pub footer_crc: u32,
    /// Checksum of everything from the first record to `data_end`.
    pub data_crc: u32,
}

impl BlockTrailer {
    /// Its bytes.
    pub fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; 64];
        put(&mut bytes, 0, magic(TRAILER_MAGIC, self.seq));
        put(&mut bytes, 8, self.seq);
        put(&mut bytes, 16, u64::from(self.count) | u64::from(self.data_end) << 32);
        put(&mut bytes, 24, self.max_version);
        put(&mut bytes, 32, self.min_expire);
        put(&mut bytes, 40, u64::from(self.footer_crc) | u64::from(self.data_crc) << 32);
        put(&mut bytes, 48, u64::from(self.deadlines));
        seal(&mut bytes);
        bytes
    }
    /// What stands at the end of a block of this size.
    pub fn decode(bytes: &[u8], block_bytes: usize) -> Stored<Self> {
        match check(bytes, TRAILER_MAGIC, u64_at(bytes, 8)) {
            Stored::Empty => Stored::Empty,
            Stored::Bad => Stored::Bad,
            Stored::Valid(()) => {
                let trailer = Self {
                    seq: u64_at(bytes, 8),
                    count: u64_at(bytes, 16) as u32,
                    data_end: (u64_at(bytes, 16) >> 32) as u32,
                    max_version: u64_at(bytes, 24),
                    min_expire: u64_at(bytes, 32),
                    footer_crc: u64_at(bytes, 40) as u32,
                    data_crc: (u64_at(bytes, 40) >> 32) as u32,
                    deadlines: u64_at(bytes, 48) as u32,
                };
                let end = trailer.data_end as usize + trailer.footer_bytes() + TRAILER_BYTES;
                if end <= block_bytes { Stored::Valid(trailer) } else { Stored::Bad }
            }
        }
    }
    /// The trailer that stood here before its block was freed: but for its first word it is whole.
    pub fn cleared(bytes: &[u8], block_bytes: usize) -> Option<Self> {
        let mut restored = [0; 64];
        restored.copy_from_slice(bytes.get(..64)?);
        put(&mut restored, 0, magic(TRAILER_MAGIC, u64_at(bytes, 8)));
        match Self::decode(&restored, block_bytes) {
            Stored::Valid(trailer) if u64_at(bytes, 0) == 0 => Some(trailer),
            _ => None,
        }
    }
    /// Bytes of deadlines and footer entries.
    pub fn footer_bytes(&self) -> usize {
        footer_bytes(self.count as usize, self.deadlines as usize)
    }
}

/// What the footer says of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FooterEntry {
    /// The key's hash.
    pub hash: u64,
    /// The record's version.
    pub version: u64,
    /// 32 more bits of the key.
    pub check: u32,
    /// Where the record starts in the block, in bytes.
    pub offset: u32,
    /// What it stands for.
    pub kind: Kind,
    /// The database.
    pub db: u8,
    /// How long the record lasts.
    pub life: Lifetime,
}

impl FooterEntry {
    /// Its bytes.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put(&mut bytes, 0, self.hash);
        put(&mut bytes, 8, self.version);
        let place = u64::from(self.offset >> 3)
            | (self.kind as u64) << 22
            | u64::from(self.db & 15) << 24
            | u64::from(self.life.expires()) << 28
            | u64::from(self.life.alone) << 29;
        put(&mut bytes, 16, u64::from(self.check) | place << 32);
        bytes
    }
    /// What an entry says; all bytes say something. Of an expiry it says only that there is one.
    pub fn decode(bytes: &[u8]) -> Self {
        let place = u64_at(bytes, 16) >> 32;
        let kind = match place >> 22 & 3 {
            0 => Kind::Value,
            1 => Kind::Extent,
            2 => Kind::Tombstone,
            _ => Kind::Poison,
        };
        Self {
            hash: u64_at(bytes, 0),
            version: u64_at(bytes, 8),
            check: u64_at(bytes, 16) as u32,
            offset: ((place & 0x3f_ffff) << 3) as u32,
            kind,
            db: (place >> 24 & 15) as u8,
            life: Lifetime {
                expire_at: if place >> 28 & 1 == 1 { Lifetime::UNKNOWN } else { 0 },
                alone: place >> 29 & 1 == 1,
            },
        }
    }
}

/// The longest value that lies in its record, with blocks of this size.
pub fn inline_bytes(block_bytes: usize) -> usize {
    let page = block_bytes - BLOCK_HEADER_BYTES - TRAILER_BYTES - footer_bytes(1, 1) - HEAD_BYTES - 8;
    (page / 4).min(INLINE_VALUE_BYTES) / 8 * 8
}

/// Bytes of the footer of so many records, of which so many expire.
#[inline]
pub fn footer_bytes(records: usize, expiring: usize) -> usize {
    records * ENTRY_BYTES + expiring * DEADLINE_BYTES
}

/// The footer's entries in the order of their records, from the bytes of deadlines and entries that `trailer` tells of.
pub fn entries<'a>(trailer: &BlockTrailer, footer: &'a [u8]) -> impl Iterator<Item = FooterEntry> + use<'a> {
    let (deadlines, entries) = footer.split_at(footer.len().min(trailer.deadlines as usize * DEADLINE_BYTES));
    let mut deadlines = deadlines.chunks_exact(DEADLINE_BYTES).map(|bytes| u64_at(bytes, 0));
    entries.rchunks_exact(ENTRY_BYTES).map(move |bytes| {
        let mut entry = FooterEntry::decode(bytes);
        if entry.life.expires() {
            entry.life.expire_at = deadlines.next().filter(|&at| at != 0).unwrap_or(Lifetime::UNKNOWN);
        }
        entry
    })
}

/// Deadlines and entries of these records, as they stand before the trailer; how many deadlines.
pub fn encode_footer(list: &[FooterEntry], out: &mut Vec<u8>) -> u32 {
    let start = out.len();
    let expiring = list.iter().filter(|entry| entry.life.expires());
    expiring.for_each(|entry| out.extend_from_slice(&entry.life.expire_at.to_le_bytes()));
    let deadlines = ((out.len() - start) / DEADLINE_BYTES) as u32;
    list.iter().rev().for_each(|entry| out.extend_from_slice(&entry.encode()));
    deadlines
}

/// The checksum of an encoded record at a place. The place seeds it, so that the same bytes elsewhere, or of another use of
/// the slot, don't pass: two seeds that differ give two checksums that differ.
///
/// # Panics
/// If `record` is shorter than a record's first words.
pub fn record_crc(seq: u64, slot: u32, offset: u32, record: &[u8]) -> u32 {
    let place = u64::from(slot) << 32 | u64::from(offset);
    let seed =
        seq.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(place.wrapping_mul(0xc2b2_ae3d_27d4_eb4f));
    let crc = crc32c::crc32c_append((seed >> 32) as u32, &record[..16]);
    crc32c::crc32c_append(crc, &record[20..])
}

/// Decodes the record at the start of `bytes` and checks its checksum.
pub fn checked(seq: u64, slot: u32, offset: u32, bytes: &[u8]) -> Option<RecordView<'_>> {
    let view = RecordView::decode(bytes)?;
    let used = view.head.meta.used_words() * 8;
    (record_crc(seq, slot, offset, bytes.get(..used)?) == view.checksum).then_some(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_trailers_survive_and_damage_shows() {
        let header = Header { store_id: 1, seq: 2, slot: 3, kind: BlockKind::Extents };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes, 1, 3), Stored::Valid(header));
        assert_eq!(Header::decode(&bytes, 1, 4), Stored::Bad, "another slot's header");
        assert_eq!(Header::decode(&[0; 64], 1, 3), Stored::Empty);
        let trailer = BlockTrailer {
            seq: 2,
            count: 3,
            data_end: 100,
            max_version: 5,
            min_expire: 6,
            deadlines: 2,
            footer_crc: 7,
            data_crc: 8,
        };
        let stored = trailer.encode();
        assert_eq!(BlockTrailer::decode(&stored, 4096), Stored::Valid(trailer));
        assert_eq!(BlockTrailer::decode(&stored, 128), Stored::Bad, "more than the block holds");
        for at in 0..64 {
            let (mut bad_header, mut bad_trailer) = (bytes, stored);
            bad_header[at] ^= 4;
            bad_trailer[at] ^= 4;
            assert_eq!(Header::decode(&bad_header, 1, 3), Stored::Bad, "byte {at}");
            assert_eq!(BlockTrailer::decode(&bad_trailer, 4096), Stored::Bad, "byte {at}");
        }
    }

    #[test]
    fn golden_bytes() {
        let header = Header { store_id: 0x11, seq: 0x22, slot: 0x33, kind: BlockKind::Records };
        let bytes = header.encode();
        assert_eq!(
            (&bytes[..4], u64_at(&bytes, 0) >> 32),
            (&b"TRCB"[..], u64::from_le_bytes(*b"TRCBLOCK") >> 32 ^ 0x22)
        );
        assert_eq!((u64_at(&bytes, 8), u64_at(&bytes, 16), u64_at(&bytes, 24)), (0x11, 0x22, 0x1_0000_0033));
        let kind = Kind::Tombstone;
        let life = Lifetime { expire_at: Lifetime::UNKNOWN, alone: true };
        let entry = FooterEntry { hash: 1, version: 2, check: 3, offset: 64, kind, db: 15, life };
        assert_eq!(entry.encode()[16..], [3, 0, 0, 0, 8, 0, 0x80, 0x3f]);
        assert_eq!(FooterEntry::decode(&entry.encode()), entry);
    }

    #[test]
    fn a_record_of_another_place_or_use_does_not_pass() {
        let crc = |seq, slot, offset| record_crc(seq, slot, offset, &[7; 48]);
        let here = crc(1000, 1000, 8000);
        for n in 1..1000 {
            let older_and_newer =
                [crc(1000 - u64::from(n), 1000, 8000), crc(1000 + u64::from(n), 1000, 8000)];
            assert!(older_and_newer.iter().all(|other| *other != here), "another use of the slot, {n} apart");
            assert!(crc(1000, 1000 - n, 8000) != here && crc(1000, 1000 + n, 8000) != here, "another slot");
            assert!(crc(1000, 1000, 8000 - 8 * n) != here && crc(1000, 1000, 8000 + 8 * n) != here);
        }
    }
}
