//! What a crash left of the index, made whole: in time that grows with what was under way, and not with the keys.
//!
//! ```text
//! root --> pages of buckets --> the buckets that split last --> lanes --> steps --> counts
//! ```

use std::sync::atomic::Ordering::*;

use terrace_blocks::u64_at;
use terrace_engine::StoreError;
use terrace_engine::op::DATABASES;
use terrace_engine::space::Counted;
use terrace_index::linear::{bucket_of, next_split};
use terrace_media::ByteRegion;

use super::PmTable;
use super::grow::TOGETHER;
use super::line::{CHECK, LINK, chunk_of, hash_of};
use super::root::Root;
use super::spares::CLASS;
use crate::layout::{CHUNK_HEAD_BYTES, Place};

fn corrupt(what: &str) -> StoreError {
    StoreError::Corrupt(format!("{what}: nobody can tell which keys there are; nothing was changed"))
}

impl<R: ByteRegion> PmTable<R> {
    /// Makes an empty table in a heap that has no page in use; durable when it returns.
    pub(crate) fn make_new(&self) {
        for stripe in 0..self.stripes.count() {
            self.clear_lane(stripe);
        }
        self.clear_counts(|_| true);
        self.save_steps();
        let made = self.has_first_pages();
        assert!(made, "a new heap has a page for the index");
        self.grower.lock().root.save(&self.medium, &self.front);
    }
    /// Whether a page is there that the index can begin with.
    pub(crate) fn has_room_for_first_page(&self) -> bool {
        !self.pages.alloc().free.is_empty()
    }
    /// What whole-database flushes have forgotten, of an index that was made anew; stored with [`settle`](Self::settle).
    pub(crate) fn know_flushes(&self, flushed: &[u64; DATABASES]) {
        for (known, version) in self.flushed.iter().zip(flushed) {
            known.store(*version, Relaxed);
        }
        self.grower.lock().root.flushed = *flushed;
    }
    /// Stores the root of such an index, and no lane.
    pub(crate) fn settle(&self) {
        (0..self.stripes.count()).for_each(|stripe| self.clear_lane(stripe));
        self.medium.region.fence();
        self.grower.lock().root.save(&self.medium, &self.front);
    }
    /// Both copies of the root, in bytes of the region.
    pub(crate) fn front_of_root(&self) -> std::ops::Range<u64> {
        self.front.root(0)..self.front.root(2)
    }
    fn has_first_pages(&self) -> bool {
        !self.directory.is_empty() || self.add_page()
    }

    /// Brings the index back: `pages` of buckets were found, each with its ordinal, and databases were flushed last at these versions.
    /// What was counted.
    ///
    /// # Errors
    /// If it can't be trusted.
    pub(crate) fn reopen(
        &self,
        pages: &[(u32, u32)],
        flushed: &[u64; DATABASES],
    ) -> Result<Counted, StoreError> {
        let root = Root::load(&self.medium, &self.front)
            .ok_or_else(|| corrupt("the root of the index is damaged in both copies"))?;
        self.load_steps().ok_or_else(|| corrupt("a step's place in the index is damaged in both copies"))?;
        let mut of_ordinal: Vec<Option<u32>> = vec![None; pages.len()];
        for (ordinal, page) in pages {
            match of_ordinal.get_mut(*ordinal as usize) {
                Some(slot) if slot.is_none() => *slot = Some(*page),
                _ => return Err(corrupt("two pages of the index have one number, or one is missing")),
            }
        }
        let needed = root.buckets.div_ceil(self.per_page()) as usize;
        if root.buckets < self.front.first_buckets() || of_ordinal.len() < needed {
            return Err(corrupt("pages of the index are missing"));
        }
        for (ordinal, page) in of_ordinal.iter().enumerate() {
            let Some(page) = page else { return Err(corrupt("a page of the index is missing")) };
            self.publish_page(ordinal, *page);
        }
        self.buckets.store(root.buckets, Release);
        self.grower.lock().root = root;
        for (known, version) in self.flushed.iter().zip(flushed) {
            known.store(*version, Relaxed);
        }
        self.tidy();
        (0..self.stripes.count()).for_each(|stripe| self.make_again(stripe));
        self.make_steps_again()?;
        self.settle_flushes(flushed);
        let counted = self.sum().unwrap_or_else(|| self.recount());
        self.entries[0].store(counted.keys.iter().sum::<u64>() as i64, Relaxed);
        Ok(counted)
    }

    /// The buckets that split last: what has moved goes, and what is there twice.
    fn tidy(&self) {
        let buckets = self.buckets();
        if buckets == self.front.first_buckets() {
            return;
        }
        let last = buckets - TOGETHER;
        for bucket in (next_split(last)..next_split(last) + TOGETHER).chain(last..buckets) {
            let mut seen: Vec<u64> = Vec::new();
            self.mend(bucket, |entry| {
                let is_here = bucket_of(hash_of(entry, bucket, self.front.base), buckets) == bucket;
                let stays = is_here && !seen.contains(&entry);
                seen.push(entry);
                stays
            });
        }
        self.medium.region.fence();
    }

    /// Makes the lines of a bucket whole that a crash left half changed, with the entries that are to stay: a word may be there without the
    /// check that comes with it. Durable after a fence of this thread.
    fn mend(&self, bucket: u64, mut stays: impl FnMut(u64) -> bool) {
        let (mut at, mut first) = (self.line_of(bucket), 0);
        let mut lines = 0;
        while at != 0 && self.is_line(at) && lines < super::chain::LINES_MAX {
            lines += 1;
            let line = self.read_line(at);
            if first != 0 && line.0[0] != self.link_word(at) {
                return;
            }
            let mut mended = line;
            for (slot, entry) in line.entries(first) {
                if !stays(entry) {
                    mended.0[slot] = 0;
                }
            }
            mended.0[CHECK] = mended.check(first, self.seed(at));
            self.medium.region.write_nt(self.medium.at(at), &mended.bytes());
            (at, first) = (line.0[LINK], 1);
        }
    }

    /// Makes the changes once more of steps that were under way and count.
    fn make_steps_again(&self) -> Result<(), StoreError> {
        for (number, step) in self.unfinished() {
            let mut chunks = Vec::new();
            let mut at = step.last;
            while at != 0 {
                let is_chunk = self.pages.number(at).is_some() && (chunks.len() as u64) < step.count;
                let place = self.pages.place(at);
                let word = if is_chunk { self.medium.region.load_u64(self.medium.at(at)) } else { 0 };
                let next = if is_chunk { place.chain_of(word) } else { None };
                let Some((next, is_new)) = next else {
                    return Err(corrupt("a step of several keys was under way, and its list is damaged"));
                };
                chunks.push((at, is_new));
                at = next;
            }
            if chunks.len() as u64 != step.count {
                return Err(corrupt(
                    "a step of several keys was under way, and a part of its list is missing",
                ));
            }
            // In the order in which they were made.
            chunks.reverse();
            for (chunk, is_new) in &chunks {
                self.make_one_again(*chunk, *is_new)?;
            }
            self.medium.region.fence();
            self.finish(number);
        }
        Ok(())
    }

    fn make_one_again(&self, chunk: u64, is_new: bool) -> Result<(), StoreError> {
        let Some(bytes) = self.sound_record(chunk) else {
            return Err(corrupt("a step of several keys was under way, and a record of it is damaged"));
        };
        self.medium.region.flush(self.medium.at(chunk), bytes.len());
        let hash = u64_at(&bytes, 8);
        let (mut held, bucket) = self.lock(hash);
        let tag = self.tag(hash);
        // What a dead process stored of it is made durable, too: it is not stored once more.
        self.mend(bucket, |_| true);
        let own = self
            .find(bucket, tag, chunk)
            .map_err(|()| corrupt("a line of the index is damaged, of which a step was under way"))?;
        let lane = match (is_new, own) {
            (true, Some(_)) | (false, None) => return Ok(()),
            (false, Some(spot)) => super::lanes::Lane { at: spot.at, old: spot.entry, ..Default::default() },
            (true, None) => {
                let key = |bytes: &[u8], place: Place| {
                    place.view(bytes).map(|view| (view.head.meta.db(), view.key.to_vec()))
                };
                let mine = key(&bytes, self.pages.place(chunk));
                let mut old = None;
                self.walk(bucket, |at, entry| {
                    let other = chunk_of(entry);
                    if tag.is_of(entry)
                        && let Some(bytes) = self.whole_record(other)
                        && key(&bytes, self.pages.place(other)) == mine
                    {
                        old = Some((at, entry));
                    }
                    old.is_some()
                });
                let (at, old) = match old {
                    Some(found) => found,
                    None => {
                        if !self.has_spare() {
                            return Err(StoreError::Options(
                                "a step of several keys was under way, and the heap has no chunk left for the index: it gets more \
                                 room only while it is open"
                                    .into(),
                            ));
                        }
                        (self.vacancy(&mut held, bucket), 0)
                    }
                };
                let version = u64_at(&bytes, CHUNK_HEAD_BYTES);
                super::lanes::Lane { at, new: tag.entry(chunk), old, version, ..Default::default() }
            }
        };
        self.store(&mut held, &lane);
        Ok(())
    }

    /// Takes a chunk for a line where nobody knows yet which are free: one whose word says so.
    fn has_spare(&self) -> bool {
        if self.spares.count() > 0 || self.keep_room() || self.spares.count() > 0 {
            return true;
        }
        for page in 0..self.pages.table.len() as u32 {
            if self.pages.class_of(page) != Some(CLASS) {
                continue;
            }
            self.pages.note_scanned(self.pages.offset(page, CLASS, 0));
            for chunk in 0..self.pages.chunks_in(CLASS) {
                let at = self.pages.offset(page, CLASS, chunk);
                if self.medium.region.load_u64(self.medium.at(at)) == self.pages.place(at).free() {
                    self.pages.note_known(page, CLASS, chunk);
                    self.spares.add(at);
                    return true;
                }
            }
        }
        false
    }

    /// Counts of databases that were flushed since begin anew.
    fn settle_flushes(&self, flushed: &[u64; DATABASES]) {
        let mut grower = self.grower.lock();
        let stale = |db: usize| grower.root.flushed[db] != flushed[db];
        if (0..DATABASES).any(stale) {
            for stripe in 0..self.stripes.count() {
                self.clear_lane(stripe);
            }
            self.medium.region.fence();
            self.clear_counts(stale);
            self.steps.clear(stale);
            self.save_steps();
            grower.root.flushed = *flushed;
            grower.root.save(&self.medium, &self.front);
        }
    }

    /// Records of databases up to these versions are forgotten, durably. Nobody is inside an operation.
    pub(crate) fn flush(&self, flushed: &[u64; DATABASES]) {
        for (known, version) in self.flushed.iter().zip(flushed) {
            known.store(*version, Relaxed);
        }
        self.settle_flushes(flushed);
    }
}
