//! In the place of `frames.rs` where schedules are explored: there an atomic is no plain integer, so zeroed memory is none.

use crate::sync::AtomicU64;

/// Memory for pages.
pub struct Frames {
    words: Box<[AtomicU64]>,
    frame_words: usize,
    count: usize,
}

impl Frames {
    /// `count` frames of `frame_bytes` bytes, all zeros.
    pub fn new(count: usize, frame_bytes: usize) -> Self {
        let frame_words = frame_bytes / 8;
        Self { words: (0..count * frame_words).map(|_| AtomicU64::new(0)).collect(), frame_words, count }
    }
    /// As `new`.
    pub fn sparse(count: usize, frame_bytes: usize) -> Self {
        Self::new(count, frame_bytes)
    }
    /// As `new`.
    pub fn try_sparse(count: usize, frame_bytes: usize) -> Option<Self> {
        Some(Self::new(count, frame_bytes))
    }
    /// Here there is no reserve.
    pub fn with_reserve(count: usize, _most: usize, frame_bytes: usize) -> Self {
        Self::new(count, frame_bytes)
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }
    /// Gives a frame's memory back to the system; here it keeps it.
    pub fn release(&self, _frame: u32) {}
    /// A released frame is about to be used.
    pub fn take_back(&self, _frame: u32) {}
    /// The words of all frames, one after another, from this one on.
    pub fn words_from(&self, word: u64) -> &[AtomicU64] {
        &self.words[word as usize..]
    }
    /// A frame's words.
    pub fn words(&self, frame: u32) -> &[AtomicU64] {
        &self.words[frame as usize * self.frame_words..][..self.frame_words]
    }
}
