//! Chunks for overflow lines, taken before a key is locked: nothing waits for room there.

use std::sync::atomic::Ordering::*;

use parking_lot::Mutex;
use terrace_media::ByteRegion;

use super::PmTable;
use crate::sync::AtomicUsize;

/// The class of a chunk of one line.
pub const CLASS: usize = 0;
/// Chunks that are taken together.
const AT_ONCE: usize = 16;

/// See the module.
pub struct Spares {
    chunks: Mutex<Vec<u64>>,
    count: AtomicUsize,
}

impl Spares {
    pub fn new() -> Self {
        Self { chunks: Mutex::default(), count: AtomicUsize::new(0) }
    }
    /// Takes one.
    pub fn take(&self) -> Option<u64> {
        let mut chunks = self.chunks.lock();
        let chunk = chunks.pop();
        self.count.store(chunks.len(), Relaxed);
        chunk
    }
    /// Takes so many, if `keep` are left; or none.
    pub fn take_many(&self, count: usize, keep: usize) -> Option<Vec<u64>> {
        let mut chunks = self.chunks.lock();
        let left = chunks.len().checked_sub(count).filter(|left| count == 0 || *left >= keep)?;
        let taken = chunks.split_off(left);
        self.count.store(left, Relaxed);
        Some(taken)
    }
    /// Adds one.
    pub fn add(&self, chunk: u64) {
        let mut chunks = self.chunks.lock();
        chunks.push(chunk);
        self.count.store(chunks.len(), Relaxed);
    }
    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }
}

impl<R: ByteRegion> PmTable<R> {
    /// Keeps room for so many insertions, beside one of each session; `false` if there is none.
    #[inline]
    pub(crate) fn keep_room(&self, insertions: usize) -> bool {
        let wanted = insertions + self.medium.geometry.sessions;
        self.spares.count() >= wanted || self.take_spares(wanted)
    }

    #[cold]
    fn take_spares(&self, wanted: usize) -> bool {
        let mut alloc = self.pages.alloc();
        while self.spares.count() < wanted + AT_ONCE {
            match self.pages.take(&mut alloc, &self.medium, CLASS) {
                Some(chunk) => self.spares.add(chunk),
                None => break,
            }
        }
        self.spares.count() >= wanted
    }
}
