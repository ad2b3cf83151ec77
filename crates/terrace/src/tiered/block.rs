//! On block media: an ordinary directory.
//!
//! ```text
//! DIR/superblock   4 KiB, written last when a store is made: without it there is no store
//! DIR/log          buffered, preallocated and written through once
//! DIR/data         as long as the tier is to be, and takes room on its disk as it fills; O_DIRECT where it is to be had
//! DIR/formatted    the marker: log and first manifest are there. Without it they are looked for, and it is written again
//! ```

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_blocks::BlockTier;
use terrace_engine::{Store, StoreError};
use terrace_media::{
    AlignedBuf, BlockDevice, BlockFileOptions, PlaceKind, SUPERBLOCK_BYTES, Superblock, SuperblockError,
    detect, is_full,
};

use super::superblock::new_superblock;
use super::{
    Engine, Made, Opening, Sizes, apart_of, byte, check_superblock, describe, lock, sizes, store_id,
};
use crate::indexes::open_with;
use crate::media_source::{FoundBlock, MediaSource};
use crate::open::{Opened, Ssd};
use crate::options::{Options, Tier};
use crate::size::{Place, human_bytes};
use crate::stored::refuse_notes;

const LOG_BYTES: std::ops::RangeInclusive<u64> = 8 << 20..=256 << 20;

/// Opens a store of this engine, making it if there is none.
pub(crate) fn open<E: Engine>(
    engine: &E,
    options: &Options,
    tier: &Tier,
    source: &dyn MediaSource,
) -> Result<Opened, StoreError> {
    let dir = directory(options, tier)?;
    let guard = lock(&dir)?;
    let free_bytes = free_bytes(options, &dir)?;
    let superblock_path = dir.join("superblock");
    let made = !superblock_path.exists();
    let mut files_made = Made::default();
    let (superblock, stored) = if made {
        create::<E>(source, options, tier, &dir, (free_bytes, &mut files_made))?
    } else {
        // How long the data are is another matter: see `data_bytes`.
        check_superblock::<E>(&read_superblock(&superblock_path)?, u64::MAX, &superblock_path)?
    };
    if stored.pmem_bytes.is_some() {
        return Err(StoreError::Options(format!(
            "the store in {} has its log and a tier in byte-addressable memory: give --pmem, too",
            dir.display()
        )));
    }
    sizes::check_threads(options, &stored)?;
    let (log, data) =
        (open_file(source, &dir.join("log"), false)?, open_file(source, &dir.join("data"), true)?);
    let what = data.description;
    let data_bytes = data_bytes(&data.device, &superblock, &dir)?;
    let log_bytes = stored.log_bytes;
    refuse_short_log(&dir, log.device.len(), log_bytes)?;
    // What was made just now needs no looking at.
    let fresh = made || is_unused(&dir, &superblock, &data.device, Some(&log.device))?;
    let total = data_bytes + log_bytes;
    let mut lines =
        describe(engine, options, &stored, &format!("ssd   {what} at {}", dir.display()), total, made);
    let opening = Opening { engine, options, superblock: &superblock, stored, fresh, what, copies: None };
    let store = open_with(&options.index, &mut |index| {
        opening.assemble(index, |engine, assembly| engine.open_block(&log.device, &data.device, assembly))
    })?;
    files_made.keep();
    mark_used(&dir)?;
    lines.extend(byte::other_size(("ssd", tier), total, stored.block_bytes, &*store));
    lines.extend(taken(&*store));
    let ssd = Some(Ssd { dir, bytes: total, log_bytes });
    Ok(Opened { store, description: lines, locks: vec![guard], emulated: None, ssd, pmem: None })
}

/// Refuses a place where a store lies that can't be opened, and none may be made.
pub(crate) fn refuse_at_once(options: &Options, tier: &Tier) -> Result<(), StoreError> {
    let dir = directory(options, tier)?;
    if dir.join("superblock").exists() {
        return Ok(());
    }
    refuse_to_make_over(&dir)?;
    refuse_notes(options.dir.as_deref(), &dir, &*options.clock)
}

/// How long the blocks' part is; its file may be longer, by what a resize left behind the end that a crash interrupted.
///
/// # Errors
/// [`StoreError::Options`] if the file is shorter than that; [`StoreError::Io`] if it can't be read.
pub(crate) fn data_bytes<D: BlockDevice>(
    device: &Arc<D>,
    superblock: &Superblock,
    dir: &Path,
) -> Result<u64, StoreError> {
    let path = dir.join("data");
    let stored = if device.is_empty() {
        None
    } else {
        let tier =
            BlockTier::new(device.clone(), 0, String::new()).with_manifests_apart(apart_of(superblock));
        terrace_blocks::stored_bytes(&tier, store_id(superblock))
            .map_err(StoreError::io(format!("reading the size of {}", path.display())))?
    };
    // Before its first manifest a store has the size that it was made with.
    let recorded = stored.unwrap_or(superblock.media_bytes);
    if device.len() < recorded {
        let error = SuperblockError::TooShort { actual: device.len(), recorded };
        return Err(StoreError::Options(format!("{}: {error}", path.display())));
    }
    Ok(recorded)
}

/// What there is to say of a tier that is not as large yet as it is to be.
pub(super) fn taken(store: &dyn Store) -> Option<String> {
    let stats = store.stats();
    let tier = stats.tiers.last().filter(|tier| (1..tier.capacity_bytes).contains(&tier.taken_bytes))?;
    let taken = human_bytes(tier.taken_bytes);
    Some(match &tier.cramped {
        None => format!("{}   takes {taken} of its disk so far, and more as data come", tier.tier),
        Some(why) => format!("{}   takes {taken} of its disk, and can't have more: {why}", tier.tier),
    })
}

/// Where a block tier's files are.
pub(super) fn directory(options: &Options, tier: &Tier) -> Result<PathBuf, StoreError> {
    match (&tier.place, &options.dir) {
        (Some(Place::Node(_)), _) => {
            Err(StoreError::Options("--ssd SIZE@node:N: a NUMA node is memory; use --pmem".into()))
        }
        (Some(Place::Striped(_)), _) => {
            Err(StoreError::Options("--ssd has one place: only --pmem takes several".into()))
        }
        (Some(Place::Path(path)), _) => Ok(path.clone()),
        (None, Some(dir)) => Ok(dir.clone()),
        (None, None) => {
            Err(StoreError::Options("--ssd without a place needs --dir, or write --ssd SIZE@PATH".into()))
        }
    }
}

/// Space that is free in a directory, which keeps what is promised.
pub(super) fn free_bytes(options: &Options, dir: &Path) -> Result<u64, StoreError> {
    let place = detect(dir).map_err(StoreError::io(format!("looking at {}", dir.display())))?;
    if place.kind == PlaceKind::Tmpfs && options.durability != terrace_engine::Durability::None {
        return Err(StoreError::Options(format!(
            "{} is on tmpfs, which loses everything with the machine: choose another directory, or --durability none",
            dir.display()
        )));
    }
    Ok(place.free_bytes)
}

pub(super) fn open_file(
    source: &dyn MediaSource,
    path: &Path,
    direct: bool,
) -> Result<FoundBlock, StoreError> {
    source.open_block(path, &BlockFileOptions { direct, ring: true, prewrite: false }).map_err(|source| {
        if source.kind() == ErrorKind::NotFound {
            return StoreError::Corrupt(format!(
                "{} is missing, a part of the store whose superblock lies beside it: put it back, or, to make a new store, \
                 move everything of the old one away",
                path.display()
            ));
        }
        StoreError::Io { what: format!("opening {}", path.display()), source }
    })
}

/// Makes a file anew; whether it is for direct access, and whether it is written through once.
pub(super) fn create_file(
    source: &dyn MediaSource,
    path: &Path,
    bytes: u64,
    (direct, prewrite): (bool, bool),
) -> Result<(), StoreError> {
    if path.exists() {
        std::fs::remove_file(path)
            .map_err(StoreError::io(format!("removing unfinished {}", path.display())))?;
    }
    source
        .create_block(path, bytes, &BlockFileOptions { direct, ring: true, prewrite })
        .map_err(StoreError::io(format!("making {} of {}", path.display(), human_bytes(bytes))))
}

pub(super) fn refuse_too_much(tier: &Tier, dir: &Path, free_bytes: u64) -> Result<(), StoreError> {
    if tier.bytes <= free_bytes {
        return Ok(());
    }
    Err(StoreError::Options(format!(
        "--ssd {}: {} has {} free",
        human_bytes(tier.bytes),
        dir.display(),
        human_bytes(free_bytes)
    )))
}

/// Stores a new store's superblock; from now on there is one, which holds nothing yet.
pub(super) fn store_superblock(dir: &Path, superblock: &Superblock) -> Result<(), StoreError> {
    let bytes = superblock.encode().map_err(|error| StoreError::Options(error.to_string()))?;
    let _ = std::fs::remove_file(dir.join(USED));
    let path = dir.join("superblock");
    write_whole(&path, &bytes).map_err(StoreError::io(format!("writing {}", path.display())))
}

/// A store is made only where nothing of one lies: without its superblock the rest is data still.
///
/// # Errors
/// [`StoreError::Corrupt`] with what lies there and what to do; [`StoreError::Io`] if that can't be read.
pub(crate) fn refuse_to_make_over(dir: &Path) -> Result<(), StoreError> {
    let found =
        crate::stored::store_files(dir).map_err(StoreError::io(format!("looking at {}", dir.display())))?;
    if found.is_empty() {
        return Ok(());
    }
    Err(StoreError::Corrupt(format!(
        "{} holds a store's data ({}) and no superblock, so that nothing says how to read it: put the file superblock back, or, \
         to make a new store, move everything of the old one away",
        dir.display(),
        found.join(", ")
    )))
}

/// Makes the files, the superblock last: a store that died while it was made is made again.
fn create<E: Engine>(
    source: &dyn MediaSource,
    options: &Options,
    tier: &Tier,
    dir: &Path,
    (free_bytes, files_made): (u64, &mut Made),
) -> Result<(Superblock, Sizes), StoreError> {
    refuse_to_make_over(dir)?;
    refuse_notes(options.dir.as_deref(), dir, &*options.clock)?;
    let log_bytes = (tier.bytes / 16).clamp(*LOG_BYTES.start(), *LOG_BYTES.end());
    let log_bytes = sizes::log_bytes_for(options, log_bytes, ("--ssd", tier.bytes))?;
    let sizes = sizes::choose(options, tier.bytes, log_bytes)?;
    let log_bytes = sizes.log_bytes;
    refuse_too_much(tier, dir, free_bytes)?;
    let data_bytes = (tier.bytes - log_bytes) / 4096 * 4096;
    // Not before: what lies there may be all that is left of a store.
    ["log", "data", "superblock"].into_iter().for_each(|name| files_made.add(dir.join(name)));
    create_file(source, &dir.join("log"), log_bytes, (false, true))?;
    create_file(source, &dir.join("data"), data_bytes, (true, false))?;
    let superblock = new_superblock::<E>(options, &sizes, data_bytes)?;
    store_superblock(dir, &superblock)?;
    Ok((superblock, sizes))
}

/// Present once the log and the first manifest are on the medium: until then the files still read as zeros.
const USED: &str = "formatted";

/// Whether the marker says that the store was opened in full.
pub(crate) fn is_marked(dir: &Path) -> bool {
    dir.join(USED).exists()
}

/// Whether a store was made and never opened in full, so that it holds nothing. The marker says so at once; without it the first
/// manifest does, which is durable before anything is acknowledged.
///
/// # Errors
/// [`StoreError::Corrupt`] if marker and manifest are gone and something else is there; [`StoreError::Io`] if that can't be read.
pub(crate) fn is_unused<D: BlockDevice>(
    dir: &Path,
    superblock: &Superblock,
    data: &Arc<D>,
    log: Option<&Arc<D>>,
) -> Result<bool, StoreError> {
    if is_marked(dir) || has_manifest(dir, superblock, data)? {
        return Ok(false);
    }
    let file = |name: &str| dir.join(name).display().to_string();
    let reading = |name: &str| StoreError::io(format!("reading {}", file(name)));
    // Behind its superblock a log that was only made has nothing yet.
    let log_used = |log: &Arc<D>| first_used(&**log, LOG_FRONT).map_err(reading("log"));
    let in_log = log.map(log_used).transpose()?.flatten();
    let in_data = first_used(&**data, 0).map_err(reading("data"))?;
    let Some((name, at)) = in_data.map(|at| ("data", at)).or(in_log.map(|at| ("log", at))) else {
        return Ok(true);
    };
    Err(StoreError::Corrupt(format!(
        "{} and both copies of the manifest in {} are gone, and {} holds data at byte {at}: nothing was changed. Put both back \
         from a copy of the store, or, to make a new one, move everything of this one away",
        file(USED),
        file("data"),
        file(name)
    )))
}

/// Whether a store's blocks have the manifest that the first opening stores.
fn has_manifest<D: BlockDevice>(
    dir: &Path,
    superblock: &Superblock,
    data: &Arc<D>,
) -> Result<bool, StoreError> {
    if data.len() < FRONT_BYTES {
        return Ok(false);
    }
    let tier = BlockTier::new(data.clone(), 0, String::new()).with_manifests_apart(apart_of(superblock));
    let stored = terrace_blocks::stored_manifest(&tier);
    Ok(stored.map_err(StoreError::io(format!("reading {}", dir.join("data").display())))?.is_some())
}

/// Bytes of a log's own superblock.
const LOG_FRONT: u64 = PAGE;
const PAGE: u64 = 4096;
/// Less than this is no tier.
const FRONT_BYTES: u64 = 1 << 20;
/// So much is read at once, and at most in all, to see whether something is there: blocks and logs are used from the front.
const LOOK_BYTES: usize = 1 << 20;
const LOOK_BYTES_MAX: u64 = 256 << 20;

/// Where a device first holds something from a byte on; what was never written is not read.
fn first_used<D: BlockDevice>(device: &D, from: u64) -> std::io::Result<Option<u64>> {
    let end = device.written_end().min(device.len()).min(LOOK_BYTES_MAX) / PAGE * PAGE;
    let mut at = from;
    while at < end {
        let mut bytes = AlignedBuf::zeroed(LOOK_BYTES.min((end - at) as usize));
        device.read_at(at, &mut bytes)?;
        if let Some(found) = bytes.iter().position(|byte| *byte != 0) {
            return Ok(Some(at + found as u64));
        }
        at += bytes.len() as u64;
    }
    Ok(None)
}

/// Refuses a log that was cut: what is gone can't be told from what was never written.
pub(crate) fn refuse_short_log(dir: &Path, actual: u64, recorded: u64) -> Result<(), StoreError> {
    if actual >= recorded / PAGE * PAGE {
        return Ok(());
    }
    Err(StoreError::Options(format!(
        "{}: {recorded} bytes are recorded, and it holds {actual}: it was truncated; put it back from a copy of the store",
        dir.join("log").display()
    )))
}

/// Writes the marker where there is none. It only saves looking at the data: a disk without room for it keeps no store from being
/// opened.
pub(super) fn mark_used(dir: &Path) -> Result<(), StoreError> {
    let path = dir.join(USED);
    if path.exists() {
        return Ok(());
    }
    match write_whole(&path, b"") {
        Err(error) if is_full(&error) => {
            tracing::warn!("{}: {error}; the next start looks at the data instead", path.display());
            Ok(())
        }
        written => written.map_err(StoreError::io(format!("writing {}", path.display()))),
    }
}

pub(super) fn read_superblock(path: &Path) -> Result<[u8; SUPERBLOCK_BYTES], StoreError> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    match File::open(path).and_then(|mut file| file.read_exact(&mut bytes)) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(StoreError::Corrupt(format!(
            "{} has {SUPERBLOCK_BYTES} bytes, and this one was cut: put it back from a copy of the store; nothing was changed",
            path.display()
        ))),
        read => {
            read.map_err(StoreError::io(format!("reading {}", path.display())))?;
            Ok(bytes)
        }
    }
}

/// Writes a file so that it is there whole or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let unfinished = path.with_extension("new");
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&unfinished);
        return Err(error);
    }
    std::fs::rename(&unfinished, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}
