//! A heap that keeps its index: each entry is followed to its record, and what the heap counts is counted again.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use terrace_engine::StoreError;
use terrace_engine::hash::KeyHasher;
use terrace_media::{ByteRegion, SUPERBLOCK_BYTES, Superblock, SuperblockError};
use terrace_space_heap::inspect::Inspector;
use terrace_space_heap::inspect_index::{Examined, Fault, examine};

use super::report::HeapCounts;
use super::{CheckError, CheckOptions, LISTED_MAX, Report, newest_manifest};
use crate::heap::HeapPersistent;
use crate::tiered::{self, Sizes};

/// Checks the heap in a region. Nothing is repaired but what an opening repairs.
pub(super) fn run<R: ByteRegion>(
    region: Arc<R>,
    superblock: &Superblock,
    sizes: &Sizes,
    about: Vec<String>,
    options: &CheckOptions<'_>,
) -> Result<Report, CheckError> {
    let (geometry, store_id) = (HeapPersistent::geometry(sizes), tiered::store_id(superblock));
    let base = SUPERBLOCK_BYTES as u64;
    let inspector = Inspector::new(region.clone(), base, geometry, store_id).ok_or_else(|| {
        let what = format!("pages of {} bytes: the superblock makes no sense", sizes.block_bytes);
        CheckError::Store(StoreError::Corrupt(what))
    })?;
    if region.len() < inspector.region_bytes() {
        let error = SuperblockError::TooShort { actual: region.len(), recorded: inspector.region_bytes() };
        return Err(CheckError::Store(StoreError::Options(error.to_string())));
    }
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
    match examine(region, base, (geometry, store_id), (hasher, now_ms), &manifest, options.progress) {
        Ok(examined) => tell(&examined, &mut report),
        Err(error) => report.problems.push(format!("the store does not open: {error}")),
    }
    if options.repair && !report.is_clean() {
        report.beyond.push(
            "an index in a heap is not built anew: SET or DEL of a key that answers an error mends that key; put what does not open \
             back from a copy of the store"
                .into(),
        );
    }
    Ok(report)
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
