//! Finding a store's media and opening them, for nobody else and, unless there is a repair, to be read only.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use terrace_blocks::inspect::Inspector;
use terrace_blocks::{BlockTier, ByteTier, Lower};
use terrace_engine::StoreError;
use terrace_engine::clock::SystemClock;
use terrace_engine::hash::KeyHasher;
use terrace_log::{BlockLog, ByteLog, LogOptions};
use terrace_media::superblock::MAKING;
use terrace_media::{
    BlockDevice, BlockFile, BlockFileOptions, ByteRegion, DirLock, MapError, MapOptions, MappedRegion,
    PlaceKind, SUPERBLOCK_BYTES, Superblock,
};
use terrace_space_slab::{Eviction, Placement, SlabOptions, Swap};

use super::{CheckError, CheckOptions, Parts, Report, run};
use crate::heap::{HeapHybrid, HeapPersistent};
use crate::hetermm::Hetermm;
use crate::scm::{Bonsai, Scm};
use crate::size::human_bytes;
use crate::stored::{is_no_memory, refuse_notes};
use crate::tac::Tac;
use crate::tiered::{self, Engine, Sizes};

/// Checks whatever store is at a path.
pub(super) fn open(path: &Path, options: &CheckOptions<'_>) -> Result<Report, CheckError> {
    let none = |why: &str| CheckError::NoStore { path: path.into(), why: why.into() };
    let Ok(metadata) = path.metadata() else { return Err(none("there is no such file or directory")) };
    if !metadata.is_dir() {
        if metadata.is_file() {
            let what = is_no_memory(path).map_err(CheckError::reading(path.display().to_string()))?;
            if let Some(what) = what {
                return Err(none(&format!("that is {what}; a store on files is checked by its directory")));
            }
        }
        // A device's directory is not the store's.
        let _lock = match path.parent() {
            Some(dir) if metadata.is_file() => lock(dir, options)?,
            _ => lock_device(path, options)?,
        };
        return on_region(path, options);
    }
    // Only then is the directory ours to put a lock file in.
    let (block, byte) = (path.join("superblock"), path.join("pmem"));
    if block.exists() {
        let _lock = lock(path, options)?;
        return on_files(path, options);
    }
    if byte.exists() {
        let _lock = lock(path, options)?;
        return on_region(&byte, options);
    }
    // What is left of a store is told, and what to do about it.
    tiered::block::refuse_to_make_over(path)?;
    refuse_notes(Some(path), path, &SystemClock)?;
    Err(none("neither a file superblock nor a file pmem"))
}

/// Checks the store whose memory is striped over these.
pub(super) fn open_striped(paths: &[&Path], options: &CheckOptions<'_>) -> Result<Report, CheckError> {
    let (mut locks, mut held, mut devices) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        let file = tiered::byte::file_at(path);
        if !file.exists() {
            let why = "there is no such file or device, or directory with one".into();
            return Err(CheckError::NoStore { path: path.to_path_buf(), why });
        }
        match file.parent() {
            Some(dir) if file.is_file() => {
                let real = dir.canonicalize().unwrap_or_default();
                if !held.contains(&real) {
                    locks.extend(lock(dir, options)?);
                    held.push(real);
                }
            }
            _ => locks.extend(lock_device(&file, options)?),
        }
        let region = map(&file, options)?;
        devices.push((file, Arc::new(region)));
    }
    let (region, order) = tiered::striped::assemble(devices)?;
    let place = order.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",");
    let report = on_mapped(region, Path::new(&place), options);
    drop(locks);
    report
}

/// The superblock in these bytes, of an engine whose blocks and log can be checked.
fn superblock(
    bytes: &[u8; SUPERBLOCK_BYTES],
    media_bytes: u64,
    place: &Path,
) -> Result<(Superblock, Sizes), StoreError> {
    match Superblock::decode(bytes) {
        Ok(superblock) if superblock.engine == Tac::NAME => {
            tiered::check_superblock::<Tac>(bytes, media_bytes, place)
        }
        Ok(superblock) if superblock.engine == HeapHybrid::NAME => {
            tiered::check_superblock::<HeapHybrid>(bytes, media_bytes, place)
        }
        Ok(superblock) if superblock.engine == HeapPersistent::NAME => {
            tiered::check_superblock::<HeapPersistent>(bytes, media_bytes, place)
        }
        Ok(superblock) if superblock.engine == Scm::NAME => {
            tiered::check_superblock::<Scm>(bytes, media_bytes, place)
        }
        Ok(superblock) if superblock.engine == Bonsai::NAME => {
            tiered::check_superblock::<Bonsai>(bytes, media_bytes, place)
        }
        _ => tiered::check_superblock::<Hetermm>(bytes, media_bytes, place),
    }
}

/// Keeps others from writing; who only looks writes nothing for that, and keeps nobody else from looking.
fn lock(dir: &Path, options: &CheckOptions<'_>) -> Result<Option<DirLock>, CheckError> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    Ok(if options.repair { Some(DirLock::acquire(dir)?) } else { DirLock::look(dir)? })
}

fn lock_device(path: &Path, options: &CheckOptions<'_>) -> Result<Option<DirLock>, CheckError> {
    Ok(Some(if options.repair { DirLock::device(path)? } else { DirLock::look_at(path)? }))
}

fn file(
    dir: &Path,
    (name, direct): (&str, bool),
    options: &CheckOptions<'_>,
) -> Result<Arc<BlockFile>, CheckError> {
    let path = dir.join(name);
    let how = BlockFileOptions { direct, ring: false, prewrite: false };
    let opened = if options.repair { BlockFile::open(&path, &how) } else { BlockFile::look(&path, &how) };
    opened.map(Arc::new).map_err(CheckError::reading(path.display().to_string()))
}

/// What there is to say of a store that holds nothing.
const UNUSED: &str = "the store was made and never opened in full: it holds nothing";
/// And of one whose marker is gone.
const UNMARKED: &str =
    "the marker `formatted` is missing, and the manifest is there: opening writes the marker again";

fn on_files(dir: &Path, options: &CheckOptions<'_>) -> Result<Report, CheckError> {
    let path = dir.join("superblock");
    let mut bytes = [0; SUPERBLOCK_BYTES];
    std::fs::File::open(&path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(CheckError::reading(path.display().to_string()))?;
    let (superblock, sizes) = superblock(&bytes, u64::MAX, &path)?;
    let about = about(&superblock, &sizes, &format!("{} (block media)", dir.display()));
    let data = file(dir, ("data", true), options)?;
    if sizes.pmem_bytes.is_some() {
        return on_both(dir, options, (&superblock, &sizes), about, data);
    }
    let log = file(dir, ("log", false), options)?;
    tiered::block::data_bytes(&data, &superblock, dir)?;
    tiered::block::refuse_short_log(dir, log.len(), sizes.log_bytes)?;
    if tiered::block::is_unused(dir, &superblock, &data, Some(&log))? {
        return Ok(Report { about, notes: vec![UNUSED.into()], ..Report::default() });
    }
    let log = || BlockLog::new(log.clone(), 0, log.len());
    let tier = BlockTier::new(data, 0, String::new()).with_manifests_apart(sizes.apart());
    let report = run(&parts(tier, log, &superblock, &sizes, false)?, about, options)?;
    Ok(with_marker(dir, report))
}

/// Tells if the marker is missing.
fn with_marker(dir: &Path, mut report: Report) -> Report {
    if !tiered::block::is_marked(dir) {
        report.notes.push(UNMARKED.into());
    }
    report
}

/// A store on both kinds of media: its directory, and the memory that this names.
fn on_both(
    dir: &Path,
    options: &CheckOptions<'_>,
    (superblock, sizes): (&Superblock, &Sizes),
    mut about: Vec<String>,
    data: Arc<BlockFile>,
) -> Result<Report, CheckError> {
    // A copy has it beside the rest.
    let beside = Some(dir.join("pmem")).filter(|file| file.is_file());
    let path = match beside {
        Some(path) => path,
        None => tiered::both::region_of(dir).map_err(CheckError::reading(format!(
            "{}, which says where the memory is (or lay its file beside, as {})",
            dir.join(tiered::both::PLACE).display(),
            dir.join("pmem").display()
        )))?,
    };
    let held = dir.canonicalize().ok();
    let beside = path.parent().and_then(|dir| dir.canonicalize().ok());
    let _lock = match path.parent() {
        Some(_) if beside == held => None,
        Some(dir) if path.is_file() => lock(dir, options)?,
        _ => lock_device(&path, options)?,
    };
    let region = map(&path, options)?;
    let mut bytes = [0; SUPERBLOCK_BYTES];
    let start = SUPERBLOCK_BYTES as u64 + sizes.log_bytes;
    if start > region.len() {
        let text = format!("{}: its log alone takes {} bytes", path.display(), sizes.log_bytes);
        return Err(CheckError::Store(StoreError::Corrupt(text)));
    }
    region.read(0, &mut bytes);
    let blank = bytes.iter().all(|byte| *byte == 0);
    let unmade = blank && tiered::byte::first_used(&region).is_none();
    if (bytes.starts_with(&MAKING) || unmade) && tiered::block::is_unused(dir, superblock, &data, None)? {
        return Ok(Report { about, notes: vec![UNUSED.into()], ..Report::default() });
    }
    // How long the region is to be stands with the data.
    let (other, _) = tiered::check_superblock::<Tac>(&bytes, u64::MAX, &path)?;
    if other.identity != superblock.identity {
        let text = format!("{} is part of another store than {}", path.display(), dir.display());
        return Err(CheckError::Store(StoreError::Options(text)));
    }
    about.push(format!("memory   {}", path.display()));
    let region = Arc::new(region);
    tiered::block::data_bytes(&data, superblock, dir)?;
    let log = || ByteLog::new(region.clone(), SUPERBLOCK_BYTES as u64, sizes.log_bytes);
    tiered::both::region_bytes((&*region, start), &data, superblock, &path)?;
    let tier = || BlockTier::new(data.clone(), 0, String::new()).with_manifests_apart(sizes.apart());
    let slabs = SlabOptions {
        block_bytes: sizes.block_bytes as usize,
        dram_bytes: 0,
        dram_budget: None,
        store_id: tiered::store_id(superblock),
        placement: Placement::default(),
        eviction: Eviction::default(),
        swap: Swap::default(),
        partitions: 1,
    };
    let (memory, below) = (region.clone(), tier());
    let mut parts = parts(tier(), log, superblock, sizes, false)?;
    parts.middle =
        Some(Box::new(move |show| terrace_space_slab::read_middle((&memory, start), &below, &slabs, show)));
    Ok(with_marker(dir, run(&parts, about, options)?))
}

/// Maps memory, whatever it promises: nothing is promised here. A device may be longer than the store on it.
fn map(path: &Path, options: &CheckOptions<'_>) -> Result<MappedRegion, CheckError> {
    let how = MapOptions { profile: None, accept_volatile: true, node: None };
    let region = match options.repair {
        false => MappedRegion::look(path)?,
        true => MappedRegion::open(path, &how).map_err(|error| match error {
            MapError::NotByteAddressable { path, filesystem } => CheckError::Store(StoreError::Options(format!(
                "{} is a copy, on {filesystem}, which has no DAX: it can be checked, and repaired only where it can be used; put \
                 it back first",
                path.display()
            ))),
            other => other.into(),
        })?,
    };
    Ok(match tiered::stored_bytes(&region).filter(|bytes| *bytes < region.len()) {
        Some(bytes) if region.kind() == PlaceKind::DevDax => region.limited(bytes),
        _ => region,
    })
}

fn on_region(path: &Path, options: &CheckOptions<'_>) -> Result<Report, CheckError> {
    on_mapped(map(path, options)?, path, options)
}

fn on_mapped<R: ByteRegion>(
    region: R,
    path: &Path,
    options: &CheckOptions<'_>,
) -> Result<Report, CheckError> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    if region.len() < bytes.len() as u64 {
        return Err(CheckError::NoStore { path: path.into(), why: "it is too short for one".into() });
    }
    region.read(0, &mut bytes);
    if bytes.starts_with(&MAKING) {
        let why = "it was never finished: it holds nothing, and the next start makes it again".into();
        return Err(CheckError::NoStore { path: path.into(), why });
    }
    if bytes.iter().all(|byte| *byte == 0) {
        tiered::byte::refuse_data(&region, path)?;
        let why = "its first page is empty: a store that is being made has one only at the end".into();
        return Err(CheckError::NoStore { path: path.into(), why });
    }
    let (superblock, sizes) = superblock(&bytes, u64::MAX, path)?;
    if sizes.pmem_bytes.is_some() {
        let why = "it is part of a store that has files, too: check their directory".into();
        return Err(CheckError::NoStore { path: path.into(), why });
    }
    if superblock.engine == HeapHybrid::NAME {
        let about = about(&superblock, &sizes, &format!("{} (byte-addressable media)", path.display()));
        return super::heap::run(Arc::new(region), &superblock, &sizes, about, options);
    }
    if superblock.engine == HeapPersistent::NAME {
        let about = about(&superblock, &sizes, &format!("{} (byte-addressable media)", path.display()));
        return super::heap_index::run(Arc::new(region), &superblock, &sizes, about, options);
    }
    if superblock.engine == Scm::NAME || superblock.engine == Bonsai::NAME {
        let region = Arc::new(region);
        let stored = terrace_space_scm_log::stored_bytes(
            &region,
            SUPERBLOCK_BYTES as u64,
            // Of both engines: the hash table has no say in where the manifest is.
            Scm::geometry(&sizes, superblock.media_bytes),
            tiered::store_id(&superblock),
        );
        let recorded = stored.map_or(superblock.media_bytes, |bytes| bytes + SUPERBLOCK_BYTES as u64);
        if region.len() < recorded {
            let text = format!(
                "{}: {} bytes, and {recorded} are recorded: it was truncated",
                path.display(),
                region.len(),
            );
            return Err(CheckError::Store(StoreError::Corrupt(text)));
        }
        let now = Superblock { media_bytes: recorded, ..superblock.clone() };
        let about = about(&now, &sizes, &format!("{} (byte-addressable media)", path.display()));
        return if superblock.engine == Scm::NAME {
            super::scm::run(region, &superblock, &sizes, about, options)
        } else {
            super::bonsai::run(region, &superblock, &sizes, about, options)
        };
    }
    let start = SUPERBLOCK_BYTES as u64 + sizes.log_bytes;
    if start >= region.len() {
        let text = format!("{}: its log alone takes {} bytes", path.display(), sizes.log_bytes);
        return Err(CheckError::Store(StoreError::Corrupt(text)));
    }
    let about = about(&superblock, &sizes, &format!("{} (byte-addressable media)", path.display()));
    let region = Arc::new(region);
    tiered::byte::tier_bytes(&region, start, &superblock, path)?;
    let tier = ByteTier::new(region.clone(), start, region.len() - start, String::new())
        .with_manifests_apart(sizes.apart());
    let log = || ByteLog::new(region.clone(), SUPERBLOCK_BYTES as u64, sizes.log_bytes);
    run(&parts(tier, log, &superblock, &sizes, true)?, about, options)
}

fn parts<L: Lower, F>(
    tier: L,
    log: F,
    superblock: &Superblock,
    sizes: &Sizes,
    byte_media: bool,
) -> Result<Parts<L, F>, CheckError> {
    let store_id = tiered::store_id(superblock);
    let inspector = Inspector::new(tier, sizes.block_bytes as usize, store_id).ok_or_else(|| {
        StoreError::Corrupt(format!("blocks of {} bytes: the superblock makes no sense", sizes.block_bytes))
    })?;
    Ok(Parts {
        inspector,
        log,
        log_options: LogOptions { block_bytes: sizes.log_block_bytes as usize, store_id },
        log_bytes: sizes.log_bytes,
        hasher: KeyHasher::new(superblock.hash_seed),
        store_id,
        byte_media,
        middle: None,
    })
}

fn about(superblock: &Superblock, sizes: &Sizes, place: &str) -> Vec<String> {
    vec![
        format!("store    {place}, engine {}", superblock.engine),
        format!(
            "sizes    {} of media in blocks of {}, log {} in blocks of {}",
            human_bytes(superblock.media_bytes),
            human_bytes(sizes.block_bytes),
            human_bytes(sizes.log_bytes),
            human_bytes(sizes.log_block_bytes)
        ),
    ]
}
