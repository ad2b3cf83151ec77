//! Records in DRAM that others may rewrite while they are read.
//!
//! # Thread safety
//! Who rewrites a record sets [`REWRITING`] in its version, stores the words, and then the new version. A reader that saw the bit, or
//! another version behind its reads than before them, has read nothing.

use std::sync::atomic::Ordering::{self, Acquire, Relaxed};

use terrace_index::Key;
use terrace_media::Buffer;

use crate::record::{HEAD_WORDS, Head, RecordMeta};
use crate::space::Want;

/// Set in the version while the record is being rewritten.
pub const REWRITING: u64 = 1 << 63;

/// The words of one record, from its first on.
pub trait SharedWords: Copy {
    /// One of the record's words.
    fn load(self, i: usize, order: Ordering) -> u64;

    /// Whether the bytes from word `from` on are these.
    fn bytes_equal(self, from: usize, bytes: &[u8]) -> bool;

    /// Whether nobody has rewritten the record since a reader found this version, all that the reader has read since included.
    fn still_has(self, version: u64) -> bool;

    /// Appends bytes from word `from` on to `out`.
    fn append_bytes(self, from: usize, len: usize, out: &mut Buffer);

    /// One try at what most reads find: the key's record, which has a value in it and no cas token of a client's. `None` (and nothing
    /// in `out`) says nothing: it may be another key's or be rewritten, or be of another kind.
    #[inline]
    fn fetch_once(self, key: &Key<'_>, want: Want, out: &mut Buffer) -> Option<Head> {
        let version = self.load(0, Acquire);
        let meta = RecordMeta(self.load(1, Relaxed));
        if version & REWRITING != 0 || !meta.is_plain_value_of(key.bytes.len(), key.db) {
            return None;
        }
        let flags = (self.load(2, Relaxed) >> 32) as u32;
        let expires = usize::from(meta.has_expiry());
        let expire_at = if expires != 0 { self.load(HEAD_WORDS, Relaxed) } else { 0 };
        let key_word = HEAD_WORDS + expires;
        if !self.bytes_equal(key_word, key.bytes) {
            return None;
        }
        let start = out.len();
        if want == Want::Value {
            self.append_bytes(key_word + key.bytes.len().div_ceil(8), meta.value_bytes(), out);
        }
        if !self.still_has(version) {
            out.truncate(start);
            return None;
        }
        Some(Head { version, meta, flags, expire_at, token: 0, tier: 0 })
    }
}
