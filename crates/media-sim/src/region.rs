//! A simulated region of byte-addressable memory.
//!
//! # Thread safety
//! The words are atomics: racing accesses see mixtures of words, as on the real thing.
//!
//! # Invariants
//! A word that differs from what the image was opened with has its line's bit set in `dirty`. `shadow` equals the words
//! unless a store went around the API. Lock order: the recorder before a shadow.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use parking_lot::Mutex;
use terrace_media::{ByteRegion, Counters, caller};

use crate::actor::actor;
use crate::recorder::Recorder;
use crate::trace::{Event, Initial, MediumId, SiteKind, Trace};

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;
/// Words of a cache line.
pub(crate) const LINE_WORDS: usize = LINE_BYTES / 8;

/// Memory that records what is done to it (when made by a [`Recorder`]) or plain memory for a crash image. Clones share
/// the bytes.
#[derive(Clone)]
pub struct SimRegion {
    inner: Arc<Inner>,
}

struct Inner {
    words: Box<[AtomicU64]>,
    /// A bit a line: changed since the last [`SimRegion::restore`].
    dirty: Box<[AtomicU64]>,
    tap: Option<(Recorder, MediumId)>,
    /// Words that the crash left, and what is durable of them.
    patched: Mutex<Vec<(usize, u64)>>,
    /// What the recorded stores alone have made of the words; changed under the recorder's lock. Empty without a recorder.
    shadow: Mutex<Vec<u64>>,
    /// Lines flushed since the last fence of anybody: tells a fence that is a write burst from an idle one.
    unfenced: AtomicU64,
    counters: Counters,
}

impl SimRegion {
    /// Plain memory with this content.
    ///
    /// # Panics
    /// If the length is not a multiple of 64.
    pub fn from_image(image: Vec<u8>) -> Self {
        Self::new(&to_words(&image), None)
    }

    pub(crate) fn recorded(image: &[u8], recorder: &Recorder) -> Self {
        let words = to_words(image);
        let medium = recorder.register(Initial::Region(words.clone()));
        Self::new(&words, Some((recorder.clone(), medium)))
    }

    pub(crate) fn new(words: &[u64], tap: Option<(Recorder, MediumId)>) -> Self {
        let lines = words.len() / LINE_WORDS;
        let shadow = Mutex::new(if tap.is_some() { words.to_vec() } else { Vec::new() });
        Self {
            inner: Arc::new(Inner {
                words: words.iter().map(|word| AtomicU64::new(*word)).collect(),
                dirty: (0..lines.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
                tap,
                patched: Mutex::default(),
                shadow,
                unfenced: AtomicU64::new(0),
                counters: Counters::default(),
            }),
        }
    }

    /// The content now, whether durable or not.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.inner.words.iter().flat_map(|word| word.load(Acquire).to_le_bytes()).collect()
    }

    /// Rot at rest: flips bits of one byte. Nothing is recorded. The seam has no read errors: what real memory reports as
    /// poison kills the process, which is a crash.
    ///
    /// # Panics
    /// If it is outside the region.
    pub fn rot(&self, offset: u64, mask: u8) {
        let (word, shift) = (offset as usize / 8, offset % 8 * 8);
        self.inner.words[word].fetch_xor(u64::from(mask) << shift, AcqRel);
        self.inner.touch(word);
    }

    /// Writes bytes that no engine wrote: nothing is recorded, and on recording media the next fence tells of a stray store.
    ///
    /// # Panics
    /// If they are outside the region.
    pub fn scribble(&self, offset: u64, bytes: &[u8]) {
        self.check(offset, bytes.len());
        self.inner.apply(offset, bytes);
    }

    /// Whether no other clone exists.
    pub(crate) fn is_unique(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// Undoes every change since the last call: copies the dirty lines back from `base`.
    pub(crate) fn restore(&self, base: &[u64]) {
        self.inner.patched.lock().clear();
        for (group, bits) in self.inner.dirty.iter().enumerate() {
            let mut bits = if bits.load(Relaxed) == 0 { continue } else { bits.swap(0, AcqRel) };
            while bits != 0 {
                let first = (group * 64 + bits.trailing_zeros() as usize) * LINE_WORDS;
                let line = first..first + LINE_WORDS;
                for (word, value) in self.inner.words[line.clone()].iter().zip(&base[line]) {
                    word.store(*value, Release);
                }
                bits &= bits - 1;
            }
        }
    }

    /// Sets a word of a crash image.
    pub(crate) fn patch(&self, word: usize, value: u64) {
        let durable = self.inner.words[word].swap(value, AcqRel);
        self.inner.patched.lock().push((word, durable));
        self.inner.touch(word);
    }

    /// A copy in which what the crash left is stored and not flushed: a process died, its caches live on.
    pub(crate) fn recorded_unflushed(&self, recorder: &Recorder) -> Self {
        let patched = self.inner.patched.lock();
        let mut durable = self.to_bytes();
        for &(word, value) in patched.iter().rev() {
            durable[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
        }
        let copy = Self::recorded(&durable, recorder);
        for &(word, _) in &*patched {
            copy.store_u64(word as u64 * 8, self.inner.words[word].load(Acquire));
        }
        copy
    }

    /// Makes the next [`restore`](Self::restore) copy this line.
    pub(crate) fn mark_line(&self, line: usize) {
        self.inner.touch(line * LINE_WORDS);
    }

    #[track_caller]
    fn check(&self, offset: u64, len: usize) {
        let end = offset.checked_add(len as u64);
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "{len} bytes at {offset:#x} are outside the region"
        );
    }

    fn put(&self, offset: u64, bytes: &[u8], streamed: bool, at: &'static Location<'static>) {
        self.check(offset, bytes.len());
        self.inner.counters.write_bytes(bytes.len() as u64);
        if bytes.is_empty() {
            return;
        }
        self.inner.record(
            |trace, medium| {
                let kind = if streamed { SiteKind::Stream } else { SiteKind::Store };
                let (site, bytes) = (trace.note_site(at, kind), trace.keep(bytes));
                Event::Store { medium, actor: actor(), site, offset, bytes, streamed }
            },
            || {
                self.inner.apply(offset, bytes);
                self.inner.shade(offset, bytes);
            },
        );
        if streamed {
            self.inner.flushed(offset, bytes.len());
        }
    }
}

impl Inner {
    fn touch(&self, word: usize) {
        let line = word / LINE_WORDS;
        let bit = 1 << (line % 64);
        if self.dirty[line / 64].load(Relaxed) & bit == 0 {
            self.dirty[line / 64].fetch_or(bit, AcqRel);
        }
    }

    fn apply(&self, offset: u64, bytes: &[u8]) {
        each_word(offset, bytes, |word, mask, value| {
            if mask == u64::MAX {
                self.words[word].store(value, Release);
            } else {
                // Another thread may be writing the word's other bytes.
                let _ = self.words[word].fetch_update(AcqRel, Acquire, |old| Some(old & !mask | value));
            }
            self.touch(word);
        });
    }

    fn shade(&self, offset: u64, bytes: &[u8]) {
        if self.tap.is_some() {
            let mut shadow = self.shadow.lock();
            each_word(offset, bytes, |word, mask, value| shadow[word] = shadow[word] & !mask | value);
        }
    }

    /// Tells of words that no recorded store explains, and takes them as they are from now on.
    fn find_strays(&self, trace: &mut Trace, at: &'static Location<'static>) {
        let mut shadow = self.shadow.lock();
        for (number, (word, known)) in self.words.iter().zip(shadow.iter_mut()).enumerate() {
            let value = word.load(Acquire);
            if value != *known {
                let place = number * 8;
                trace.strays.push(format!(
                    "the word at {place:#x} was changed from {known:#x} to {value:#x} around the media API, seen by the fence at {at}"
                ));
                *known = value;
            }
        }
    }

    fn record(&self, event: impl FnOnce(&mut Trace, MediumId) -> Event, apply: impl FnOnce()) {
        let Some((recorder, medium)) = &self.tap else { return apply() };
        let mut guard = recorder.lock();
        apply();
        if let Some(trace) = guard.as_mut() {
            let event = event(trace, *medium);
            trace.events.push(event);
        }
    }

    fn flushed(&self, offset: u64, len: usize) {
        let lines = lines_of(offset, len as u64).count() as u64;
        self.counters.lines_flushed(lines);
        self.unfenced.fetch_add(lines, Relaxed);
    }
}

impl ByteRegion for SimRegion {
    fn len(&self) -> u64 {
        self.inner.words.len() as u64 * 8
    }

    #[track_caller]
    fn load_u64(&self, offset: u64) -> u64 {
        assert!(offset.is_multiple_of(8), "a word was loaded at {offset:#x}");
        self.check(offset, 8);
        self.inner.words[offset as usize / 8].load(Acquire)
    }

    #[track_caller]
    fn store_u64(&self, offset: u64, value: u64) {
        assert!(offset.is_multiple_of(8), "a word was stored at {offset:#x}");
        self.put(offset, &value.to_le_bytes(), false, caller::noted());
    }

    #[track_caller]
    fn read(&self, offset: u64, out: &mut [u8]) {
        self.check(offset, out.len());
        self.inner.counters.reads(1);
        self.inner.counters.read_bytes(out.len() as u64);
        let (mut at, mut out) = (offset as usize, out);
        while !out.is_empty() {
            let skip = at % 8;
            let (piece, rest) = out.split_at_mut(out.len().min(8 - skip));
            let word = self.inner.words[at / 8].load(Acquire).to_le_bytes();
            piece.copy_from_slice(&word[skip..skip + piece.len()]);
            at += piece.len();
            out = rest;
        }
    }

    fn prefetch(&self, _offset: u64, _len: usize) {}

    #[track_caller]
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.put(offset, bytes, false, caller::noted());
    }

    #[track_caller]
    fn write_nt(&self, offset: u64, bytes: &[u8]) {
        self.put(offset, bytes, true, caller::noted());
    }

    #[track_caller]
    fn flush(&self, offset: u64, len: usize) {
        let at = caller::noted();
        self.check(offset, len);
        self.inner.flushed(offset, len);
        let len = len as u64;
        self.inner.record(
            |trace, medium| {
                let site = trace.note_site(at, SiteKind::Flush);
                Event::Flush { medium, actor: actor(), site, offset, len }
            },
            || (),
        );
    }

    #[track_caller]
    fn fence(&self) {
        let at = caller::noted();
        self.inner.counters.fences(1);
        if self.inner.unfenced.swap(0, Relaxed) > 0 {
            self.inner.counters.writes(1);
        }
        let event = |trace: &mut Trace, _| {
            self.inner.find_strays(trace, at);
            Event::Fence { actor: actor(), site: trace.note_site(at, SiteKind::Fence) }
        };
        self.inner.record(event, || ());
    }

    fn len_max(&self) -> Option<u64> {
        Some(self.len())
    }

    /// The region stays as long as it was made: it is a file's longest length. What is cut off reads as zeros, at once; a crash
    /// may bring any line of it back until the next fence, as from a file whose new length was not safe yet.
    #[track_caller]
    fn resize(&self, len: u64) -> std::io::Result<()> {
        if len > self.len() {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let at = caller::noted();
        for line in (len.next_multiple_of(LINE_BYTES as u64)..self.len()).step_by(LINE_BYTES) {
            let words = &self.inner.words[line as usize / 8..][..LINE_WORDS];
            if words.iter().any(|word| word.load(Acquire) != 0) {
                self.put(line, &[0; LINE_BYTES], true, at);
            }
        }
        Ok(())
    }

    fn asks_for_callers(&self) -> bool {
        true
    }

    fn counters(&self) -> &Counters {
        &self.inner.counters
    }
}

/// The lines that `offset..offset + len` overlaps.
pub(crate) fn lines_of(offset: u64, len: u64) -> std::ops::Range<usize> {
    let lines = terrace_media::lines_of(offset, len as usize);
    lines.start as usize..lines.end as usize
}

/// Splits a store at aligned words: word number, mask of the bytes stored, and those bytes in place.
pub(crate) fn each_word(offset: u64, bytes: &[u8], mut visit: impl FnMut(usize, u64, u64)) {
    let (mut at, mut bytes) = (offset as usize, bytes);
    while !bytes.is_empty() {
        let skip = at % 8;
        let (piece, rest) = bytes.split_at(bytes.len().min(8 - skip));
        let (mut value, mut mask) = ([0; 8], [0; 8]);
        value[skip..skip + piece.len()].copy_from_slice(piece);
        mask[skip..skip + piece.len()].fill(0xff);
        visit(at / 8, u64::from_le_bytes(mask), u64::from_le_bytes(value));
        at += piece.len();
        bytes = rest;
    }
}

fn to_words(image: &[u8]) -> Vec<u64> {
    let (lines, rest) = image.as_chunks::<8>();
    assert!(rest.is_empty() && lines.len().is_multiple_of(LINE_WORDS), "a region holds whole 64-byte lines");
    lines.iter().map(|word| u64::from_le_bytes(*word)).collect()
}
