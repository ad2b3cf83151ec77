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
use crate::nodes::Nodes;
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
    let frame = frame_bytes(geometry);
    let most = (dram_bytes.min(FRAMES_BYTES_MAX) / frame as u64) as usize;
    most.min(geometry.pages() * geometry.page_bytes / 2 / frame).max(FRAMES_MIN)
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
    open_with(region, base, opening, PmTable::new, Clht::with_min_buckets(FRONT_BUCKETS))
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
    directory: impl FnOnce(Arc<Medium<AnyRegion>>, KeyHasher) -> T,
    front: T::Front,
) -> Result<Box<dyn Store>, StoreError> {
    let Opening { geometry, dram_bytes, store_id, fresh, mut machine, description, progress } = opening;
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
    let medium = Arc::new(Medium::new(region.clone(), base, geometry, store_id));
    let is_new =
        medium.is_new().map_err(|error| StoreError::Corrupt(format!("{error}; nothing was changed")))?;
    if is_new && !fresh {
        return Err(StoreError::Corrupt("the store has no manifest; nothing was changed".into()));
    }
    medium.secure_front();
    medium.agree();
    let manifest = medium.stored_manifest().unwrap_or_default();
    let (start, bytes) = medium.log_area();
    let device = ByteLog::new(region.clone(), start, bytes);
    let options = LogOptions { block_bytes: geometry.page_bytes, store_id };
    let (log, replay) = if is_new {
        (Log::create(device, options).map_err(log_error)?, None)
    } else {
        let (log, replay) =
            Log::open(device, options, manifest.log_floor, machine.threads.max(1)).map_err(log_error)?;
        (log, Some(replay))
    };
    machine.immediate = true;
    // A session that writes holds a page, and one in reserve.
    machine.sessions = machine.sessions.min(geometry.pages() / 5).max(1);
    let directory = Arc::new(directory(medium.clone(), machine.hasher));
    let front = Arc::new(front);
    let dram = Arc::new(Dram::new(frames_of(geometry, dram_bytes), frame_bytes(geometry), T::FEW_BYTES));
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

fn log_error(error: LogError) -> StoreError {
    match error {
        LogError::Io(source) => StoreError::Io { what: "opening the log".into(), source },
        LogError::Corrupt { .. } => StoreError::Corrupt(format!("{error}; nothing was changed")),
        other => StoreError::Options(format!("opening the log: {other}")),
    }
}
