//! Finding a store's media and opening them for nobody else.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use terrace_blocks::inspect::Inspector;
use terrace_blocks::{BlockTier, ByteTier, Lower};
use terrace_engine::StoreError;
use terrace_engine::hash::KeyHasher;
use terrace_log::{BlockLog, ByteLog, LogOptions};
use terrace_media::{
    BlockDevice, BlockFile, BlockFileOptions, ByteRegion, DirLock, MapOptions, MappedRegion, PlaceKind,
    SUPERBLOCK_BYTES, Superblock,
};
use terrace_space_slab::{Eviction, Placement, SlabOptions, Swap};

use super::{CheckError, CheckOptions, Parts, Report, run};
use crate::hetermm::Hetermm;
use crate::size::human_bytes;
use crate::tac::Tac;
use crate::tiered::{self, Engine, Sizes};

/// Checks whatever store is at a path.
pub(super) fn open(path: &Path, options: &CheckOptions<'_>) -> Result<Report, CheckError> {
    let none = |why: &str| CheckError::NoStore { path: path.into(), why: why.into() };
    let Ok(metadata) = path.metadata() else { return Err(none("there is no such file or directory")) };
    if !metadata.is_dir() {
        // A device's directory is not the store's.
        let _lock = match path.parent() {
            Some(dir) if metadata.is_file() => lock(dir)?,
            _ => DirLock::device(path)?,
        };
        return on_region(path, options);
    }
    // Only then is the directory ours to put a lock file in.
    let (block, byte) = (path.join("superblock"), path.join("pmem"));
    if block.exists() {
        let _lock = lock(path)?;
        return on_files(path, options);
    }
    if byte.exists() {
        let _lock = lock(path)?;
        return on_region(&byte, options);
    }
    Err(none("neither a file superblock nor a file pmem"))
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
        _ => tiered::check_superblock::<Hetermm>(bytes, media_bytes, place),
    }
}

fn lock(dir: &Path) -> Result<DirLock, CheckError> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    Ok(DirLock::acquire(dir)?)
}

fn on_files(dir: &Path, options: &CheckOptions<'_>) -> Result<Report, CheckError> {
    let path = dir.join("superblock");
    let mut bytes = [0; SUPERBLOCK_BYTES];
    std::fs::File::open(&path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(CheckError::reading(path.display().to_string()))?;
    let (superblock, sizes) = superblock(&bytes, u64::MAX, &path)?;
    let about = about(&superblock, &sizes, &format!("{} (block media)", dir.display()));
    if !dir.join("formatted").exists() {
        let note = "the store was made and never opened in full: it holds nothing".into();
        return Ok(Report { about, notes: vec![note], ..Report::default() });
    }
    if sizes.pmem_bytes.is_some() {
        return on_both(dir, options, (&superblock, &sizes), about);
    }
    let file = |name: &str, direct| {
        let path = dir.join(name);
        BlockFile::open(&path, &BlockFileOptions { direct, ring: false, prewrite: false })
            .map(Arc::new)
            .map_err(CheckError::reading(path.display().to_string()))
    };
    let (log, data) = (file("log", false)?, file("data", true)?);
    tiered::block::data_bytes(&data, &superblock, dir)?;
    if log.len() < sizes.log_bytes / 4096 * 4096 {
        return Err(CheckError::Store(StoreError::Options(format!(
            "{}: {} bytes are recorded, and it holds {}: it was truncated",
            dir.join("log").display(),
            sizes.log_bytes,
            log.len()
        ))));
    }
    let log = || BlockLog::new(log.clone(), 0, log.len());
    let tier = BlockTier::new(data, 0, String::new());
    run(&parts(tier, log, &superblock, &sizes, false)?, about, options)
}

/// A store on both kinds of media: its directory, and the memory that this names.
fn on_both(
    dir: &Path,
    options: &CheckOptions<'_>,
    (superblock, sizes): (&Superblock, &Sizes),
    mut about: Vec<String>,
) -> Result<Report, CheckError> {
    let path = tiered::both::region_of(dir)
        .map_err(CheckError::reading(dir.join(tiered::both::PLACE).display().to_string()))?;
    let held = dir.canonicalize().ok();
    let beside = path.parent().and_then(|dir| dir.canonicalize().ok());
    let _lock = match path.parent() {
        Some(_) if beside == held => None,
        Some(dir) if path.is_file() => Some(lock(dir)?),
        _ => Some(DirLock::device(&path)?),
    };
    let region = map(&path)?;
    let mut bytes = [0; SUPERBLOCK_BYTES];
    let start = SUPERBLOCK_BYTES as u64 + sizes.log_bytes;
    if start > region.len() {
        let text = format!("{}: its log alone takes {} bytes", path.display(), sizes.log_bytes);
        return Err(CheckError::Store(StoreError::Corrupt(text)));
    }
    region.read(0, &mut bytes);
    // How long the region is to be stands with the data.
    let (other, _) = tiered::check_superblock::<Tac>(&bytes, u64::MAX, &path)?;
    if other.identity != superblock.identity {
        let text = format!("{} is part of another store than {}", path.display(), dir.display());
        return Err(CheckError::Store(StoreError::Options(text)));
    }
    about.push(format!("memory   {}", path.display()));
    let data_path = dir.join("data");
    let data = BlockFile::open(&data_path, &BlockFileOptions { direct: true, ring: false, prewrite: false })
        .map_err(CheckError::reading(data_path.display().to_string()))?;
    let (region, data) = (Arc::new(region), Arc::new(data));
    tiered::block::data_bytes(&data, superblock, dir)?;
    let log = || ByteLog::new(region.clone(), SUPERBLOCK_BYTES as u64, sizes.log_bytes);
    tiered::both::region_bytes((&*region, start), &data, superblock, &path)?;
    let tier = || BlockTier::new(data.clone(), 0, String::new());
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
    run(&parts, about, options)
}

/// Maps memory, whatever it promises: nothing is promised here. A device may be longer than the store on it.
fn map(path: &Path) -> Result<MappedRegion, CheckError> {
    let region = MappedRegion::open(path, &MapOptions { profile: None, accept_volatile: true, node: None })?;
    Ok(match tiered::stored_bytes(&region).filter(|bytes| *bytes < region.len()) {
        Some(bytes) if region.kind() == PlaceKind::DevDax => region.limited(bytes),
        _ => region,
    })
}

fn on_region(path: &Path, options: &CheckOptions<'_>) -> Result<Report, CheckError> {
    let region = map(path)?;
    let mut bytes = [0; SUPERBLOCK_BYTES];
    if region.len() < bytes.len() as u64 {
        return Err(CheckError::NoStore { path: path.into(), why: "it is too short for one".into() });
    }
    region.read(0, &mut bytes);
    if bytes.iter().all(|byte| *byte == 0) {
        let why = "its first page is empty: a store that is being made has one only at the end".into();
        return Err(CheckError::NoStore { path: path.into(), why });
    }
    let (superblock, sizes) = superblock(&bytes, u64::MAX, path)?;
    if sizes.pmem_bytes.is_some() {
        let why = "it is part of a store that has files, too: check their directory".into();
        return Err(CheckError::NoStore { path: path.into(), why });
    }
    let start = SUPERBLOCK_BYTES as u64 + sizes.log_bytes;
    if start >= region.len() {
        let text = format!("{}: its log alone takes {} bytes", path.display(), sizes.log_bytes);
        return Err(CheckError::Store(StoreError::Corrupt(text)));
    }
    let about = about(&superblock, &sizes, &format!("{} (byte-addressable media)", path.display()));
    let region = Arc::new(region);
    tiered::byte::tier_bytes(&region, start, &superblock, path)?;
    let tier = ByteTier::new(region.clone(), start, region.len() - start, String::new());
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
