//! Filling chunks, and freeing them on the medium.
//!
//! # Invariants
//! * A chunk that is filled is free, durably, and listed in its session's run, durably: one whose checksums fail is torn there, and
//!   damaged anywhere else. So a record is one burst, word and all.
//! * A chunk is freed once what replaced its record is durable, or the record is to be gone; nobody fills it before that is durable.

use terrace_media::ByteRegion;

use crate::medium::Medium;

impl<R: ByteRegion> Medium<R> {
    /// Stores a chunk's bytes, its word among them; durable when it returns.
    pub fn fill(&self, offset: u64, chunk: &[u8]) {
        self.region.write_nt(self.at(offset), chunk);
        self.region.fence();
    }
    /// Frees chunks: each with its word. Durable when it returns.
    pub fn free(&self, chunks: impl Iterator<Item = (u64, u64)>) {
        for (offset, word) in chunks {
            self.store_word(offset, word);
        }
        self.region.fence();
    }
    /// Stores a chunk's first word; durable after a fence of this thread.
    #[track_caller]
    pub fn store_word(&self, offset: u64, word: u64) {
        self.region.store_u64(self.at(offset), word);
        self.region.flush(self.at(offset), 8);
    }
}
