//! Chunks for overflow lines, taken before a key is locked: nothing waits for room there.
//!
//! # Invariants
//! * A change of one key takes one at most, and a session makes one such change at a time: one for each session is there whenever a session
//!   goes on to lock its key.
//! * A step of several keys is promised one for each of them, beside those, until it ends.

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
    /// What steps of several keys may take.
    promised: AtomicUsize,
}

impl Spares {
    pub fn new() -> Self {
        Self { chunks: Mutex::default(), count: AtomicUsize::new(0), promised: AtomicUsize::new(0) }
    }
    /// Takes one.
    pub fn take(&self) -> Option<u64> {
        let mut chunks = self.chunks.lock();
        let chunk = chunks.pop();
        self.count.store(chunks.len(), Relaxed);
        chunk
    }
    /// A promise ends.
    pub fn let_go(&self, promised: usize) {
        self.promised.fetch_sub(promised, Relaxed);
    }
    /// Takes so many, if `keep` are left beside those that are promised; or none.
    pub fn take_many(&self, count: usize, keep: usize) -> Option<Vec<u64>> {
        let mut chunks = self.chunks.lock();
        let left = chunks
            .len()
            .checked_sub(count)
            .filter(|left| count == 0 || *left >= keep + self.promised.load(Relaxed))?;
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
    /// Sees to room for an insertion; `false` if there is none.
    #[inline]
    pub(crate) fn keep_room(&self) -> bool {
        let wanted = 1 + self.medium.geometry.sessions + self.spares.promised.load(Relaxed);
        self.spares.count() >= wanted || self.take_spares(wanted)
    }
    /// The same for so many insertions of a step, to which `promised` are promised already.
    pub(crate) fn promise_room(&self, promised: &mut usize, insertions: usize) -> bool {
        let more = insertions.saturating_sub(*promised);
        let before = self.spares.promised.fetch_add(more, Relaxed);
        *promised += more;
        let wanted = before + more + self.medium.geometry.sessions;
        self.spares.count() >= wanted || self.take_spares(wanted)
    }
    /// The step is over.
    pub(crate) fn end_promise(&self, promised: &mut usize) {
        if *promised > 0 {
            self.spares.let_go(std::mem::take(promised));
        }
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
