//! The record: what every space and the log store for a key.
//!
//! ```text
//! word 0   version                                             bit 63: being rewritten (in DRAM only)
//! word 1   key bytes:17 | value bytes:15 | slot words:14 | kind:2 | database:4 | type:4 | has expiry:1 | state:3 | alone:1
//!          | has token:1 | state's fourth bit:1 | spare:1
//! word 2   checksum:32 (zero until the record leaves DRAM) | flags:32
//! [word]   expiry in ms since the Unix epoch, only if it has one
//! [word]   cas token of a client's choosing, only if it has one
//! words    key, padded with zeros to whole words
//! words    value, padded likewise
//! [words]  slack left by an in-place update that shrank the value
//! ```
//!
//! All words are little-endian. Absent fields cost nothing; database, type and memcached's flags are in every record for
//! free. A value of more than [`INLINE_VALUE_BYTES`] is an *extent*: the record holds its description.

use crate::reply::Meta;

/// Values up to this length lie in the record itself.
pub const INLINE_VALUE_BYTES: usize = 16 * 1024;
/// The longest key.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// Words before the optional ones.
pub const HEAD_WORDS: usize = 3;
/// Bytes before the optional words.
pub const HEAD_BYTES: usize = HEAD_WORDS * 8;

/// What a record stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Kind {
    /// A value in the record.
    #[default]
    Value = 0,
    /// A value elsewhere; the record holds its description.
    Extent = 1,
    /// The key was deleted at this version.
    Tombstone = 2,
    /// The key's record was damaged; the "key" is its hash and check, the real key is unknown.
    Poison = 3,
}

/// Word 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RecordMeta(pub u64);

/// Of word 1: types other than strings, which are reserved, and what is spare.
const UNUSED_BITS: u64 = 0xf << 52 | 1 << 63;

/// Beside a protocol's state in [`NewRecord::state`]: see [`Lifetime::alone`].
pub const ALONE: u8 = crate::edit::STATE_END;

impl RecordMeta {
    /// Bytes of the key.
    #[inline]
    pub fn key_bytes(self) -> usize {
        (self.0 & 0x1_ffff) as usize
    }
    /// Bytes of the value (or of the extent's description).
    #[inline]
    pub fn value_bytes(self) -> usize {
        (self.0 >> 17 & 0x7fff) as usize
    }
    /// Words the record's place holds, slack included.
    #[inline]
    pub fn slot_words(self) -> usize {
        (self.0 >> 32 & 0x3fff) as usize
    }
    /// What it stands for.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 >> 46 & 3 {
            0 => Kind::Value,
            1 => Kind::Extent,
            2 => Kind::Tombstone,
            _ => Kind::Poison,
        }
    }
    /// The database.
    #[inline]
    pub fn db(self) -> u8 {
        (self.0 >> 48 & 15) as u8
    }
    /// Whether an expiry word follows.
    #[inline]
    pub fn has_expiry(self) -> bool {
        self.0 >> 56 & 1 == 1
    }
    /// Whether a word with a cas token of a client's choosing follows.
    #[inline]
    pub fn has_token(self) -> bool {
        self.0 >> 61 & 1 == 1
    }
    /// The word where that token is.
    #[inline]
    pub fn token_word(self) -> usize {
        HEAD_WORDS + usize::from(self.has_expiry())
    }
    /// Of a record of which only the protocol's own state is known.
    pub(crate) fn of_state(state: u8) -> Self {
        Self(state_bits(state))
    }
    /// A protocol's own state.
    #[inline]
    pub fn state(self) -> u8 {
        (self.0 >> 57 & 7 | self.0 >> 59 & 8) as u8
    }
    /// No older version of the key outlives the record: see [`Lifetime::alone`].
    #[inline]
    pub fn is_alone(self) -> bool {
        self.0 >> 60 & 1 == 1
    }
    /// The same of a record that is alone.
    #[inline]
    pub fn and_alone(self) -> Self {
        Self(self.0 | 1 << 60)
    }
    /// A protocol's own state with [`ALONE`], for [`NewRecord::state`] of the same record elsewhere.
    #[inline]
    pub fn state_and_alone(self) -> u8 {
        self.state() | if self.is_alone() { ALONE } else { 0 }
    }
    /// Whether it is of a value in the record, with a key of so many bytes in this database and without a cas token of a client's.
    #[inline]
    pub fn is_plain_value_of(self, key_bytes: usize, db: u8) -> bool {
        const MASK: u64 = 0x1_ffff | 3 << 46 | 15 << 48 | 1 << 61;
        self.0 & MASK == (key_bytes as u64 | (Kind::Value as u64) << 46 | u64::from(db) << 48)
    }
    /// The word where the key starts.
    #[inline]
    pub fn key_word(self) -> usize {
        self.token_word() + usize::from(self.has_token())
    }
    /// The word where the value starts.
    #[inline]
    pub fn value_word(self) -> usize {
        self.key_word() + self.key_bytes().div_ceil(8)
    }
    /// Words in use, without slack.
    #[inline]
    pub fn used_words(self) -> usize {
        self.value_word() + self.value_bytes().div_ceil(8)
    }
    /// Whether the fields can be those of a record: lengths within limits and within its place.
    #[inline]
    pub fn plausible(self) -> bool {
        self.key_bytes() <= KEY_BYTES_MAX
            && self.value_bytes() <= INLINE_VALUE_BYTES
            && self.used_words() <= self.slot_words()
            && self.0 & UNUSED_BITS == 0
    }
    /// The same record in a place of `words` words.
    #[inline]
    pub fn with_slot_words(self, words: usize) -> Self {
        debug_assert!(words >> 14 == 0 && words >= self.used_words(), "a place of {words} words");
        Self(self.0 & !(0x3fff << 32) | (words as u64) << 32)
    }
}

/// A protocol's own state and [`ALONE`], where they are in word 1.
#[inline]
fn state_bits(state: u8) -> u64 {
    let state = u64::from(state);
    (state & 7) << 57 | (state & 8) << 59 | (state & 16) << 56
}

/// What is known of a record beside key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The version.
    pub version: u64,
    /// Lengths, kind, database.
    pub meta: RecordMeta,
    /// memcached's flags.
    pub flags: u32,
    /// Expiry in ms since the Unix epoch, 0 for never.
    pub expire_at: u64,
    /// Cas token of a client's choosing, 0 for none.
    pub token: u64,
    /// Where it was read from: 0 DRAM, 1 byte-addressable media, 2 block media.
    pub tier: u8,
}

/// How long a record lasts, and what its end needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// Expiry in the store's ms, 0 for never; [`Self::UNKNOWN`] where it is known only that there is one.
    pub expire_at: u64,
    /// No older version of the key, wherever one lies, expires later than the record: once the record's time has passed an opening
    /// finds nothing of the key that counts, and so it needs no tombstone.
    pub alone: bool,
}

impl Lifetime {
    /// Of a record that never expires.
    pub const NEVER: Self = Self { expire_at: 0, alone: false };
    /// In the place of a deadline that is not known.
    pub const UNKNOWN: u64 = u64::MAX;

    /// Whether the record has an expiry.
    #[inline]
    pub fn expires(self) -> bool {
        self.expire_at != 0
    }
    /// Whether it has passed by now.
    #[inline]
    pub fn is_over(self, now_ms: u64) -> bool {
        self.expire_at != 0 && self.expire_at <= now_ms
    }
    /// Whether a record that expires at `expire_at`, put over one that lasts as long as this, is alone.
    #[inline]
    pub fn leaves_alone(self, expire_at: u64) -> bool {
        self.alone && (expire_at == 0 || self.expire_at != 0 && self.expire_at <= expire_at)
    }
}

impl Head {
    /// How long the record lasts.
    #[inline]
    pub fn life(&self) -> Lifetime {
        Lifetime { expire_at: self.expire_at, alone: self.meta.is_alone() }
    }
    /// What answers tell of a live record, save for the length of its value where that lies elsewhere.
    #[inline]
    pub fn meta_for_answers(&self) -> Meta {
        Meta {
            version: self.version,
            token: self.token,
            flags: self.flags,
            expire_at: self.expire_at,
            value_bytes: self.meta.value_bytes() as u64,
            state: self.meta.state(),
        }
    }
    /// Of a record that can't be read, as far as others tell: a tombstone still says that its key is gone, anything else is
    /// poison. `words` is the length of its place.
    pub fn lost(version: u64, kind: Kind, db: u8, words: usize, tier: u8) -> Self {
        let kind = if kind == Kind::Tombstone { kind } else { Kind::Poison };
        let words = (words as u64).min(0x3fff);
        let meta = RecordMeta(words << 32 | (kind as u64) << 46 | u64::from(db & 15) << 48);
        Self { version, meta, tier, ..Self::default() }
    }
}

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// The version.
    pub version: u64,
    /// What it stands for.
    pub kind: Kind,
    /// The database.
    pub db: u8,
    /// memcached's flags.
    pub flags: u32,
    /// A protocol's own state, below [`STATE_END`](crate::edit::STATE_END), and [`ALONE`].
    pub state: u8,
    /// Expiry in ms since the Unix epoch, 0 for never.
    pub expire_at: u64,
    /// Cas token of a client's choosing, 0 for none.
    pub token: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value, or the description of an extent.
    pub value: &'a [u8],
}

impl NewRecord<'_> {
    /// Word 1 for a place of exactly the words needed.
    #[inline]
    pub fn meta(&self) -> RecordMeta {
        debug_assert!(
            self.key.len() <= KEY_BYTES_MAX && self.value.len() <= INLINE_VALUE_BYTES,
            "lengths checked before"
        );
        let meta = RecordMeta(
            self.key.len() as u64
                | (self.value.len() as u64) << 17
                | (self.kind as u64) << 46
                | u64::from(self.db) << 48
                | u64::from(self.expire_at != 0) << 56
                | state_bits(self.state)
                | u64::from(self.token != 0) << 61,
        );
        meta.with_slot_words(meta.used_words())
    }
    /// Words needed.
    #[inline]
    pub fn words(&self) -> usize {
        words_for(self.key.len(), self.value.len(), self.expire_at != 0) + usize::from(self.token != 0)
    }
    /// The head.
    pub fn head(&self) -> Head {
        Head {
            version: self.version,
            meta: self.meta(),
            flags: self.flags,
            expire_at: self.expire_at,
            token: self.token,
            tier: 0,
        }
    }
    /// Appends the encoded record to a byte buffer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.words() * 8, 0);
        self.encode_to(&mut out[start..]);
    }
    /// Encodes the record into bytes that are zeros, and as many as it has words.
    ///
    /// # Panics
    /// If they are fewer.
    #[inline]
    pub fn encode_to(&self, out: &mut [u8]) {
        let (words, _) = out.as_chunks_mut::<8>();
        let [version, meta, flags, rest @ ..] = words else { panic!("{} words are no record", words.len()) };
        *version = self.version.to_le_bytes();
        *meta = self.meta().0.to_le_bytes();
        *flags = (u64::from(self.flags) << 32).to_le_bytes();
        let mut rest = rest;
        for word in [self.expire_at, self.token] {
            if word != 0 {
                rest[0] = word.to_le_bytes();
                rest = &mut rest[1..];
            }
        }
        let (key, value) = rest.split_at_mut(self.key.len().div_ceil(8));
        key.as_flattened_mut()[..self.key.len()].copy_from_slice(self.key);
        value.as_flattened_mut()[..self.value.len()].copy_from_slice(self.value);
    }
}

/// The word that holds what is left of key or value behind its whole words: padded with zeros.
#[inline]
pub fn last_word(bytes: &[u8]) -> u64 {
    let rest = bytes.len() % 8;
    match bytes.last_chunk::<8>() {
        Some(last) if rest != 0 => u64::from_le_bytes(*last) >> (64 - 8 * rest),
        Some(_) => 0,
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Words a record with these lengths and no token needs.
#[inline]
pub fn words_for(key_bytes: usize, value_bytes: usize, expiry: bool) -> usize {
    HEAD_WORDS + usize::from(expiry) + key_bytes.div_ceil(8) + value_bytes.div_ceil(8)
}

/// A decoded record in a byte buffer that nobody changes.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// What is known beside key and value.
    pub head: Head,
    /// The key.
    pub key: &'a [u8],
    /// The value, or the description of an extent.
    pub value: &'a [u8],
    /// The stored checksum.
    pub checksum: u32,
}

impl<'a> RecordView<'a> {
    /// Decodes the record at the start of `bytes`; `None` if it can't be one (implausible lengths or cut short).
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let word = |i: usize| {
            let at = bytes.get(i * 8..i * 8 + 8)?;
            Some(u64::from_le_bytes(at.try_into().ok()?))
        };
        let meta = RecordMeta(word(1)?);
        if !meta.plausible() {
            return None;
        }
        let expire_at = if meta.has_expiry() { word(3)? } else { 0 };
        let token = if meta.has_token() { word(meta.token_word())? } else { 0 };
        let flags = word(2)?;
        Some(Self {
            head: Head { version: word(0)?, meta, flags: (flags >> 32) as u32, expire_at, token, tier: 0 },
            key: bytes.get(meta.key_word() * 8..)?.get(..meta.key_bytes())?,
            value: bytes.get(meta.value_word() * 8..)?.get(..meta.value_bytes())?,
            checksum: flags as u32,
        })
    }
    /// The record to be written again elsewhere, version and all.
    pub fn to_new(self) -> NewRecord<'a> {
        NewRecord {
            version: self.head.version,
            kind: self.head.meta.kind(),
            db: self.head.meta.db(),
            flags: self.head.flags,
            state: self.head.meta.state_and_alone(),
            expire_at: self.head.expire_at,
            token: self.head.token,
            key: self.key,
            value: self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_record_costs_24_bytes() {
        let record = NewRecord {
            version: 7,
            kind: Kind::Value,
            db: 15,
            flags: u32::MAX,
            state: 0,
            expire_at: 0,
            token: 0,
            key: &[1; 8],
            value: &[2; 64],
        };
        assert_eq!(record.words() * 8, 24 + 8 + 64);
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for (key, value, expire_at, token) in [
            (0, 0, 0, 0),
            (1, 9, 5, 0),
            (1, 9, 0, 7),
            (KEY_BYTES_MAX, INLINE_VALUE_BYTES, u64::MAX, u64::MAX),
        ] {
            let (key, value) = (vec![1; key], vec![2; value]);
            let record = NewRecord {
                version: 9,
                kind: Kind::Tombstone,
                db: 3,
                flags: 8,
                state: 0,
                expire_at,
                token,
                key: &key,
                value: &value,
            };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(bytes.len(), record.words() * 8);
            let view = RecordView::decode(&bytes).unwrap();
            assert_eq!((view.head, view.key, view.value), (record.head(), &key[..], &value[..]));
            assert!(RecordView::decode(&bytes[..bytes.len() - 8]).is_none() || key.is_empty());
        }
    }

    #[test]
    fn the_last_word_is_padded() {
        let bytes: Vec<u8> = (1..40).collect();
        for len in 0..bytes.len() {
            let mut padded = [0; 8];
            let rest = &bytes[len / 8 * 8..len];
            padded[..rest.len()].copy_from_slice(rest);
            assert_eq!(last_word(&bytes[..len]).to_le_bytes(), padded, "{len}");
        }
    }

    #[test]
    fn nonsense_is_no_record() {
        assert!(RecordView::decode(&[0xff; 64]).is_none());
        assert!(RecordView::decode(&[]).is_none());
    }
}
