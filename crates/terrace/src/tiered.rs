//! What engines over tiers have in common: a superblock, an operation log, and blocks of records on one lower tier.
//!
//! ```text
//!   open(options)
//!     '--> block: DIR/superblock, DIR/log, DIR/data   byte: | superblock | log | blocks ... |   both: log and a tier there, blocks in DIR
//!            lock, superblock (engine's name, its sizes), files or region, index by name
//!              '--> Engine::open_block, open_byte: the engine's crate puts index, space, log and machine together
//! ```
//!
//! An engine says what it is called and how it is put together: [`Engine`].

pub(crate) mod block;
pub(crate) mod both;
pub(crate) mod byte;
pub(crate) mod clock;
pub(crate) mod numa;
pub(crate) mod sizes;
pub(crate) mod striped;
mod superblock;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_engine::{Durability, MachineOptions, Store, StoreError};
use terrace_index::MakeIndex;
use terrace_media::{AnyDevice, AnyRegion, DirLock, Homes, Superblock};
use terrace_space_scm_log::Coherence;

pub(crate) use sizes::Sizes;
pub(crate) use superblock::{apart_of, check_superblock, log_bytes_of, store_id, stored_bytes};

use clock::StoreClock;

use crate::open::SESSIONS;
use crate::options::{Options, WhenFull};
use crate::size::human_bytes;

/// An engine over a log and blocks.
pub(crate) trait Engine {
    /// Its name: what users say, and what its superblocks say.
    const NAME: &'static str;

    /// Whether its records need a log beside them.
    const HAS_LOG: bool = true;

    /// Whether a store in byte-addressable memory grows when it is opened with more of that.
    const GROWS_WHEN_OPENED: bool = false;

    /// Buckets of the hash table of a new store of it, if it keeps one of a fixed size.
    fn buckets(_options: &Options, _media_bytes: u64) -> Option<u64> {
        None
    }

    /// What it does with this many bytes of DRAM for records, for people.
    fn describe_dram(&self, sizes: &Sizes, dram_bytes: u64) -> String;

    /// How many bytes a region's tier has from `start` on, as it says itself; `None` if it says nothing.
    ///
    /// # Errors
    /// If that can't be read.
    fn stored_tier_bytes(
        &self,
        region: &Arc<AnyRegion>,
        start: u64,
        superblock: &Superblock,
        _sizes: &Sizes,
    ) -> Result<Option<u64>, StoreError> {
        byte::stored_blocks_bytes(region, start, superblock)
    }

    /// Puts a store together on a device for the log and one for blocks.
    ///
    /// # Errors
    /// If the sizes don't fit, or what is on the media can't be trusted.
    fn open_block(
        &self,
        log: &Arc<AnyDevice>,
        data: &Arc<AnyDevice>,
        assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError>;

    /// The same on a region, from byte `base` to its end.
    ///
    /// # Errors
    /// As [`open_block`](Self::open_block).
    fn open_byte(
        &self,
        region: &Arc<AnyRegion>,
        base: u64,
        assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError>;

    /// The same with its log and a middle tier in a region, from a byte of it to its end, and blocks on a device. `memory` is
    /// what the region is, for people.
    ///
    /// # Errors
    /// As [`open_block`](Self::open_block), and if the engine has no such tier.
    fn open_tiered(
        &self,
        _region: (&Arc<AnyRegion>, u64),
        _data: &Arc<AnyDevice>,
        _memory: &str,
        _assembly: Assembly<'_>,
    ) -> Result<Box<dyn Store>, StoreError> {
        Err(StoreError::Options(format!("engine {} has one lower tier", Self::NAME)))
    }
}

/// What a store is put together from, beside its media.
pub(crate) struct Assembly<'a> {
    /// From the superblock.
    pub sizes: Sizes,
    /// Bytes of the medium, as the store was made with.
    pub media_bytes: u64,
    /// Bytes of byte-addressable memory that are asked for.
    pub pmem_wanted: u64,
    /// DRAM for records.
    pub dram_bytes: u64,
    /// Whether that bounds the index too.
    pub dram_with_index: bool,
    /// The store's identity, as it stands in blocks and log.
    pub store_id: u64,
    /// Whether the media read as zeros.
    pub fresh: bool,
    /// What the machine is told.
    pub machine: MachineOptions,
    /// Makes an empty index.
    pub index: MakeIndex<'a>,
    /// The lower tier, for people.
    pub description: String,
    /// Recovery's progress: bytes done and in all.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// The NUMA nodes that byte-addressable memory lies on, and memory of theirs for copies; nothing where it is one.
    pub copies: Option<(Homes, Arc<AnyRegion>)>,
    /// How copies stop to count.
    pub coherence: Coherence,
}

/// A store that is being opened, its media apart.
struct Opening<'a, E: Engine> {
    engine: &'a E,
    options: &'a Options,
    superblock: &'a Superblock,
    stored: Sizes,
    fresh: bool,
    what: String,
    /// See [`Assembly::copies`].
    copies: Option<(Homes, Arc<AnyRegion>)>,
}

impl<E: Engine> Opening<'_, E> {
    /// Runs `open` with what the engine needs.
    fn assemble(
        &self,
        index: MakeIndex<'_>,
        open: impl FnOnce(&E, Assembly<'_>) -> Result<Box<dyn Store>, StoreError>,
    ) -> Result<Box<dyn Store>, StoreError> {
        let Self { engine, options, superblock, stored, fresh, what, copies } = self;
        let show = options.on_recovery;
        let progress = move |done, total| {
            if let Some(show) = show {
                show(done, total);
            }
        };
        let assembly = Assembly {
            sizes: *stored,
            media_bytes: superblock.media_bytes,
            pmem_wanted: options.pmem.as_ref().map_or(0, |tier| tier.bytes),
            dram_bytes: sizes::dram_for_records(options),
            dram_with_index: options.dram_records.is_none(),
            store_id: store_id(superblock),
            fresh: *fresh,
            machine: machine_options::<E>(options, superblock),
            index,
            description: what.clone(),
            progress: &progress,
            copies: copies.clone(),
            coherence: options.coherence,
        };
        open(engine, assembly)
    }
}

fn machine_options<E: Engine>(options: &Options, superblock: &Superblock) -> MachineOptions {
    MachineOptions {
        engine: E::NAME,
        durability: options.durability,
        immediate: true,
        evict: options.when_full == WhenFull::Evict,
        sessions: SESSIONS,
        hasher: KeyHasher::new(superblock.hash_seed),
        // What ends with the process leaves nothing in the directory that a later store could be taken for.
        clock: Arc::new(StoreClock::new(
            options.clock.clone(),
            options.dir.as_deref().filter(|_| !options.ends_with_process()),
            store_id(superblock),
        )),
        threads: options.recovery_threads.max(1),
        recovery_keys: usize::MAX,
    }
}

/// Files that were made for a store. They go unless it is opened in full: one that is refused for its size would be found at the next
/// start, and keep that size.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Made {
    /// One more.
    fn add(&mut self, path: PathBuf) {
        self.0.push(path);
    }
    /// Others, too.
    fn join(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }
    /// There is a store in them.
    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // The superblock was made last, and goes first. They hold nothing, and the first error is the one to tell.
        self.0.drain(..).rev().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

/// Locks the store's directory, making it if there is none.
fn lock(dir: &Path) -> Result<DirLock, StoreError> {
    make_dir(dir)?;
    DirLock::acquire(dir).map_err(|error| StoreError::Options(error.to_string()))
}

/// Makes a directory where there is none.
fn make_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.exists() && !dir.is_dir() {
        let part = crate::stored::is_no_memory(dir).ok().flatten();
        let is = part.map_or_else(|| "a file".to_owned(), |part| format!("a file ({part})"));
        return Err(StoreError::Options(format!(
            "{} is {is}, and not a directory for a store",
            dir.display()
        )));
    }
    std::fs::create_dir_all(dir).map_err(StoreError::io(format!("making {}", dir.display())))
}

/// What was chosen, a line each; `lower` is the tier below DRAM.
fn describe<E: Engine>(
    engine: &E,
    options: &Options,
    sizes: &Sizes,
    lower: &str,
    lower_bytes: u64,
    fresh: bool,
) -> Vec<String> {
    let mut lines = vec![
        format!(
            "engine {}, index {}{}",
            E::NAME,
            options.index_shown(),
            if fresh { ", a new store" } else { "" }
        ),
        engine.describe_dram(sizes, sizes::dram_for_records(options)),
        match E::HAS_LOG {
            true => {
                format!("{lower}, {} ({} of it log)", human_bytes(lower_bytes), human_bytes(sizes.log_bytes))
            }
            false => format!("{lower}, {}", human_bytes(lower_bytes)),
        },
        match options.durability {
            mode if options.ends_with_process() => {
                format!(
                    "durability {mode}: nothing survives a stop, for the memory is of the process and has no file"
                )
            }
            mode if !E::HAS_LOG => {
                format!(
                    "durability {mode}: this engine answers every write when it is as safe as its memory can make it"
                )
            }
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
    if let Some(placement) = options.placement {
        lines[0].push_str(&format!(", placement {placement}"));
    }
    if let Some(policy) = options.policy {
        lines[0].push_str(&format!(", policy {policy}"));
    }
    if let Some(swap) = options.swap {
        lines[0].push_str(&format!(", swap {swap}"));
    }
    if let Some(cache) = options.read_cache {
        lines[0].push_str(&format!(", read cache {cache}"));
    }
    if let Some(bound) = options.dram {
        lines[1].push_str(&format!("; {} in all, index included", human_bytes(bound)));
    }
    lines
}

/// What `terrace_blocks` opens a store with.
pub(crate) fn opening(assembly: Assembly<'_>) -> terrace_blocks::Opening<'_> {
    let Assembly { sizes, dram_bytes, dram_with_index, store_id, fresh, machine, index, .. } = assembly;
    let sizes = terrace_blocks::Sizes {
        block_bytes: sizes.block_bytes as usize,
        log_block_bytes: sizes.log_block_bytes as usize,
        log_bytes: sizes.log_bytes,
        manifests_apart: sizes.apart(),
        dram_bytes,
        dram_with_index,
        store_id,
    };
    let (description, progress) = (assembly.description, assembly.progress);
    terrace_blocks::Opening { sizes, fresh, machine, index, description, progress }
}
