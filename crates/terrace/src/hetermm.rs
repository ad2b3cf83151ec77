//! Engine `hetermm`: the hybrid log over a byte-addressable or a block tier.

mod block;
mod byte;
mod sizes;

use std::path::Path;
use std::sync::Arc;

use terrace_engine::clock::SystemClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Durability, MachineOptions, StoreError};
use terrace_media::{DirLock, SUPERBLOCK_BYTES, Superblock, SuperblockError};
use terrace_space_hybrid_log::{Opening, Sizes};

use crate::media_source::MediaSource;
use crate::open::{Opened, SESSIONS};
use crate::options::{Options, WhenFull};
use crate::size::human_bytes;

pub(crate) use byte::{forget_emulated, stored_bytes};

const ENGINE: &str = "hetermm";

pub(crate) fn open(options: &Options, source: &impl MediaSource) -> Result<Opened, StoreError> {
    match (&options.pmem, &options.ssd) {
        (Some(_), Some(_)) => Err(StoreError::Options(
            "engine hetermm has one lower tier: give --pmem or --ssd, not both (tac, which takes both, is not there yet)".into(),
        )),
        (Some(tier), None) => byte::open(options, tier, source),
        (None, Some(tier)) => block::open(options, tier, source),
        (None, None) => Err(StoreError::Options(
            "engine hetermm needs a lower tier: give --ssd SIZE (an ordinary directory) or --pmem SIZE@PATH (DAX, or with --profile)".into(),
        )),
    }
}

/// Locks the store's directory, making it if there is none.
fn lock(dir: &Path) -> Result<DirLock, StoreError> {
    std::fs::create_dir_all(dir).map_err(StoreError::io(format!("making {}", dir.display())))?;
    DirLock::acquire(dir).map_err(|error| StoreError::Options(error.to_string()))
}

/// A superblock for a new store.
fn new_superblock(sizes: &Sizes, media_bytes: u64) -> Result<Superblock, StoreError> {
    let identity =
        terrace_media::superblock::random_identity().map_err(StoreError::io("reading random bytes"))?;
    let created = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Ok(Superblock {
        engine: ENGINE.into(),
        options: sizes::encode(sizes).into_bytes(),
        identity,
        hash_seed: u64::from_le_bytes(std::array::from_fn(|i| identity[i] ^ 0x5a)).rotate_left(17),
        media_bytes,
        created_ms: created.map_or(0, |d| d.as_millis() as u64),
    })
}

/// Checks a stored superblock and takes the store's sizes from it.
pub(crate) fn check_superblock(
    bytes: &[u8; SUPERBLOCK_BYTES],
    media_bytes: u64,
    place: &Path,
) -> Result<(Superblock, Sizes), StoreError> {
    let wrong = |error: SuperblockError| match error {
        SuperblockError::OtherEngine { .. } | SuperblockError::TooShort { .. } => {
            StoreError::Options(format!("{}: {error}", place.display()))
        }
        other => StoreError::Corrupt(format!("{}: {other}", place.display())),
    };
    let superblock = Superblock::decode(bytes).map_err(wrong)?;
    superblock.check(ENGINE, media_bytes).map_err(wrong)?;
    let text = String::from_utf8_lossy(&superblock.options).into_owned();
    let sizes = sizes::decode(&text).map_err(|error| {
        StoreError::Corrupt(format!("{}: the superblock's sizes: {error}", place.display()))
    })?;
    Ok((superblock, sizes))
}

/// What the machine is told, and the words that go with it.
fn machine_options(options: &Options, superblock: &Superblock) -> MachineOptions {
    MachineOptions {
        engine: ENGINE,
        durability: options.durability,
        immediate: true,
        evict: options.when_full == WhenFull::Evict,
        sessions: SESSIONS,
        hasher: KeyHasher::new(superblock.hash_seed),
        clock: Arc::new(SystemClock),
        threads: options.recovery_threads.max(1),
    }
}

fn opening<'a, I>(
    options: &Options,
    superblock: &Superblock,
    mut sizes: Sizes,
    fresh: bool,
    description: String,
    index: &'a dyn Fn() -> I,
    progress: &'a (dyn Fn(u64, u64) + Sync),
) -> Opening<'a, I> {
    let budget = sizes::dram_for_records(options);
    sizes.dram_bytes = budget;
    sizes.dram_with_index = options.dram_records.is_none();
    sizes.store_id = u64::from_le_bytes(std::array::from_fn(|i| superblock.identity[i])) | 1;
    Opening { sizes, fresh, machine: machine_options(options, superblock), index, description, progress }
}

fn describe(options: &Options, sizes: &Sizes, lower: &str, lower_bytes: u64, fresh: bool) -> Vec<String> {
    let dram = sizes::dram_for_records(options);
    let mut lines = vec![
        format!("engine hetermm, index {}{}", options.index, if fresh { ", a new store" } else { "" }),
        format!(
            "dram  {} for records, in pages of {}",
            human_bytes(dram),
            human_bytes(sizes.block_bytes as u64)
        ),
        format!("{lower}, {} ({} of it log)", human_bytes(lower_bytes), human_bytes(sizes.log_bytes)),
        match options.durability {
            Durability::None => {
                "durability none: a clean stop saves everything, a crash keeps what had been flushed".into()
            }
            Durability::Batch(window) => format!(
                "durability batch:{0}: the death of the process loses nothing, power loss at most {0} ms",
                window.as_millis()
            ),
            Durability::Sync => "durability sync: answered when safe from power loss".into(),
        },
    ];
    if let Some(bound) = options.dram {
        lines[1].push_str(&format!(" and the index, of {} in all", human_bytes(bound)));
    }
    lines
}

/// Tells whoever asked how far recovery is.
fn progress(options: &Options) -> impl Fn(u64, u64) + Sync {
    let show = options.on_recovery;
    move |done, total| {
        if let Some(show) = show {
            show(done, total);
        }
    }
}
