//! A heap: each page's header, each chunk against its word, each large value against its parts.

use std::collections::HashMap;
use std::sync::Arc;

use terrace_blocks::FooterEntry;
use terrace_blocks::inspect::footer_entry;
use terrace_engine::StoreError;
use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{Kind, Lifetime};
use terrace_engine::version::Version;
use terrace_media::{ByteRegion, SUPERBLOCK_BYTES, Superblock, SuperblockError};
use terrace_space_heap::inspect::{Chunk, Described, Inspector, Mended, Sessions};
use terrace_space_heap::{Front, Geometry, StoredPage};

use super::keys::Place;
use super::report::HeapCounts;
use super::{CheckError, CheckOptions, Keys, LISTED_MAX, Report, newest_manifest, versions};
use crate::tiered::{self, Sizes};

/// What a repair mends: what an opening would refuse, and chunks that a clean stop should not have left.
#[derive(Default)]
struct Refused {
    pages: Vec<u32>,
    /// Page and chunk.
    chunks: Vec<(u32, u64)>,
    /// Sessions of which neither copy of the intent is whole, with the newest version of a step's record that may be theirs.
    intents: Vec<(usize, u64)>,
    /// Parts of large values whose records are gone, in a store that was closed cleanly.
    nobodys: Vec<u64>,
    /// The newest use of a page.
    seq: u64,
}

impl Refused {
    fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.chunks.is_empty() && self.intents.is_empty() && self.nobodys.is_empty()
    }
}

struct Heap<R> {
    inspector: Inspector<R>,
    hasher: KeyHasher,
}

/// Reads the heap in a region, which must be as long as that says.
pub(super) fn inspector<R: ByteRegion>(
    region: Arc<R>,
    geometry: Geometry,
    superblock: &Superblock,
    sizes: &Sizes,
) -> Result<Inspector<R>, CheckError> {
    let actual = region.len();
    let inspector = Inspector::new(region, SUPERBLOCK_BYTES as u64, geometry, tiered::store_id(superblock));
    let inspector = inspector.ok_or_else(|| {
        let what = format!("pages of {} bytes: the superblock makes no sense", sizes.block_bytes);
        CheckError::Store(StoreError::Corrupt(what))
    })?;
    let recorded = inspector.region_bytes();
    if actual < recorded {
        let error = SuperblockError::TooShort { actual, recorded };
        return Err(CheckError::Store(StoreError::Options(error.to_string())));
    }
    Ok(inspector)
}

/// Checks the heap in a region, repairs it if that is asked for and needed, and checks it again.
pub(super) fn run<R: ByteRegion>(
    region: Arc<R>,
    superblock: &Superblock,
    sizes: &Sizes,
    about: Vec<String>,
    options: &CheckOptions<'_>,
) -> Result<Report, CheckError> {
    let inspector = inspector(region, crate::heap::HeapHybrid::geometry(sizes), superblock, sizes)?;
    let heap = Heap { inspector, hasher: KeyHasher::new(superblock.hash_seed) };
    let (mut report, refused) = heap.examine(options);
    if options.repair && !report.no_manifest && !refused.is_empty() {
        let done = heap.repair(&refused);
        (report, _) = heap.examine(options);
        report.repairs = done;
    }
    if options.repair {
        super::repair::tell_limits(&mut report);
    }
    report.about.splice(0..0, about);
    Ok(report)
}

impl<R: ByteRegion> Heap<R> {
    fn examine(&self, options: &CheckOptions<'_>) -> (Report, Refused) {
        let mut report = Report::default();
        let manifest = newest_manifest(self.inspector.manifests(), true, &mut report);
        if !report.no_manifest {
            report.about.push(format!(
                "manifest {}: {}",
                manifest.sequence,
                if manifest.clean {
                    "closed cleanly"
                } else {
                    "not closed: opening frees what a crash left half done"
                },
            ));
        }
        let sessions = self.inspector.sessions();
        let mut refused = Refused::default();
        let mut keys = Keys::new(&manifest);
        let pieces = self.scan(&sessions, &mut keys, &mut refused, &mut report, options.progress);
        self.sessions(&sessions, &mut refused, &mut report);
        versions(&manifest, keys.max_version, &mut report);
        keys.count(&mut report.counts);
        let nobodys = self.values(pieces, &keys, &mut report);
        if !nobodys.is_empty() {
            let text = format!("{} parts of large values are no value's: opening frees them", nobodys.len());
            if manifest.clean { &mut report.problems } else { &mut report.notes }.push(text);
        }
        refused.nobodys = if manifest.clean { nobodys } else { Vec::new() };
        (report, refused)
    }

    /// Reads every page. What it gives are parts of large values, with the values that claim them: none yet.
    fn scan(
        &self,
        sessions: &Sessions,
        keys: &mut Keys,
        refused: &mut Refused,
        report: &mut Report,
        progress: &dyn Fn(u64, u64),
    ) -> HashMap<u64, Option<u64>> {
        let (count, page_bytes) = (self.inspector.pages(), self.inspector.page_bytes() as u64);
        let mut counts = HeapCounts { pages: u64::from(count), ..HeapCounts::default() };
        let mut pieces = HashMap::new();
        let mut steps: HashMap<usize, u64> = HashMap::new();
        for page in 0..count {
            let image = self.inspector.read(page);
            match image.header {
                StoredPage::Used(header) => refused.seq = refused.seq.max(header.seq),
                StoredPage::Empty(header) => {
                    refused.seq = refused.seq.max(header.map_or(0, |header| header.seq));
                    counts.pages_empty += 1;
                }
                StoredPage::Index(_) | StoredPage::Damaged => {
                    let what = self.inspector.front_of_page();
                    report
                        .problems
                        .push(format!("page {page}: its {what} is damaged; the store does not open"));
                    refused.pages.push(page);
                }
            }
            self.inspector.chunks(&image, sessions, |offset, chunk| {
                counts.chunks += 1;
                match chunk {
                    Chunk::Free => counts.chunks_free += 1,
                    Chunk::Void => counts.chunks_void += 1,
                    Chunk::Piece => pieces.extend([(offset, None)]),
                    Chunk::Step { version } => {
                        counts.chunks_void += 1;
                        let newest = steps.entry(Version(version).slot()).or_default();
                        *newest = version.max(*newest);
                    }
                    Chunk::Damaged => {
                        report.problems.push(format!(
                            "page {page}, chunk at byte {offset} of the heap: nobody can tell what it held; the store does not open"
                        ));
                        refused.chunks.push((page, offset));
                    }
                    Chunk::Record { front, view } => {
                        let at = (offset % page_bytes) as u32;
                        let entry = match &view {
                            Some(view) => footer_entry(view, at, self.hasher),
                            None => {
                                report.counts.damaged += 1;
                                let listed = report.counts.damaged as usize <= LISTED_MAX;
                                report.unlisted += u64::from(!listed);
                                listed.then(|| report.problems.push(damaged(page, offset, &front)));
                                entry_of(&front, at)
                            }
                        };
                        let bytes = front.meta.slot_words() as u32 * 8;
                        report.counts.records[entry.kind as usize] += 1;
                        report.counts.record_bytes += u64::from(bytes);
                        keys.offer(&entry, view.as_ref(), Place::Block(page, at, bytes));
                    }
                }
            });
            progress(u64::from(page + 1) * page_bytes, u64::from(count) * page_bytes);
        }
        report.counts.heap = Some(counts);
        let lost = sessions.intents.iter().enumerate().filter(|(_, intent)| intent.is_none());
        refused.intents = lost.map(|(slot, _)| (slot, steps.get(&slot).copied().unwrap_or(0))).collect();
        pieces
    }

    fn sessions(&self, sessions: &Sessions, refused: &mut Refused, report: &mut Report) {
        for (slot, _) in &refused.intents {
            report.problems.push(format!(
                "session {slot}: neither copy of its intent is whole, so that nobody can tell which of its steps count; the store \
                 does not open"
            ));
        }
        let (first, end) = (self.inspector.page_bytes() as u64, self.inspector.pages());
        let outside = sessions.runs.iter().filter(|offset| **offset / first >= u64::from(end)).count();
        if outside > 0 {
            report
                .problems
                .push(format!("{outside} chunks of the runs lie outside the heap; opening passes them over"));
        }
    }

    /// Reads every large value. What it gives are parts that are no value's.
    fn values(&self, mut pieces: HashMap<u64, Option<u64>>, keys: &Keys, report: &mut Report) -> Vec<u64> {
        let mut bytes = Vec::new();
        for (hash, newest) in keys.living() {
            let Some(description) = &newest.description else { continue };
            bytes.clear();
            match self.value(description, &mut bytes) {
                Ok(described) => {
                    report.counts.extent_bytes += described.bytes;
                    for part in described.parts {
                        if let Some(other) = pieces.insert(part, Some(hash)).flatten() {
                            report.problems.push(format!(
                                "chunk at byte {part} of the heap: two large values have it as a part, hashes {other:016x} and {hash:016x}"
                            ));
                        }
                    }
                }
                Err(what) => {
                    report.large_fail += 1;
                    report.problems.push(format!(
                        "large value, hash {hash:016x}, database {}, version {}: {what}; its key answers an error until SET or DEL",
                        newest.db, newest.version
                    ));
                    // They are its own all the same.
                    let parts =
                        Described::decode(description).map_or_else(Vec::new, |described| described.parts);
                    pieces.extend(parts.into_iter().map(|part| (part, Some(hash))));
                }
            }
        }
        pieces.into_iter().filter(|(_, value)| value.is_none()).map(|(part, _)| part).collect()
    }

    fn value(&self, description: &[u8], bytes: &mut Vec<u8>) -> Result<Described, String> {
        let described = Described::decode(description).ok_or("its description makes no sense")?;
        for part in &described.parts {
            let left = (described.bytes as usize).saturating_sub(bytes.len());
            if !self.inspector.read_part(*part, described.number, left, bytes) {
                return Err(format!("its part at byte {part} of the heap is not there"));
            }
        }
        if bytes.len() as u64 != described.bytes {
            return Err(format!("its parts have {} bytes, and it has {}", bytes.len(), described.bytes));
        }
        let checksum = crc32c::crc32c(bytes);
        if checksum != described.checksum {
            let recorded = described.checksum;
            return Err(format!(
                "its bytes have checksum {checksum:#010x}, and {recorded:#010x} is recorded"
            ));
        }
        Ok(described)
    }

    /// Makes the heap one that opens.
    fn repair(&self, refused: &Refused) -> Vec<String> {
        let mut done = Vec::new();
        for &page in &refused.pages {
            done.push(match self.inspector.mend(&self.inspector.read(page), refused.seq) {
                Mended::Header { lines, chunks } => format!(
                    "page {page}: its header was made anew, for chunks of {} bytes, of which {chunks} make sense",
                    usize::from(lines) * 64
                ),
                Mended::Map { chunks } => format!(
                    "page {page}: its header was made anew, and its map of where chunks start; {chunks} of these make sense"
                ),
                Mended::GivenUp => {
                    format!("page {page}: nothing in it makes sense; it was given up, and what it held is lost")
                }
            });
        }
        for &(slot, version) in &refused.intents {
            self.inspector.store_intent(slot, version);
            done.push(format!(
                "session {slot}: its intent was set so that all of its steps count; one that the crash cut short may be there in part"
            ));
        }
        // With what the pages and intents are now.
        let (_, left) = self.examine(&CheckOptions::default());
        for &(page, offset) in &left.chunks {
            self.inspector.give_up(&self.inspector.read(page), offset);
            done.push(format!(
                "chunk at byte {offset} of the heap: it was freed; if it held a record, that key is missing now"
            ));
        }
        // With what the chunks are now: the record of a large value may have been among them.
        let nobodys =
            if left.chunks.is_empty() { left } else { self.examine(&CheckOptions::default()).1 }.nobodys;
        for &offset in &nobodys {
            let page = offset / self.inspector.page_bytes() as u64;
            self.inspector.give_up(&self.inspector.read(page as u32), offset);
        }
        if !nobodys.is_empty() {
            done.push(format!("{} parts of large values whose records are gone were freed", nobodys.len()));
        }
        done
    }
}

fn damaged(page: u32, offset: u64, front: &Front) -> String {
    format!(
        "page {page}, chunk at byte {offset} of the heap: damaged record, hash {:016x}, database {}, version {}; if it is its \
         key's newest, the key answers an error until SET or DEL",
        front.hash,
        front.meta.db(),
        front.version
    )
}

fn entry_of(front: &Front, offset: u32) -> FooterEntry {
    FooterEntry {
        hash: front.hash,
        version: front.version,
        check: front.check,
        offset,
        // What it was is as unsure as the rest.
        kind: Kind::Poison,
        db: front.meta.db(),
        life: Lifetime { expire_at: front.expire_at, alone: front.meta.is_alone() },
    }
}
