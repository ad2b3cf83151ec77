//! From options to an engine.

use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_engine::{Durability, MachineOptions, Store, StoreError};
use terrace_media::HeapRegion;
use terrace_space_heap::Granularity;

use crate::heap::{HeapHybrid, HeapPersistent};
use crate::hetermm::Hetermm;
use crate::indexes::open_with;
use crate::media_source::MediaSource;
use crate::options::{Options, WhenFull};
use crate::scm::{Bonsai, Scm};
use crate::size::human_bytes;
use crate::tac::Tac;
use crate::tiered::Engine;

/// Sessions that can be open at once.
pub const SESSIONS: usize = 255;
/// An engine, and what there is to say about it.
pub(crate) struct Opened {
    pub store: Arc<dyn Store>,
    pub description: Vec<String>,
    /// Kept as long as the store is open.
    pub locks: Vec<terrace_media::DirLock>,
    /// An emulated region that ends when the store is closed.
    pub emulated: Option<Arc<HeapRegion>>,
    /// The block tier, if there is one.
    pub ssd: Option<Ssd>,
    /// The tier in byte-addressable memory, if there is one that could have another size.
    pub pmem: Option<Pmem>,
}

/// A tier in byte-addressable memory as its size is given.
pub(crate) struct Pmem {
    /// Its file or device.
    pub path: std::path::PathBuf,
    /// Bytes, superblock and log counted.
    pub bytes: u64,
    /// Of them for superblock and log, which lie in front.
    pub front_bytes: u64,
}

/// A block tier as its size is given: with what lies beside the blocks.
pub(crate) struct Ssd {
    /// Where its files are.
    pub dir: std::path::PathBuf,
    /// Bytes, the log counted if it lies there.
    pub bytes: u64,
    /// Of them for the log.
    pub log_bytes: u64,
}

/// What can be told of the options and of the files at their places without opening a store: so that who serves it need not open ports
/// for a start that is refused at once.
///
/// # Errors
/// As [`open`](crate::open), where it would say the same.
pub fn refuse_at_once(options: &Options) -> Result<(), StoreError> {
    crate::tiered::sizes::check_threads_at_all(options)?;
    crate::tiered::sizes::check_budget(options)?;
    check_heap(options)?;
    check_read_cache(options)?;
    crate::tiered::numa::refuse(options)?;
    if let Some(tier) = &options.pmem {
        crate::tiered::byte::refuse_at_once(options, tier)?;
    }
    if let Some(tier) = &options.ssd {
        crate::tiered::block::refuse_at_once(options, tier)?;
    }
    Ok(())
}

fn check_read_cache(options: &Options) -> Result<(), StoreError> {
    match options.read_cache.filter(|_| options.engine != "hetermm") {
        None => Ok(()),
        Some(cache) => Err(StoreError::Options(format!(
            "engine {} has no read cache: leave --read-cache {cache} out, or use --engine hetermm",
            options.engine
        ))),
    }
}

/// Whether an engine has a log beside its records. One that has none answers each write when it is as safe as its medium
/// makes it, whatever the durability.
pub fn has_log(engine: &str) -> bool {
    const ALL: [(&str, bool); 6] = [
        (Tac::NAME, Tac::HAS_LOG),
        (Hetermm::NAME, Hetermm::HAS_LOG),
        (HeapHybrid::NAME, HeapHybrid::HAS_LOG),
        (HeapPersistent::NAME, HeapPersistent::HAS_LOG),
        (Scm::NAME, Scm::HAS_LOG),
        (Bonsai::NAME, Bonsai::HAS_LOG),
    ];
    ALL.contains(&(engine, true))
}

/// Refuses to divide a heap where there is none, or where it is divided otherwise.
fn check_heap(options: &Options) -> Result<(), StoreError> {
    let Some(heap) = options.heap else { return Ok(()) };
    let why = match (options.engine.as_str(), heap) {
        ("heap-hybrid", _) | ("heap-persistent", Granularity::Slab) => return Ok(()),
        ("heap-persistent", Granularity::Object) => "keeps its index in slabs beside its records",
        _ => "has no heap",
    };
    Err(StoreError::Options(format!(
        "engine {} {why}: leave --heap {heap} out, or use --engine heap-hybrid",
        options.engine
    )))
}

pub(crate) fn open(options: &Options, source: &dyn MediaSource) -> Result<Opened, StoreError> {
    crate::indexes::check(&options.index)?;
    crate::tiered::sizes::check_threads_at_all(options)?;
    crate::tiered::sizes::check_budget(options)?;
    check_heap(options)?;
    check_read_cache(options)?;
    crate::tiered::numa::refuse(options)?;
    if let Some(placement) = options.placement.filter(|_| options.engine != "tac") {
        return Err(StoreError::Options(format!(
            "engine {} has no placements: leave --placement {placement} out, or use --engine tac",
            options.engine
        )));
    }
    if let Some(policy) = options.policy.filter(|_| options.engine != "tac") {
        return Err(StoreError::Options(format!(
            "engine {} has no policies: leave --policy {policy} out, or use --engine tac",
            options.engine
        )));
    }
    if let Some(swap) = options.swap.filter(|_| options.engine != "tac") {
        return Err(StoreError::Options(format!(
            "engine {} has no ways of swapping: leave --swap {swap} out, or use --engine tac",
            options.engine
        )));
    }
    if let Some(records) = options.expected_records.filter(|_| options.engine != "scmkv") {
        return Err(StoreError::Options(format!(
            "engine {} has an index that grows: leave --expected-records {records} out, or use --engine scmkv",
            options.engine
        )));
    }
    match options.engine.as_str() {
        "dram" => open_dram(options),
        "hetermm" => crate::hetermm::open(options, source),
        "tac" => crate::tac::open(options, source),
        "heap-hybrid" => crate::heap::open::<false>(options, source),
        "heap-persistent" => crate::heap::open::<true>(options, source),
        "scmkv" => crate::scm::open::<false>(options, source),
        "bonsai" => crate::scm::open::<true>(options, source),
        name => Err(StoreError::Options(format!(
            "there is no engine {name:?}: use tac, hetermm, heap-hybrid, heap-persistent, scmkv, bonsai or dram"
        ))),
    }
}

fn open_dram(options: &Options) -> Result<Opened, StoreError> {
    if options.durability == Durability::Sync {
        return Err(StoreError::Options(
            "engine dram keeps nothing: it can't promise --durability sync; use --engine hetermm, or --durability none".into(),
        ));
    }
    if options.pmem.is_some() || options.ssd.is_some() {
        return Err(StoreError::Options("engine dram has no lower tier: leave --pmem and --ssd out".into()));
    }
    if let Some(dir) = &options.dir {
        let found = crate::stored::store_files(dir)
            .map_err(StoreError::io(format!("looking at {}", dir.display())))?;
        if !found.is_empty() {
            return Err(StoreError::Options(format!(
                "{} holds a store ({}), which engine dram would not open but hide: leave --engine out to open it, or give \
                 another --dir",
                dir.display(),
                found.join(", ")
            )));
        }
    }
    let bytes = match (options.dram_records, options.dram) {
        (Some(records), _) => records,
        (None, Some(all)) => all.saturating_sub(crate::tiered::sizes::buffers_of(all, options.threads)),
        (None, None) => terrace_media::Machine::detect().usable_bytes() / 2,
    };
    let machine = || MachineOptions {
        engine: "dram",
        durability: Durability::None,
        immediate: true,
        evict: options.when_full == WhenFull::Evict,
        sessions: SESSIONS,
        hasher: KeyHasher::new(options.hash_seed.unwrap_or_else(random_u64)),
        clock: options.clock.clone(),
        threads: 1,
        recovery_keys: usize::MAX,
    };
    let with_index = options.dram_records.is_none();
    let store = open_with(&options.index, &mut |index| {
        terrace_space_dram::open(machine(), (bytes, with_index), index)
    })?;
    Ok(Opened {
        store,
        description: vec![
            format!(
                "engine dram, index {}: records in DRAM only, up to {}",
                options.index,
                human_bytes(bytes)
            ),
            "durability none: nothing survives a stop of this engine".into(),
        ],
        locks: Vec::new(),
        emulated: None,
        ssd: None,
        pmem: None,
    })
}

pub(crate) fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library's hasher is keyed from the system's randomness.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
