//! On byte-addressable media: a DAX file or device, a tmpfs file or memory that stands in for one, a NUMA node.
//!
//! The superblock is the region's first page, written last when a store is made; until then the page says that it is being made.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_blocks::ByteTier;
use terrace_engine::{Durability, MoreRoom, Store, StoreError, TierStats};
use terrace_media::superblock::MAKING;
use terrace_media::{
    ByteRegion, DirLock, HeapRegion, MapOptions, MappedRegion, Profile, SUPERBLOCK_BYTES, Superblock,
    SuperblockError, Survives,
};
use terrace_space_heap::Granularity;

use super::both::lock_unless;
use super::striped::{self, Devices};
use super::superblock::new_superblock;
use super::{Engine, Made, Opening, apart_of, check_superblock, describe, sizes, store_id, stored_bytes};
use crate::indexes::open_with;
use crate::media_source::{FoundRegion, MediaSource};
use crate::open::{Opened, Pmem};
use crate::options::{Options, Tier};
use crate::size::{Place, human_bytes};
use crate::stored::{is_no_memory, is_part_name, refuse_notes};

/// The log's share of a byte-addressable tier: long enough that the pages in DRAM rarely have to be flushed for its sake.
const LOG_SHARE: u64 = 4;
const LOG_BYTES_MAX: u64 = 1 << 30;
/// So much is looked at, or overwritten, at once.
const CHUNK: usize = 1 << 20;
/// What is stored at once and can't be torn, in bytes.
const WORD: usize = 8;
/// The file in a directory that `--pmem SIZE@DIR` names.
const FILE: &str = "pmem";

/// Emulated regions without a place: they live as long as the process, so that a store killed within it can be recovered.
static EMULATED: Mutex<Vec<(Option<PathBuf>, Arc<HeapRegion>)>> = Mutex::new(Vec::new());

/// Ends an emulated region: its store was closed.
pub(crate) fn forget_emulated(region: &Arc<HeapRegion>) {
    EMULATED.lock().retain(|(_, kept)| !Arc::ptr_eq(kept, region));
}

/// Opens a store of this engine, making it if there is none.
pub(crate) fn open<E: Engine>(
    engine: &E,
    options: &Options,
    tier: &Tier,
    source: &dyn MediaSource,
) -> Result<Opened, StoreError> {
    let profile = match &options.profile {
        None => None,
        Some(name) => Some(Profile::resolve(name).map_err(|error| StoreError::Options(error.to_string()))?),
    };
    match (&tier.place, profile) {
        (Some(Place::Path(path)), profile) => open_path(engine, source, options, tier, path, profile),
        (Some(Place::Striped(paths)), profile) => match &paths[..] {
            [path] => open_path(engine, source, options, tier, path, profile),
            paths => open_striped(engine, source, options, tier, paths, profile),
        },
        (None, None) => match &options.dir {
            Some(dir) => open_path(engine, source, options, tier, dir, None),
            None => Err(StoreError::Options(
                "--pmem needs a place: --pmem SIZE@PATH, --dir DIR, or --profile NAME".into(),
            )),
        },
        (None, Some(profile)) => {
            let region = emulated(options, tier, profile)?;
            let found = FoundRegion::new(region.clone(), region.describe(), region.promises());
            finish(engine, options, found, (Vec::new(), Made::default()), Kept::Emulated(region))
        }
        (Some(Place::Node(node)), profile) => {
            let region = HeapRegion::on_node(tier.bytes, *node, profile)
                .map_err(StoreError::io(format!("memory of NUMA node {node}")))?;
            let (description, promises) = (region.describe(), region.promises());
            let found = FoundRegion::new(Arc::new(region), description, promises);
            finish(engine, options, found, (Vec::new(), Made::default()), Kept::Nowhere)
        }
    }
}

fn emulated(options: &Options, tier: &Tier, profile: Profile) -> Result<Arc<HeapRegion>, StoreError> {
    let mut kept = EMULATED.lock();
    let reusable = kept.iter().find(|(dir, region)| {
        *dir == options.dir
            && region.len() == tier.bytes
            && Arc::strong_count(region) == 1
            && region.profile() == Some(&profile)
    });
    if let Some((_, region)) = reusable {
        return Ok(region.clone());
    }
    // What nobody uses is of another size or profile: its store is gone.
    kept.retain(|(dir, region)| *dir != options.dir || Arc::strong_count(region) > 1);
    let region = HeapRegion::with_profile(tier.bytes, Some(profile))
        .map_err(StoreError::io(format!("{} of memory", human_bytes(tier.bytes))))?;
    region.populate();
    let region = Arc::new(region);
    kept.push((options.dir.clone(), region.clone()));
    Ok(region)
}

fn open_path<E: Engine>(
    engine: &E,
    source: &dyn MediaSource,
    options: &Options,
    tier: &Tier,
    path: &Path,
    profile: Option<Profile>,
) -> Result<Opened, StoreError> {
    let (guard, found, made) = find(source, options, tier, path, profile, &[])?;
    finish(engine, options, found, (guard.into_iter().collect(), made), Kept::Nowhere)
}

fn open_striped<E: Engine>(
    engine: &E,
    source: &dyn MediaSource,
    options: &Options,
    tier: &Tier,
    paths: &[PathBuf],
    profile: Option<Profile>,
) -> Result<Opened, StoreError> {
    let striped = striped::find(source, options, tier, paths, profile)?;
    let kept = Kept::Striped(striped.devices);
    let mut opened = finish(engine, options, striped.found, (striped.locks, striped.made), kept)?;
    opened.description.extend(striped.notes);
    Ok(opened)
}

/// The file of memory that a path names: a directory has one in it.
pub(crate) fn file_at(path: &Path) -> PathBuf {
    let is_one = path.is_file() || path.metadata().is_ok_and(|m| m.file_type().is_char_device());
    if is_one { path.to_path_buf() } else { path.join(FILE) }
}

/// Maps the memory at a path, making it if there is none, and locks its directory, unless it is `held` already. What was made goes
/// with [`Made`].
///
/// # Errors
/// [`StoreError::Options`] if the path names something else, or can't be memory; [`StoreError::Corrupt`] if it is missing where
/// the store was used.
pub(super) fn find(
    source: &dyn MediaSource,
    options: &Options,
    tier: &Tier,
    path: &Path,
    profile: Option<Profile>,
    held: &[PathBuf],
) -> Result<(Option<DirLock>, FoundRegion, Made), StoreError> {
    let device = path.metadata().is_ok_and(|m| m.file_type().is_char_device());
    refuse_other_file(options, path)?;
    let guard = if device {
        // Its directory is not ours to lock.
        Some(DirLock::device(path).map_err(|error| StoreError::Options(error.to_string()))?)
    } else if path.is_file() {
        // The directory that the file is in, whatever `dir` says: another store could name another one.
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        lock_unless(dir, held)?
    } else {
        lock_unless(path, held)?
    };
    let file = file_at(path);
    let map = MapOptions { profile, accept_volatile: options.durability == Durability::None, node: None };
    let refused = |error: terrace_media::MapError| StoreError::Options(error.to_string());
    let mut made = Made::default();
    let found = if device {
        // What it holds stays.
        let bytes = stored_bytes(&MappedRegion::open(&file, &map).map_err(refused)?).unwrap_or(tier.bytes);
        source.create_region(&file, bytes, &map).map_err(refused)?
    } else if let Ok(metadata) = file.metadata() {
        // It can't even be mapped.
        if metadata.len() < SUPERBLOCK_BYTES as u64 {
            return Err(too_short(&file, metadata.len()));
        }
        source.open_region(&file, &map).map_err(refused)?
    } else {
        // Before anything is made that would be found at the next start.
        refuse_notes(options.dir.as_deref(), &file, &*options.clock)?;
        let found = source.create_region(&file, tier.bytes, &map).map_err(refused)?;
        made.add(file);
        found
    };
    Ok((guard, found, made))
}

/// Refuses a path that names something else, or where a store's memory is missing.
pub(crate) fn refuse_at_once(options: &Options, tier: &Tier) -> Result<(), StoreError> {
    for path in paths_of(options, tier) {
        refuse_other_file(options, &path)?;
        let file = file_at(&path);
        if !file.exists() {
            refuse_notes(options.dir.as_deref(), &file, &*options.clock)?;
        }
    }
    Ok(())
}

/// Where the memory of a tier is, as far as that is files or devices.
fn paths_of(options: &Options, tier: &Tier) -> Vec<PathBuf> {
    match &tier.place {
        Some(place) => place.paths().to_vec(),
        None => options.dir.iter().filter(|_| options.profile.is_none()).cloned().collect(),
    }
}

/// Refuses a path that names another part of this store, or a file that holds something else.
fn refuse_other_file(options: &Options, path: &Path) -> Result<(), StoreError> {
    let refuse = |what: &str| {
        StoreError::Options(format!(
            "--pmem SIZE@{}: that is {what}; give --pmem a file of its own, or a directory to make one in",
            path.display()
        ))
    };
    let ssd = options.ssd.as_ref().and_then(|tier| match &tier.place {
        Some(place) => place.paths().first().map(PathBuf::as_path),
        None => options.dir.as_deref(),
    });
    let beside = path.parent().and_then(|dir| dir.canonicalize().ok());
    if beside.is_some() && ssd.and_then(|dir| dir.canonicalize().ok()) == beside && is_part_name(path) {
        return Err(refuse("the name of a part of the store on --ssd"));
    }
    if path.is_file()
        && let Some(what) =
            is_no_memory(path).map_err(StoreError::io(format!("reading {}", path.display())))?
    {
        return Err(refuse(&what));
    }
    Ok(())
}

/// Where a region first holds something behind its first page.
pub(crate) fn first_used<R: ByteRegion>(region: &R) -> Option<u64> {
    let (zeros, mut bytes) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = SUPERBLOCK_BYTES as u64;
    while at < region.len() {
        let bytes = &mut bytes[..CHUNK.min((region.len() - at) as usize)];
        region.read(at, bytes);
        if *bytes != zeros[..bytes.len()] {
            return bytes.iter().position(|byte| *byte != 0).map(|found| at + found as u64);
        }
        at += bytes.len() as u64;
    }
    None
}

/// Refuses to make a store where the first page alone is blank: that is what is left of one that lost its superblock.
pub(crate) fn refuse_data<R: ByteRegion>(region: &R, place: &Path) -> Result<(), StoreError> {
    let Some(at) = first_used(region) else { return Ok(()) };
    Err(StoreError::Corrupt(format!(
        "{}: the first page, where a store has its superblock, is blank, and data begin at byte {at}: nothing was changed. If \
         a store was here, put the first {SUPERBLOCK_BYTES} bytes back from a copy of it (`terrace check` then says whether it is \
         whole; --repair can't make them anew); to make a new store, move the file away, or overwrite the device with zeros",
        place.display()
    )))
}

/// Refuses what the medium can't keep.
pub(super) fn check_promises(options: &Options, found: &FoundRegion) -> Result<(), StoreError> {
    if options.durability == Durability::Sync && found.promises < Survives::Power {
        return Err(StoreError::Options(format!(
            "{} can't keep --durability sync: it loses its bytes with the power; use batch or none, or a profile that it stands in for",
            found.description
        )));
    }
    Ok(())
}

/// Where a store has another size of a tier than was asked for, what there is to say about it; less than a slab or page is nobody's
/// business.
pub(super) fn other_size(
    (name, tier): (&str, &Tier),
    bytes: u64,
    block_bytes: u64,
    store: &dyn Store,
) -> Option<String> {
    let changes = |tier: &TierStats| tier.tier == name && tier.more_room == MoreRoom::WhileOpen;
    let how = match store.stats().tiers.iter().any(changes) {
        true => format!(" (CONFIG SET {name}-size changes it)"),
        false => ": only a new store has another".into(),
    };
    (tier.bytes.abs_diff(bytes) > block_bytes).then(|| {
        let (size, asked) = (human_bytes(bytes), human_bytes(tier.bytes));
        format!("{name:<4}  the store keeps its size, {size}, where {asked} was asked for{how}")
    })
}

/// Of an engine whose stores grow when they are opened: that one did, or why it has another size than was asked for.
fn growth(tier: &Tier, (before, now): (u64, u64), block_bytes: u64, can_be: bool) -> Option<String> {
    let (asked, size) = (human_bytes(tier.bytes), human_bytes(now));
    // Less than a page and one for its line is nobody's business.
    if now > before {
        let rest = match tier.bytes.abs_diff(now) > 2 * block_bytes {
            true => format!(", where {asked} was asked for: the next opening can make it longer"),
            false => String::new(),
        };
        return Some(format!("pmem  the store grew from {} to {size}{rest}", human_bytes(before)));
    }
    let why = match tier.bytes > now {
        true if tier.bytes - now <= 2 * block_bytes => return None,
        true if !can_be => "this memory can't be resized",
        true => "it can't be any longer",
        false if now - tier.bytes <= block_bytes => return None,
        false => "a store of this engine does not shrink; opened with a larger --pmem it grows",
    };
    Some(format!("pmem  the store keeps its size, {size}, where {asked} was asked for: {why}"))
}

/// What a region begins with: a superblock, or none yet.
pub(super) fn first_page<R: ByteRegion>(
    region: &R,
    place: &Path,
) -> Result<[u8; SUPERBLOCK_BYTES], StoreError> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    if region.len() < bytes.len() as u64 {
        return Err(too_short(place, region.len()));
    }
    region.read(0, &mut bytes);
    Ok(bytes)
}

fn too_short(place: &Path, bytes: u64) -> StoreError {
    StoreError::Corrupt(format!(
        "{}: {bytes} bytes hold no store: it was truncated (then put it back from a copy), or is another file",
        place.display()
    ))
}

/// The log's share of a region.
pub(super) fn log_share(region_bytes: u64) -> u64 {
    (region_bytes / LOG_SHARE).min(LOG_BYTES_MAX)
}

/// A store begins to be made: what the region held is gone.
pub(super) fn begin_making<R: ByteRegion>(region: &R) {
    store_word(region, MAKING);
    wipe(region);
}

/// What a region is beside its bytes.
enum Kept {
    /// Nothing.
    Nowhere,
    /// Memory that the process keeps.
    Emulated(Arc<HeapRegion>),
    /// Several devices, each with a superblock of its own.
    Striped(Devices),
}

fn finish<E: Engine>(
    engine: &E,
    options: &Options,
    found: FoundRegion,
    (locks, mut made): (Vec<DirLock>, Made),
    kept: Kept,
) -> Result<Opened, StoreError> {
    check_promises(options, &found)?;
    let FoundRegion { region, description: what, .. } = found;
    let paths = options.pmem.as_ref().map(|tier| paths_of(options, tier)).unwrap_or_default();
    let path = paths.first().map(|path| file_at(path)).unwrap_or_default();
    // What has no path is told by what it is.
    let place = match &kept {
        Kept::Striped(devices) => devices.place(),
        _ if locks.is_empty() => PathBuf::from(&what),
        _ => path.clone(),
    };
    let bytes = first_page(&*region, &place)?;
    let blank = bytes.iter().all(|b| *b == 0);
    let fresh = blank || bytes.starts_with(&MAKING);
    if blank {
        refuse_data(&*region, &place)?;
        // Memory without a place keeps nothing that could be missed.
        if !locks.is_empty() {
            refuse_notes(options.dir.as_deref(), &place, &*options.clock)?;
        }
    }
    let (superblock, stored) = if fresh {
        let log_bytes = match E::HAS_LOG {
            true => sizes::log_bytes_for(options, log_share(region.len()), ("--pmem", region.len()))?,
            false => 0,
        };
        let mut sizes = sizes::choose(options, region.len(), log_bytes)?;
        sizes.buckets = E::buckets(options, region.len());
        sizes.heap = options.heap.filter(|heap| *heap != Granularity::default());
        begin_making(&*region);
        (new_superblock::<E>(options, &sizes, region.len())?, sizes)
    } else {
        // How long the tier is, is another matter: see `tier_bytes`.
        check_superblock::<E>(&bytes, u64::MAX, &place)?
    };
    if stored.pmem_bytes.is_some() {
        return Err(StoreError::Options(format!(
            "{what} is part of a store that has files, too: give --ssd"
        )));
    }
    sizes::check_threads(options, &stored)?;
    sizes::check_heap(options, &stored)?;
    let front_bytes = SUPERBLOCK_BYTES as u64 + stored.log_bytes;
    let tier_bytes = if fresh {
        region.len()
    } else {
        let tier = engine.stored_tier_bytes(&region, front_bytes, &superblock, &stored)?;
        recorded_bytes(&*region, tier.map(|bytes| front_bytes + bytes), &superblock, &place)?
    };
    let memory = format!("pmem  {what}");
    if let (Some(tier), Some(dir)) = (&options.pmem, path.parent())
        && E::GROWS_WHEN_OPENED
        && region.len_max().is_some()
    {
        crate::refuse_too_much("PMem", tier.bytes, region.len(), dir)?;
    }
    let copies = match &kept {
        Kept::Striped(devices) => devices.copies(region.len())?,
        Kept::Nowhere | Kept::Emulated(_) => None,
    };
    let opening = Opening { engine, options, superblock: &superblock, stored, fresh, what, copies };
    let store = open_with(&options.index, &mut |index| {
        let base = SUPERBLOCK_BYTES as u64;
        opening.assemble(index, |engine, assembly| engine.open_byte(&region, base, assembly))
    })?;
    let before = tier_bytes;
    let tier_bytes = match E::GROWS_WHEN_OPENED && !fresh {
        true => engine
            .stored_tier_bytes(&region, front_bytes, &superblock, &stored)?
            .map_or(before, |bytes| front_bytes + bytes),
        false => before,
    };
    let mut lines = describe(engine, options, &stored, &memory, tier_bytes, fresh);
    if let Some(tier) = options.pmem.as_ref().filter(|_| paths.len() < 2) {
        lines.extend(match (E::GROWS_WHEN_OPENED, region.len_max()) {
            (true, longest) => growth(tier, (before, tier_bytes), stored.block_bytes, longest.is_some()),
            (false, Some(_)) => other_size(("pmem", tier), tier_bytes, stored.block_bytes, &*store),
            (false, None) => None,
        });
    }
    if fresh {
        let bytes = superblock.encode().map_err(|error| StoreError::Options(error.to_string()))?;
        write_superblock(&*region, &bytes);
        if let Kept::Striped(devices) = &kept {
            devices.name(&superblock)?;
        }
    }
    made.keep();
    let emulated = if let Kept::Emulated(region) = kept { Some(region) } else { None };
    let pmem = Some(Pmem { path, bytes: tier_bytes, front_bytes });
    Ok(Opened { store, description: lines, locks, emulated, ssd: None, pmem })
}

/// How many bytes of a region the store has, whose manifest begins at a byte of it; the region may be longer, by what a resize left
/// behind the end that a crash interrupted.
///
/// # Errors
/// [`StoreError::Options`] if it is shorter than that; [`StoreError::Io`] if it can't be read.
pub(crate) fn tier_bytes<R: ByteRegion>(
    region: &Arc<R>,
    start: u64,
    superblock: &Superblock,
    place: &Path,
) -> Result<u64, StoreError> {
    let stored = stored_blocks_bytes(region, start, superblock)?;
    recorded_bytes(&**region, stored.map(|bytes| start + bytes), superblock, place)
}

/// The same of blocks, if they say so.
pub(super) fn stored_blocks_bytes<R: ByteRegion>(
    region: &Arc<R>,
    start: u64,
    superblock: &Superblock,
) -> Result<Option<u64>, StoreError> {
    if region.len() < start + terrace_blocks::manifest_area::<ByteTier<R>>() {
        return Ok(None);
    }
    let tier = ByteTier::new(region.clone(), start, region.len() - start, String::new())
        .with_manifests_apart(apart_of(superblock));
    terrace_blocks::stored_bytes(&tier, store_id(superblock))
        .map_err(StoreError::io("reading the size of the PMem tier"))
}

fn recorded_bytes<R: ByteRegion>(
    region: &R,
    stored: Option<u64>,
    superblock: &Superblock,
    place: &Path,
) -> Result<u64, StoreError> {
    // Programs that did not know it stored none: then it has the size that it was made with.
    let recorded = stored.unwrap_or(superblock.media_bytes);
    if region.len() < recorded {
        let error = SuperblockError::TooShort { actual: region.len(), recorded };
        return Err(StoreError::Options(format!("{}: {error}", place.display())));
    }
    Ok(recorded)
}

/// Makes the first word durable; it can't be torn.
pub(super) fn store_word<R: ByteRegion>(region: &R, word: [u8; WORD]) {
    region.store_u64(0, u64::from_le_bytes(word));
    region.flush(0, WORD);
    region.fence();
}

/// Makes a superblock durable, its magic when the rest is.
pub(super) fn write_superblock<R: ByteRegion>(region: &R, bytes: &[u8; SUPERBLOCK_BYTES]) {
    let (magic, rest) = bytes.split_at(WORD);
    region.write_nt(WORD as u64, rest);
    region.fence();
    store_word(region, std::array::from_fn(|i| magic[i]));
}

/// The superblock behind [`MAKING`] counts from now on.
pub(super) fn finish_making<R: ByteRegion>(region: &R) {
    store_word(region, terrace_media::superblock::MAGIC);
}

/// A device, or a file that died while its store was made, may hold anything behind its first page.
fn wipe<R: ByteRegion>(region: &R) {
    let (zeros, mut bytes) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = SUPERBLOCK_BYTES as u64;
    while at < region.len() {
        let len = CHUNK.min((region.len() - at) as usize);
        region.read(at, &mut bytes[..len]);
        if bytes[..len] != zeros[..len] {
            region.write_nt(at, &zeros[..len]);
        }
        at += len as u64;
    }
    region.fence();
}
