//! What lies on the medium (`docs/formats/scm.md`).
//!
//! ```text
//! area     manifest, twice | root, three times | page table | hash table | log superblock | pages
//! root     0 magic "TRCSCMR1"  8 sequence  16 from  24 upto  32 committed:1 uncertain:1  40 keys 16 x u64  168 expiring 16 x u64  296 flushed 16 x u64
//!          424 crc of store id and 0..424:u32 zero  432 nodes:u32  436 crc of store id, sequence and nodes:u32
//! page     0 magic "TRCSCMP1"  8 sequence  16 kind:u8 exact:u8 zero  24 generation  32 live bytes  40 first deadline  48 order
//! line     56 crc of store id, page and 0..56:u32 zero                                                          twice a page
//! bucket   0-44 where:45 in words from the first page  45 kind:2  47 lost:1  48 check of all that and the bucket:16
//! chain    0 crc of store id, place and the rest:u32 elements:u32  8 bucket  16.. element, 8 bytes each; whole lines
//! element  0-47 where its entry starts, in bytes from the first page  48 tag: the high bits of the key's hash
//! entry    0 version  8 length:u32  12 crc of the record:u32  16 record              as the log has it
//! part     0 magic "TRCSCMV1"  8 hash of its record's key, once the table leads there  16 bytes:u32 crc of that and them:u32  24.. bytes of a large value
//! ```

use terrace_blocks::{u32_at, u64_at};
use terrace_engine::op::DATABASES;
use terrace_engine::record::{RecordMeta, RecordView};

/// A cache line.
pub const LINE_BYTES: usize = 64;
/// At both ends of a page: what a log block has its header in, and the copy of it.
pub const EDGE_BYTES: usize = LINE_BYTES;
/// Bytes for a copy of the root.
pub const ROOT_BYTES: usize = 448;
/// Bytes of an entry before its record.
pub const ENTRY_HEAD_BYTES: usize = 16;
/// Where the hash is in a part's head.
pub const PART_HASH_AT: u64 = 8;
/// Bytes of a part before those of its value.
pub const PART_HEAD_BYTES: usize = 24;
/// Bytes of a chain before its elements.
const CHAIN_HEAD_BYTES: usize = 16;

const ROOT_MAGIC: &[u8; 8] = b"TRCSCMR1";
const PAGE_MAGIC: &[u8; 8] = b"TRCSCMP1";
const PART_MAGIC: &[u8; 8] = b"TRCSCMV1";
const ROOT_CRC_AT: usize = 424;
/// Where a root says how many nodes there are: a word that has a check of its own, so that it can be stored alone.
pub const ROOT_NODES_AT: usize = 432;
/// Beside two flags: how far the round goes beyond its slice.
const ROUND_SHIFT: u32 = 2;
const PAGE_CRC_AT: usize = 56;

fn crc_of(store_id: u64, place: u64, bytes: &[u8]) -> u32 {
    let seed = [store_id.to_le_bytes(), place.to_le_bytes()];
    crc32c::crc32c_append(crc32c::crc32c(seed.as_flattened()), bytes)
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// How far the hash table leads, and what counts there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// Each one that is stored has a higher one.
    pub sequence: u64,
    /// The table led to all versions up to this one before.
    pub from: u64,
    /// It leads to all up to this one, or is being made to.
    pub upto: u64,
    /// Whether it does.
    pub is_committed: bool,
    /// The round was of all versions up to this one, and left out what is older than another record of its key.
    pub round: u64,
    /// Whether something damaged was met that may have been counted: who opens the store next counts anew.
    pub is_uncertain: bool,
    /// Live keys of each database.
    pub keys: [u64; DATABASES],
    /// Those of them that expire.
    pub expiring: [u64; DATABASES],
    /// Records of each database up to this version count for nothing.
    pub flushed: [u64; DATABASES],
    /// So many nodes count at least: one that reads as zeros is missed. 0: nobody knows.
    pub nodes: u32,
}

/// What a root with this sequence number says of how many nodes there are.
pub fn nodes_word(store_id: u64, sequence: u64, nodes: u32) -> u64 {
    match nodes {
        0 => 0,
        _ => u64::from(nodes) | u64::from(crc_of(store_id, sequence, &nodes.to_le_bytes())) << 32,
    }
}

impl Root {
    /// Its bytes.
    pub fn encode(&self, store_id: u64) -> [u8; ROOT_BYTES] {
        let mut bytes = [0; ROOT_BYTES];
        bytes[..8].copy_from_slice(ROOT_MAGIC);
        let numbers = [
            self.sequence,
            self.from,
            self.upto,
            u64::from(self.is_committed)
                | u64::from(self.is_uncertain) << 1
                | self.round.saturating_sub(self.upto) << ROUND_SHIFT,
        ];
        let all = numbers.iter().chain(&self.keys).chain(&self.expiring).chain(&self.flushed);
        for (i, number) in all.enumerate() {
            put_u64(&mut bytes, 8 + i * 8, *number);
        }
        let crc = crc_of(store_id, 0, &bytes[..ROOT_CRC_AT]);
        bytes[ROOT_CRC_AT..ROOT_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        put_u64(&mut bytes, ROOT_NODES_AT, nodes_word(store_id, self.sequence, self.nodes));
        bytes
    }
    /// What these bytes say, if they hold together. How many nodes there are is not known of one that says it wrongly: it counts all the same.
    pub fn decode(bytes: &[u8; ROOT_BYTES], store_id: u64) -> Option<Self> {
        let sound = &bytes[..8] == ROOT_MAGIC
            && u32_at(bytes, ROOT_CRC_AT) == crc_of(store_id, 0, &bytes[..ROOT_CRC_AT]);
        let list = |from: usize| std::array::from_fn(|i| u64_at(bytes, from + i * 8));
        let nodes = u32_at(bytes, ROOT_NODES_AT);
        let are_known = nodes_word(store_id, u64_at(bytes, 8), nodes) == u64_at(bytes, ROOT_NODES_AT);
        sound.then(|| Self {
            sequence: u64_at(bytes, 8),
            from: u64_at(bytes, 16),
            upto: u64_at(bytes, 24),
            is_committed: u64_at(bytes, 32) & 1 == 1,
            is_uncertain: u64_at(bytes, 32) & 2 == 2,
            round: u64_at(bytes, 24) + (u64_at(bytes, 32) >> ROUND_SHIFT),
            keys: list(40),
            expiring: list(168),
            flushed: list(296),
            nodes: if are_known { nodes } else { 0 },
        })
    }
}

/// What a page is, as its line in the page table says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Free, or a block in a session's chain: the log knows.
    #[default]
    Free = 0,
    /// A block of the log that left its chain.
    Archived = 1,
    /// Entries that were moved there.
    Moved = 2,
    /// Chains of the hash table.
    Chains = 3,
    /// Parts of large values.
    Parts = 4,
    /// Nodes of records in the order of their keys.
    Nodes = 5,
    /// Lines of pages that the store has grown by: which pages these are follows from the size it was made with, and no line says it.
    Lines = 6,
}

impl Kind {
    /// Whether nothing that the store keeps is in such a page.
    pub fn holds_nothing(self) -> bool {
        matches!(self, Self::Free | Self::Lines)
    }
    /// From its number.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Free, Self::Archived, Self::Moved, Self::Chains, Self::Parts, Self::Nodes, Self::Lines]
            .get(usize::from(number))
            .copied()
    }
}

/// A page's line in the page table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageLine {
    /// Each one that is stored of the page has a higher one.
    pub sequence: u64,
    /// What it is.
    pub kind: Kind,
    /// Of a block of the log: which use of it.
    pub generation: u64,
    /// Whether that was counted, and is no estimate.
    pub is_exact: bool,
    /// Bytes that are referred to, as was known then.
    pub live: u64,
    /// No record in it expires before.
    pub deadline: u64,
    /// Pages were filled in this order.
    pub order: u64,
}

impl PageLine {
    fn kind_word(&self) -> u64 {
        self.kind as u64 | u64::from(self.is_exact) << 8
    }
    /// Its bytes.
    pub fn encode(&self, store_id: u64, page: u32) -> [u8; LINE_BYTES] {
        let mut bytes = [0; LINE_BYTES];
        bytes[..8].copy_from_slice(PAGE_MAGIC);
        let numbers =
            [self.sequence, self.kind_word(), self.generation, self.live, self.deadline, self.order];
        for (i, number) in numbers.into_iter().enumerate() {
            put_u64(&mut bytes, 8 + i * 8, number);
        }
        let crc = crc_of(store_id, u64::from(page), &bytes[..PAGE_CRC_AT]);
        bytes[PAGE_CRC_AT..PAGE_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
    /// What these bytes say, if they hold together.
    pub fn decode(bytes: &[u8; LINE_BYTES], store_id: u64, page: u32) -> Option<Self> {
        let sound = &bytes[..8] == PAGE_MAGIC
            && u32_at(bytes, PAGE_CRC_AT) == crc_of(store_id, u64::from(page), &bytes[..PAGE_CRC_AT]);
        let word = u64_at(bytes, 16);
        let kind = Kind::from_number(word as u8);
        let kind = kind.filter(|kind| sound && word >> 9 == 0 && *kind != Kind::Lines)?;
        Some(Self {
            sequence: u64_at(bytes, 8),
            kind,
            is_exact: word >> 8 == 1,
            generation: u64_at(bytes, 24),
            live: u64_at(bytes, 32),
            deadline: u64_at(bytes, 40),
            order: u64_at(bytes, 48),
        })
    }
}

/// What a bucket's word leads to, from the first page on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// Nothing.
    Nowhere,
    /// An entry.
    Entry(u64),
    /// A chain.
    Chain(u64),
}

/// A bucket's word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Where it leads.
    pub leads: Leads,
    /// Whether it led to more once, which is damaged.
    pub is_lost: bool,
}

const PLACE_BITS: u32 = 45;
const WORD_CHECK_AT: u32 = 48;

impl Bucket {
    /// Of an empty one.
    pub const EMPTY: Self = Self { leads: Leads::Nowhere, is_lost: false };

    fn check(low: u64, bucket: u64, store_id: u64) -> u64 {
        let mixed = (low ^ bucket.rotate_left(40) ^ store_id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        // Never the same as that of a word of zeros.
        (mixed >> 48) | u64::from(low == 0)
    }
    /// The word.
    pub fn encode(self, bucket: u64, store_id: u64) -> u64 {
        let (place, kind) = match self.leads {
            Leads::Nowhere => (0, 0),
            Leads::Entry(at) => (at / 8, 1),
            Leads::Chain(at) => (at / 8, 2),
        };
        let low = place | kind << PLACE_BITS | u64::from(self.is_lost) << 47;
        low | Self::check(low, bucket, store_id) << WORD_CHECK_AT
    }
    /// What a word says, if it holds together.
    #[inline]
    pub fn decode(word: u64, bucket: u64, store_id: u64) -> Option<Self> {
        let low = word & ((1 << WORD_CHECK_AT) - 1);
        if word >> WORD_CHECK_AT != Self::check(low, bucket, store_id) {
            return None;
        }
        let place = (low & ((1 << PLACE_BITS) - 1)) * 8;
        let leads = match low >> PLACE_BITS & 3 {
            0 => Leads::Nowhere,
            1 => Leads::Entry(place),
            2 => Leads::Chain(place),
            _ => return None,
        };
        Some(Self { leads, is_lost: low >> 47 & 1 == 1 })
    }
}

/// A word of a chain: a tag, and where an entry starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element(pub u64);

impl Element {
    /// Of the entry at this place, of a key with this hash.
    #[inline]
    pub fn new(hash: u64, at: u64) -> Self {
        Self(hash >> 48 << 48 | at)
    }
    /// Where it starts.
    #[inline]
    pub fn at(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }
    /// Whether the key may be one with this hash.
    #[inline]
    pub fn may_be(self, hash: u64) -> bool {
        self.0 >> 48 == hash >> 48
    }
}

/// Bytes that a chain of so many elements takes: whole lines.
pub fn chain_bytes(elements: usize) -> usize {
    (CHAIN_HEAD_BYTES + elements * 8).next_multiple_of(LINE_BYTES)
}

/// A chain's bytes, to stand at this place.
pub fn encode_chain(store_id: u64, at: u64, bucket: u64, elements: &[Element]) -> Vec<u8> {
    let mut bytes = vec![0; chain_bytes(elements.len())];
    bytes[4..8].copy_from_slice(&(elements.len() as u32).to_le_bytes());
    put_u64(&mut bytes, 8, bucket);
    for (i, element) in elements.iter().enumerate() {
        put_u64(&mut bytes, CHAIN_HEAD_BYTES + i * 8, element.0);
    }
    let crc = crc_of(store_id, at, &bytes[4..CHAIN_HEAD_BYTES + elements.len() * 8]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// How many elements a chain has, as its first line says.
#[inline]
pub fn chain_count(line: &[u8]) -> usize {
    u32_at(line, 4) as usize
}

/// The bucket of the chain in these bytes, and its elements, if it stands at this place and is whole.
#[inline]
pub fn decode_chain(
    bytes: &[u8],
    store_id: u64,
    at: u64,
) -> Option<(u64, impl DoubleEndedIterator<Item = Element>)> {
    let end = CHAIN_HEAD_BYTES + chain_count(bytes) * 8;
    let all = bytes.get(..end)?;
    let (words, _) = all[CHAIN_HEAD_BYTES..].as_chunks::<8>();
    (u32_at(bytes, 0) == crc_of(store_id, at, &all[4..]))
        .then(|| (u64_at(bytes, 8), words.iter().map(|word| Element(u64::from_le_bytes(*word)))))
}

/// How long an entry is whose first bytes are these, up to its record's second word, if they may be one.
#[inline]
pub fn entry_bytes(front: &[u8]) -> Option<usize> {
    let meta = RecordMeta(u64_at(front, ENTRY_HEAD_BYTES + 8));
    meta.plausible().then(|| ENTRY_HEAD_BYTES + meta.used_words() * 8)
}

/// The record of the entry in these bytes, if it is whole.
#[inline]
pub fn decode_entry(bytes: &[u8]) -> Option<RecordView<'_>> {
    let record = bytes.get(ENTRY_HEAD_BYTES..)?;
    (crc32c::crc32c(record) == u32_at(bytes, ENTRY_HEAD_BYTES - 4)).then(|| RecordView::decode(record))?
}

/// An entry's bytes, in front of which the log has its version and length.
pub fn encode_entry(record: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&record[..8]);
    out.extend_from_slice(&((record.len() + terrace_engine::SEAL_BYTES) as u32).to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(record).to_le_bytes());
    out.extend_from_slice(record);
}

/// The head of a part; nobody's yet.
pub fn encode_part(value: &[u8]) -> [u8; PART_HEAD_BYTES] {
    let mut head = [0; PART_HEAD_BYTES];
    head[..8].copy_from_slice(PART_MAGIC);
    head[16..20].copy_from_slice(&(value.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&head[16..20]), value);
    head[20..].copy_from_slice(&crc.to_le_bytes());
    head
}

/// The hash of the key that a part is of, and how many bytes of a value it has, if its head looks like one.
pub fn decode_part(head: &[u8; PART_HEAD_BYTES]) -> Option<(u64, usize)> {
    (&head[..8] == PART_MAGIC).then(|| (u64_at(head, 8), u32_at(head, 16) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_nodes_there_are_is_known_or_not_and_the_root_counts() {
        let root = Root { sequence: 7, is_committed: true, nodes: 900, ..Root::default() };
        let bytes = root.encode(9);
        assert_eq!(Root::decode(&bytes, 9), Some(root));
        let unknown = Root { nodes: 0, ..root };
        for bit in ROOT_NODES_AT * 8..ROOT_NODES_AT * 8 + 64 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Root::decode(&flipped, 9), Some(unknown), "bit {bit}");
        }
        let mut before = bytes;
        put_u64(&mut before, ROOT_NODES_AT, 0);
        assert_eq!(Root::decode(&before, 9), Some(unknown));
        assert_eq!(unknown.encode(9), before, "as roots were before they said it");
        // What another root said there is not this one's.
        put_u64(&mut before, ROOT_NODES_AT, nodes_word(9, 6, 900));
        assert_eq!(Root::decode(&before, 9), Some(unknown));
    }
}
