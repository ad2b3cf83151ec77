//! A store of engine `scmkv`: each word of its hash table is followed, and what its log holds beyond that is verified.

use std::sync::Arc;

use terrace_engine::StoreError;
use terrace_engine::hash::KeyHasher;
use terrace_media::{ByteRegion, SUPERBLOCK_BYTES, Superblock};
use terrace_space_scm_log::Geometry;
use terrace_space_scm_log::inspect::{Examined, Fault, NodeFault, examine, examine_log};
use terrace_space_scm_log::repair::repair;

use super::report::HeapCounts;
use super::{CheckError, CheckOptions, LISTED_MAX, Report, newest_manifest};
use crate::scm::Scm;
use crate::tiered::{self, Sizes};

/// Where a store starts in its region.
pub(super) const BASE: u64 = SUPERBLOCK_BYTES as u64;

/// Checks the store in a region, repairs it if that is asked for and needed, and checks it again.
pub(super) fn run<R: ByteRegion>(
    region: Arc<R>,
    superblock: &Superblock,
    sizes: &Sizes,
    about: Vec<String>,
    options: &CheckOptions<'_>,
) -> Result<Report, CheckError> {
    let ids = (Scm::geometry(sizes, superblock.media_bytes), tiered::store_id(superblock));
    let hasher = KeyHasher::new(superblock.hash_seed);
    let look = || look(region.clone(), ids, hasher, options);
    Ok(look_and_mend(look, || repair(region.clone(), BASE, ids, hasher), about, options.repair))
}

/// Looks at a store, repairs it if that is asked for and needed, and looks again.
pub(super) fn look_and_mend(
    look: impl Fn() -> (Report, bool),
    mend: impl FnOnce() -> Result<Vec<String>, StoreError>,
    about: Vec<String>,
    is_asked: bool,
) -> Report {
    let (mut report, mut is_mendable) = look();
    if is_asked {
        if is_mendable {
            match mend() {
                Ok(done) => {
                    (report, is_mendable) = look();
                    report.repairs = done;
                }
                Err(error) => report.beyond.push(error.to_string()),
            }
        }
        if !is_mendable || report.beyond.is_empty() {
            super::repair::tell_limits(&mut report);
        }
    }
    report.about.splice(0..0, about);
    report
}

/// What is there, and whether something is damaged that a repair makes anew.
fn look<R: ByteRegion>(
    region: Arc<R>,
    ids: (Geometry, u64),
    hasher: KeyHasher,
    options: &CheckOptions<'_>,
) -> (Report, bool) {
    let found = examine(region.clone(), BASE, ids, hasher, options.progress);
    let what = format!("table of {} buckets, {} pages of chains", ids.0.buckets, found.pages.2);
    let report = tell(region, ids, &found, what, text_of);
    let is_mended = |fault: &Fault| matches!(fault, Fault::Bucket { .. } | Fault::Page { .. } | Fault::Root);
    let is_mendable = !report.no_manifest && found.faults.iter().any(is_mended);
    (report, is_mendable)
}

/// What there is to say of a store, and of its log. `what` is what the store finds records by.
pub(super) fn tell<R: ByteRegion>(
    region: Arc<R>,
    ids: (Geometry, u64),
    found: &Examined,
    what: String,
    text_of: impl Fn(&Fault) -> String,
) -> Report {
    let mut report = Report::default();
    let Some(manifests) = found.manifests else { return report };
    let manifest = newest_manifest(manifests, true, &mut report);
    if report.no_manifest {
        return report;
    }
    let state =
        if manifest.clean { "closed cleanly" } else { "not closed: opening redoes what the log holds" };
    report.about.push(format!("manifest {}: {state}", manifest.sequence));
    report.about.push(what);
    let (pages, pages_empty, _) = found.pages;
    report.counts.heap = Some(HeapCounts { pages, pages_empty, ..HeapCounts::default() });
    report.counts.records = [found.records[0], found.records[1], 0, 0];
    (report.counts.record_bytes, report.counts.live_bytes) = (found.record_bytes, found.record_bytes);
    report.counts.keys = found.keys.iter().sum();
    (report.counts.extents, report.counts.extent_bytes) = (found.records[1], found.large_bytes);
    match examine_log(region, BASE, ids, manifest.log_floor) {
        Ok(log) => {
            report.counts.log_entries = log.entries;
            report.about.push(format!(
                "log: {} blocks in use by {} sessions, {} entries",
                log.used_blocks, log.slots, log.entries
            ));
            // What an opening counts anew is no claim.
            let is_settled =
                found.faults.is_empty() && manifest.clean && !found.is_coming && !found.is_uncertain;
            for (db, (counted, keys)) in
                found.counted.iter().zip(&found.keys).enumerate().filter(|_| is_settled)
            {
                if counted != keys {
                    let text = format!("database {db}: {counted} keys are counted, and {keys} are there");
                    report.problems.push(text);
                }
            }
        }
        Err(error) => report.problems.push(format!("{error}; the store does not open")),
    }
    for fault in &found.faults {
        let is_damaged =
            matches!(fault, Fault::Record { .. } | Fault::Node { what: NodeFault::Entry(_), .. });
        let is_value = matches!(fault, Fault::Value { .. });
        report.counts.damaged += u64::from(is_damaged);
        report.counts.poisoned += u64::from(is_damaged || is_value);
        report.large_fail += u64::from(is_value);
        let text = text_of(fault);
        if report.problems.len() < LISTED_MAX { report.problems.push(text) } else { report.unlisted += 1 }
    }
    report
}

/// A fault, for people.
pub(super) fn text_of(fault: &Fault) -> String {
    match fault {
        Fault::Record { place } => format!(
            "entry at byte {place} of the pages: damaged record; its key answers an error until SET or DEL"
        ),
        Fault::Value { place } => format!(
            "entry at byte {place} of the pages: parts of its large value are damaged; its key answers an error until SET or DEL"
        ),
        Fault::Bucket { bucket } => format!(
            "bucket {bucket} of the table is damaged: keys of it that are not found answer an error, though they may be there"
        ),
        Fault::Page { page } => {
            format!("page {page}: neither copy of what is known of it is whole; the store does not open")
        }
        Fault::Root => "no copy of the table's root is whole; the store does not open".into(),
        Fault::Node { slot, what } => super::bonsai::text_of_node(*slot, *what),
    }
}
