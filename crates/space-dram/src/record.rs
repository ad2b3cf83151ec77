//! A record on the heap: `engine::record`'s words, as atomics.

use std::alloc::{Layout, alloc, dealloc};
use std::sync::atomic::{AtomicU64, Ordering, Ordering::*, fence};

use terrace_engine::record::{Head, NewRecord, RecordMeta, last_word};
use terrace_engine::shared_words::{REWRITING, SharedWords};
use terrace_index::Address;
use terrace_media::Buffer;

/// In word 2, below the flags: the record was written, and was read, since eviction last came by. Who was read is passed over twice,
/// for the first time round everybody was written.
const WRITTEN: u64 = 1;
const READ: u64 = 2;

/// A pointer to a record's words. Copies of it are only used inside an epoch in which the index still held it.
#[derive(Clone, Copy)]
pub(crate) struct HeapRecord {
    words: *const AtomicU64,
}

fn layout(words: usize) -> Layout {
    // SAFETY: `words` is at most 2^14, so the size can't overflow, and 8 is a power of two.
    unsafe { Layout::from_size_align_unchecked(words * 8, 8) }
}

impl HeapRecord {
    /// A new record.
    pub fn new(record: &NewRecord<'_>) -> Self {
        let words = record.words();
        // SAFETY: a record has at least three words, so the layout isn't empty.
        let pointer = unsafe { alloc(layout(words)) };
        if pointer.is_null() {
            std::alloc::handle_alloc_error(layout(words));
        }
        let this = Self { words: pointer.cast() };
        this.fill(record, record.meta());
        this.word(0).store(record.version, Release);
        this
    }
    #[inline]
    pub fn at(address: Address) -> Self {
        Self { words: address.raw() as *const AtomicU64 }
    }
    #[inline]
    pub fn address(self) -> Address {
        Address::new(self.words as u64)
    }
    #[inline]
    pub fn word(&self, i: usize) -> &AtomicU64 {
        // SAFETY: callers stay within the record's slot words (or read word 1 to learn them), and the record is alive (see
        // the type's text).
        unsafe { &*self.words.add(i) }
    }
    #[inline]
    pub fn meta(self) -> RecordMeta {
        RecordMeta(self.word(1).load(Relaxed))
    }
    /// What was allocated for it.
    #[inline]
    pub fn slot_bytes(self) -> usize {
        self.meta().slot_words() * 8
    }
    /// Frees it.
    ///
    /// # Safety
    /// Nobody holds it any more.
    pub unsafe fn free(self) {
        let words = self.meta().slot_words();
        // SAFETY: it was allocated with this layout: the slot's words never change; the caller promises the rest.
        unsafe { dealloc(self.words as *mut u8, layout(words)) }
    }
    /// Rewrites the record in its place.
    #[inline]
    pub fn rewrite(self, record: &NewRecord<'_>) {
        let slot_words = self.meta().slot_words();
        let version = self.word(0).load(Relaxed);
        self.word(0).store(version | REWRITING, Relaxed);
        // Readers that see any of the new words see the bit as well.
        fence(Release);
        self.fill(record, record.meta().with_slot_words(slot_words));
        self.word(0).store(record.version, Release);
    }
    #[inline]
    fn fill(self, record: &NewRecord<'_>, meta: RecordMeta) {
        self.word(1).store(meta.0, Relaxed);
        self.word(2).store(u64::from(record.flags) << 32 | WRITTEN, Relaxed);
        if record.expire_at != 0 {
            self.word(3).store(record.expire_at, Relaxed);
        }
        if record.token != 0 {
            self.word(meta.token_word()).store(record.token, Relaxed);
        }
        self.store_bytes(meta.key_word(), record.key);
        self.store_bytes(meta.value_word(), record.value);
    }
    /// The record is read. (Not a store: a rewrite may be under way, whose flags must stay.)
    #[inline]
    pub fn note_read(self) {
        if self.word(2).load(Relaxed) & READ == 0 {
            self.word(2).fetch_or(READ, Relaxed);
        }
    }
    /// Whether eviction passes it over; what was noted of it counts for less from now on.
    pub fn pass_over(self) -> bool {
        let word = self.word(2).load(Relaxed);
        let used = word & (READ | WRITTEN);
        let less = if used & READ != 0 { WRITTEN } else { 0 };
        if used != 0 {
            // Who changes it meanwhile uses it.
            let _used = self.word(2).compare_exchange(word, word - used + less, Relaxed, Relaxed);
        }
        used != 0
    }
    #[inline]
    fn store_bytes(self, from: usize, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for (i, word) in words.iter().enumerate() {
            self.word(from + i).store(u64::from_le_bytes(*word), Relaxed);
        }
        if !rest.is_empty() {
            self.word(from + words.len()).store(last_word(bytes), Relaxed);
        }
    }
    /// Reads consistently: runs `read` until no rewrite came between. `read` must tolerate any mixture of words; what it appended
    /// to `out` is taken away before it runs again.
    #[inline]
    pub fn consistently<R>(self, out: &mut Buffer, mut read: impl FnMut(Head, &mut Buffer) -> R) -> R {
        let start = out.len();
        loop {
            let version = self.word(0).load(Acquire);
            if version & REWRITING == 0 {
                let meta = self.meta();
                let expire_at = if meta.has_expiry() { self.word(3).load(Relaxed) } else { 0 };
                let token = if meta.has_token() { self.word(meta.token_word()).load(Relaxed) } else { 0 };
                let flags = (self.word(2).load(Relaxed) >> 32) as u32;
                let result = read(Head { version, meta, flags, expire_at, token, tier: 0 }, out);
                if self.still_has(version) {
                    return result;
                }
                out.truncate(start);
            }
            std::hint::spin_loop();
        }
    }
}

impl SharedWords for HeapRecord {
    #[inline]
    fn load(self, i: usize, order: Ordering) -> u64 {
        self.word(i).load(order)
    }
    #[inline]
    fn still_has(self, version: u64) -> bool {
        // All loads before come before the one below.
        fence(Acquire);
        self.word(0).load(Relaxed) == version
    }
    #[inline]
    fn bytes_equal(self, from: usize, bytes: &[u8]) -> bool {
        let (words, rest) = bytes.as_chunks::<8>();
        for (i, word) in words.iter().enumerate() {
            if self.word(from + i).load(Relaxed) != u64::from_le_bytes(*word) {
                return false;
            }
        }
        rest.is_empty() || self.word(from + words.len()).load(Relaxed) == last_word(bytes)
    }
    #[inline]
    fn append_bytes(self, from: usize, len: usize, out: &mut Buffer) {
        // SAFETY: as of `word`: callers stay within the record.
        let words = unsafe { std::slice::from_raw_parts(self.words.add(from), len.div_ceil(8)) };
        out.append_words(len, words.iter().map(|word| word.load(Relaxed)));
    }
}
