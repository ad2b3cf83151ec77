//! Records in a DRAM frame.
//!
//! # Thread safety
//! A record's words are written by the page's owner before the index knows the record, or inside the index's critical
//! section for its key (an update in place). Readers run at any time: the writer sets bit 63 of the version, rewrites, and
//! stores the new version; a reader that saw the bit, or another version afterwards, starts again.

use std::sync::atomic::{Ordering, Ordering::*};

use terrace_engine::record::{Head, NewRecord, RecordMeta, last_word};
use terrace_engine::shared_words::{REWRITING, SharedWords};
use terrace_media::Buffer;

use crate::sync::{AtomicU64, fence, spin_loop};

/// The words of one record, from its first on (and beyond its end).
#[derive(Clone, Copy)]
pub struct Words<'a>(pub &'a [AtomicU64]);

impl Words<'_> {
    #[inline]
    fn meta(self) -> RecordMeta {
        RecordMeta(self.0[1].load(Relaxed))
    }
    /// Writes a record into fresh words.
    #[inline]
    pub fn write(self, record: &NewRecord<'_>) {
        self.fill(record, record.meta());
        self.0[0].store(record.version, Release);
    }
    /// Rewrites a record in its place; the caller has made sure that it fits.
    #[inline]
    pub fn rewrite(self, record: &NewRecord<'_>) {
        let slot_words = self.meta().slot_words();
        let version = self.0[0].load(Relaxed);
        self.0[0].store(version | REWRITING, Relaxed);
        // Whoever sees any of the new words sees the bit as well: pairs with the fence in `consistently`.
        fence(Release);
        self.fill(record, record.meta().with_slot_words(slot_words));
        self.0[0].store(record.version, Release);
    }
    /// Writes another record over one; the words are as many as either needs, and what the new one doesn't need is no part of
    /// it.
    #[inline]
    pub fn replace(self, record: &NewRecord<'_>) {
        let version = self.0[0].load(Relaxed);
        self.0[0].store(version | REWRITING, Relaxed);
        // As in `rewrite`.
        fence(Release);
        self.fill(record, record.meta());
        self.0[0].store(record.version, Release);
    }
    #[inline]
    fn fill(self, record: &NewRecord<'_>, meta: RecordMeta) {
        let [_, second, third, rest @ ..] = self.0 else { panic!("{} words hold no record", self.0.len()) };
        second.store(meta.0, Relaxed);
        third.store(u64::from(record.flags) << 32, Relaxed);
        let mut rest = rest;
        for word in [record.expire_at, record.token] {
            if word != 0 {
                rest[0].store(word, Relaxed);
                rest = &rest[1..];
            }
        }
        let (key, value) = rest.split_at(record.key.len().div_ceil(8));
        store_bytes(key, record.key);
        store_bytes(value, record.value);
    }
    /// No older version of the key outlives the record. Nobody rewrites it meanwhile.
    #[inline]
    pub fn set_alone(self) {
        self.0[1].store(self.meta().and_alone().0, Relaxed);
    }
    /// Reads consistently: runs `read` until no rewrite came between. `read` must tolerate any mixture of words.
    #[inline]
    pub fn consistently<R>(self, mut read: impl FnMut(Head) -> R) -> R {
        let [first, second, third, rest @ ..] = self.0 else {
            panic!("{} words are no record", self.0.len())
        };
        loop {
            let version = first.load(Acquire);
            if version & REWRITING == 0 {
                let meta = RecordMeta(second.load(Relaxed));
                let expire_at = if meta.has_expiry() { rest[0].load(Relaxed) } else { 0 };
                let token = if meta.has_token() { self.0[meta.token_word()].load(Relaxed) } else { 0 };
                let flags = (third.load(Relaxed) >> 32) as u32;
                let result = read(Head { version, meta, flags, expire_at, token, tier: 0 });
                if self.still_has(version) {
                    return result;
                }
            }
            spin_loop();
        }
    }
    /// Appends bytes to `out`; nothing if they would leave the page (a mixture of two states, to be read again).
    #[inline]
    pub fn copy_bytes(self, from: usize, len: usize, out: &mut Vec<u8>) {
        let Some(words) = self.0.get(from..from + len.div_ceil(8)) else { return };
        let start = out.len();
        out.resize(start + words.len() * 8, 0);
        let (places, _) = out[start..].as_chunks_mut::<8>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.load(Relaxed).to_le_bytes();
        }
        out.truncate(start + len);
    }
}

/// Stores bytes, padded with zeros to whole words.
#[inline]
fn store_bytes(target: &[AtomicU64], bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<8>();
    let (whole, last) = target.split_at(words.len());
    for (word, target) in words.iter().zip(whole) {
        target.store(u64::from_le_bytes(*word), Relaxed);
    }
    if !rest.is_empty() {
        last[0].store(last_word(bytes), Relaxed);
    }
}

impl SharedWords for Words<'_> {
    #[inline]
    fn load(self, i: usize, order: Ordering) -> u64 {
        self.0[i].load(order)
    }
    #[inline]
    fn still_has(self, version: u64) -> bool {
        // All loads before come before the one below.
        fence(Acquire);
        self.0[0].load(Relaxed) == version
    }
    /// `false` if they would leave the page.
    #[inline]
    fn bytes_equal(self, from: usize, bytes: &[u8]) -> bool {
        let Some(words) = self.0.get(from..from + bytes.len().div_ceil(8)) else { return false };
        let (whole, rest) = bytes.as_chunks::<8>();
        for (word, expected) in words.iter().zip(whole) {
            if word.load(Relaxed) != u64::from_le_bytes(*expected) {
                return false;
            }
        }
        rest.is_empty() || words[whole.len()].load(Relaxed) == last_word(bytes)
    }
    /// Nothing if they would leave the page.
    #[inline]
    fn append_bytes(self, from: usize, len: usize, out: &mut Buffer) {
        if let Some(words) = self.0.get(from..from + len.div_ceil(8)) {
            out.append_words(len, words.iter().map(|word| word.load(Relaxed)));
        }
    }
}
