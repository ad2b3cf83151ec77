//! Puts a space over blocks, its operation log and the machine together on one medium.
//!
//! ```text
//! byte-addressable region   | (superblock) | operation log | manifest x2 | blocks ...          |
//! block media               log file: the operation log      data file: manifest x2 | blocks ...
//! both                      | (superblock) | operation log | the space's middle tier |      data file: manifest x2 | blocks ...
//! ```

use std::sync::Arc;

use terrace_engine::manifest::Manifest;
use terrace_engine::space::Space;
use terrace_engine::{Durability, Machine, MachineOptions, Store, StoreError, StoreHandle};
use terrace_index::{Index, MakeIndex};
use terrace_log::{BlockLog, ByteLog, Log, LogDevice, LogError, LogOptions};
use terrace_media::{BlockDevice, ByteRegion};

use crate::block_tier::BlockTier;
use crate::byte_tier::ByteTier;
use crate::lower::Lower;
use crate::manifest_copies::{secure_found, stored_manifest};

/// Sizes of a store, fixed when it is made (all but `dram_bytes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// A block on the medium, and a page or slab in DRAM.
    pub block_bytes: usize,
    /// A block of the operation log.
    pub log_block_bytes: usize,
    /// The operation log.
    pub log_bytes: u64,
    /// Bytes of blocks between the two copies of the manifest, a multiple of `block_bytes`; 0: they lie side by side.
    pub manifests_apart: u64,
    /// DRAM for records.
    pub dram_bytes: u64,
    /// Whether `dram_bytes` bounds the index too, which then takes pages away as it grows.
    pub dram_with_index: bool,
    /// The store's identity.
    pub store_id: u64,
}

/// What to open a store with, beside its media.
pub struct Opening<'a, I = MakeIndex<'a>> {
    /// Sizes.
    pub sizes: Sizes,
    /// Make a new store: the media must read as zeros.
    pub fresh: bool,
    /// What the machine is told; its `immediate` is set here.
    pub machine: MachineOptions,
    /// Makes an empty index.
    pub index: I,
    /// The medium, for people.
    pub description: String,
    /// Recovery's progress: bytes done and in all.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl<'a, I> Opening<'a, I> {
    /// The same with other indexes.
    pub fn with_index<J>(self, index: J) -> Opening<'a, J> {
        let Self { sizes, fresh, machine, index: _, description, progress } = self;
        Opening { sizes, fresh, machine, index, description, progress }
    }
}

/// Below this many log blocks the sessions asked for are taken on trust: such stores are made by tests.
const LOG_BLOCKS_FEW: u64 = 24;

/// Sessions that a log of this size has places for: one that has written holds a block and another in reserve, and more of them
/// would wait for ever. `None` of a log with so few blocks that the number is taken on trust.
pub fn sessions_max(log_bytes: u64, log_block_bytes: u64) -> Option<usize> {
    let blocks = log_bytes / log_block_bytes.max(1);
    (blocks >= LOG_BLOCKS_FEW).then(|| blocks as usize / 2 - 3)
}

/// Blocks that a log needs for so many sessions.
pub fn log_blocks_for(sessions: usize) -> u64 {
    ((sessions as u64).saturating_add(3)).saturating_mul(2).max(LOG_BLOCKS_FEW)
}

/// A space that lies on a tier of blocks.
pub trait OnBlocks<L: Lower>: Space + Sized {
    /// A space on a tier. What the tier holds is found by recovery; a new tier must read as zeros.
    ///
    /// # Errors
    /// [`StoreError::Options`] if the sizes don't go together; the text says which would.
    fn on_blocks(lower: L, sizes: &Sizes) -> Result<Self, StoreError>;
}

/// A store on a byte-addressable region.
pub type ByteStore<I, S, R> = Machine<I, S, ByteLog<R>>;
/// A store on block media.
pub type BlockStore<I, S, D> = Machine<I, S, BlockLog<D>>;
/// A store on both: its log is in the region.
pub type TieredStore<I, S, R> = Machine<I, S, ByteLog<R>>;

/// Opens a store on `region` from byte `base` (a multiple of 4096) to its end.
///
/// # Errors
/// If the sizes don't fit, or what is on the medium can't be trusted.
pub fn open_byte<I: Index, S: OnBlocks<ByteTier<R>>, R: ByteRegion>(
    region: &Arc<R>,
    base: u64,
    opening: Opening<'_, &dyn Fn() -> I>,
) -> Result<Arc<ByteStore<I, S, R>>, StoreError> {
    open_byte_with(region, base, opening, &on_blocks)
}

/// The same, with what makes the space.
///
/// # Errors
/// As [`open_byte`].
pub fn open_byte_with<I: Index, S: Space, R: ByteRegion>(
    region: &Arc<R>,
    base: u64,
    opening: Opening<'_, &dyn Fn() -> I>,
    space: MakesSpace<'_, S, ByteTier<R>>,
) -> Result<Arc<ByteStore<I, S, R>>, StoreError> {
    let log_bytes = opening.sizes.log_bytes;
    let blocks = base + log_bytes;
    if blocks >= region.len() {
        return Err(StoreError::Options(format!(
            "{} bytes of byte-addressable media: {blocks} are needed for the log alone",
            region.len()
        )));
    }
    let (description, apart) = (opening.description.clone(), opening.sizes.manifests_apart);
    let parts = || {
        let log = ByteLog::new(region.clone(), base, log_bytes);
        let tier = ByteTier::new(region.clone(), blocks, region.len() - blocks, description.clone());
        (log, tier.with_manifests_apart(apart))
    };
    open(opening, true, parts, space)
}

fn on_blocks<L: Lower, S: OnBlocks<L>>(lower: L, sizes: &Sizes, _fresh: bool) -> Result<S, StoreError> {
    S::on_blocks(lower, sizes)
}

/// Opens a store with its log in `region`, from byte `base` (a multiple of 4096) on, and its blocks on `data`. What else of the
/// region is used, from the end of the log on, is the space's business: `space` makes one, on a tier of a fresh store or not.
///
/// # Errors
/// As [`open_byte`].
pub fn open_tiered<I: Index, S: Space, R: ByteRegion, D: BlockDevice>(
    (region, base): (&Arc<R>, u64),
    data: &Arc<D>,
    opening: Opening<'_, &dyn Fn() -> I>,
    space: MakesSpace<'_, S, BlockTier<D>>,
) -> Result<Arc<TieredStore<I, S, R>>, StoreError> {
    let log_bytes = opening.sizes.log_bytes;
    if base + log_bytes > region.len() {
        return Err(StoreError::Options(format!(
            "{} bytes of byte-addressable media: {} are needed for the log alone",
            region.len(),
            base + log_bytes
        )));
    }
    let (description, apart) = (opening.description.clone(), opening.sizes.manifests_apart);
    let parts = || {
        let log = ByteLog::new(region.clone(), base, log_bytes);
        (log, BlockTier::new(data.clone(), 0, description.clone()).with_manifests_apart(apart))
    };
    open(opening, true, parts, space)
}

/// Makes a space on a tier, which is fresh or not.
pub type MakesSpace<'a, S, L> = &'a dyn Fn(L, &Sizes, bool) -> Result<S, StoreError>;

/// Opens a store on a device for the log (buffered, preallocated) and one for the blocks.
///
/// # Errors
/// As [`open_byte`].
pub fn open_block<I: Index, S: OnBlocks<BlockTier<D>>, D: BlockDevice>(
    log: &Arc<D>,
    data: &Arc<D>,
    opening: Opening<'_, &dyn Fn() -> I>,
) -> Result<Arc<BlockStore<I, S, D>>, StoreError> {
    open_block_with(log, data, opening, &on_blocks)
}

/// The same, with what makes the space.
///
/// # Errors
/// As [`open_byte`].
pub fn open_block_with<I: Index, S: Space, D: BlockDevice>(
    log: &Arc<D>,
    data: &Arc<D>,
    opening: Opening<'_, &dyn Fn() -> I>,
    space: MakesSpace<'_, S, BlockTier<D>>,
) -> Result<Arc<BlockStore<I, S, D>>, StoreError> {
    let (description, apart) = (opening.description.clone(), opening.sizes.manifests_apart);
    let parts = || {
        let tier = BlockTier::new(data.clone(), 0, description.clone());
        (BlockLog::new(log.clone(), 0, log.len()), tier.with_manifests_apart(apart))
    };
    open(opening, false, parts, space)
}

fn open<I: Index, S: Space, L: Lower, D: LogDevice>(
    mut opening: Opening<'_, &dyn Fn() -> I>,
    immediate: bool,
    parts: impl Fn() -> (D, L),
    space: MakesSpace<'_, S, L>,
) -> Result<Arc<Machine<I, S, D>>, StoreError> {
    opening.machine.immediate = immediate;
    if let Some(most) = sessions_max(opening.sizes.log_bytes, opening.sizes.log_block_bytes as u64) {
        opening.machine.sessions = opening.machine.sessions.min(most);
    }
    let unlogged = opening.machine.durability == Durability::None;
    if unlogged && !opening.fresh {
        // A log that an earlier run left must be replayed, and empty before anything is written that it doesn't know of.
        let (log, _) = parts();
        let manifest = read_manifest(&parts().1)?;
        let (_, replay) = open_log(log, &opening.sizes, manifest.log_floor, opening.machine.threads)?;
        let empty = replay.max_version() <= manifest.log_floor;
        drop(replay);
        if !empty {
            let logged = MachineOptions {
                durability: Durability::default(),
                clock: opening.machine.clock.clone(),
                ..opening.machine
            };
            let machine = open_parts::<I, S, L, D>(&opening, logged, parts(), space)?;
            StoreHandle(machine).close()?;
        }
    }
    let options = MachineOptions { clock: opening.machine.clock.clone(), ..opening.machine };
    open_parts(&opening, options, parts(), space)
}

fn open_parts<I: Index, S: Space, L: Lower, D: LogDevice>(
    opening: &Opening<'_, &dyn Fn() -> I>,
    options: MachineOptions,
    (log, lower): (D, L),
    space: MakesSpace<'_, S, L>,
) -> Result<Arc<Machine<I, S, D>>, StoreError> {
    let sizes = &opening.sizes;
    let (log, manifest) = if opening.fresh {
        let log = Log::create(log, log_options(sizes)).map_err(log_error)?;
        ((log, None), Manifest::default())
    } else {
        let manifest = read_manifest(&lower)?;
        secure_found(&lower).map_err(StoreError::io("syncing what the last process left"))?;
        let (log, replay) = open_log(log, sizes, manifest.log_floor, options.threads)?;
        ((log, Some(replay)), manifest)
    };
    let space = space(lower, sizes, opening.fresh)?;
    let log = (options.durability != Durability::None).then_some(log);
    Machine::open(options, (opening.index)(), space, log, manifest, opening.progress)
}

fn log_options(sizes: &Sizes) -> LogOptions {
    LogOptions { block_bytes: sizes.log_block_bytes, store_id: sizes.store_id }
}

fn open_log<D: LogDevice>(
    log: D,
    sizes: &Sizes,
    floor: u64,
    threads: usize,
) -> Result<(Log<D>, terrace_log::Replay<D>), StoreError> {
    Log::open(log, log_options(sizes), floor, threads).map_err(log_error)
}

fn read_manifest<L: Lower>(lower: &L) -> Result<Manifest, StoreError> {
    stored_manifest(lower).map_err(StoreError::io("reading the manifest"))?.ok_or_else(|| {
        StoreError::Corrupt(
            "neither copy of the manifest is valid: without it nothing that the store holds can be trusted; restore it from a copy".into(),
        )
    })
}

fn log_error(error: LogError) -> StoreError {
    match error {
        LogError::Io(source) => StoreError::Io { what: "opening the log".into(), source },
        LogError::Corrupt { .. } => StoreError::Corrupt(format!(
            "{error}; run `terrace check --repair DIR` to cut the log there and lose what follows"
        )),
        LogError::Mismatch(_) => StoreError::Options(format!(
            "opening the log: {error}; put the log back from a copy of the store"
        )),
        other => StoreError::Options(format!("opening the log: {other}")),
    }
}
