//! On both kinds of media: the log and a middle tier in byte-addressable memory, blocks in an ordinary directory.
//!
//! ```text
//! PMEM             | superblock | log | middle tier |, the last as long as DIR/data says once it was resized
//! DIR/superblock   the same identity and sizes: neither part is opened without the other, or with another store's
//! DIR/data         as on block media
//! DIR/formatted    present once both parts hold the new store; without it the superblock of the memory says so
//! DIR/pmem-place   where the memory was when the store was opened last, for `terrace check`
//! ```

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_blocks::BlockTier;
use terrace_engine::StoreError;
use terrace_media::superblock::MAKING;
use terrace_media::{
    BlockDevice, ByteRegion, DirLock, Profile, SUPERBLOCK_BYTES, Superblock, SuperblockError, is_full,
};

use super::superblock::new_superblock;
use super::{
    Engine, Made, Opening, Sizes, apart_of, block, byte, check_superblock, describe, lock, sizes, store_id,
    stored_bytes,
};
use crate::indexes::open_with;
use crate::media_source::{FoundBlock, FoundRegion, MediaSource};
use crate::open::{Opened, Pmem, Ssd};
use crate::options::{Options, Tier};
use crate::size::{Place, human_bytes};

/// The file that says where the memory is.
pub(crate) const PLACE: &str = "pmem-place";

/// Opens a store of this engine, making it if there is none.
pub(crate) fn open<E: Engine>(
    engine: &E,
    options: &Options,
    (pmem, ssd): (&Tier, &Tier),
    source: &dyn MediaSource,
) -> Result<Opened, StoreError> {
    let dir = block::directory(options, ssd)?;
    let path = match pmem.place.as_ref().map_or(&[][..], Place::paths) {
        [path] => path,
        [] => {
            return Err(StoreError::Options(
                "with --ssd, --pmem needs a place that stays: --pmem SIZE@PATH (a part of the store would end with the process)".into(),
            ));
        }
        several => {
            return Err(StoreError::Options(format!(
                "with --ssd, --pmem has one place, and {} are given: leave --ssd out, or give one",
                several.len()
            )));
        }
    };
    let profile = match &options.profile {
        None => None,
        Some(name) => Some(Profile::resolve(name).map_err(|error| StoreError::Options(error.to_string()))?),
    };
    let guard = lock(&dir)?;
    let free_bytes = block::free_bytes(options, &dir)?;
    let held = dir.canonicalize().ok();
    let superblock_path = dir.join("superblock");
    let made = !superblock_path.exists();
    // The memory is made before the superblock is.
    if !made && !is_device(path) && !byte::file_at(path).exists() {
        return Err(missing(&dir, path));
    }
    let (region_guard, found, mut files_made) =
        byte::find(source, options, pmem, path, profile, held.as_slice())?;
    byte::check_promises(options, &found)?;
    let FoundRegion { region, description: memory, .. } = found;
    let place = byte::file_at(path);
    let page = byte::first_page(&*region, &place)?;

    let blank = page.iter().all(|byte| *byte == 0);
    let unfinished = page.starts_with(&MAKING);
    let (superblock, stored) = if made {
        if !blank && !unfinished {
            return Err(StoreError::Options(format!(
                "{} holds a store, and {} none: it is another one's, or the file superblock is missing and must be put back",
                place.display(),
                dir.display()
            )));
        }
        if blank {
            byte::refuse_data(&*region, &place)?;
        }
        create::<E>(source, options, ssd, &dir, (free_bytes, region.len()), &mut files_made)?
    } else {
        check_superblock::<E>(&block::read_superblock(&superblock_path)?, u64::MAX, &superblock_path)?
    };
    let Some(pmem_bytes) = stored.pmem_bytes else {
        return Err(StoreError::Options(format!(
            "the store in {} was made without --pmem: leave it out",
            dir.display()
        )));
    };
    sizes::check_threads(options, &stored)?;
    let data = block::open_file(source, &dir.join("data"), true)?;
    let FoundBlock { device, description: what } = data;
    // Memory gets its superblock when all else is there, and the marker follows.
    let fresh = if blank {
        let unused = || Ok::<_, StoreError>(made || block::is_unused(&dir, &superblock, &device, None)?);
        if byte::first_used(&*region).is_some() || !unused()? {
            return Err(StoreError::Corrupt(format!(
                "{} is blank: the store in {} had its log and {} of memory there; put it back, or at least its first page, \
                 from a copy of the store",
                place.display(),
                dir.display(),
                human_bytes(pmem_bytes)
            )));
        }
        true
    } else {
        unfinished
    };
    if unfinished && block::is_marked(&dir) {
        return Err(StoreError::Corrupt(format!(
            "{} says that its store was never finished, and {} that it was: it is another one's",
            place.display(),
            dir.display()
        )));
    }
    if !fresh {
        // How long the region is to be stands with the data.
        let (other, other_sizes) = check_superblock::<E>(&page, u64::MAX, path)?;
        if other.identity != superblock.identity || other_sizes != stored {
            return Err(StoreError::Options(format!(
                "{} is part of another store than {}",
                place.display(),
                dir.display()
            )));
        }
    }
    if fresh {
        byte::begin_making(&*region);
    }
    write_place(&dir, path)?;
    let data_bytes = block::data_bytes(&device, &superblock, &dir)?;
    let log_end = SUPERBLOCK_BYTES as u64 + stored.log_bytes;
    let region_bytes = region_bytes((&*region, log_end), &device, &superblock, path)?;
    let total = data_bytes + region_bytes;
    let lower = format!("pmem  {memory}, ssd {what} at {}", dir.display());
    let mut lines = describe(engine, options, &stored, &lower, total, made || fresh);
    let opening = Opening { engine, options, superblock: &superblock, stored, fresh, what, copies: None };
    let store = open_with(&options.index, &mut |index| {
        let region = (&region, SUPERBLOCK_BYTES as u64);
        opening.assemble(index, |engine, assembly| engine.open_tiered(region, &device, &memory, assembly))
    })?;
    if fresh {
        let whole = Superblock { media_bytes: region.len(), ..superblock };
        let bytes = whole.encode().map_err(|error| StoreError::Options(error.to_string()))?;
        byte::write_superblock(&*region, &bytes);
    }
    files_made.keep();
    block::mark_used(&dir)?;
    let other_size = |tier, bytes| byte::other_size(tier, bytes, stored.block_bytes, &*store);
    lines.extend(region.len_max().and_then(|_| other_size(("pmem", pmem), region_bytes)));
    lines.extend(other_size(("ssd", ssd), data_bytes));
    lines.extend(block::taken(&*store));
    let locks = [Some(guard), region_guard].into_iter().flatten().collect();
    let ssd = Some(Ssd { dir, bytes: data_bytes, log_bytes: 0 });
    let pmem = Some(Pmem { path: byte::file_at(path), bytes: region_bytes, front_bytes: log_end });
    Ok(Opened { store, description: lines, locks, emulated: None, ssd, pmem })
}

/// How many bytes of a region the store has, whose slabs begin at a byte of it; the region may be longer, by what a resize left
/// behind the end that a crash interrupted.
///
/// # Errors
/// [`StoreError::Options`] if it is shorter than that; [`StoreError::Io`] if the data can't be read.
pub(crate) fn region_bytes<R: ByteRegion, D: BlockDevice>(
    (region, slabs): (&R, u64),
    data: &Arc<D>,
    superblock: &Superblock,
    path: &Path,
) -> Result<u64, StoreError> {
    let stored = if data.is_empty() {
        None
    } else {
        let tier = BlockTier::new(data.clone(), 0, String::new()).with_manifests_apart(apart_of(superblock));
        terrace_blocks::stored_middle_bytes(&tier, store_id(superblock))
            .map_err(StoreError::io("reading the size of the PMem tier"))?
    };
    // Before it was resized for the first time its own superblock says how long it is.
    let recorded = match stored {
        Some(slab_bytes) => slabs + slab_bytes,
        None => stored_bytes(region).unwrap_or(region.len()),
    };
    if region.len() < recorded {
        let error = SuperblockError::TooShort { actual: region.len(), recorded };
        return Err(StoreError::Options(format!("{}: {error}", path.display())));
    }
    Ok(if stored.is_some() { recorded } else { region.len() })
}

/// Makes the data file and the superblock, that last.
fn create<E: Engine>(
    source: &dyn MediaSource,
    options: &Options,
    tier: &Tier,
    dir: &Path,
    (free_bytes, region_bytes): (u64, u64),
    files_made: &mut Made,
) -> Result<(Superblock, Sizes), StoreError> {
    block::refuse_to_make_over(dir)?;
    crate::stored::refuse_notes(options.dir.as_deref(), dir, &*options.clock)?;
    let log_bytes = sizes::log_bytes_for(options, byte::log_share(region_bytes), ("--pmem", region_bytes))?;
    let mut sizes = sizes::choose(options, tier.bytes, log_bytes)?;
    sizes.pmem_bytes = Some(region_bytes);
    block::refuse_too_much(tier, dir, free_bytes)?;
    let data_bytes = tier.bytes / 4096 * 4096;
    // Not before: what lies there may be all that is left of a store.
    ["data", PLACE, "superblock"].into_iter().for_each(|name| files_made.add(dir.join(name)));
    block::create_file(source, &dir.join("data"), data_bytes, (true, false))?;
    let superblock = new_superblock::<E>(options, &sizes, data_bytes)?;
    block::store_superblock(dir, &superblock)?;
    Ok((superblock, sizes))
}

fn write_place(dir: &Path, path: &Path) -> Result<(), StoreError> {
    let place = dir.join(PLACE);
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    if std::fs::read(&place).is_ok_and(|bytes| bytes == path.as_os_str().as_bytes()) {
        return Ok(());
    }
    match block::write_whole(&place, path.as_os_str().as_bytes()) {
        Err(error) if is_full(&error) => {
            tracing::warn!(
                "{}: {error}; `terrace check` does not find the memory by its directory",
                place.display()
            );
            Ok(())
        }
        written => written.map_err(StoreError::io(format!("writing {}", place.display()))),
    }
}

fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device())
}

fn missing(dir: &Path, path: &Path) -> StoreError {
    StoreError::Corrupt(format!(
        "{} is missing: the store in {} had its log and a part of its records there; put it back, mount it, or say where it is (--pmem SIZE@PATH). \
         To make a new store, move everything of the old one away",
        byte::file_at(path).display(),
        dir.display()
    ))
}

/// The file or device of memory that belongs to the store in a directory.
pub(crate) fn region_of(dir: &Path) -> std::io::Result<PathBuf> {
    let bytes = std::fs::read(dir.join(PLACE))?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(&bytes));
    Ok(byte::file_at(&path))
}

/// Locks the directory that a file of memory is in, unless it is one of those that are held already.
pub(super) fn lock_unless(dir: &Path, held: &[PathBuf]) -> Result<Option<DirLock>, StoreError> {
    super::make_dir(dir)?;
    if dir.canonicalize().is_ok_and(|dir| held.contains(&dir)) {
        return Ok(None);
    }
    lock(dir).map(Some)
}
