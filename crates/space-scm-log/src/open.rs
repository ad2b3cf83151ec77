//! Putting a store together: table, front index, log, space, machine.

use std::marker::PhantomData;
use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::Manifest;
use terrace_engine::space::Limits;
use terrace_engine::{Machine, MachineOptions, Store, StoreError, StoreHandle};
use terrace_index::{BTree, Clht, Erased, WithStrays};
use terrace_log::{ByteLog, Log, LogError, LogOptions};
use terrace_media::{AnyRegion, ByteRegion};

use crate::directory::Directory;
use crate::dram::Dram;
use crate::index::ScmIndex;
use crate::layout::LINE_BYTES;
use crate::medium::{Geometry, Medium};
use crate::nodes::{Far, Nodes};
use crate::space::{ScmSpace, limits_of};
use crate::table::PmTable;

type ScmMachine<T> = Machine<Erased, ScmSpace<AnyRegion, T>, ByteLog<AnyRegion>>;

/// Pages that a store needs at least.
pub(crate) const PAGES_MIN: usize = 16;
/// Places in descriptions of large values have 40 bits of words.
const BYTES_MAX: u64 = 8 << 40;
/// Frames of DRAM at least, and the most bytes of them.
const FRAMES_MIN: usize = 4;
const FRAMES_BYTES_MAX: u64 = 1 << 30;
/// The most where records are in nodes: rounds are short, and DRAM is what they save.
pub const FRAMES_BYTES_MAX_ORDERED: u64 = 16 << 20;
/// A frame is no longer than a page, nor than this: it holds the longest record.
const FRAME_BYTES_MAX: usize = 128 << 10;
/// Buckets that the front index begins with.
const FRONT_BUCKETS: u64 = 1024;
/// Bytes of memory for each bucket, where nobody said how many records are expected.
const BYTES_A_BUCKET: u64 = 256;

/// However few are expected: a chain must not get longer than a page.
const BYTES_A_BUCKET_MAX: u64 = 64 << 10;

/// What a store is opened with.
pub struct Opening<'a> {
    /// What it measures; kept by whoever opens it.
    pub geometry: Geometry,
    /// Bytes that it is to have from the start of its area on: a store that has fewer grows, if the region does.
    pub wanted_bytes: u64,
    /// DRAM for records that the hash table does not lead to yet.
    pub dram_bytes: u64,
    /// The store's identity, part of every checksum.
    pub store_id: u64,
    /// Make a new store: the region must read as zeros.
    pub fresh: bool,
    /// What the machine is told.
    pub machine: MachineOptions,
    /// The medium, for people.
    pub description: String,
    /// Recovery's progress: bytes done and in all.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// The NUMA nodes that the memory lies on, if those are several; of a store of nodes alone.
    pub far: Option<Far<AnyRegion>>,
}

/// Buckets for so many records, or where nobody said how many, for a memory of so many bytes.
pub fn buckets_for(records: Option<u64>, bytes: u64) -> u64 {
    records.unwrap_or(bytes / BYTES_A_BUCKET).max(bytes / BYTES_A_BUCKET_MAX).max(64).next_power_of_two()
}

/// The longest things that a store takes.
pub fn limits(geometry: Geometry, dram_bytes: u64) -> Limits {
    let frames = frames_of(geometry, dram_bytes) as u64 * frame_bytes(geometry) as u64;
    let limits = limits_of(geometry.page_bytes, frames);
    let pages = geometry.pages() as u64 * geometry.page_bytes as u64;
    Limits { value_bytes: limits.value_bytes.min(pages / 100 * 40), ..limits }
}

fn frame_bytes(geometry: Geometry) -> usize {
    geometry.page_bytes.min(FRAME_BYTES_MAX)
}

/// As many as DRAM has room for, and as half of the pages would fill.
fn frames_of(geometry: Geometry, dram_bytes: u64) -> usize {
    frames_in(geometry, geometry.pages(), dram_bytes)
}

fn frames_in(geometry: Geometry, pages: usize, dram_bytes: u64) -> usize {
    let frame = frame_bytes(geometry);
    let most = (dram_bytes.min(FRAMES_BYTES_MAX) / frame as u64) as usize;
    most.min(pages * geometry.page_bytes / 2 / frame).max(FRAMES_MIN)
}

/// The longest things that a store of nodes takes.
pub fn limits_ordered(geometry: Geometry, dram_bytes: u64) -> Limits {
    limits(geometry, dram_bytes.min(FRAMES_BYTES_MAX_ORDERED))
}

/// Opens a store with a hash table on a region, from byte `base` on.
///
/// # Errors
/// [`StoreError::Options`] if the region is too short; [`StoreError::Corrupt`] if it can't be trusted.
pub fn open(region: &Arc<AnyRegion>, base: u64, opening: Opening<'_>) -> Result<Box<dyn Store>, StoreError> {
    open_with(
        region,
        base,
        opening,
        |medium, hasher, _| PmTable::new(medium, hasher),
        Clht::with_min_buckets(FRONT_BUCKETS),
    )
}

/// Opens a store with nodes in the order of keys; the geometry has no buckets.
///
/// # Errors
/// As [`open`].
pub fn open_ordered(
    region: &Arc<AnyRegion>,
    base: u64,
    mut opening: Opening<'_>,
) -> Result<Box<dyn Store>, StoreError> {
    let least = Nodes::<AnyRegion>::page_bytes_min();
    if opening.geometry.page_bytes < least {
        return Err(StoreError::Options(format!(
            "pages of {} bytes: a page of nodes has {least} at least",
            opening.geometry.page_bytes
        )));
    }
    opening.dram_bytes = opening.dram_bytes.min(FRAMES_BYTES_MAX_ORDERED);
    open_with(region, base, opening, Nodes::new, WithStrays::new(BTree::new()))
}

fn open_with<T: Directory<AnyRegion>>(
    region: &Arc<AnyRegion>,
    base: u64,
    opening: Opening<'_>,
    directory: impl FnOnce(Arc<Medium<AnyRegion>>, KeyHasher, Option<Far<AnyRegion>>) -> T,
    front: T::Front,
) -> Result<Box<dyn Store>, StoreError> {
    let Opening { geometry, wanted_bytes, dram_bytes, store_id, fresh, description, progress, .. } = opening;
    let (mut machine, far) = (opening.machine, opening.far);
    if !geometry.page_bytes.is_power_of_two() || geometry.page_bytes < 16 * LINE_BYTES {
        return Err(StoreError::Options(format!(
            "pages of {} bytes: give a power of two, {} at least",
            geometry.page_bytes,
            16 * LINE_BYTES
        )));
    }
    if region.len() < base + geometry.bytes || geometry.pages() < PAGES_MIN {
        return Err(StoreError::Options(format!(
            "{description}: {} bytes, and the store takes {} ({PAGES_MIN} pages at least: {})",
            region.len().saturating_sub(base),
            geometry.bytes,
            geometry.least_bytes(PAGES_MIN)
        )));
    }
    if geometry.bytes > BYTES_MAX {
        return Err(StoreError::Options(format!(
            "{description}: {} bytes, and a store of this engine has {BYTES_MAX} at most",
            geometry.bytes
        )));
    }
    let mut medium = Medium::new(region.clone(), base, geometry, store_id);
    if region.len() < base + medium.area().1 {
        return Err(StoreError::Options(format!(
            "{description}: {} bytes, and the store has grown to {}; nothing was changed",
            region.len() - base,
            medium.area().1
        )));
    }
    let is_new =
        medium.is_new().map_err(|error| StoreError::Corrupt(format!("{error}; nothing was changed")))?;
    if is_new && !fresh {
        return Err(StoreError::Corrupt("the store has no manifest; nothing was changed".into()));
    }
    medium.secure_front();
    medium.agree();
    let manifest = medium.stored_manifest().unwrap_or_default();
    let options = LogOptions { block_bytes: geometry.page_bytes, store_id };
    if !is_new {
        grow(&mut medium, wanted_bytes.min(BYTES_MAX), options, manifest.log_floor, &description)?;
    }
    let medium = Arc::new(medium);
    let device = log_of(&medium);
    let (log, replay) = if is_new {
        (Log::create(device, options).map_err(log_error)?, None)
    } else {
        let (log, replay) =
            Log::open(device, options, manifest.log_floor, machine.threads.max(1)).map_err(log_error)?;
        (log, Some(replay))
    };
    machine.immediate = true;
    // A session that writes holds a page, and one in reserve.
    machine.sessions = machine.sessions.min(medium.pages() / 5).max(1);
    let directory = Arc::new(directory(medium.clone(), machine.hasher, far));
    if let Some(is_near) = directory.is_near() {
        log.prefer(is_near);
    }
    let front = Arc::new(front);
    let dram = Arc::new(Dram::new(
        frames_in(geometry, medium.pages(), dram_bytes),
        frame_bytes(geometry),
        T::FEW_BYTES,
    ));
    let space =
        ScmSpace::new(medium, directory.clone(), front.clone(), dram.clone(), log.clone(), description);
    if is_new {
        space.make()?;
    } else if !manifest.clean {
        space.keeper.lock().unsecured = Some(0);
    }
    let index = Erased::new(ScmIndex { front, directory, dram, region: PhantomData });
    let manifest: Manifest = manifest;
    let machine: Arc<ScmMachine<T>> =
        Machine::open(machine, index, space, Some((log, replay)), manifest, progress)?;
    Ok(Box::new(StoreHandle(machine)))
}

/// The log's area.
pub(crate) fn log_of<R: ByteRegion>(medium: &Medium<R>) -> ByteLog<R> {
    let (start, bytes) = medium.log_area();
    ByteLog::new(medium.region.clone(), start, bytes).that_grows()
}

/// Makes a store longer that is asked to be, as far as its region can be. What would be refused is left as it is.
fn grow<R: ByteRegion>(
    medium: &mut Medium<R>,
    wanted: u64,
    options: LogOptions,
    log_floor: u64,
    description: &str,
) -> Result<(), StoreError> {
    let (base, before) = medium.area();
    let Some(longest) = medium.region.len_max() else { return Ok(()) };
    let wanted = wanted.min(longest.max(medium.region.len()).saturating_sub(base));
    if !medium.gains_by(wanted) || !medium.is_whole() {
        return Ok(());
    }
    terrace_log::verify(log_of(medium), options, log_floor, |_| {}).map_err(log_error)?;
    medium.grow(wanted).map_err(StoreError::io(format!(
        "{description}: growing from {before} to {wanted} bytes (asked for less, it opens as it is)"
    )))?;
    Ok(())
}

/// How many bytes the store at byte `base` of a region has, as its manifest says; `None` if no copy of that holds together.
pub fn stored_bytes<R: ByteRegion>(
    region: &Arc<R>,
    base: u64,
    geometry: Geometry,
    store_id: u64,
) -> Option<u64> {
    if region.len() < base + Medium::<R>::MANIFESTS_BYTES {
        return None;
    }
    Medium::new(region.clone(), base, geometry, store_id).stored_size()
}

fn log_error(error: LogError) -> StoreError {
    match error {
        LogError::Io(source) => StoreError::Io { what: "opening the log".into(), source },
        LogError::Corrupt { .. } => StoreError::Corrupt(format!("{error}; nothing was changed")),
        other => StoreError::Options(format!("opening the log: {other}")),
    }
}
