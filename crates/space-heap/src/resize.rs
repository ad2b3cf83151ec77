//! The heap grows and shrinks while it is open.
//!
//! ```text
//! grow     the region, its new pages, the size with the manifest --> the pages may be taken
//! shrink   pages behind the new end are not given out --> what lives there moves --> the size with the manifest --> the region
//! ```
//!
//! # Invariants
//! * The size counts that is stored with the manifest. The region may be longer: by a growth that a crash cut short, or by what a shrink
//!   had not cut off yet.
//! * What the size takes in has page headers, durably; what it leaves out holds nothing that counts.

use std::sync::atomic::Ordering::*;

use terrace_engine::record::{Kind, NewRecord, RecordView};
use terrace_engine::space::{Context, Fetch, LargeValues};
use terrace_engine::{Progress, StoreError};
use terrace_index::AnyIndex;
use terrace_media::{Buffer, ByteRegion};

use crate::large::parts;
use crate::open::PAGES_MIN;
use crate::space::HeapSpace;
use crate::table::HEAP_BYTES_MAX;

/// Pages whose records are looked at in one step, for parts of large values that have to move.
const PAGES_A_STEP: usize = 8;
/// Of the new size, so much may be taken by what the heap holds, in percent: records move only while there are chunks to move to.
const FILLED_MAX: u64 = 90;

/// Where a shrink goes on.
#[derive(Default)]
pub(crate) struct Shrinking {
    /// The page behind the end that is emptied next.
    page: usize,
    /// The page in which large values are looked for next.
    values: usize,
}

impl<R: ByteRegion> HeapSpace<R> {
    fn bytes_of(&self, pages: usize) -> u64 {
        self.medium.at(pages as u64 * self.pages.page_bytes as u64)
    }

    /// See [`Store::resize_tier`](terrace_engine::Store::resize_tier): `bytes` from the heap's start on.
    pub(crate) fn resize_to(&self, bytes: u64) -> Result<(), StoreError> {
        let Some(longest) = self.medium.region.len_max() else {
            return Err(StoreError::Options(format!(
                "tier pmem keeps its size: {} can't be resized",
                self.description
            )));
        };
        // Nobody resizes beside this, and no step of a shrink is under way.
        let mut shrinking = self.shrinking.lock();
        let count = self.medium.pages_in(self.medium.start() + bytes);
        let longest = if self.table.is_some() { longest.min(HEAP_BYTES_MAX) } else { longest };
        let most = self.medium.pages_in(longest).min(self.pages.table.most());
        if self.table.is_some() && count < self.pages.table.len() {
            return Err(StoreError::Options(format!(
                "{bytes} bytes for tier pmem: a heap with its index grows, and does not shrink; it has {}",
                self.bytes_of(self.pages.table.len()) - self.medium.start()
            )));
        }
        let of = |pages: usize| self.bytes_of(pages) - self.medium.start();
        if !(PAGES_MIN..=most).contains(&count) {
            return Err(StoreError::Options(format!(
                "{bytes} bytes for tier pmem: with pages of {} bytes it can have {} to {}",
                self.pages.page_bytes,
                of(PAGES_MIN),
                of(most)
            )));
        }
        let used = self.pages.used_bytes.load(Relaxed);
        let chunks = (count * self.pages.page_bytes) as u64 / 100 * FILLED_MAX;
        if count < self.pages.table.len() && used > chunks {
            let needed = (used * 100 / FILLED_MAX).div_ceil(self.pages.page_bytes as u64) as usize + 1;
            return Err(StoreError::Options(format!(
                "{bytes} bytes for tier pmem: what it holds needs {}; delete or let expire what is not wanted first",
                of(needed)
            )));
        }
        *shrinking = Shrinking::default();
        let there = self.pages.table.len();
        if count > there {
            self.grow(there, count).map_err(StoreError::io("growing tier pmem"))?;
        }
        self.pages.set_end(count);
        Ok(())
    }

    fn grow(&self, from: usize, to: usize) -> std::io::Result<()> {
        if self.medium.region.len() < self.bytes_of(to) {
            self.medium.region.resize(self.bytes_of(to))?;
        }
        self.pages.make(from, to);
        (from..to).for_each(|page| self.medium.blank(page as u32));
        self.medium.region.fence();
        self.store_size(to);
        self.pages.table.set_len(to);
        Ok(())
    }

    /// Stores how long the heap is, with the newest manifest; durable when it returns.
    fn store_size(&self, pages: usize) {
        let mut manifest = self.manifest.lock();
        manifest.1 = self.bytes_of(pages);
        self.medium.save_manifest(&manifest.0, manifest.1);
    }

    /// Whether pages are to be left: sessions give chunks back that they don't need now.
    pub(crate) fn is_shrinking(&self) -> bool {
        self.pages.end() < self.pages.table.len()
    }

    /// A step of a shrink, if one is under way.
    pub(crate) fn shrink(&self, index: &AnyIndex, context: &dyn Context) -> Progress {
        if !self.is_shrinking() {
            return Progress::Idle;
        }
        let Some(mut shrinking) = self.shrinking.try_lock() else { return Progress::Idle };
        let (end, there) = (self.pages.end(), self.pages.table.len());
        if end >= there {
            return Progress::Idle;
        }
        // Nothing that was retired becomes free meanwhile, and so no chunk that is read here is filled again.
        let Some(_nothing_is_freed) = self.limbo.try_lock() else { return Progress::Idle };
        if self.cut(end, there) {
            return Progress::Worked;
        }
        let in_turn = |at: usize, from: usize, to: usize| if (from..to).contains(&at) { at } else { from };
        let page = in_turn(shrinking.page, end, there);
        shrinking.page = page + 1;
        let mut moved = match self.pages.table[page].used.load(Relaxed) {
            0 => 0,
            _ => self.move_records(page as u32, index, context),
        };
        for _ in 0..PAGES_A_STEP {
            let page = in_turn(shrinking.values, 0, there);
            shrinking.values = page + 1;
            moved += self.move_values(page as u32, end, index, context);
        }
        // A round that moved nothing waits for what is retired, for sessions, or for room.
        let is_round = shrinking.page >= there && shrinking.values >= there;
        if moved > 0 || !is_round { Progress::Worked } else { Progress::Idle }
    }

    /// Leaves the pages behind the end, if they are empty.
    fn cut(&self, end: usize, there: usize) -> bool {
        // Nobody takes a chunk there any more, and whoever does holds this.
        let alloc = self.pages.alloc();
        if (end..there).any(|page| self.pages.table[page].used.load(Relaxed) > 0) {
            return false;
        }
        self.store_size(end);
        self.pages.table.set_len(end);
        drop(alloc);
        // Where that fails, or a crash brings back what was cut off, the region stays longer than the heap: nobody looks there.
        let _cut = self.medium.region.resize(self.bytes_of(end));
        true
    }

    /// Moves the large values of a page's records that have parts behind the end.
    fn move_values(&self, page: u32, end: usize, index: &AnyIndex, context: &dyn Context) -> u64 {
        let mut offsets = Vec::new();
        self.records_of(page, |offset, front| {
            if front.meta.kind() == Kind::Extent {
                offsets.push(offset);
            }
        });
        let is_behind = |part: u64| self.pages.page_of(part) as usize >= end;
        let mut moved = 0;
        for from in offsets {
            let Some(bytes) = self.whole(from) else { continue };
            let Some(view) = self.view(from, &bytes) else { continue };
            if parts(view.value).any(is_behind) {
                moved += u64::from(self.move_value(from, &view, index, context));
            }
        }
        moved
    }

    fn move_value(&self, from: u64, view: &RecordView<'_>, index: &AnyIndex, context: &dyn Context) -> bool {
        let mut value = Buffer::new();
        if !matches!(self.fetch_extent(view.value, &mut value), Fetch::Match(_)) {
            return false;
        }
        let (mut description, mut chunk) = (Vec::new(), Vec::new());
        if self.write_parts(&value, &mut chunk, &mut description).is_err() {
            return false;
        }
        // With more parts than it had, or fewer, the record has another length.
        let record = NewRecord { value: &description, ..view.to_new() };
        let to = self.size_for_words(record.words()).and_then(|size| self.take_to_move(size));
        let Some(to) = to else {
            self.release_extent(&description, &[]);
            return false;
        };
        let hash = context.hasher().key(view.head.meta.db(), view.key).hash;
        let key = terrace_index::Key { hash, db: view.head.meta.db(), bytes: view.key };
        let is_moved = self.move_record(index, &key, (from, to), &record);
        let (gone, left) = if is_moved { (view.value, from) } else { (&description[..], to) };
        if is_moved {
            self.retire(left);
            self.moved.fetch_add(1, Relaxed);
            self.live_bytes.fetch_add(record.words() as u64 * 8, Relaxed);
            self.live_bytes.fetch_sub(view.head.meta.slot_words() as u64 * 8, Relaxed);
        } else {
            self.pages.give(&mut self.pages.alloc(), left);
        }
        self.release_extent(gone, &[]);
        is_moved
    }
}
