//! What a store is opened with.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_engine::Durability;
use terrace_engine::ReadCache;
use terrace_engine::clock::{Clock, SystemClock};
use terrace_space_heap::Granularity;
use terrace_space_scm_log::Coherence;
use terrace_space_slab::{Eviction, Placement, Swap};

use crate::size::{Place, Size, TierSpec};

/// How to open a store. [`Options::default`] opens what `terrace serve` without flags opens: sizes that are not given are of the
/// machine (see [`defaults`](crate::defaults)).
#[derive(Clone, Debug)]
pub struct Options {
    /// `tac`, `hetermm`, `heap-hybrid`, `heap-persistent`, `scmkv`, `bonsai` or `dram`.
    pub engine: String,
    /// The name of one of [`INDEXES`](crate::INDEXES) that this build has.
    pub index: String,
    /// Which tier of three a record lies in: engine `tac` with `pmem` and `ssd` has several ways. `None`: [`Placement::Tac`].
    /// A store may be opened with another one each time.
    pub placement: Option<Placement>,
    /// Which record leaves DRAM next and which may enter, of engine `tac`. `None`: CLOCK, and what beats its next victim. A store
    /// may be opened with another one each time.
    pub policy: Option<Eviction>,
    /// What a read of the SSD brings up, of engine `tac`: the record that was asked for, or what lies with it, too. `None`:
    /// [`Swap::Tuple`]. A store may be opened with another one each time.
    pub swap: Option<Swap>,
    /// Which records that are read below DRAM are copied to it, of engine `hetermm`. `None`: [`ReadCache::Gated`] over an
    /// SSD, and [`ReadCache::Off`] over byte-addressable memory. A store may be opened with another one each time.
    pub read_cache: Option<ReadCache>,
    /// How long the chunks of a new store of engine `heap-hybrid` are. A store keeps it, and is not opened with another. `None`: what the
    /// store has, and [`Granularity::Slab`] of a new one.
    pub heap: Option<Granularity>,
    /// Where the store's files lie. `None`: [`DIR`](crate::defaults::DIR) if there is a lower tier that nobody has placed, and else
    /// nothing is kept (`dram`; emulated media without a place).
    pub dir: Option<PathBuf>,
    /// Bound on the process's anonymous memory, index and buffers counted. `None`, without `dram_records`: half of what there is.
    pub dram: Option<u64>,
    /// Bound on the record space in DRAM alone; lifts `dram`.
    pub dram_records: Option<u64>,
    /// The byte-addressable lower tier, if any: its size, and where it is. Without `ssd` it may be striped over several places.
    pub pmem: Option<Tier>,
    /// A new store's striped memory goes from device to device in pages of 4 KiB, one after the other, as processors interleave it, instead
    /// of in strips of 256 bytes in hashed orders: to compare both.
    pub pmem_interleaved: bool,
    /// NUMA nodes that the places of a new store of engine `bonsai` are on, as many on each: the first ones on the first. `None`: as the
    /// machine says, and one if it does not. A store keeps its number.
    pub nodes: Option<u32>,
    /// How copies stop to count that NUMA nodes have of entries of another one: other ways than [`Coherence::SelfInvalidate`] are for
    /// comparisons.
    pub coherence: Coherence,
    /// The block lower tier, if any: its size, and where it is (`None`: in `dir`). `None`, without `pmem`: one of the free disk's size,
    /// except with engine `dram`.
    pub ssd: Option<Tier>,
    /// Emulate this device at the byte-addressable tier.
    pub profile: Option<String>,
    /// How many records a new store of engine `scmkv` is made for: its hash table keeps its size. `None`: as many as fit.
    pub expected_records: Option<u64>,
    /// When writes are acknowledged.
    pub durability: Durability,
    /// What to do when every tier is full.
    pub when_full: WhenFull,
    /// Background threads; 0 runs none (the caller steps the store).
    pub background_threads: usize,
    /// Of engine `tac`: background steps that may make room in DRAM at once. `None`: as many as background threads, if DRAM has room
    /// for their pages; another number is for comparisons.
    pub partitions: Option<usize>,
    /// Threads that will use the store at once, each by a session of its own, beside one more for a snapshot: the log of a new store has
    /// places for them, and a store whose log has fewer is not opened.
    pub threads: usize,
    /// What keys of a new store are hashed with, so that a count is the same again: for measurements, since clients who know it can
    /// choose keys that collide. `None`: random.
    pub hash_seed: Option<u64>,
    /// Threads that recovery uses.
    pub recovery_threads: usize,
    /// Called with recovery's progress: done and total, in bytes read.
    pub on_recovery: Option<fn(u64, u64)>,
    /// The machine's clocks: the system's, but where a test does not want to wait. What a store keeps of its time lies in `dir`
    /// ([`Clock::kept`] and [`Clock::keep`] of these are not called).
    pub clock: Arc<dyn Clock>,
}

/// A lower tier: its size and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Bytes; of a place of several devices, those of all together.
    pub bytes: u64,
    /// Where.
    pub place: Option<crate::size::Place>,
}

/// What to do when every tier is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Refuse writes that need space; a store's choice.
    #[default]
    Refuse,
    /// Evict the oldest records; a cache's choice.
    Evict,
}

impl std::str::FromStr for WhenFull {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "refuse" => Ok(Self::Refuse),
            "evict" => Ok(Self::Evict),
            _ => Err(format!("{text:?}: expected refuse or evict")),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            engine: crate::defaults::ENGINE.into(),
            index: "clht".into(),
            placement: None,
            policy: None,
            swap: None,
            read_cache: None,
            heap: None,
            dir: None,
            dram: None,
            dram_records: None,
            pmem: None,
            ssd: None,
            profile: None,
            expected_records: None,
            pmem_interleaved: false,
            nodes: None,
            coherence: Coherence::default(),
            durability: Durability::default(),
            when_full: WhenFull::default(),
            background_threads: 1,
            partitions: None,
            threads: 1,
            hash_seed: None,
            recovery_threads: 2,
            on_recovery: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// Whether an engine has an index of its own, on its medium, and takes no other.
pub fn has_own_index(engine: &str) -> bool {
    ["heap-persistent", "scmkv", "bonsai"].contains(&engine)
}

impl Options {
    /// The index, for people: an engine may have one of its own.
    pub fn index_shown(&self) -> &str {
        if has_own_index(&self.engine) { "of its own, in pmem" } else { &self.index }
    }
    /// Whether all that is stored ends with the process, however that ends: the lowest tier is memory without a file.
    pub fn ends_with_process(&self) -> bool {
        let without_file = |tier: &Tier| match &tier.place {
            Some(Place::Node(_)) => true,
            Some(Place::Path(_) | Place::Striped(_)) => false,
            None => self.profile.is_some(),
        };
        self.engine == "dram" || self.ssd.is_none() && self.pmem.as_ref().is_some_and(without_file)
    }
}

impl Tier {
    /// A tier from its specification; `base` is what a percentage is of, at each of its places.
    pub fn of(spec: &TierSpec, base: u64) -> Self {
        let devices = spec.place.as_ref().map_or(1, Place::devices);
        Self { bytes: spec.size.of(base).saturating_mul(devices as u64), place: spec.place.clone() }
    }
}

impl Size {
    /// Bytes, a percentage being of `base`.
    pub fn of(self, base: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (base as f64 * percent / 100.0) as u64,
        }
    }
}
