//! What a node is on the medium (`docs/formats/scm.md`).
//!
//! ```text
//! slot     static:32  commit:8  end:8  fingerprints 0..16 | static:32  end:8  fingerprints 16..40 | entry, 28 bytes each
//! static   0 crc of store id, slot and the rest:u32  4 fence's bytes:u8 database:u8 lost:u8 zero  8 sequence  16 fence, up to 16 bytes
//!          a longer fence: 255 for its bytes, and 16 bytes of it:u32  20 slot of its text:u32  24 crc of it:u32    this slot: its text is
//!          at the slot's end, in the places of entries
//! end      0-15 check of the rest, the slot and the sequence, bit 0 set  16 the root with whose sequence others take the node's place      0: none
//! commit   0-39 which entries count  40 check of that, slot and sequence:12  52 check of their fingerprints:12         or: no node
//! entry    0 key, or its hash  8 value, or where a record's entry starts  16 version  24 what:7 check of all that and the place:25
//! text     0 crc:u32 bytes here:u32  8 next slot, 0 for none  16 zero  32 commit: no node  40 zero  48.. bytes of a fence        in a slot of its own
//! ```

use terrace_blocks::{u32_at, u64_at};

/// Entries that a node has at most: as many bits as the commit word has for them.
pub const ENTRIES_MAX: usize = 40;
/// Of nodes in short pages.
const ENTRIES_FEW: usize = 8;
/// Pages up to here are short ones.
const SHORT_PAGE: usize = 16 << 10;
/// A line of what is not an entry, twice.
pub const META_BYTES: usize = 128;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 28;
/// A copy of what does not change.
pub const STATIC_BYTES: usize = 32;
/// Where its copies are.
pub const STATIC_AT: [usize; 2] = [0, 64];
/// Where the commit word is.
pub const COMMIT_AT: usize = 32;
/// Where the word is, twice, that says when the node ends.
pub const END_AT: [usize; 2] = [40, 96];
/// Words of fingerprints.
pub const FP_WORDS: usize = ENTRIES_MAX / 8;
/// Where they are.
pub const FP_AT: [usize; FP_WORDS] = [48, 56, 104, 112, 120];
/// Where a fence's text starts in a slot of its own.
const TEXT_AT: usize = 48;
/// A fence up to here is in what does not change of the node.
const FENCE_INLINE: usize = 16;
/// Of the places of entries, so many in so many are for the text of a fence at most.
const TEXT_PLACES: (usize, usize) = (3, 8);
const FENCE_LONG: u8 = 255;
/// Keys and values up to here are in the entry itself.
pub const INLINE_BYTES: usize = 8;
/// What an entry is that leads to a record.
const REFERENCE: u32 = ((INLINE_BYTES + 1) * (INLINE_BYTES + 1)) as u32;
const WHAT_BITS: u32 = 7;
const BITMAP_BITS: u32 = ENTRIES_MAX as u32;
const CHECK_BITS: u32 = 12;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// Which entries count, in a commit word.
pub const BITMAP: u64 = (1 << BITMAP_BITS) - 1;

/// Entries of a node in pages of so many bytes.
pub fn entries_of(page_bytes: usize) -> usize {
    if page_bytes <= SHORT_PAGE { ENTRIES_FEW } else { ENTRIES_MAX }
}
/// Bytes of a slot for a node of so many entries: whole words.
pub fn slot_bytes(entries: usize) -> usize {
    (META_BYTES + entries * ENTRY_BYTES).next_multiple_of(8)
}
/// Where an entry is in a slot.
#[inline]
pub fn entry_at(i: usize) -> usize {
    META_BYTES + i * ENTRY_BYTES
}

/// What identifies a use of a slot.
#[derive(Clone, Copy, Debug)]
pub struct Of {
    /// The store.
    pub store_id: u64,
    /// The slot.
    pub slot: u32,
}

impl Of {
    fn crc(self, bytes: &[u8]) -> u32 {
        let seed = [self.store_id.to_le_bytes(), u64::from(self.slot).to_le_bytes()];
        crc32c::crc32c_append(crc32c::crc32c(seed.as_flattened()), bytes)
    }
    /// What the checks of a node of this sequence begin with.
    fn seed(self, sequence: u64) -> u32 {
        crc32c::crc32c([self.store_id, u64::from(self.slot), sequence].map(u64::to_le_bytes).as_flattened())
    }
}

/// A check of what a node has there. Whatever bit flips: it differs then, as the tests show.
fn check<const N: usize>(seed: u32, words: &[u64; N]) -> u64 {
    folded(crc32c::crc32c_append(seed, words.map(u64::to_le_bytes).as_flattened()))
}

/// A checksum in twelve bits.
fn folded(crc: u32) -> u64 {
    u64::from(crc ^ crc >> CHECK_BITS ^ crc >> (2 * CHECK_BITS)) & ((1 << CHECK_BITS) - 1)
}

/// The fingerprints of the entries that count; zero of others.
fn masked(bitmap: u64, fps: &[u64; FP_WORDS]) -> [u64; FP_WORDS] {
    std::array::from_fn(|word| {
        let bits = bitmap >> (word * 8) & 0xff;
        // Bits to bytes.
        let spread = ((bits * LOW_BITS) & 0x8040_2010_0804_0201) + (LOW_BITS * 0x7f);
        fps[word] & ((spread >> 7 & LOW_BITS) * 0xff)
    })
}

/// In the place of a slot's commit word where there is no node. It is not 0: a line that was zeroed is told from it.
pub fn free_word(of: Of) -> u64 {
    u64::from(of.crc(b"free")) << 32 | u64::from(of.crc(b"slot"))
}

/// A commit word; never 0.
pub fn commit_word(of: Of, sequence: u64, bitmap: u64, fps: &[u64; FP_WORDS]) -> u64 {
    let seed = of.seed(sequence);
    let (of_bitmap, of_fps) = (check(seed, &[bitmap]), check(seed, &masked(bitmap, fps)));
    // One bit says that there is a node, whatever else is zero.
    bitmap | (of_bitmap | 1) << BITMAP_BITS | of_fps << (BITMAP_BITS + CHECK_BITS)
}

/// What a commit word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// There is no node.
    None,
    /// There is one, with these entries.
    Node {
        /// Which count.
        bitmap: u64,
        /// Whether their fingerprints are as they were.
        fps_hold: bool,
    },
    /// The word is damaged.
    Damaged,
}

/// Takes a commit word apart.
pub fn read_commit(of: Of, sequence: u64, word: u64, fps: &[u64; FP_WORDS]) -> Commit {
    if word == free_word(of) {
        return Commit::None;
    }
    let bitmap = word & BITMAP;
    let expected = commit_word(of, sequence, bitmap, fps);
    let check = |word: u64| word >> BITMAP_BITS & ((1 << CHECK_BITS) - 1);
    if check(word) != check(expected) {
        return Commit::Damaged;
    }
    Commit::Node { bitmap, fps_hold: word == expected }
}

const END_BITS: u32 = 48;

/// The word that says that a node ends with the root of this sequence, which is not 0.
pub fn end_word(of: Of, sequence: u64, end: u64) -> u64 {
    let crc = crc32c::crc32c_append(of.seed(sequence), &end.to_le_bytes());
    // One bit is always set, and one of the end is: so no flipped bit makes a word of none.
    let check = u64::from(crc ^ crc >> (64 - END_BITS)) & ((1 << (64 - END_BITS)) - 1) | 1;
    end << (64 - END_BITS) | check
}

/// When a node ends, as the copies of its word say; `None` if neither is whole.
pub fn read_end(of: Of, sequence: u64, words: [u64; 2]) -> Option<Option<u64>> {
    let whole = words.into_iter().filter_map(|word| {
        let end = word >> (64 - END_BITS);
        match word {
            0 => Some(None),
            _ => (end != 0 && word == end_word(of, sequence, end)).then_some(Some(end)),
        }
    });
    // A crash may come between them: the node ends if either says so.
    whole.max()
}

/// What of a node does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Static {
    /// Its database.
    pub db: u8,
    /// Whether something of it was lost.
    pub is_lost: bool,
    /// The root that it was made for.
    pub sequence: u64,
    /// No key in it is smaller.
    pub fence: Fence,
}

/// The fence of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fence {
    /// As it is.
    Short(Vec<u8>),
    /// Longer: how long, the first slot of its text, and a checksum of it.
    Long {
        /// How long.
        bytes: u32,
        /// Where it starts.
        text: u32,
        /// Its checksum.
        crc: u32,
    },
}

impl Fence {
    /// Whether one of so many bytes is in what does not change of the node.
    pub fn is_short(bytes: usize) -> bool {
        bytes <= FENCE_INLINE
    }
    /// Of a node of so many entries, the last places, where the text of a fence of so many bytes is; 0 if it is elsewhere.
    pub fn places_of(bytes: usize, entries: usize) -> usize {
        let (most, of) = TEXT_PLACES;
        let places = bytes.next_multiple_of(8).div_ceil(ENTRY_BYTES);
        if Self::is_short(bytes) || places > entries * most / of { 0 } else { places }
    }
    /// Where the text of a fence of so many bytes starts in a slot that has it: whole words at the end.
    pub fn text_at(bytes: usize, slot_bytes: usize) -> usize {
        slot_bytes - bytes.next_multiple_of(8)
    }
    /// Of a node in this slot, the last places, where the text of its fence is.
    pub fn places(&self, slot: u32, entries: usize) -> usize {
        match self {
            Self::Long { bytes, text, .. } if *text == slot => Self::places_of(*bytes as usize, entries),
            _ => 0,
        }
    }
}

impl Static {
    /// Its bytes.
    pub fn encode(&self, of: Of) -> [u8; STATIC_BYTES] {
        let mut bytes = [0; STATIC_BYTES];
        (bytes[5], bytes[6]) = (self.db, u8::from(self.is_lost));
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        match &self.fence {
            Fence::Short(fence) => {
                bytes[4] = fence.len() as u8;
                bytes[16..16 + fence.len()].copy_from_slice(fence);
            }
            Fence::Long { bytes: length, text, crc } => {
                bytes[4] = FENCE_LONG;
                bytes[16..20].copy_from_slice(&length.to_le_bytes());
                bytes[20..24].copy_from_slice(&text.to_le_bytes());
                bytes[24..28].copy_from_slice(&crc.to_le_bytes());
            }
        }
        let crc = of.crc(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
    /// What these bytes say, if they hold together.
    pub fn decode(bytes: &[u8], of: Of) -> Option<Self> {
        let bytes = bytes.get(..STATIC_BYTES)?;
        if u32_at(bytes, 0) != of.crc(&bytes[4..]) {
            return None;
        }
        let fence = match bytes[4] {
            FENCE_LONG => {
                Fence::Long { bytes: u32_at(bytes, 16), text: u32_at(bytes, 20), crc: u32_at(bytes, 24) }
            }
            length => Fence::Short(bytes[16..].get(..usize::from(length))?.to_vec()),
        };
        Some(Self { db: bytes[5], is_lost: bytes[6] == 1, sequence: u64_at(bytes, 8), fence })
    }
}

/// What an entry's check is of, where a checksum goes word by word from the first byte on.
#[repr(align(8))]
struct Words([u8; 16 + ENTRY_BYTES]);

/// A record, as a node has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, big-endian and padded, or its hash.
    pub key: u64,
    /// The value, padded, or where the record's entry starts.
    pub value: u64,
    /// Its version.
    pub version: u64,
    what: u32,
}

impl Entry {
    /// One that leads to a record.
    pub fn reference(hash: u64, place: u64, version: u64) -> Self {
        Self { key: hash, value: place, version, what: REFERENCE }
    }
    /// One that is a record: of a key and a value of 8 bytes at most.
    pub fn inline(key: &[u8], value: &[u8], version: u64) -> Self {
        let padded = |bytes: &[u8]| {
            let mut word = [0; INLINE_BYTES];
            word[..bytes.len()].copy_from_slice(bytes);
            word
        };
        Self {
            key: u64::from_be_bytes(padded(key)),
            value: u64::from_le_bytes(padded(value)),
            version,
            what: (key.len() * (INLINE_BYTES + 1) + value.len()) as u32,
        }
    }
    /// Where the record is, of one that leads there.
    #[inline]
    pub fn place(&self) -> Option<u64> {
        (self.what == REFERENCE).then_some(self.value)
    }
    /// The lengths of its key and its value, of one that is a record.
    #[inline]
    pub fn lengths(&self) -> (usize, usize) {
        let what = self.what as usize;
        (what / (INLINE_BYTES + 1), what % (INLINE_BYTES + 1))
    }
    /// Whether it is a record of this key.
    #[inline]
    pub fn is_of(&self, key: &[u8]) -> bool {
        self.what < REFERENCE && self.lengths().0 == key.len() && {
            let mut word = [0; INLINE_BYTES];
            word[..key.len()].copy_from_slice(key);
            self.key == u64::from_be_bytes(word)
        }
    }
    /// Whether it is a record of the same key as another one, as far as entries tell.
    pub fn has_key_of(&self, other: &Self) -> bool {
        self.key == other.key
            && self.place().is_some() == other.place().is_some()
            && self.lengths().0 == other.lengths().0
    }
    /// The bytes of its key and its value, of one that is a record, in which the lengths count.
    pub fn texts(&self) -> ([u8; INLINE_BYTES], [u8; INLINE_BYTES]) {
        (self.key.to_be_bytes(), self.value.to_le_bytes())
    }
    /// The key of an entry that does not hold together, as it says itself.
    pub fn key_of_damaged(bytes: &[u8; ENTRY_BYTES]) -> DamagedKey {
        let word = u64_at(bytes, 0);
        let what = u32_at(bytes, 24) & ((1 << WHAT_BITS) - 1);
        let length = what as usize / (INLINE_BYTES + 1);
        match what {
            REFERENCE => DamagedKey::Hash(word),
            _ => DamagedKey::Bytes(word.to_be_bytes(), length.min(INLINE_BYTES)),
        }
    }
    fn check(store_id: u64, place: u64, bytes: &[u8; ENTRY_BYTES]) -> u32 {
        let mut all = Words([0; 16 + ENTRY_BYTES]);
        all.0[..8].copy_from_slice(&store_id.to_le_bytes());
        all.0[8..16].copy_from_slice(&place.to_le_bytes());
        all.0[16..].copy_from_slice(bytes);
        crc32c::crc32c(&all.0)
    }
    /// Its bytes, to stand at this place.
    pub fn encode(&self, store_id: u64, place: u64) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.key.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.value.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.version.to_le_bytes());
        bytes[24..].copy_from_slice(&self.what.to_le_bytes());
        let check = Self::check(store_id, place, &bytes) >> WHAT_BITS << WHAT_BITS;
        bytes[24..].copy_from_slice(&(self.what | check).to_le_bytes());
        bytes
    }
    /// What these bytes say, if they hold together.
    #[inline]
    pub fn decode(bytes: &[u8; ENTRY_BYTES], store_id: u64, place: u64) -> Option<Self> {
        let last = u32_at(bytes, 24);
        let what = last & ((1 << WHAT_BITS) - 1);
        let mut plain = *bytes;
        plain[24..].copy_from_slice(&what.to_le_bytes());
        let holds = Self::check(store_id, place, &plain) >> WHAT_BITS == last >> WHAT_BITS;
        (holds && what <= REFERENCE).then(|| Self {
            key: u64_at(bytes, 0),
            value: u64_at(bytes, 8),
            version: u64_at(bytes, 16),
            what,
        })
    }
}

/// A key, as a damaged entry says it.
#[derive(Clone, Copy, Debug)]
pub enum DamagedKey {
    /// The hash of it.
    Hash(u64),
    /// Its bytes, and how many.
    Bytes([u8; INLINE_BYTES], usize),
}

/// A text, with zeros up to a whole word.
pub fn whole_words(text: &[u8]) -> Vec<u8> {
    let mut words = text.to_vec();
    words.resize(text.len().next_multiple_of(8), 0);
    words
}

/// Bytes of a fence that a slot of its own takes.
pub fn text_bytes(slot_bytes: usize) -> usize {
    slot_bytes - TEXT_AT
}

/// A slot with a part of a fence's text. It is no node.
pub fn encode_text(of: Of, next: Option<u32>, text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; (TEXT_AT + text.len()).next_multiple_of(8)];
    bytes[4..8].copy_from_slice(&(text.len() as u32).to_le_bytes());
    bytes[8..16].copy_from_slice(&next.map_or(0, |next| u64::from(next) + 1).to_le_bytes());
    bytes[COMMIT_AT..COMMIT_AT + 8].copy_from_slice(&free_word(of).to_le_bytes());
    bytes[TEXT_AT..TEXT_AT + text.len()].copy_from_slice(text);
    let crc = of.crc(&bytes[4..TEXT_AT + text.len()]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The next slot of a fence's text, and the part in this one, if the slot holds one that is whole.
pub fn decode_text(of: Of, slot: &[u8]) -> Option<(Option<u32>, &[u8])> {
    let end = TEXT_AT + u32_at(slot, 4) as usize;
    let text = slot.get(TEXT_AT..end)?;
    if u32_at(slot, 0) != of.crc(slot.get(4..end)?) {
        return None;
    }
    let next = match u64_at(slot, 8) {
        0 => None,
        next => Some(u32::try_from(next - 1).ok()?),
    };
    Some((next, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_what_they_are_given_and_tell_a_flipped_bit() {
        for (key, value) in [(&b""[..], &b""[..]), (b"k", b""), (b"12345678", b"abcdefgh"), (b"a\0", b"\0")] {
            let entry = Entry::inline(key, value, 77);
            let bytes = entry.encode(5, 4096);
            let read = Entry::decode(&bytes, 5, 4096).unwrap();
            assert_eq!(read, entry);
            let (k, v) = read.texts();
            assert_eq!((&k[..read.lengths().0], &v[..read.lengths().1]), (key, value));
            assert!(read.is_of(key) && !read.is_of(b"other") && read.place().is_none());
            assert_eq!(Entry::decode(&bytes, 5, 4124), None, "it knows its place");
            for bit in 0..ENTRY_BYTES * 8 {
                let mut flipped = bytes;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Entry::decode(&flipped, 5, 4096), None, "bit {bit}");
            }
        }
        let entry = Entry::reference(u64::MAX, 1 << 40, 1);
        assert_eq!(Entry::decode(&entry.encode(5, 0), 5, 0).unwrap().place(), Some(1 << 40));
        assert!(!entry.is_of(&[0xff; 8]));
    }

    #[test]
    fn a_commit_word_tells_which_of_both_is_damaged() {
        let of = Of { store_id: 9, slot: 3 };
        let fps = [0x0102_0304_0506_0708, 9, 10, 11, 12];
        for bitmap in [0, 1, 0b1011, BITMAP] {
            let word = commit_word(of, 4, bitmap, &fps);
            assert_ne!(word, 0);
            assert_eq!(read_commit(of, 4, word, &fps), Commit::Node { bitmap, fps_hold: true });
            assert_eq!(read_commit(of, 5, word, &fps), Commit::Damaged, "of another node");
            let mut other = fps;
            other[0] ^= 0x10;
            assert_eq!(read_commit(of, 4, word, &other), Commit::Node { bitmap, fps_hold: bitmap & 1 == 0 });
            assert_eq!(read_commit(of, 4, word ^ 1 << 20, &fps), Commit::Damaged);
        }
        assert_eq!(read_commit(of, 4, free_word(of), &fps), Commit::None);
        assert_eq!(read_commit(of, 4, 0, &fps), Commit::Damaged, "zeroed");
    }

    #[test]
    fn whatever_bit_flips_a_check_differs() {
        for (slot, sequence) in [(0, 1), (3, 4), (70_000, 1 << 40)] {
            let of = Of { store_id: 9, slot };
            let fps = [0x0102_0304_0506_0708, 9, 10, 11, 12];
            for bitmap in [0, 0b1011, BITMAP] {
                let word = commit_word(of, sequence, bitmap, &fps);
                for bit in 0..64 {
                    let is_of_fps = bit >= BITMAP_BITS + CHECK_BITS;
                    let expected =
                        if is_of_fps { Commit::Node { bitmap, fps_hold: false } } else { Commit::Damaged };
                    assert_eq!(read_commit(of, sequence, word ^ 1 << bit, &fps), expected, "bit {bit}");
                }
                for (word_of_fps, bit) in (0..FP_WORDS).flat_map(|word| (0..64).map(move |bit| (word, bit))) {
                    let mut other = fps;
                    other[word_of_fps] ^= 1 << bit;
                    let fps_hold = bitmap >> (word_of_fps * 8 + bit / 8) & 1 == 0;
                    assert_eq!(read_commit(of, sequence, word, &other), Commit::Node { bitmap, fps_hold });
                }
            }
            for end in [1, sequence + 1, (1 << END_BITS) - 1] {
                let word = end_word(of, sequence, end);
                for bit in 0..64 {
                    assert_eq!(read_end(of, sequence, [word ^ 1 << bit; 2]), None, "bit {bit} of {end}");
                    assert_eq!(read_end(of, sequence, [0, 1 << bit]), Some(None), "bit {bit} of none");
                }
            }
        }
    }

    #[test]
    fn either_word_says_when_a_node_ends() {
        let of = Of { store_id: 9, slot: 3 };
        let word = end_word(of, 4, 77);
        assert_eq!(read_end(of, 4, [0, 0]), Some(None));
        assert_eq!(read_end(of, 4, [word, 0]), Some(Some(77)));
        assert_eq!(read_end(of, 4, [0, word]), Some(Some(77)));
        assert_eq!(read_end(of, 4, [word ^ 1 << 30, word]), Some(Some(77)));
        assert_eq!(read_end(of, 4, [word ^ 1 << 30, 0]), Some(None));
        assert_eq!(read_end(of, 5, [word, word]), None, "of another node");
    }

    #[test]
    fn what_does_not_change_holds_fences_of_any_length() {
        let of = Of { store_id: 9, slot: 3 };
        let fences = [
            Fence::Short(Vec::new()),
            Fence::Short(vec![7; FENCE_INLINE]),
            Fence::Long { bytes: 65536, text: 12, crc: 99 },
        ];
        for fence in fences {
            let one = Static { db: 15, is_lost: true, sequence: 1 << 60, fence };
            let bytes = one.encode(of);
            assert_eq!(Static::decode(&bytes, of), Some(one));
            assert_eq!(Static::decode(&bytes, Of { slot: 4, ..of }), None);
        }
        let text = encode_text(of, Some(0), b"part of a fence");
        assert_eq!(decode_text(of, &text), Some((Some(0), &b"part of a fence"[..])));
        assert_eq!(u64_at(&text, COMMIT_AT), free_word(of), "it is no node");
        let mut damaged = text;
        damaged[50] ^= 1;
        assert_eq!(decode_text(of, &damaged), None);
    }
}
