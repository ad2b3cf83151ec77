//! What the heap looks like on the medium (`docs/formats/heap.md`).
//!
//! ```text
//! heap     manifest, twice | intents, twice | runs | pages
//! manifest 0 the machine's manifest, 208 bytes   208 magic "TRCHEAP1"  216 bytes of the tier  224 crc of store id and 208..224:u32 zero
//! intent   0 version  8 check of store id, slot, version                     a session each
//! run      16 words: where chunks start that this session may be filling     a session each
//! page     0 header, 64 bytes | chunks of k x 64 bytes, as many as fit
//!          or header | map of starts (`map`) | chunks of any lengths, one behind the other, to the page's end
//! header   0 magic "TRCHPAGE"+ 8 store  16 seq  24 page:u32 lines:u16 zero:u16  32 ordinal:u32  36.. zero  56 crc of 0..56:u32 zero
//! chunk    0 word  8 hash  16 check:u32 crc of 8..20 and the record's first two words:u32  24 record, or a part of a value
//! ```
//!
//! + the magic's high half is xored with the seq, both halves folded. A magic of zero: no chunk of the page counts.
//!
//! A chunk's word is the last one that makes its record count and the first one that ends that. It follows from the use of the page,
//! the place, the record's version and what the chunk is ([`Sort`]): whatever else stands there is damage, or torn.

use terrace_blocks::{checked, record_crc, u32_at, u64_at};
use terrace_engine::record::{NewRecord, RecordMeta, RecordView};

/// Chunks are multiples of this: a cache line.
pub const LINE_BYTES: usize = 64;
/// Bytes before a page's first chunk.
pub const PAGE_HEADER_BYTES: usize = LINE_BYTES;
/// Bytes of a chunk before its record.
pub const CHUNK_HEAD_BYTES: usize = 24;
/// Read to know what a chunk is: its head and the record's words up to an expiry.
pub const FRONT_BYTES: usize = CHUNK_HEAD_BYTES + 32;
/// Chunks that a session may be filling.
pub const RUN_CHUNKS: usize = 16;

/// Of the word that leads to another chunk: where that starts, and what this one is.
const CHAIN_MASK: u64 = (1 << 48) - 1;
/// What a page of the index has in place of its chunks' lines.
const INDEX_LINES: u16 = u16::MAX;
/// And a page of objects, whose chunks have any lengths: see [`map`](crate::map).
pub const OBJECT_LINES: u16 = u16::MAX - 1;

const PAGE_MAGIC: u64 = u64::from_le_bytes(*b"TRCHPAGE");

/// What a chunk is, as its word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Sort {
    /// It may be filled.
    Free = 0x5be4_c5c0_1e9f_30d1,
    /// A record that counts.
    Record = 0x91c7_26a4_0f6b_5d37,
    /// A record that counts if its step does: see [`Intents`](crate::intents).
    Step = 0x2f61_d8f3_b7a0_4c85,
    /// A record that counts unless a step removed it.
    Dying = 0xc83a_4b1d_6e52_f709,
    /// A part of a large value.
    Piece = 0x74d9_0ae6_95c3_1bf2,
    /// A line of the index on the medium.
    Link = 0x1ae4_73b8_c56d_209f,
    /// A record of a step of that index: the word leads to another chunk of the step.
    Chain = 0xe3b5_981d_420f_6ac7,
}

/// A chunk: the use of its page, the page, and where in that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub seq: u64,
    pub page: u32,
    pub offset: u32,
}

/// What is known of a record from the front of its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Of the record's key; of a dying one it may be the version that removes it.
    pub hash: u64,
    /// 32 more bits of the key.
    pub check: u32,
    /// The record's version.
    pub version: u64,
    /// Its lengths, kind and database.
    pub meta: RecordMeta,
    /// When it expires, if it does.
    pub expire_at: u64,
    /// Whether the checksum over all that holds.
    pub sound: bool,
}

impl Place {
    /// The word of a chunk here; `version` of the record, or a large value's number.
    pub fn word(self, sort: Sort, version: u64) -> u64 {
        let place = u64::from(self.page) << 32 | u64::from(self.offset);
        let mixed = (self.seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place)
            .wrapping_add(version)
            .wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        (sort as u64 ^ mixed ^ mixed >> 29).max(1)
    }
    /// The word of a free chunk here.
    pub fn free(self) -> u64 {
        self.word(Sort::Free, 0)
    }
    /// What the word that stands here says of a chunk with this record.
    pub fn sort_of(self, word: u64, version: u64) -> Option<Sort> {
        let sorts = [Sort::Record, Sort::Step, Sort::Dying];
        let found = sorts.into_iter().find(|sort| word == self.word(*sort, version));
        found.or_else(|| self.chain_of(word).map(|_| Sort::Chain))
    }
    /// The word of a chunk of a step whose chunk before it is `before`, 0 for none; whether its record is one that the step makes, or one
    /// that it removes.
    pub fn chained(self, before: u64, is_new: bool) -> u64 {
        self.word(Sort::Chain, 0) & !CHAIN_MASK | before | u64::from(is_new)
    }
    /// What such a word says.
    pub fn chain_of(self, word: u64) -> Option<(u64, bool)> {
        let before = word & CHAIN_MASK & !1;
        let is_one =
            (word ^ self.word(Sort::Chain, 0)) & !CHAIN_MASK == 0 && before.is_multiple_of(LINE_BYTES as u64);
        is_one.then_some((before, word & 1 == 1))
    }

    fn front_crc(self, chunk: &[u8]) -> u32 {
        let place = self.word(Sort::Free, u64_at(chunk, CHUNK_HEAD_BYTES)).to_le_bytes();
        let crc = crc32c::crc32c_append(crc32c::crc32c(&place), &chunk[8..20]);
        crc32c::crc32c_append(crc, &chunk[CHUNK_HEAD_BYTES + 8..CHUNK_HEAD_BYTES + 16])
    }

    /// Writes a chunk's bytes over `out`: its word, its head and the record.
    pub fn encode(self, sort: Sort, hash: u64, check: u32, record: &NewRecord<'_>, out: &mut Vec<u8>) {
        out.clear();
        out.resize(CHUNK_HEAD_BYTES + record.words() * 8, 0);
        record.encode_to(&mut out[CHUNK_HEAD_BYTES..]);
        let crc = self.record_crc(&out[CHUNK_HEAD_BYTES..]);
        out[CHUNK_HEAD_BYTES + 16..][..4].copy_from_slice(&crc.to_le_bytes());
        out[..8].copy_from_slice(&self.word(sort, record.version).to_le_bytes());
        out[8..16].copy_from_slice(&hash.to_le_bytes());
        out[16..20].copy_from_slice(&check.to_le_bytes());
        let crc = self.front_crc(out);
        out[20..24].copy_from_slice(&crc.to_le_bytes());
    }

    /// The two words of a chunk's head, of the key of the record in its bytes.
    pub fn head(self, hash: u64, check: u32, chunk: &[u8]) -> [u64; 2] {
        let mut front: [u8; FRONT_BYTES] = std::array::from_fn(|i| chunk.get(i).copied().unwrap_or(0));
        front[8..16].copy_from_slice(&hash.to_le_bytes());
        front[16..20].copy_from_slice(&check.to_le_bytes());
        let crc = self.front_crc(&front);
        [hash, u64::from(crc) << 32 | u64::from(check)]
    }

    fn record_crc(self, record: &[u8]) -> u32 {
        record_crc(self.seq, self.page, self.offset + CHUNK_HEAD_BYTES as u32, record)
    }

    /// What the front of a chunk here says of its record.
    pub fn front(self, bytes: &[u8; FRONT_BYTES]) -> Front {
        let meta = RecordMeta(u64_at(bytes, CHUNK_HEAD_BYTES + 8));
        Front {
            hash: u64_at(bytes, 8),
            check: u32_at(bytes, 16),
            version: u64_at(bytes, CHUNK_HEAD_BYTES),
            meta,
            expire_at: if meta.has_expiry() { u64_at(bytes, CHUNK_HEAD_BYTES + 24) } else { 0 },
            sound: u32_at(bytes, 20) == self.front_crc(bytes) && meta.plausible(),
        }
    }

    /// The record in the bytes of a chunk here, if it is whole and the word is one of a record, or of a free chunk.
    pub fn view(self, bytes: &[u8]) -> Option<RecordView<'_>> {
        let at = self.offset + CHUNK_HEAD_BYTES as u32;
        let view = checked(self.seq, self.page, at, bytes.get(CHUNK_HEAD_BYTES..)?)?;
        let word = u64_at(bytes, 0);
        let is_known = word == self.free() || self.sort_of(word, view.head.version).is_some();
        is_known.then_some(view)
    }

    /// Writes the head of a part of a large value over the first bytes of `out`, all but its word.
    pub fn encode_piece(self, number: u64, bytes: u32, out: &mut [u8]) {
        out[8..16].copy_from_slice(&number.to_le_bytes());
        out[16..20].copy_from_slice(&bytes.to_le_bytes());
    }
}

/// Lines that so many bytes take.
#[inline]
pub fn lines_of(bytes: usize) -> usize {
    bytes.div_ceil(LINE_BYTES)
}

impl Front {
    /// Lines that a chunk with this record needs.
    pub fn lines(&self) -> usize {
        lines_of(CHUNK_HEAD_BYTES + self.meta.slot_words() * 8)
    }
}

/// A page's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// The store it belongs to.
    pub store_id: u64,
    /// Unique for each use of any page; 0 before the first.
    pub seq: u64,
    /// Its number.
    pub page: u32,
    /// Of each chunk; 0 before the first use.
    pub lines: u16,
    /// Of a page of the index: which part of it.
    pub ordinal: u32,
}

/// What stands in the place of a page's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredPage {
    /// Its chunks count.
    Used(PageHeader),
    /// It is a part of the index.
    Index(PageHeader),
    /// None do.
    Empty(Option<PageHeader>),
    /// Nothing that a store wrote.
    Damaged,
}

impl PageHeader {
    /// Of a page with chunks of so many lines.
    pub fn of_chunks(store_id: u64, seq: u64, page: u32, lines: u16) -> Self {
        Self { store_id, seq, page, lines, ordinal: 0 }
    }
    /// Of a page of objects.
    pub fn of_objects(store_id: u64, seq: u64, page: u32) -> Self {
        Self::of_chunks(store_id, seq, page, OBJECT_LINES)
    }
    /// Whether it is one of those.
    pub fn has_objects(&self) -> bool {
        self.lines == OBJECT_LINES
    }
    /// Of a page of the index.
    pub fn of_index(store_id: u64, seq: u64, page: u32, ordinal: u32) -> Self {
        Self { store_id, seq, page, lines: INDEX_LINES, ordinal }
    }
    /// Its bytes.
    pub fn encode(&self) -> [u8; LINE_BYTES] {
        let mut bytes = [0; LINE_BYTES];
        bytes[..8].copy_from_slice(&self.magic().to_le_bytes());
        bytes[8..16].copy_from_slice(&self.store_id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seq.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.page.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.lines.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.ordinal.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..56]);
        bytes[56..60].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
    /// The word that makes the page's chunks count.
    pub fn magic(&self) -> u64 {
        PAGE_MAGIC ^ (self.seq ^ self.seq >> 32) << 32
    }
    /// What stands at the start of a page of this store.
    pub fn decode(bytes: &[u8; LINE_BYTES], store_id: u64, page: u32) -> StoredPage {
        let header = Self {
            store_id: u64_at(bytes, 8),
            seq: u64_at(bytes, 16),
            page: u32_at(bytes, 24),
            lines: u32_at(bytes, 28) as u16,
            ordinal: u32_at(bytes, 32),
        };
        // But for its first word.
        let whole = header.encode()[8..] == bytes[8..] && (header.store_id, header.page) == (store_id, page);
        match u64_at(bytes, 0) {
            0 if *bytes == [0; LINE_BYTES] => StoredPage::Damaged,
            0 => StoredPage::Empty(whole.then_some(header)),
            word if !whole || word != header.magic() => StoredPage::Damaged,
            _ if header.lines == 0 => StoredPage::Empty(None),
            _ if header.lines == INDEX_LINES => StoredPage::Index(header),
            _ => StoredPage::Used(header),
        }
    }
}

/// The lengths of chunks, in lines: 1 to 8 by 1, then by a quarter, each as long as a page of so many holds.
pub struct Classes(Box<[u16]>);

impl Classes {
    /// For pages of `page_bytes`; the longest is a whole page.
    pub fn new(page_bytes: usize) -> Self {
        let room = (page_bytes - PAGE_HEADER_BYTES) / LINE_BYTES;
        let mut classes: Vec<u16> = Vec::new();
        let mut next = 1;
        while classes.last().is_none_or(|&last| usize::from(last) < room) {
            let size = if next < 8 { next.min(room) } else { room / (room / next.min(room)).max(1) };
            classes.push(size as u16);
            next = size + (size / 4).max(1);
        }
        Self(classes.into())
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
    /// Of a class's chunk.
    #[inline]
    pub fn lines(&self, class: usize) -> u16 {
        self.0[class]
    }
    /// The class for so many bytes, head and all; `None` if they are too many for any.
    #[inline]
    pub fn of(&self, bytes: usize) -> Option<usize> {
        let lines = bytes.div_ceil(LINE_BYTES);
        // Most records are short.
        if (1..8).contains(&lines) && lines <= self.0.len() {
            return Some(lines - 1);
        }
        let class = self.0.partition_point(|&size| usize::from(size) < lines);
        (class < self.0.len()).then_some(class)
    }
    /// The class whose chunks have so many lines.
    pub fn known(&self, lines: u16) -> Option<usize> {
        self.0.binary_search(&lines).ok()
    }
}

/// How many chunks of so many lines a page holds.
pub fn chunks_in(page_bytes: usize, lines: u16) -> usize {
    (page_bytes - PAGE_HEADER_BYTES) / (LINE_BYTES * usize::from(lines).max(1))
}

#[cfg(test)]
mod tests {
    use terrace_engine::record::Kind;

    use super::*;

    const PLACE: Place = Place { seq: 0x22, page: 3, offset: 64 };

    fn record() -> NewRecord<'static> {
        NewRecord {
            version: 5,
            kind: Kind::Value,
            db: 2,
            flags: 7,
            state: 0,
            expire_at: 0,
            token: 0,
            key: b"key",
            value: &[8; 30],
        }
    }

    fn front(bytes: &[u8]) -> [u8; FRONT_BYTES] {
        bytes[..FRONT_BYTES].try_into().unwrap()
    }

    #[test]
    fn a_small_record_takes_two_lines() {
        let record = NewRecord { key: &[1; 8], value: &[2; 64], ..record() };
        assert_eq!(CHUNK_HEAD_BYTES + record.words() * 8, 120);
    }

    #[test]
    fn golden_bytes() {
        let header = PageHeader::of_chunks(0x11, 0x22, 3, 4);
        let bytes = header.encode();
        assert_eq!((&bytes[..4], u64_at(&bytes, 0) >> 32), (&b"TRCH"[..], PAGE_MAGIC >> 32 ^ 0x22));
        assert_eq!(
            bytes[8..32],
            [[0x11, 0, 0, 0, 0, 0, 0, 0], [0x22, 0, 0, 0, 0, 0, 0, 0], [3, 0, 0, 0, 4, 0, 0, 0]].concat()[..]
        );
        let mut chunk = Vec::new();
        PLACE.encode(Sort::Record, 0x1111, 0x33, &record(), &mut chunk);
        assert_eq!(u64_at(&chunk, 0), PLACE.word(Sort::Record, 5));
        assert_eq!(chunk[8..20], [0x11, 0x11, 0, 0, 0, 0, 0, 0, 0x33, 0, 0, 0]);
        assert_eq!(PLACE.word(Sort::Record, 5), 288550785849255002);
        assert_eq!(u32_at(&chunk, 20), 16588214);
    }

    #[test]
    fn headers_survive_and_damage_shows() {
        let header = PageHeader::of_chunks(1, 2, 3, 4);
        let bytes = header.encode();
        assert_eq!(PageHeader::decode(&bytes, 1, 3), StoredPage::Used(header));
        assert_eq!(PageHeader::decode(&bytes, 1, 4), StoredPage::Damaged, "another page's");
        assert_eq!(PageHeader::decode(&bytes, 2, 3), StoredPage::Damaged, "another store's");
        assert_eq!(PageHeader::decode(&[0; 64], 1, 3), StoredPage::Damaged, "a line that was lost");
        for at in 0..64 {
            let mut bad = bytes;
            bad[at] ^= 4;
            assert_eq!(PageHeader::decode(&bad, 1, 3), StoredPage::Damaged, "byte {at}");
        }
    }

    #[test]
    fn chunks_survive_and_damage_shows() {
        let mut chunk = Vec::new();
        PLACE.encode(Sort::Step, 0x1111, 0x33, &record(), &mut chunk);
        let found = PLACE.front(&front(&chunk));
        assert!(found.sound && (found.hash, found.check, found.version) == (0x1111, 0x33, 5));
        assert_eq!(PLACE.sort_of(u64_at(&chunk, 0), 5), Some(Sort::Step));
        for at in 8..CHUNK_HEAD_BYTES + 16 {
            let mut bad = front(&chunk);
            bad[at] ^= 4;
            assert!(!PLACE.front(&bad).sound, "byte {at}");
        }
        for other in
            [Place { seq: 0x23, ..PLACE }, Place { page: 4, ..PLACE }, Place { offset: 128, ..PLACE }]
        {
            assert!(!other.front(&front(&chunk)).sound && other.sort_of(u64_at(&chunk, 0), 5).is_none());
        }
        assert_ne!(PLACE.free(), 0, "a line that was lost is no free chunk");
    }

    #[test]
    fn a_damaged_head_is_made_anew() {
        let mut chunk = Vec::new();
        PLACE.encode(Sort::Record, 0x1111, 0x33, &record(), &mut chunk);
        let whole = chunk.clone();
        chunk[8..24].fill(0xa5);
        let head = PLACE.head(0x1111, 0x33, &chunk);
        assert_eq!(head.map(u64::to_le_bytes).as_flattened(), &whole[8..24]);
    }

    #[test]
    fn every_length_has_the_smallest_class_that_holds_it() {
        for page in [1024, 4096, 1 << 20] {
            let classes = Classes::new(page);
            assert!(classes.count() < 64, "{}", classes.count());
            for bytes in 1..=page - PAGE_HEADER_BYTES {
                let class = classes.of(bytes).unwrap();
                let length = |class| usize::from(classes.lines(class)) * LINE_BYTES;
                assert!(length(class) >= bytes && chunks_in(page, classes.lines(class)) > 0);
                assert!(class == 0 || length(class - 1) < bytes);
                assert_eq!(classes.known(classes.lines(class)), Some(class));
            }
            assert_eq!(classes.of(page), None);
        }
    }
}
