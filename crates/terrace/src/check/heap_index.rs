//! A heap that keeps its index: each entry is followed to its record, and what the heap counts is counted again. A repair makes the index
//! anew from the records.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use terrace_engine::hash::KeyHasher;
use terrace_media::{ByteRegion, SUPERBLOCK_BYTES, Superblock};
use terrace_space_heap::StoredPage;
use terrace_space_heap::inspect::{Inspector, Mended};
use terrace_space_heap::inspect_index::{Examined, Fault, examine};
use terrace_space_heap::rebuild::rebuild;

use super::report::HeapCounts;
use super::{CheckError, CheckOptions, LISTED_MAX, Report, newest_manifest};
use crate::heap::HeapPersistent;
use crate::tiered::{self, Sizes};

/// Checks the heap in a region, makes its index anew if that is asked for and needed, and checks it again.
pub(super) fn run<R: ByteRegion>(
    region: Arc<R>,
    superblock: &Superblock,
    sizes: &Sizes,
    about: Vec<String>,
    options: &CheckOptions<'_>,
) -> Result<Report, CheckError> {
    let (geometry, store_id) = (HeapPersistent::geometry(sizes), tiered::store_id(superblock));
    let base = SUPERBLOCK_BYTES as u64;
    let inspector = super::heap::inspector(region.clone(), geometry, superblock, sizes)?;
    let mut report = Report { about, ..Report::default() };
    let manifest = newest_manifest(inspector.manifests(), true, &mut report);
    if report.no_manifest {
        return Ok(report);
    }
    report.about.push(format!(
        "manifest {}: {}",
        manifest.sequence,
        if manifest.clean {
            "closed cleanly"
        } else {
            "not closed: opening makes whole what a crash left half done"
        },
    ));
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    let hasher = KeyHasher::new(superblock.hash_seed);
    let ids = (geometry, store_id);
    let look = |report: &mut Report| {
        let listed = report.problems.len();
        match examine(region.clone(), base, ids, (hasher, now_ms), &manifest, options.progress) {
            Ok(examined) => {
                tell(&examined, report);
                // What keys have lost no index brings back.
                (report.problems.len() - listed) as u64 + report.unlisted > report.counts.poisoned
            }
            Err(error) => {
                report.problems.push(format!("the store does not open: {error}"));
                true
            }
        }
    };
    let before = report.clone();
    let is_index_damaged = look(&mut report);
    if options.repair && is_index_damaged {
        let mut done = mend_pages(&inspector);
        match rebuild(region.clone(), base, ids, hasher, &manifest, options.progress) {
            Ok(keys) => {
                done.push(format!(
                    "the index was made anew, of {keys} keys; one that was being written or deleted as a crash came may be as it was before"
                ));
                report = before;
                look(&mut report);
                report.repairs = done;
            }
            Err(error) => report.beyond.push(error.to_string()),
        }
    }
    if options.repair {
        super::repair::tell_limits(&mut report);
    }
    Ok(report)
}

/// Headers that are damaged are made anew: of a page of the index, as one that is empty.
fn mend_pages<R: ByteRegion>(inspector: &Inspector<R>) -> Vec<String> {
    let images = || (0..inspector.pages()).map(|page| inspector.read(page));
    let seq = |header: &StoredPage| match header {
        StoredPage::Used(header) | StoredPage::Index(header) | StoredPage::Empty(Some(header)) => header.seq,
        StoredPage::Empty(None) | StoredPage::Damaged => 0,
    };
    let newest = images().map(|image| seq(&image.header)).max().unwrap_or(0);
    let damaged = images().filter(|image| matches!(image.header, StoredPage::Damaged));
    damaged
        .map(|image| match inspector.mend(&image, newest) {
            Mended::Header { lines, chunks } => format!(
                "page {}: its header was made anew, for chunks of {} bytes, of which {chunks} make sense",
                image.page,
                usize::from(lines) * 64
            ),
            // Pages with a map are of heaps without an index.
            Mended::Map { .. } | Mended::GivenUp => {
                format!("page {}: no record can be told in it; it is empty now", image.page)
            }
        })
        .collect()
}

fn tell(all: &Examined, report: &mut Report) {
    let (pages, pages_empty, of_index) = all.pages;
    report.about.push(format!("index of {} buckets in {of_index} pages", all.buckets));
    report.counts.heap = Some(HeapCounts { pages, pages_empty, ..HeapCounts::default() });
    report.counts.records = all.records;
    report.counts.record_bytes = all.record_bytes;
    report.counts.live_bytes = all.record_bytes;
    report.counts.keys = all.found.keys.iter().sum();
    report.counts.expired = all.expired;
    (report.counts.extents, report.counts.extent_bytes) = all.large;
    if all.flipped > 0 {
        report.notes.push(format!("{} bits of the index have flipped; opening sets them right", all.flipped));
    }
    for fault in &all.faults {
        let (is_key, text) = match fault {
            Fault::Record { chunk } => (
                true,
                format!(
                    "chunk at byte {chunk} of the heap: damaged record; its key answers an error until SET or DEL"
                ),
            ),
            Fault::Value { chunk } => {
                report.large_fail += 1;
                (
                    true,
                    format!(
                        "chunk at byte {chunk} of the heap: parts of its large value are damaged or missing; its key answers an error \
                         until SET or DEL"
                    ),
                )
            }
            Fault::Stray { chunk } => (
                false,
                format!("an entry leads to byte {chunk} of the heap, where no record of its bucket is"),
            ),
            Fault::Twice { chunk } => {
                (false, format!("two entries lead to the chunk at byte {chunk} of the heap"))
            }
            Fault::Free { chunk } => (
                false,
                format!(
                    "a key's record is in the chunk at byte {chunk} of the heap, which says that it is free"
                ),
            ),
            Fault::Line { bucket } => (
                false,
                format!(
                    "bucket {bucket} of the index is damaged: keys of it that are not found answer an error, though they may be there"
                ),
            ),
        };
        report.counts.damaged += u64::from(matches!(fault, Fault::Record { .. }));
        report.counts.poisoned += u64::from(is_key);
        if report.problems.len() < LISTED_MAX { report.problems.push(text) } else { report.unlisted += 1 }
    }
    let told = [
        (all.counted.keys, all.found.keys, "keys"),
        (all.counted.expiring, all.found.expiring, "keys that expire"),
    ];
    for (counted, found, what) in told {
        for (db, (counted, found)) in counted.iter().zip(&found).enumerate().filter(|_| all.faults.is_empty())
        {
            if counted != found {
                report
                    .problems
                    .push(format!("database {db}: {counted} {what} are counted, and {found} are there"));
            }
        }
    }
}
