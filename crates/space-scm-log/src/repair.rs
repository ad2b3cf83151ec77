//! `terrace check --repair` of a hash table (of nodes: `nodes/repair.rs`): lines of pages and buckets that are damaged are made anew from the records.
//!
//! ```text
//! lines of pages: kinds, by what the table leads to there | records of all pages | damaged buckets: the newest of each key
//! | root: all is to be counted anew
//! ```
//!
//! What it can't know: whether a record that no word leads to was deleted. The page of its tombstone may have been cleaned since. So keys
//! of a damaged bucket that were deleted long ago may be back.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{Kind as RecordKind, RecordView};
use terrace_engine::space::{Counted, Durable};
use terrace_engine::{SEAL_BYTES, StoreError};
use terrace_index::Clht;
use terrace_log::{ByteLog, Log, LogOptions};
use terrace_media::ByteRegion;

use crate::apply::{Edit, Item, Newest};
use crate::directory::Directory;
use crate::dram::Dram;
use crate::large;
use crate::layout::{Kind, Leads, PageLine};
use crate::medium::{Geometry, Medium};
use crate::open::log_of;
use crate::space::ScmSpace;
use crate::table::PmTable;
use crate::walk::whole;

pub use crate::nodes::repair::repair_ordered;

/// Frames that nothing is put into.
const FRAMES: usize = 1;

/// Repairs the store that starts at byte `base` of a region; what was done, a line each. What was done stays done if it is cut off, and
/// doing it again does the rest.
///
/// # Errors
/// If something is damaged that stands nowhere else: nothing was changed then but the lines of pages.
pub fn repair<R: ByteRegion>(
    region: Arc<R>,
    base: u64,
    (geometry, store_id): (Geometry, u64),
    hasher: KeyHasher,
) -> Result<Vec<String>, StoreError> {
    let medium = Arc::new(Medium::new(region, base, geometry, store_id));
    let lost = |what: &str| StoreError::Corrupt(format!("{what} stands nowhere else"));
    let manifest = medium.stored_manifest().ok_or_else(|| lost("the manifest"))?;
    medium.newest_root().ok_or_else(|| lost("the hash table's root"))?;
    let options = LogOptions { block_bytes: geometry.page_bytes, store_id };
    let (log, _) = Log::open(log_of(&medium), options, manifest.log_floor, 1)
        .map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let table = Arc::new(PmTable::new(medium.clone(), hasher));
    let mut done = Vec::new();
    let lost_lines = lost_lines(&medium, &table, &log)?;
    for (page, kind) in &lost_lines.pages {
        medium.save_page_line(*page, &PageLine { kind: *kind, order: 1, ..PageLine::default() });
    }
    done.extend(lost_lines.tell((Kind::Chains, "chains")));
    let dram = Arc::new(Dram::new(FRAMES, geometry.page_bytes, 0));
    let front = Arc::new(Clht::with_min_buckets(1));
    let space = ScmSpace::new(medium, table, front, dram, log, String::new());
    let _: Option<Counted> = space.reopen(&manifest)?;
    space.mend_buckets(&manifest.flush_versions, &mut done)?;
    Ok(done)
}

/// Pages of which both lines are damaged, and what they are as far as is known.
pub(crate) struct LostLines {
    pub pages: BTreeMap<u32, Kind>,
    chained: Vec<(u32, u64)>,
}

impl LostLines {
    /// Of none of them anything is known.
    pub fn new<R: ByteRegion>(medium: &Medium<R>, log: &Log<ByteLog<R>>) -> Self {
        let lost = (0..medium.pages() as u32).filter(|page| medium.page_line(*page).is_none());
        Self { pages: lost.map(|page| (page, Kind::Free)).collect(), chained: log.chained_blocks() }
    }
    /// Which use of a block a page is, if it is one of the log.
    pub fn generation(&self, page: u32) -> Option<u64> {
        self.chained.iter().find(|(block, _)| *block == page).map(|(_, generation)| *generation)
    }
    /// Whether a page is a block of the log.
    pub fn is_chained(&self, page: u32) -> bool {
        self.generation(page).is_some()
    }
    /// Something leads to this place as to what such a page holds.
    pub fn is<R: ByteRegion>(&mut self, medium: &Medium<R>, place: u64, kind: Kind) {
        let Some(page) = medium.page_of(place) else { return };
        // Blocks of the log are the log's, and who has nodes says so itself.
        if !self.is_chained(page)
            && let Some(found) = self.pages.get_mut(&page).filter(|found| **found != Kind::Nodes)
        {
            *found = kind;
        }
    }
    /// A record is there: so are the parts of its large value.
    pub fn see_parts<R: ByteRegion>(&mut self, medium: &Medium<R>, view: &RecordView<'_>) {
        if view.head.meta.kind() == RecordKind::Extent {
            large::parts(view.value).for_each(|(part, _)| self.is(medium, part, Kind::Parts));
        }
    }
    /// And the log's records are.
    ///
    /// # Errors
    /// The log's.
    pub fn see_log<R: ByteRegion>(
        &mut self,
        medium: &Medium<R>,
        log: &Log<ByteLog<R>>,
    ) -> Result<(), StoreError> {
        for (block, generation) in self.chained.clone() {
            let walked = log.walk(block, generation, whole, |entry| {
                let record = entry.bytes.get(SEAL_BYTES..).unwrap_or_default();
                if let Some(view) = RecordView::decode(record) {
                    self.see_parts(medium, &view);
                }
            });
            walked.map_err(|error| StoreError::Corrupt(error.to_string()))?;
        }
        Ok(())
    }
    /// What they are, for people: the directory's own pages by their name.
    pub fn tell(&self, (own, name): (Kind, &str)) -> Option<String> {
        let of = |kind: Kind| self.pages.values().filter(|found| **found == kind).count();
        (!self.pages.is_empty()).then(|| {
            format!(
                "{} lines of pages were made anew: {} of records, {} of {name}, {} of large values, {} free or the log's",
                self.pages.len(),
                of(Kind::Moved),
                of(own),
                of(Kind::Parts),
                of(Kind::Free),
            )
        })
    }
}

/// Pages of which both lines are damaged, and what they are by what the table and the log lead to.
fn lost_lines<R: ByteRegion>(
    medium: &Medium<R>,
    table: &PmTable<R>,
    log: &Log<ByteLog<R>>,
) -> Result<LostLines, StoreError> {
    let mut lost = LostLines::new(medium, log);
    let mut bytes = Vec::new();
    for bucket in 0..table.buckets() {
        if let Some(Leads::Chain(place)) = table.leads_of(bucket) {
            lost.is(medium, place, Kind::Chains);
        }
        for element in table.contents(bucket).elements {
            // Whoever wrote it: entries are found in such a page one by one.
            lost.is(medium, element.at(), Kind::Moved);
            if let Some(view) = medium.read_entry(element.at(), &mut bytes) {
                lost.see_parts(medium, &view);
            }
        }
    }
    lost.see_log(medium, log)?;
    Ok(lost)
}

impl<R: ByteRegion> ScmSpace<R, PmTable<R>> {
    /// Makes damaged buckets anew from the records of all pages.
    fn mend_buckets(&self, flushed: &[u64; 16], done: &mut Vec<String>) -> Result<(), StoreError> {
        let mut keeper = self.keeper.lock();
        let damaged: HashSet<u64> =
            (0..self.directory.buckets()).filter(|bucket| self.directory.contents(*bucket).is_lost).collect();
        if damaged.is_empty() && done.is_empty() {
            return Ok(());
        }
        let mut items: Vec<_> = damaged.iter().map(|bucket| item(*bucket, 0, Edit::Mend)).collect();
        let (upto, mended) = (keeper.root.upto, items.len());
        for page in 0..self.pages.table.len() as u32 {
            self.records_of(page, |place, view| {
                let hash = self.directory.hash_of(view);
                // What is newer an opening finds in the log.
                let counts = view.head.version <= upto && self.is_whole(view);
                if counts && damaged.contains(&self.directory.bucket_of(hash)) {
                    let edit = Edit::Newest(Newest { place, head: view.head });
                    items.push(item(hash, view.head.version, edit));
                }
            });
        }
        keeper.root.is_uncertain = true;
        let flushed = std::array::from_fn(|db| keeper.root.flushed[db].max(flushed[db].min(upto)));
        while !self.apply(&mut keeper, &mut items, (upto, upto), &flushed, None) {
            self.make_room(&mut keeper)?;
        }
        for page in 0..self.pages.table.len() as u32 {
            if !self.pages.page(page).kind().holds_nothing() {
                self.pages.page(page).is_exact.store(false, Relaxed);
                self.pages.save(&self.medium, page);
            }
        }
        if mended > 0 {
            done.push(format!(
                "{mended} buckets of the table were made anew from the records; keys of them that were deleted may be back"
            ));
        }
        Ok(())
    }

    /// Whether all of a record is there: its large value, too.
    fn is_whole(&self, view: &RecordView<'_>) -> bool {
        if view.head.meta.kind() != RecordKind::Extent {
            return true;
        }
        large::stored_crc(&self.medium, view.value) == large::crc_of(view.value)
    }
}

fn item(hash: u64, version: u64, edit: Edit) -> Item {
    Item { hash, version, edit }
}
