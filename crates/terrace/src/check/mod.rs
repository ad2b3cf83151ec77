//! Verifies every checksum and invariant of a store that nobody has open: the format's second reader.
//!
//! ```text
//!   place: lock, superblock, media --> manifest --> blocks --+--> keys: newest version of each --> extents
//!                                                   log -----+
//!                                  repair <-- what recovery would refuse          report: counts, findings
//! ```
//!
//! It shares the decoders of the format with the engine, and none of recovery: what counts is decided here once more,
//! from `docs/formats`. Nothing is written without [`CheckOptions::repair`]: files are opened for reading only, so that a copy that
//! can't be written can be checked, and copies of memory on any file system.

mod blocks;
mod bonsai;
mod extents;
mod heap;
mod heap_index;
mod keys;
mod log;
mod place;
mod repair;
mod report;
mod scm;

use std::cell::Cell;
use std::path::Path;

use terrace_blocks::inspect::Inspector;
use terrace_blocks::{FooterEntry, Lower, Stored};
use terrace_engine::StoreError;
use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::RecordView;
use terrace_engine::version::Version;
use terrace_log::{LogDevice, LogOptions};

pub use report::{CheckError, Counts, HeapCounts, Report};

use blocks::Blocks;
use keys::{Keys, Place};

/// How far versions may be ahead of the stored time, in microseconds. The clock's time is stored ahead of its use; versions
/// run ahead of the clock where a session writes more than once in a microsecond.
const VERSION_AHEAD_US: u64 = 60_000_000;

/// Damaged records that are told one by one.
const LISTED_MAX: usize = 20;

/// How to check.
#[derive(Clone, Copy)]
pub struct CheckOptions<'a> {
    /// Make a store that recovery refuses openable again: blocks are rebuilt from what is whole in them, or given up, and
    /// a damaged log is cut.
    pub repair: bool,
    /// Called with bytes verified and bytes in all; they start again after a repair.
    pub progress: &'a dyn Fn(u64, u64),
}

impl Default for CheckOptions<'_> {
    fn default() -> Self {
        Self { repair: false, progress: &|_, _| {} }
    }
}

/// Checks the store in a directory, or in a file or device of byte-addressable media. After a repair the report tells what
/// is left.
///
/// # Errors
/// [`CheckError`] if there is no store, it is open, or a medium can't be read at all. Damage is no error: it is in the
/// report.
pub fn check(path: &Path, options: &CheckOptions<'_>) -> Result<Report, CheckError> {
    place::open(path, options)
}

/// The same of a store whose memory is striped over several files or devices, in whatever order; of one place, as [`check`].
///
/// # Errors
/// As [`check`], and if these are not the devices of one store, and all of them.
pub fn check_all<P: AsRef<Path>>(paths: &[P], options: &CheckOptions<'_>) -> Result<Report, CheckError> {
    match paths {
        [path] => place::open(path.as_ref(), options),
        paths => place::open_striped(&paths.iter().map(AsRef::as_ref).collect::<Vec<_>>(), options),
    }
}

/// A store's parts, on either kind of media.
struct Parts<L, F> {
    inspector: Inspector<L>,
    /// The log's area.
    log: F,
    log_options: LogOptions,
    log_bytes: u64,
    hasher: KeyHasher,
    store_id: u64,
    /// Whether a word is what a crash may tear, rather than a sector.
    byte_media: bool,
    /// Shows what a middle tier holds, if there is one.
    middle: Option<Box<ShowsMiddle>>,
}

/// Shows records of a middle tier: what is known of each, and itself, unless it is damaged.
type ShowsMiddle = dyn Fn(&mut dyn FnMut(&FooterEntry, Option<&[u8]>)) -> Result<(), StoreError>;

/// What is to be repaired, most of it before the store opens.
#[derive(Default)]
struct Refused {
    blocks: Vec<u32>,
    log: bool,
    /// What the last stop saved is damaged: the store opens without it.
    snapshot: bool,
}

/// Checks, repairs if that is asked for and needed, and checks again.
fn run<L: Lower, D: LogDevice>(
    parts: &Parts<L, impl Fn() -> D>,
    about: Vec<String>,
    options: &CheckOptions<'_>,
) -> Result<Report, CheckError> {
    let (mut report, refused, manifest) = examine(parts, options)?;
    if options.repair && (refused.log || refused.snapshot || !refused.blocks.is_empty()) {
        let mut done = Vec::new();
        repair::snapshot(parts, &manifest, &mut done)?;
        repair::blocks(parts, &refused.blocks, &mut done)?;
        if refused.log {
            repair::log(parts, manifest.log_floor, &mut done)?;
        }
        (report, _, _) = examine(parts, options)?;
        report.repairs = done;
    }
    if options.repair {
        repair::tell_limits(&mut report);
    }
    report.about.splice(0..0, about);
    Ok(report)
}

fn examine<L: Lower, D: LogDevice>(
    parts: &Parts<L, impl Fn() -> D>,
    options: &CheckOptions<'_>,
) -> Result<(Report, Refused, Manifest), CheckError> {
    let mut report = Report::default();
    let mut refused = Refused::default();
    let copies = parts.inspector.manifests().map_err(CheckError::reading("the manifest"))?;
    let manifest = newest_manifest(copies, parts.byte_media, &mut report);
    if !report.no_manifest {
        report.about.push(format!(
            "manifest {}: {}, blocks flushed up to {}, log needed after version {}",
            manifest.sequence,
            if manifest.clean { "closed cleanly" } else { "not closed: opening will replay the log" },
            manifest.persisted_seq,
            manifest.log_floor
        ));
    }
    refused.snapshot = !snapshot(parts, &manifest, &mut report)?;
    let total = u64::from(parts.inspector.blocks()) * parts.inspector.block_bytes() as u64 + parts.log_bytes;
    let done = Cell::new(0);
    // Blocks of large values are read with these: what was only passed over counts for nothing yet.
    let progress = |more: u64| {
        done.set(done.get() + more);
        (options.progress)(done.get().min(total), total);
    };
    progress(0);
    let mut keys = Keys::new(&manifest);
    // Before blocks: of two copies of one version it is the one that counts.
    if let Some(middle) = &parts.middle {
        let shown = middle(&mut |entry, record| {
            let view = record.and_then(RecordView::decode);
            report.counts.middle_records += 1;
            if view.is_none() {
                report.counts.damaged += 1;
                report.problems.push(format!(
                    "the middle tier: the record of version {} does not match its checksum",
                    entry.version
                ));
            }
            keys.offer(entry, view.as_ref(), Place::Middle);
        });
        if let Err(error) = shown {
            report.problems.push(format!("the middle tier: {error}; the store may not open"));
            report.middle_fails = true;
        }
    }
    let written = parts.inspector.written();
    let written = written.map_err(CheckError::reading("how many blocks were written"))?;
    let mut blocks = Blocks::new(parts.inspector.blocks(), written);
    blocks.scan(parts, &manifest, &mut keys, &mut report, &progress);
    refused.log = !log::read(parts, &manifest, &mut keys, &mut report);
    progress(parts.log_bytes);
    blocks.refuse_vanished(&keys, &mut report);
    refused.blocks = std::mem::take(&mut blocks.refused);
    versions(&manifest, keys.max_version, &mut report);
    keys.count(&mut report.counts);
    blocks.tell_damaged(&keys, &mut report);
    extents::verify(parts, &blocks, &keys, &mut report, &progress);
    progress(total);
    Ok((report, refused, manifest))
}

/// The newest manifest, the default if there is none: then nothing was ever acknowledged.
fn newest_manifest(copies: [Stored<Manifest>; 2], byte_media: bool, report: &mut Report) -> Manifest {
    let valid = copies.iter().filter_map(|copy| match copy {
        Stored::Valid(manifest) => Some(*manifest),
        Stored::Empty | Stored::Bad => None,
    });
    let newest = valid.max_by_key(|manifest| manifest.sequence);
    let bad = copies.iter().filter(|copy| **copy == Stored::Bad).count();
    if bad == 1 && newest.is_some() {
        let text = "one copy of the manifest does not match its checksum; the other one counts";
        // Within a sector nothing is torn, and a store that was closed had finished writing.
        if byte_media && newest.is_some_and(|newest| !newest.clean) {
            report.notes.push(format!("{text} (a crash may have torn it)"));
        } else {
            report.problems.push(text.into());
        }
    }
    if newest.is_none() {
        let are = if bad > 0 {
            "no copy of the manifest is whole"
        } else {
            "both copies of the manifest are blank"
        };
        report.problems.push(format!(
            "{are}, though the store was opened in full once: what is flushed is unknown; the store does not open"
        ));
        report.no_manifest = true;
    }
    newest.unwrap_or_default()
}

/// What the last stop saved of index and block table; `false` if it is damaged.
fn snapshot<L: Lower, F>(
    parts: &Parts<L, F>,
    manifest: &Manifest,
    report: &mut Report,
) -> Result<bool, CheckError> {
    let Some(slot) = manifest.snapshot else { return Ok(true) };
    let verified = parts.inspector.snapshot(slot, manifest.sequence);
    let verified = verified.map_err(CheckError::reading("the snapshot of the last stop"))?;
    let is_sound = !matches!(verified, Some(Err(_)));
    match verified {
        Some(Ok(blocks)) => {
            report.about.push(format!("snapshot of {blocks} blocks, whole: opening need not scan"));
        }
        Some(Err(why)) => {
            report
                .problems
                .push(format!("the snapshot of the last stop is damaged: {why}; opening scans instead"));
        }
        None => report.notes.push("the snapshot of the last stop was given up: opening scans".into()),
    }
    Ok(is_sound)
}

fn versions(manifest: &Manifest, newest: u64, report: &mut Report) {
    if let Some(why) = manifest.senseless(newest) {
        report.problems.push(why);
    } else if manifest.clean && newest > manifest.version_floor {
        report.problems.push(format!(
            "version {newest} exists, and the store was closed at version {}",
            manifest.version_floor
        ));
    } else if Version(newest).ticks()
        > manifest.time_us.max(Version(manifest.version_floor).ticks()).saturating_add(VERSION_AHEAD_US)
    {
        report.problems.push(format!(
            "version {newest} is of time {} us, and the stored time is {} us",
            Version(newest).ticks(),
            manifest.time_us
        ));
    }
}
