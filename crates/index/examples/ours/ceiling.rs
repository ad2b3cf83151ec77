//! What this machine could do at best: two misses an operation, the second at an address that the first brings, and a copy.
//!
//! ```text
//!   key --hash--> line of a table as large as the index's buckets --word--> record of 64 bytes: copied
//! ```
//!
//! It is what any index with one line a bucket must do, without what makes it an index: no entry is searched, compared or
//! protected from writers. A word of a line names some record or other, the same for a key each time, so that popular keys have
//! popular lines and records as in the index.

use std::hint::black_box;

use terrace_index::prefetch;

use crate::huge::Huge;
use crate::keys;
use crate::lookups::BATCH_MAX;
use crate::records::{Record, Records};

/// Words in a line.
const WORDS: u64 = 8;

/// Lines of words, each the number of a record.
pub struct Ceiling<'a> {
    words: Huge<u64>,
    lines: u64,
    records: &'a Records,
}

impl<'a> Ceiling<'a> {
    /// As many lines as a table at its usual load has for these records.
    pub fn new(records: &'a Records) -> Self {
        let count = records.count();
        let lines = (count * 10).div_ceil(46);
        let words = Huge::new((lines * WORDS) as usize, |i| keys::hash(i) % count);
        Self { words, lines, records }
    }
    /// The word of a hash: its line by the upper bits, its place in the line by the lower ones.
    #[inline]
    fn word(&self, bytes: &[u8; 8]) -> &u64 {
        let hash = keys::hash(u64::from_ne_bytes(*bytes));
        let line = ((u128::from(hash) * u128::from(self.lines)) >> 64) as u64;
        self.words.at(line * WORDS + hash % WORDS)
    }
    /// Reads one by one; returns how many.
    #[inline(never)]
    pub fn one_by_one(&self, keys: &[[u8; 8]]) -> u64 {
        let mut copy = Record { key: 0, value: [0; 7] };
        for bytes in keys {
            copy = *self.records.at(*self.word(bytes));
            black_box(&copy);
        }
        black_box(copy.key);
        keys.len() as u64
    }
    /// Reads in batches: all lines of a batch are asked for, then all records, then all are copied. Returns how many.
    #[inline(never)]
    pub fn in_batches(&self, keys: &[[u8; 8]], batch: usize) -> u64 {
        let mut words = [self.words.at(0); BATCH_MAX];
        let mut copy = Record { key: 0, value: [0; 7] };
        for keys in keys.chunks(batch) {
            for (word, bytes) in words.iter_mut().zip(keys) {
                *word = self.word(bytes);
                prefetch(*word);
            }
            for word in &words[..keys.len()] {
                prefetch(self.records.at(**word));
            }
            for word in &words[..keys.len()] {
                copy = *self.records.at(**word);
                black_box(&copy);
            }
        }
        black_box(copy.key);
        keys.len() as u64
    }
}
