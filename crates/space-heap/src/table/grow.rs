//! Growing by linear hashing: eight buckets split at a time, in order, by whoever inserts.
//!
//! ```text
//! stripes of the eight | buddies, lanes of none | fence | root, twice | what has moved leaves | fence | what fits its bucket is copied there
//!                                                             '-- from here on there are eight more      | fence | lines behind are let go
//! ```
//!
//! # Invariants
//! * The eight that split last may hold entries that have moved, or one twice, after a crash: [`tidy`](super::reopen) knows which they are.
//! * A lane tells a change of a line as it was: none is left of a bucket that splits.
//! * The table never shrinks.

use std::sync::atomic::Ordering::*;

use terrace_index::linear::{bucket_of, next_split};
use terrace_media::ByteRegion;

use super::PmTable;
use super::line::{LINK, Line, SLOTS, hash_of};
use super::root::Root;
use crate::layout::{LINE_BYTES, PAGE_HEADER_BYTES, PageHeader};

/// Buckets that split together.
pub(super) const TOGETHER: u64 = 8;

/// What only one thread at a time does.
pub(crate) struct Grower {
    pub root: Root,
}

impl Grower {
    pub fn new(buckets: u64) -> Self {
        Self { root: Root::new(buckets) }
    }
}

/// What becomes of a bucket's entries.
#[derive(Default)]
struct Parts {
    stay: Vec<u64>,
    go: Vec<u64>,
}

impl<R: ByteRegion> PmTable<R> {
    /// Splits some buckets, if there are many entries for those there are.
    #[inline]
    pub(super) fn grow(&self) {
        if self.is_crowded() {
            self.split_some();
        }
    }
    fn is_crowded(&self) -> bool {
        self.len() * 10 > self.buckets() * self.load
    }

    #[cold]
    fn split_some(&self) {
        // Whoever holds it does the work.
        let Some(mut grower) = self.grower.try_lock() else { return };
        if self.is_crowded() && !self.split(&mut grower) {
            self.stalled.fetch_add(1, Relaxed);
        }
    }

    /// Whether the pages of so many buckets are there, or could be made.
    fn has_pages(&self, buckets: u64) -> bool {
        let needed = buckets.div_ceil(self.per_page()) as usize;
        while self.directory.len() < needed {
            if !self.add_page() {
                return false;
            }
        }
        true
    }

    /// Makes a free page one of buckets.
    pub(super) fn add_page(&self) -> bool {
        let ordinal = self.directory.len();
        let Some((page, seq)) = self.pages.take_page_for_index() else { return false };
        let start = u64::from(page) * self.pages.page_bytes as u64;
        self.medium.store_word(start, 0);
        self.medium.region.fence();
        // Buckets that are not among the first are written whole when they come into being, and nobody reads them before.
        let first = if ordinal == 0 { self.front.first_buckets() } else { 0 };
        for line in 0..first {
            let at = start + PAGE_HEADER_BYTES as u64 + line * LINE_BYTES as u64;
            self.medium.region.write_nt(self.medium.at(at), &Line::empty(self.seed(at)).bytes());
        }
        let header = PageHeader::of_index(self.medium.store_id, seq, page, ordinal as u32);
        self.medium.region.write_nt(self.medium.at(start) + 8, &header.encode()[8..]);
        self.medium.region.fence();
        self.medium.store_word(start, header.magic());
        self.medium.region.fence();
        self.publish_page(ordinal, page);
        true
    }
    /// A page has the buckets of this ordinal.
    pub(super) fn publish_page(&self, ordinal: usize, page: u32) {
        self.directory.reserve_with(ordinal + 1, &Default::default);
        self.directory.set_len(self.directory.len().max(ordinal + 1));
        self.directory[ordinal].store(page, Release);
    }

    /// Splits the next eight buckets; `false` if there is no room.
    fn split(&self, grower: &mut Grower) -> bool {
        let buckets = self.buckets();
        let first = next_split(buckets);
        let hash_bits = buckets.ilog2() + 1;
        if hash_bits > self.front.base + super::line::TAG_BITS || !self.has_pages(buckets + TOGETHER) {
            return false;
        }
        let mut held: Vec<_> =
            (first..first + TOGETHER).map(|bucket| self.stripes.lock(self.stripes.of(bucket))).collect();
        let mut parts = Vec::with_capacity(TOGETHER as usize);
        for bucket in first..first + TOGETHER {
            let mut of = Parts::default();
            let walked = self.walk(bucket, |_, entry| {
                let goes = bucket_of(hash_of(entry, bucket, self.front.base), buckets + TOGETHER) != bucket;
                if goes {
                    of.go.push(entry)
                } else {
                    of.stay.push(entry)
                }
                false
            });
            // Damage stays where it is found.
            if walked != super::chain::Walked::Whole {
                return false;
            }
            parts.push(of);
        }
        let lines: usize = parts.iter().map(|of| of.go.len().saturating_sub(SLOTS).div_ceil(SLOTS - 1)).sum();
        let Some(mut spare) = self.spares.take_many(lines, self.medium.geometry.sessions) else {
            return false;
        };
        held.iter_mut().for_each(|held| held.begin_move());
        for (i, of) in parts.iter().enumerate() {
            self.write_bucket(buckets + i as u64, &of.go, &mut spare);
            self.clear_lane(held[i].stripe);
        }
        self.medium.region.fence();
        grower.root.buckets = buckets + TOGETHER;
        grower.root.save(&self.medium, &self.front);
        self.buckets.store(buckets + TOGETHER, Release);
        for (i, of) in parts.iter().enumerate() {
            if !of.go.is_empty() {
                self.leave(first + i as u64);
            }
        }
        self.medium.region.fence();
        self.shorten(parts.iter().enumerate().map(|(i, of)| (first + i as u64, &of.stay[..])));
        true
    }

    /// Writes a bucket that is nobody's yet; durable after a fence of this thread.
    fn write_bucket(&self, bucket: u64, entries: &[u64], spare: &mut Vec<u64>) {
        let at = self.line_of(bucket);
        let (own, more) = entries.split_at(entries.len().min(SLOTS));
        let mut line = Line::empty(self.seed(at));
        own.iter().enumerate().for_each(|(slot, entry)| line.set(slot, *entry));
        let mut next = 0;
        for part in more.chunks(SLOTS - 1) {
            let Some(chunk) = spare.pop() else { panic!("lines for all entries were taken") };
            let mut overflow = Line::empty(self.seed(chunk));
            overflow.0[0] = self.link_word(chunk);
            part.iter().enumerate().for_each(|(i, entry)| overflow.set(i + 1, *entry));
            overflow.set(LINK, next);
            self.medium.region.write_nt(self.medium.at(chunk), &overflow.bytes());
            next = chunk;
        }
        line.set(LINK, next);
        self.medium.region.write_nt(self.medium.at(at), &line.bytes());
    }

    /// Takes the entries out of a bucket that are another's now; durable after a fence of this thread.
    pub(super) fn leave(&self, bucket: u64) {
        let buckets = self.buckets();
        self.walk_lines(bucket, |at, first, line| {
            let mut left = *line;
            for (slot, entry) in line.entries(first) {
                if bucket_of(hash_of(entry, bucket, self.front.base), buckets) != bucket {
                    left.set(slot, 0);
                    self.medium.region.store_u64(self.medium.at(at) + slot as u64 * 8, 0);
                }
            }
            if left != *line {
                self.store_words(at, &left, super::line::CHECK);
            }
            false
        });
    }

    /// Lets the lines behind some buckets go, of each if what stays fits its own.
    fn shorten<'a>(&self, buckets: impl Iterator<Item = (u64, &'a [u64])>) {
        let shorter: Vec<_> = buckets.filter_map(|(bucket, stay)| self.gather(bucket, stay)).collect();
        if shorter.is_empty() {
            return;
        }
        self.medium.region.fence();
        for (at, line, _) in &shorter {
            let mut line = *line;
            line.set(LINK, 0);
            self.store_words(*at, &line, LINK);
        }
        self.medium.region.fence();
        for (_, _, mut behind) in shorter {
            behind.iter().for_each(|chunk| self.medium.store_word(*chunk, self.pages.place(*chunk).free()));
            self.emptied.lock().append(&mut behind);
        }
    }

    /// Copies what stays in a bucket to its own line, if it fits; durable after a fence of this thread. The line, where it is, and the lines
    /// behind it that are not needed any more.
    fn gather(&self, bucket: u64, stay: &[u64]) -> Option<(u64, Line, Vec<u64>)> {
        let at = self.line_of(bucket);
        let mut line = self.read_line(at);
        if line.0[LINK] == 0 || stay.len() > SLOTS {
            return None;
        }
        let mut behind = Vec::new();
        self.walk_lines(bucket, |at, first, _| {
            if first != 0 {
                behind.push(at);
            }
            false
        });
        let own: Vec<u64> = line.entries(0).map(|(_, entry)| entry).collect();
        for entry in stay.iter().filter(|entry| !own.contains(entry)) {
            line.set(line.empty_slot(0)?, *entry);
        }
        for (slot, entry) in line.entries(0).filter(|(_, entry)| !own.contains(entry)) {
            self.medium.region.store_u64(self.medium.at(at) + slot as u64 * 8, entry);
        }
        self.store_words(at, &line, super::line::CHECK);
        Some((at, line, behind))
    }
}
