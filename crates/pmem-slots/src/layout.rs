//! What a PMem slab looks like on the medium (`docs/formats/pmem-slab.md`).
//!
//! ```text
//! slab     0 header, 64 bytes | to 256 zero | slots of k x 256 bytes, as many as fit
//! header   0 magic "TRCPSLAB"+ 8 store  16 seq  24 slab:u32 granules:u16 zero:u16  32.. zero  56 crc of 0..56:u32 zero
//! slot     0 commit:u64  8 hash  16 check:u32 temperature:u8 zero  24 crc of 8..24 and 32..48:u32 one:u32  32 record, to its end
//! ```
//!
//! + the magic's high half is xored with the seq, both halves folded, as in blocks. A magic of zero: the slab holds nothing.
//!
//! `commit` is zero (the slot is free) or what follows from seq, place and version: the last word stored of a record, alone in
//! its fence, and the first one cleared. Neither a header nor a slot's head is ever left all zeros: that is damage.

use terrace_blocks::{FooterEntry, record_crc, u32_at, u64_at};
use terrace_engine::record::{Kind, NewRecord, RecordMeta};

/// Slots are multiples of this: what such memory writes at once.
pub const GRANULE: usize = 256;
/// Bytes before a slab's first slot.
pub const SLAB_HEADER_BYTES: usize = GRANULE;
/// Bytes of a slot before its record.
pub const SLOT_HEAD_BYTES: usize = 32;
/// A cache line: of a slab's header and of a slot's head what must stand in one.
pub const LINE_BYTES: usize = 64;

const SLAB_MAGIC: u64 = u64::from_le_bytes(*b"TRCPSLAB");
const COMMIT_MAGIC: u64 = u64::from_le_bytes(*b"TRCPSLOT");

/// A slab's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabHeader {
    /// The store it belongs to.
    pub store_id: u64,
    /// Unique for each use of any slab; 0 before the first.
    pub seq: u64,
    /// Its number.
    pub slab: u32,
    /// Of each slot; 0 before the first use.
    pub granules: u16,
}

/// What stands in the place of a slab's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredSlab {
    /// Its slots count.
    Used(SlabHeader),
    /// None do: it was never used, or is being formatted, before which it may have been this.
    Empty(Option<SlabHeader>),
    /// Nothing that a store wrote.
    Damaged,
}

fn magic(seq: u64) -> u64 {
    SLAB_MAGIC ^ (seq ^ seq >> 32) << 32
}

impl SlabHeader {
    /// Its bytes.
    pub fn encode(&self) -> [u8; LINE_BYTES] {
        let mut bytes = [0; LINE_BYTES];
        bytes[..8].copy_from_slice(&magic(self.seq).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.store_id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seq.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.slab.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.granules.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..56]);
        bytes[56..60].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// What stands at the start of a slab of this store.
    pub fn decode(bytes: &[u8; LINE_BYTES], store_id: u64, slab: u32) -> StoredSlab {
        let header = Self {
            store_id: u64_at(bytes, 8),
            seq: u64_at(bytes, 16),
            slab: u32_at(bytes, 24),
            granules: u32_at(bytes, 28) as u16,
        };
        // But for its first word.
        let whole = header.encode()[8..] == bytes[8..] && (header.store_id, header.slab) == (store_id, slab);
        match u64_at(bytes, 0) {
            0 if *bytes == [0; LINE_BYTES] => StoredSlab::Damaged,
            0 => StoredSlab::Empty(whole.then_some(header)),
            word if !whole || word != magic(header.seq) => StoredSlab::Damaged,
            _ if header.granules == 0 => StoredSlab::Empty(None),
            _ => StoredSlab::Used(header),
        }
    }
}

/// A slot: the use of its slab, the slab, and where in that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlace {
    pub seq: u64,
    pub slab: u32,
    pub offset: u32,
}

/// The head of a slot whose checksum holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotHead {
    /// Of the record's key.
    pub hash: u64,
    /// 32 more bits of the key.
    pub check: u32,
    /// How often its record was read, when it came here.
    pub temperature: u8,
    /// The record's version.
    pub version: u64,
    /// Its lengths, kind and database.
    pub meta: RecordMeta,
}

/// What stands in the place of a slot's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredSlot {
    /// It may be filled.
    Free,
    /// It holds a record.
    Filled(SlotHead),
    /// It was filled, and is damaged: of its record this is known.
    Damaged(SlotHead),
    /// Nothing that a store wrote: whose record it was can't be told.
    Lost,
}

impl SlotPlace {
    /// The word that says that the slot holds the record of this version; never zero.
    pub fn commit(self, version: u64) -> u64 {
        let place = u64::from(self.slab) << 32 | u64::from(self.offset);
        let mixed = (self.seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place)
            .wrapping_add(version)
            .wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        (COMMIT_MAGIC ^ mixed ^ mixed >> 29).max(1)
    }

    fn head_crc(self, line: &[u8]) -> u32 {
        let mut place = [0; 16];
        place[..8].copy_from_slice(&self.seq.to_le_bytes());
        place[8..12].copy_from_slice(&self.slab.to_le_bytes());
        place[12..].copy_from_slice(&self.offset.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&place), &line[8..24]);
        crc32c::crc32c_append(crc, &line[32..48])
    }

    fn seal(self, line: &mut [u8]) {
        let crc = self.head_crc(line);
        line[24..28].copy_from_slice(&crc.to_le_bytes());
        line[28..32].copy_from_slice(&1u32.to_le_bytes());
    }

    /// The head of a free slot.
    pub fn free_head(self) -> [u8; LINE_BYTES] {
        let mut line = [0; LINE_BYTES];
        self.seal(&mut line);
        line
    }

    /// Appends the slot's bytes up to the end of its record and of a cache line, all but the commit word, which is zero.
    pub fn encode(self, entry: &FooterEntry, temperature: u8, record: &NewRecord<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + SLOT_HEAD_BYTES, 0);
        record.encode(out);
        let slot = &mut out[start..];
        slot[8..16].copy_from_slice(&entry.hash.to_le_bytes());
        slot[16..20].copy_from_slice(&entry.check.to_le_bytes());
        slot[20] = temperature;
        let at = SLOT_HEAD_BYTES;
        let crc = record_crc(self.seq, self.slab, self.offset + at as u32, &slot[at..]);
        slot[at + 16..at + 20].copy_from_slice(&crc.to_le_bytes());
        self.seal(slot);
        let len = slot.len().next_multiple_of(LINE_BYTES);
        out.resize(start + len, 0);
    }

    /// What a slot's first line says.
    pub fn decode(self, line: &[u8; LINE_BYTES]) -> StoredSlot {
        let commit = u64_at(line, 0);
        let whole = u32_at(line, 24) == self.head_crc(line) && u32_at(line, 28) == 1;
        let head = SlotHead {
            hash: u64_at(line, 8),
            check: u32_at(line, 16),
            temperature: line[20],
            version: u64_at(line, 32),
            meta: RecordMeta(u64_at(line, 40)),
        };
        match (commit, whole) {
            (0, _) if *line == [0; LINE_BYTES] => StoredSlot::Lost,
            // Let go, or never filled to the end.
            (0, _) => StoredSlot::Free,
            (_, false) => StoredSlot::Lost,
            (commit, true) if commit == self.commit(head.version) && head.is_of_record() => {
                StoredSlot::Filled(head)
            }
            (_, true) => StoredSlot::Damaged(head),
        }
    }
}

impl SlotHead {
    fn is_of_record(&self) -> bool {
        self.meta.plausible() && self.meta.kind() != Kind::Poison
    }
}

/// The classes of slots, in granules: 1 to 8 by 1, then by an eighth, each as long as a slab of so many holds.
pub struct Granules(Box<[u16]>);

impl Granules {
    /// For slabs of `slab_bytes` and records of up to `longest` bytes, which a slab must hold.
    pub fn new(slab_bytes: usize, longest: usize) -> Self {
        let room = (slab_bytes - SLAB_HEADER_BYTES) / GRANULE;
        let longest = (longest + SLOT_HEAD_BYTES).div_ceil(GRANULE);
        debug_assert!(longest <= room, "a slab holds the longest record");
        let mut classes: Vec<u16> = Vec::new();
        let mut next = 1;
        while classes.last().is_none_or(|&last| usize::from(last) < longest) {
            let size = room / (room / next.min(room)).max(1);
            let size = if next < 8 { next } else { size };
            classes.push(size as u16);
            next = size + (size / 8).max(1);
        }
        Self(classes.into())
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
    /// Of a class's slot.
    pub fn of_slot(&self, class: usize) -> u16 {
        self.0[class]
    }
    /// The class for a record of so many words; `None` if it is too long for any.
    pub fn class(&self, words: usize) -> Option<usize> {
        let granules = (words * 8 + SLOT_HEAD_BYTES).div_ceil(GRANULE);
        let class = self.0.partition_point(|&size| usize::from(size) < granules);
        (class < self.0.len()).then_some(class)
    }
    /// The class whose slots have so many granules.
    pub fn known(&self, granules: u16) -> Option<usize> {
        self.0.binary_search(&granules).ok()
    }
}

/// How many slots of so many granules a slab holds.
pub fn slots_in(slab_bytes: usize, granules: u16) -> usize {
    (slab_bytes - SLAB_HEADER_BYTES) / (GRANULE * usize::from(granules).max(1))
}

#[cfg(test)]
mod tests {
    use terrace_engine::record::Lifetime;

    use super::*;

    const PLACE: SlotPlace = SlotPlace { seq: 0x22, slab: 3, offset: 256 };

    fn record() -> (FooterEntry, NewRecord<'static>) {
        let (kind, db) = (Kind::Value, 2);
        let entry =
            FooterEntry { hash: 0x1111, version: 5, check: 0x33, offset: 0, kind, db, life: Lifetime::NEVER };
        (
            entry,
            NewRecord {
                version: 5,
                kind,
                db,
                flags: 7,
                state: 0,
                expire_at: 0,
                token: 0,
                key: b"key",
                value: &[8; 30],
            },
        )
    }

    fn line(bytes: &[u8]) -> [u8; LINE_BYTES] {
        bytes[..LINE_BYTES].try_into().unwrap()
    }

    #[test]
    fn golden_bytes() {
        let header = SlabHeader { store_id: 0x11, seq: 0x22, slab: 3, granules: 4 };
        let bytes = header.encode();
        assert_eq!((&bytes[..4], u64_at(&bytes, 0) >> 32), (&b"TRCP"[..], SLAB_MAGIC >> 32 ^ 0x22));
        assert_eq!(
            bytes[8..32],
            [0x11, 0, 0, 0, 0, 0, 0, 0, 0x22, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]
        );
        assert_eq!((bytes[32..56].iter().max(), u64_at(&bytes, 56)), (Some(&0), 0x356cce1e));
        let (entry, record) = record();
        let mut slot = Vec::new();
        PLACE.encode(&entry, 9, &record, &mut slot);
        assert_eq!(slot.len(), 128);
        assert_eq!(
            slot[..24],
            [0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x11, 0, 0, 0, 0, 0, 0, 0x33, 0, 0, 0, 9, 0, 0, 0]
        );
        assert_eq!((u64_at(&slot, 24), u64_at(&slot, 32)), (0x1_bad3_807b, 5));
        assert_eq!(PLACE.commit(5), 0xa1509e6fa528fa6f);
    }

    #[test]
    fn headers_survive_and_damage_shows() {
        let header = SlabHeader { store_id: 1, seq: 2, slab: 3, granules: 4 };
        let bytes = header.encode();
        assert_eq!(SlabHeader::decode(&bytes, 1, 3), StoredSlab::Used(header));
        assert_eq!(SlabHeader::decode(&bytes, 1, 4), StoredSlab::Damaged, "another slab's");
        assert_eq!(SlabHeader::decode(&bytes, 2, 3), StoredSlab::Damaged, "another store's");
        assert_eq!(SlabHeader::decode(&[0; 64], 1, 3), StoredSlab::Damaged, "a line that was lost");
        let blank = SlabHeader { seq: 0, granules: 0, ..header }.encode();
        assert_eq!(SlabHeader::decode(&blank, 1, 3), StoredSlab::Empty(None));
        let mut cleared = bytes;
        cleared[..8].fill(0);
        assert_eq!(SlabHeader::decode(&cleared, 1, 3), StoredSlab::Empty(Some(header)));
        for at in 0..64 {
            let (mut bad, mut torn) = (bytes, cleared);
            bad[at] ^= 4;
            assert_eq!(SlabHeader::decode(&bad, 1, 3), StoredSlab::Damaged, "byte {at}");
            if at >= 8 {
                torn[at] ^= 4;
                assert_eq!(SlabHeader::decode(&torn, 1, 3), StoredSlab::Empty(None), "byte {at}");
            }
        }
    }

    #[test]
    fn slots_survive_and_damage_shows() {
        let (entry, record) = record();
        let mut slot = Vec::new();
        PLACE.encode(&entry, 9, &record, &mut slot);
        assert_eq!(PLACE.decode(&line(&slot)), StoredSlot::Free, "not committed");
        slot[..8].copy_from_slice(&PLACE.commit(5).to_le_bytes());
        let head = SlotHead { hash: 0x1111, check: 0x33, temperature: 9, version: 5, meta: record.meta() };
        assert_eq!(PLACE.decode(&line(&slot)), StoredSlot::Filled(head));
        for at in 0..64 {
            let mut bad = line(&slot);
            bad[at] ^= 4;
            let expected = match at {
                0..8 => StoredSlot::Damaged(head),
                8..48 => StoredSlot::Lost,
                // The record's own checksum, which is not the head's business.
                _ => StoredSlot::Filled(head),
            };
            assert_eq!(PLACE.decode(&bad), expected, "byte {at}");
        }
        assert_eq!(PLACE.decode(&[0; 64]), StoredSlot::Lost, "a line that was lost");
        assert_eq!(PLACE.decode(&PLACE.free_head()), StoredSlot::Free);
        for other in [
            SlotPlace { seq: 0x23, ..PLACE },
            SlotPlace { slab: 4, ..PLACE },
            SlotPlace { offset: 512, ..PLACE },
        ] {
            assert_eq!(other.decode(&line(&slot)), StoredSlot::Lost, "of another place or use");
        }
    }

    #[test]
    fn every_record_has_the_smallest_class_that_holds_it() {
        for (slab, longest) in [(4096, 1600), (8192, 6032), (1 << 20, 84 << 10)] {
            let granules = Granules::new(slab, longest);
            assert!(granules.count() < 60, "{}", granules.count());
            for words in 3..=longest / 8 {
                let class = granules.class(words).unwrap();
                let bytes = |class| usize::from(granules.of_slot(class)) * GRANULE;
                assert!(
                    bytes(class) >= words * 8 + SLOT_HEAD_BYTES
                        && slots_in(slab, granules.of_slot(class)) > 0
                );
                assert!(class == 0 || bytes(class - 1) < words * 8 + SLOT_HEAD_BYTES);
                assert_eq!(granules.known(granules.of_slot(class)), Some(class));
            }
        }
    }
}
