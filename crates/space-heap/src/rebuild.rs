//! An index made anew from the records, of a heap that keeps its index and does not open, or whose index is damaged.
//!
//! ```text
//! pages of chunks --> of each key the newest record --> an empty index, filled --> root gone | fence | lines | fence | root | fence
//!                                                       (in DRAM, over the medium)
//! ```
//!
//! The old root is gone before the first line is stored, so that a repair that is cut off leaves a heap that does not open, and is run
//! again. Records stay where they are. DRAM holds the new index and 32 bytes for each key.

use std::collections::HashMap;
use std::sync::Arc;

use terrace_blocks::u64_at;
use terrace_engine::StoreError;
use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::Kind;
use terrace_index::{Address, Change, Index, Key, Verdict};
use terrace_media::ByteRegion;

use crate::large::parts;
use crate::layout::{FRONT_BYTES, Front, LINE_BYTES, PageHeader, StoredPage};
use crate::medium::{Geometry, Medium};
use crate::overlay::Overlay;
use crate::space::HeapSpace;
use crate::table::PmIndex;

/// The newest record of a key: version, chunk, database.
type Newest = HashMap<(u64, u32), (u64, u64, u8)>;

/// Makes the index anew of the heap in a region from byte `base` on; how many keys it has.
///
/// Of a record that is damaged the key answers an error, as before. A key that was being written or deleted as a crash came may be there
/// in its older state, and keys of a step that was under way each in theirs.
///
/// # Errors
/// If a page's header is damaged, or the heap has no room for an index.
pub fn rebuild<R: ByteRegion>(
    region: Arc<R>,
    base: u64,
    (geometry, store_id): (Geometry, u64),
    hasher: KeyHasher,
    manifest: &Manifest,
    progress: &dyn Fn(u64, u64),
) -> Result<u64, StoreError> {
    let over = Arc::new(Overlay::new(region));
    let bytes = over.len();
    let medium = Medium::new(over.clone(), base, geometry, store_id);
    let bytes = medium.stored_manifest().map_or(bytes, |(_, stored)| stored.min(bytes));
    let space = HeapSpace::new(medium, bytes, hasher, u64::MAX, String::new());
    let Some(table) = space.table.clone() else { return Ok(0) };
    space.note_flushes(manifest);
    let newest = space.find_newest(progress)?;
    for (_, chunk, _) in newest.values() {
        space.hold_record(*chunk);
    }
    space.pages.list_found();
    let no_room = || {
        StoreError::Options("the heap has no room for its index, and gets more only while it is open".into())
    };
    if !table.has_room_for_first_page() {
        return Err(no_room());
    }
    table.make_new();
    table.know_flushes(&manifest.flush_versions);
    let index = PmIndex(table.clone());
    for ((hash, _), (_, chunk, db)) in &newest {
        let Some(address) = Address::from_raw(*chunk).filter(|_| table.keep_room()) else {
            return Err(no_room());
        };
        let key = Key { hash: *hash, db: *db, bytes: &[] };
        index.update(&key, |_| Verdict::Differs, |_| (Change::Insert(address), ()));
    }
    table.settle();
    let root = table.front_of_root();
    over.apply(root);
    Ok(newest.len() as u64)
}

impl<R: ByteRegion> HeapSpace<R> {
    /// Reads all chunks; pages of the old index are free.
    fn find_newest(&self, progress: &dyn Fn(u64, u64)) -> Result<Newest, StoreError> {
        let mut newest = Newest::new();
        let count = self.pages.table.len() as u32;
        for page in 0..count {
            let mut line = [0; LINE_BYTES];
            self.medium
                .region
                .read(self.medium.at(u64::from(page) * self.pages.page_bytes as u64), &mut line);
            let header = match PageHeader::decode(&line, self.medium.store_id, page) {
                StoredPage::Used(header) => Some(header),
                StoredPage::Index(header) => {
                    self.note_seq(header.seq);
                    None
                }
                StoredPage::Empty(header) => {
                    self.note_seq(header.map_or(0, |header| header.seq));
                    None
                }
                StoredPage::Damaged => {
                    return Err(StoreError::Corrupt(format!("page {page} of the heap is damaged")));
                }
            };
            if let Some(header) = header
                && let Some(class) = self.pages.classes.known(header.lines)
            {
                self.note_seq(header.seq);
                self.pages.set_class(page, class, header.seq);
                for chunk in 0..self.pages.chunks_in(class) {
                    self.note_newest(self.pages.offset(page, class, chunk), &mut newest);
                }
            }
            progress(u64::from(page) + 1, u64::from(count));
        }
        Ok(newest)
    }

    fn note_seq(&self, seq: u64) {
        let mut alloc = self.pages.alloc();
        alloc.seq = alloc.seq.max(seq);
    }

    fn note_newest(&self, offset: u64, newest: &mut Newest) {
        let mut bytes = [0; FRONT_BYTES];
        self.medium.region.read(self.medium.at(offset), &mut bytes);
        let (place, word) = (self.pages.place(offset), u64_at(&bytes, 0));
        let front = place.front(&bytes);
        if word == place.free() || place.sort_of(word, front.version).is_none() {
            return;
        }
        let Some((front, head)) = self.told(offset, &front) else { return };
        if let Some(head) = head {
            self.store_head(offset, head);
        }
        let Front { hash, check, version, meta, .. } = front;
        let db = meta.db() & 15;
        if version <= self.flushed[usize::from(db)].load(std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        let entry = newest.entry((hash, check)).or_insert((version, offset, db));
        if entry.0 < version {
            *entry = (version, offset, db);
        }
    }

    /// A record's chunk is taken, and those of the parts of its value.
    fn hold_record(&self, chunk: u64) {
        let take = |offset: u64| {
            if let Some((page, class, number)) = self.pages.number(offset)
                && !self.pages.table[page as usize].taken.is_set(number)
            {
                self.pages.note_taken(&mut self.pages.alloc(), page, class, number);
            }
        };
        take(chunk);
        if let Some(bytes) = self.whole(chunk)
            && let Some(view) = self.view(chunk, &bytes)
            && view.head.meta.kind() == Kind::Extent
        {
            parts(view.value).for_each(take);
        }
    }
}
