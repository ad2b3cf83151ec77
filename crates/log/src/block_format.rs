//! The log area's own header and the header of a log block.
//!
//! ```text
//! area   | superblock copy 0 | superblock copy 1 | block 0 | block 1 | ...
//!          one page in all on block media (copies at 0 and 2048), 128 bytes on byte media (at 0 and 64)
//!
//! superblock, 64 bytes, little endian
//!   0 magic   8 store id   16 epoch   24 block bytes   32 blocks   40 synced generation   48 zero   56 crc u32   60 zero
//!
//! block header, 64 bytes; a word marked ^ is stored xor MASK
//!          0      8          16          24                  32             40      48                    56    60
//!   used   magic  store id^  generation  chain 48, slot 16^  base version^  flags^  synced generation^    crc   USED
//!   freed  0      0          0           0                   0              chain 48, slot 16^  synced^   crc   FREED
//!   blank  all zero
//! ```
//! # The copy
//! On byte media the last 64 bytes of a block are a copy of its header, for the day when its line is bad. It is
//! written once the header is durable, and cleared, durably, before the header is: where it is whole, the header counts.
//!
//! # Tear or damage
//! A used header is only ever written over a blank one on byte media (where any subset of its words may survive), and
//! over a blank or freed one on block media (where its sector survives as a whole). Stored words are not zero (but for
//! one value in 2^64). So a header with a zero word that fails its checksum was torn, before anything in its block
//! counted or after nothing did; one without a zero word that fails was whole once and is damaged.

pub(crate) const HEADER_BYTES: usize = 64;
const SUPER_MAGIC: u64 = u64::from_le_bytes(*b"terrLog1");
const BLOCK_MAGIC: u64 = u64::from_le_bytes(*b"terrLBk1");
const USED: u32 = u32::from_le_bytes(*b"USED");
const FREED: u32 = u32::from_le_bytes(*b"FREE");
const MASK: u64 = 0xA5C3_96E1_5A3C_691E;
const FIRST: u64 = 1;
/// Chain numbers have 48 bits: at 1 KiB a block and 1 GB/s they last for eight years, at 64 KiB for five hundred.
pub(crate) const CHAIN_MAX: u64 = (1 << 48) - 1;
/// A generation is an epoch (one for each opening) and, below it, a counter of this many bits.
pub(crate) const COUNTER_BITS: u32 = 42;
/// A higher epoch would not fit in a generation: four million openings.
const EPOCH_MAX: u64 = (1 << (64 - COUNTER_BITS)) - 2;

const _: () = assert!(HEADER_BYTES == size_of::<[u64; 8]>());

/// Bytes of the superblock area.
pub(crate) fn super_bytes(page_bytes: usize) -> u64 {
    page_bytes.max(2 * HEADER_BYTES) as u64
}

/// Bytes at the end of a block that hold no groups: on byte media the copy of its header.
pub(crate) fn copy_bytes(immediate: bool) -> usize {
    if immediate { HEADER_BYTES } else { 0 }
}

/// Who a log block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub slot: u16,
    /// 0, 1, 2... in the order in which the slot's blocks were begun; freed in that order too.
    pub chain: u64,
    /// Unique for each use of any block.
    pub generation: u64,
    /// The last version that the slot's log held before this block.
    pub base_version: u64,
    /// The slot had no other block when this one was begun, or none that power loss could still take.
    pub first: bool,
    /// Blocks up to this generation were known to be safe when this header was written.
    pub synced: u64,
}

/// What the header of a block says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderState {
    Blank,
    Used(BlockHeader),
    /// Every block of the slot up to this one is dead.
    Freed {
        slot: u16,
        chain: u64,
        synced: u64,
    },
    Torn,
    Damaged,
}

fn words(bytes: &[u8; HEADER_BYTES]) -> [u64; 8] {
    std::array::from_fn(|i| read_u64(bytes, i * 8))
}

pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn to_bytes(words: [u64; 8]) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn finish(mut words: [u64; 8], tag: u32, store_id: u64, block: u32) -> [u8; HEADER_BYTES] {
    words[7] = checksum(&words, tag, store_id, block) as u64 | (tag as u64) << 32;
    to_bytes(words)
}

/// Covers the seven words, the tag, and where they belong, so that a misdirected header fails.
fn checksum(words: &[u64; 8], tag: u32, store_id: u64, block: u32) -> u32 {
    let mut crc = crc32c::crc32c(&store_id.to_le_bytes());
    crc = crc32c::crc32c_append(crc, &block.to_le_bytes());
    crc = crc32c::crc32c_append(crc, &tag.to_le_bytes());
    crc32c::crc32c_append(crc, &to_bytes(*words)[..56])
}

impl BlockHeader {
    pub fn encode(&self, store_id: u64, block: u32) -> [u8; HEADER_BYTES] {
        debug_assert!(self.chain <= CHAIN_MAX && self.generation != 0);
        let words = [
            BLOCK_MAGIC,
            store_id ^ MASK,
            self.generation,
            (self.chain << 16 | self.slot as u64) ^ MASK,
            self.base_version ^ MASK,
            (if self.first { FIRST } else { 0 }) ^ MASK,
            self.synced ^ MASK,
            0,
        ];
        finish(words, USED, store_id, block)
    }
}

pub(crate) fn encode_freed(
    slot: u16,
    chain: u64,
    synced: u64,
    store_id: u64,
    block: u32,
) -> [u8; HEADER_BYTES] {
    let words = [0, 0, 0, 0, 0, (chain << 16 | slot as u64) ^ MASK, synced ^ MASK, 0];
    finish(words, FREED, store_id, block)
}

pub(crate) fn decode_header(bytes: &[u8; HEADER_BYTES], store_id: u64, block: u32) -> HeaderState {
    let w = words(bytes);
    if w == [0; 8] {
        return HeaderState::Blank;
    }
    let (crc, tag) = (w[7] as u32, (w[7] >> 32) as u32);
    let good = crc == checksum(&w, tag, store_id, block);
    let place = |word: u64| ((word ^ MASK) as u16, (word ^ MASK) >> 16);
    if good && tag == USED && w[0] == BLOCK_MAGIC && w[1] ^ MASK == store_id {
        let (slot, chain) = place(w[3]);
        HeaderState::Used(BlockHeader {
            slot,
            chain,
            generation: w[2],
            base_version: w[4] ^ MASK,
            first: (w[5] ^ MASK) & FIRST != 0,
            synced: w[6] ^ MASK,
        })
    } else if good && tag == FREED {
        let (slot, chain) = place(w[5]);
        HeaderState::Freed { slot, chain, synced: w[6] ^ MASK }
    } else if w.contains(&0) {
        HeaderState::Torn
    } else {
        HeaderState::Damaged
    }
}

/// What the whole area is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub store_id: u64,
    /// Grows with every opening, so that generations never repeat even when every header was erased.
    pub epoch: u64,
    pub block_bytes: u64,
    pub blocks: u64,
    /// The highest `synced` that the opening saw: headers that carried it may have been erased since.
    pub synced: u64,
}

impl Superblock {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut words =
            [SUPER_MAGIC, self.store_id, self.epoch, self.block_bytes, self.blocks, self.synced, 0, 0];
        words[7] = crc32c::crc32c(&to_bytes(words)[..56]) as u64;
        to_bytes(words)
    }
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let w = words(bytes);
        let whole = w[0] == SUPER_MAGIC && w[7] == crc32c::crc32c(&bytes[..56]) as u64;
        (whole && w[2] < EPOCH_MAX).then_some(Self {
            store_id: w[1],
            epoch: w[2],
            block_bytes: w[3],
            blocks: w[4],
            synced: w[5],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BlockHeader {
        let generation = 3 << COUNTER_BITS | 7;
        BlockHeader { slot: 513, chain: 9, generation, base_version: 77, first: true, synced: 5 }
    }

    #[test]
    fn headers_round_trip() {
        let bytes = header().encode(42, 6);
        assert_eq!(decode_header(&bytes, 42, 6), HeaderState::Used(header()));
        assert_eq!(decode_header(&bytes, 42, 7), HeaderState::Damaged, "another block");
        let freed = encode_freed(1, 2, 3, 42, 6);
        assert_eq!(decode_header(&freed, 42, 6), HeaderState::Freed { slot: 1, chain: 2, synced: 3 });
    }

    #[test]
    fn every_tear_over_a_blank_header_is_told_from_every_flip() {
        let whole = header().encode(42, 6);
        for kept in 0..255u32 {
            let mut torn = whole;
            for word in (0..8).filter(|word| kept >> word & 1 == 0) {
                torn[word * 8..word * 8 + 8].fill(0);
            }
            let state = decode_header(&torn, 42, 6);
            assert!(matches!(state, HeaderState::Torn | HeaderState::Blank), "{kept:#b}: {state:?}");
        }
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = whole;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_header(&flipped, 42, 6), HeaderState::Damaged, "bit {bit}");
        }
    }
}
