//! Putting a store together: index, heap, machine.

use std::sync::Arc;

use terrace_engine::manifest::Manifest;
use terrace_engine::space::{Limits, Records};
use terrace_engine::{Machine, MachineOptions, Store, StoreError, StoreHandle};
use terrace_index::{Erased, Index, MakeIndex};
use terrace_log::ByteLog;
use terrace_media::{AnyRegion, ByteRegion, HeapRegion};

use crate::layout::LINE_BYTES;
use crate::medium::{Geometry, Medium};
use crate::space::HeapSpace;
use crate::table::{HEAP_BYTES_MAX, PmIndex};

type HeapMachine<I> = Machine<I, HeapSpace<AnyRegion>, ByteLog<HeapRegion>>;

/// Pages that a heap needs at least.
pub(crate) const PAGES_MIN: usize = 4;

/// What a store is opened with.
pub struct Opening<'a> {
    /// What the heap measures; kept by whoever opens it.
    pub geometry: Geometry,
    /// DRAM for index and tables.
    pub dram_bytes: u64,
    /// The store's identity, part of every header.
    pub store_id: u64,
    /// Make a new store: the region must read as zeros.
    pub fresh: bool,
    /// What the machine is told.
    pub machine: MachineOptions,
    /// Makes an empty index.
    pub index: MakeIndex<'a>,
    /// The medium, for people.
    pub description: String,
    /// Recovery's progress: bytes done and in all.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// The longest things that a heap of so many bytes takes.
pub fn limits(geometry: Geometry, bytes: u64) -> Limits {
    let region = HeapRegion::new(bytes);
    let unlimited =
        Limits { key_bytes: 0, inline_bytes: 0, value_bytes: 0, group_bytes: 0, short_group_bytes: 0 };
    region.map_or(unlimited, |region| {
        let medium = Medium::new(Arc::new(region), 0, geometry, 1);
        HeapSpace::new(medium, bytes, terrace_engine::hash::KeyHasher::new(0), 0, String::new()).limits()
    })
}

/// How long a region is to be for the heap that starts at byte `base` of it, as the heap says itself; `None` if it says nothing.
pub fn stored_bytes(region: &Arc<AnyRegion>, base: u64, geometry: Geometry, store_id: u64) -> Option<u64> {
    let is_there = region.len() >= base + geometry.front_bytes();
    let medium = is_there.then(|| Medium::new(region.clone(), base, geometry, store_id))?;
    medium.stored_manifest().map(|(_, bytes)| bytes)
}

/// Opens a store on a region, from byte `base` to its end.
///
/// # Errors
/// [`StoreError::Options`] if the region is too short; [`StoreError::Corrupt`] if it can't be trusted.
pub fn open(region: &Arc<AnyRegion>, base: u64, opening: Opening<'_>) -> Result<Box<dyn Store>, StoreError> {
    if opening.geometry.index_load.is_some() {
        return Ok(Box::new(StoreHandle(open_with_table(region, base, opening)?)));
    }
    Ok(match opening.index {
        MakeIndex::Clht(index) => Box::new(StoreHandle(open_with(region, base, opening, index())?)),
        MakeIndex::Other(index) => Box::new(StoreHandle(open_with(region, base, opening, index())?)),
    })
}

fn open_with<I: Index>(
    region: &Arc<AnyRegion>,
    base: u64,
    opening: Opening<'_>,
    index: I,
) -> Result<Arc<HeapMachine<I>>, StoreError> {
    let (machine, space, manifest, progress) = space_of(region, base, opening)?;
    Machine::open(machine, index, space, None, manifest, progress)
}

/// With the index that the heap keeps.
fn open_with_table(
    region: &Arc<AnyRegion>,
    base: u64,
    opening: Opening<'_>,
) -> Result<Arc<HeapMachine<Erased>>, StoreError> {
    let (machine, space, manifest, progress) = space_of(region, base, opening)?;
    let Some(table) = space.table.clone() else { panic!("the geometry has room for an index") };
    Machine::open(machine, Erased::new(PmIndex(table)), space, None, manifest, progress)
}

type Parts<'a> = (MachineOptions, HeapSpace<AnyRegion>, Manifest, &'a (dyn Fn(u64, u64) + Sync));

/// What a machine is made of.
fn space_of<'a>(region: &Arc<AnyRegion>, base: u64, opening: Opening<'a>) -> Result<Parts<'a>, StoreError> {
    let Opening { geometry, dram_bytes, store_id, fresh, mut machine, description, progress, .. } = opening;
    if !geometry.page_bytes.is_multiple_of(LINE_BYTES) || geometry.page_bytes < 8 * LINE_BYTES {
        return Err(StoreError::Options(format!(
            "pages of {} bytes: give some of {LINE_BYTES}",
            geometry.page_bytes
        )));
    }
    let medium = Medium::new(region.clone(), base, geometry, store_id);
    let stored = medium.stored_manifest();
    // Before its first manifest a heap has all of its region.
    let bytes = stored.map_or(region.len(), |(_, bytes)| bytes);
    if region.len() < bytes {
        return Err(StoreError::Options(format!(
            "{description}: it holds {} bytes, but {bytes} are recorded: it was truncated, or a part is missing; put it back from a copy \
             of the store",
            region.len()
        )));
    }
    let pages = medium.pages_in(bytes);
    if pages < PAGES_MIN {
        let least = base + geometry.front_bytes() + (PAGES_MIN * geometry.page_bytes) as u64;
        return Err(StoreError::Options(format!("a heap of {bytes} bytes: at least {least} are needed")));
    }
    if geometry.index_load.is_some() && bytes > HEAP_BYTES_MAX {
        return Err(StoreError::Options(format!(
            "a heap of {bytes} bytes: one with its index has {HEAP_BYTES_MAX} at most"
        )));
    }
    machine.immediate = true;
    machine.sessions = machine.sessions.min(geometry.sessions - 1);
    let is_new =
        medium.is_new().map_err(|error| StoreError::Corrupt(format!("{error}; nothing was changed")))?;
    if is_new && !fresh {
        return Err(StoreError::Corrupt("the heap has no manifest; nothing was changed".into()));
    }
    medium.secure_front();
    medium.agree();
    let manifest = stored.map_or_else(Manifest::default, |(manifest, _)| manifest);
    let space = HeapSpace::new(medium, bytes, machine.hasher, dram_bytes, description);
    *space.manifest.lock() = (manifest.encode(), bytes);
    space.note_flushes(&manifest);
    if is_new {
        space.make();
    }
    Ok((machine, space, manifest, progress))
}
