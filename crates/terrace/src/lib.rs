//! The library a user imports: opens any engine by name.
//!
//! ```text
//!   Options --> open() --> OpenStore (a Store of some engine, its background threads, its directory lock)
//!                  |          '--> session() --> execute(&mut Batch)
//!             MediaSource: the system's media, or a proof's
//! ```
//!
//! ```
//! let options = terrace::Options { engine: "dram".into(), dram: Some(64 << 20), ..Default::default() };
//! let store = terrace::open(options)?;
//! store.set(b"greeting", b"hello")?;
//! assert_eq!(store.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
//! store.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod check;
pub mod defaults;
pub mod media_source;
pub mod options;
mod scm;
pub mod size;
mod tac;

mod background;
mod embedded;
mod heap;
mod hetermm;
mod indexes;
mod open;
mod stored;
mod tiered;

pub use check::{check, check_all};
pub use embedded::{CallError, Pair};
pub use indexes::{AboutIndex, INDEXES};
pub use media_source::{MediaSource, SystemMedia};
pub use open::{SESSIONS, has_log, refuse_at_once};
pub use options::{Options, Tier, WhenFull, has_own_index};
pub use size::{Place, Size, TierSpec, human_bytes, usable_memory_bytes};
pub use stored::{store_files, stored_engine, stored_identity};
pub use terrace_engine as engine;
pub use terrace_engine::ReadCache;
pub use terrace_space_heap::Granularity;
pub use terrace_space_scm_log::Coherence;
pub use terrace_space_slab::{Eviction, Placement, Swap};

use std::sync::Arc;

use parking_lot::Mutex;
use terrace_engine::{Store, StoreError};

/// An open store: share it freely, close it once.
#[derive(Clone)]
pub struct OpenStore {
    inner: Arc<Inner>,
    /// What was found and chosen, a line each, for people.
    pub description: Vec<String>,
}

struct Inner {
    // Declared in the order in which they must end: threads, store, lock.
    background: background::Background,
    pool: embedded::Pool,
    store: Arc<dyn Store>,
    _locks: Mutex<Vec<terrace_media::DirLock>>,
    /// The budget of DRAM is for the whole process, not for records alone.
    budget_for_all: bool,
    /// Threads that the budget has buffers for.
    threads: usize,
    emulated: Option<Arc<terrace_media::HeapRegion>>,
    ssd: Option<Mutex<open::Ssd>>,
    pmem: Option<Mutex<open::Pmem>>,
}

/// Opens a store, creating it if there is none.
///
/// # Errors
/// [`StoreError::Options`] if the options contradict each other or what is on the medium; [`StoreError::Corrupt`] if the
/// medium's content can't be trusted; [`StoreError::Io`] if it can't be reached.
pub fn open(options: Options) -> Result<OpenStore, StoreError> {
    open_on(options, &SystemMedia)
}

/// Opens a store on media that `source` makes and opens: for proofs that watch or break the media beneath a whole store.
///
/// # Errors
/// As [`open`].
pub fn open_on(options: Options, source: &dyn MediaSource) -> Result<OpenStore, StoreError> {
    let options = defaults::fill(options)?;
    let opened = open::open(&options, source)?;
    if let (Some(dir), Some(dram)) = (&options.dir, options.dram) {
        // Where that can't be, long buffers take memory, as without a budget.
        let _spills = terrace_media::spill_to(dir, dram);
    }
    let background = background::Background::start(&opened.store, options.background_threads)
        .map_err(StoreError::io("starting background threads"))?;
    let inner = Inner {
        background,
        pool: embedded::Pool::default(),
        store: opened.store,
        _locks: Mutex::new(opened.locks),
        budget_for_all: options.dram_records.is_none(),
        threads: options.threads,
        emulated: opened.emulated,
        ssd: opened.ssd.map(Mutex::new),
        pmem: opened.pmem.map(Mutex::new),
    };
    Ok(OpenStore { inner: Arc::new(inner), description: opened.description })
}

impl OpenStore {
    /// Stops the background threads and saves everything. Sessions must be dropped before; other clones of this handle
    /// must not be used any more.
    ///
    /// # Errors
    /// As [`Store::close`].
    pub fn close(self) -> Result<(), StoreError> {
        self.inner.background.stop();
        self.inner.pool.clear();
        let closed = self.inner.store.close();
        if let Some(region) = &self.inner.emulated {
            tiered::byte::forget_emulated(region);
        }
        closed
    }
    /// Changes `Options::dram`, or `Options::dram_records` if the store was opened with that, until it is closed. See
    /// [`Store::resize_dram`].
    ///
    /// # Errors
    /// As [`Store::resize_dram`].
    pub fn resize_dram(&self, bytes: u64) -> Result<(), StoreError> {
        self.resize_dram_without(bytes, 0)
    }
    /// Of such a budget, what is for buffers beside records and index.
    pub fn buffers_of(&self, bytes: u64) -> u64 {
        if self.inner.budget_for_all { tiered::sizes::buffers_of(bytes, self.inner.threads) } else { 0 }
    }
    /// [`resize_dram`](Self::resize_dram) where so much of what records would get has gone elsewhere, to gaps of the allocator for one.
    ///
    /// # Errors
    /// As [`Store::resize_dram`].
    pub fn resize_dram_without(&self, bytes: u64, taken: u64) -> Result<(), StoreError> {
        let buffers = self.buffers_of(bytes);
        self.inner.store.resize_dram(bytes.saturating_sub(buffers + taken)).map_err(|error| match error {
            StoreError::Options(text) if buffers > 0 => StoreError::Options(format!(
                "{text}; of a budget of {} {} are for buffers",
                human_bytes(bytes),
                human_bytes(buffers)
            )),
            other => other,
        })
    }
    /// Which records that are read below DRAM are copied to it; `None` if the engine has no read cache.
    pub fn read_cache(&self) -> Option<ReadCache> {
        self.inner.store.read_cache()
    }
    /// Changes `Options::read_cache` until the store is closed. See [`Store::set_read_cache`].
    ///
    /// # Errors
    /// As [`Store::set_read_cache`].
    pub fn set_read_cache(&self, cache: ReadCache) -> Result<(), StoreError> {
        self.inner.store.set_read_cache(cache)
    }
    /// Changes `Options::ssd`'s size, for good: it is the store's, whatever it is opened with later. A larger one is there at once,
    /// a smaller one when background steps have moved what lies beyond its end; until then a restart forgets it. See
    /// [`Store::resize_tier`].
    ///
    /// # Errors
    /// As [`Store::resize_tier`], and [`StoreError::Options`] if there is no such tier, or no room for it where it lies.
    pub fn resize_ssd(&self, bytes: u64) -> Result<(), StoreError> {
        let Some(ssd) = &self.inner.ssd else {
            return Err(StoreError::Options("the store has no tier on an SSD".into()));
        };
        let mut ssd = ssd.lock();
        refuse_too_much("the SSD", bytes, ssd.bytes, &ssd.dir)?;
        let log_bytes = ssd.log_bytes;
        self.inner.store.resize_tier("ssd", bytes.saturating_sub(log_bytes)).map_err(
            |error| match error {
                StoreError::Options(text) if log_bytes > 0 => {
                    let (asked, log) = (human_bytes(bytes), human_bytes(log_bytes));
                    StoreError::Options(format!("{asked}, of which the log takes {log}: {text}"))
                }
                other => other,
            },
        )?;
        ssd.bytes = bytes;
        Ok(())
    }
    /// The size that the tier on an SSD is to have, the log counted if it lies there; `None` if there is no such tier.
    pub fn ssd_bytes(&self) -> Option<u64> {
        self.inner.ssd.as_ref().map(|ssd| ssd.lock().bytes)
    }
    /// Changes `Options::pmem`'s size, for good, as [`resize_ssd`](Self::resize_ssd) does the other tier's. Of a store with both tiers
    /// the memory holds the log, too, which stays as it is: with what that and the superblock take, or 0, the tier of records
    /// is emptied and given up, until it grows again.
    ///
    /// # Errors
    /// As [`Store::resize_tier`], and [`StoreError::Options`] if there is no such tier, if its memory keeps its size (a device, or
    /// memory of the process or of a node), or if there is no room for it where it lies.
    pub fn resize_pmem(&self, bytes: u64) -> Result<(), StoreError> {
        let Some(pmem) = &self.inner.pmem else {
            return Err(StoreError::Options(
                "the store has no tier in byte-addressable memory that could have another size".into(),
            ));
        };
        let mut pmem = pmem.lock();
        let (front, bytes) = (pmem.front_bytes, if bytes == 0 { pmem.front_bytes } else { bytes });
        let (asked, log) = (human_bytes(bytes), human_bytes(front));
        if bytes < front {
            return Err(StoreError::Options(format!(
                "{asked} for PMem: the log takes {log} there, so that it has {front} bytes at least; 0 means just that, and no records"
            )));
        }
        if let Some(dir) = pmem.path.parent() {
            refuse_too_much("PMem", bytes, pmem.bytes, dir)?;
        }
        self.inner.store.resize_tier("pmem", bytes - front).map_err(|error| match error {
            StoreError::Options(text) if front > SUPERBLOCK => {
                StoreError::Options(format!("{asked}, of which the log takes {log}: {text}"))
            }
            StoreError::Options(text) => StoreError::Options(format!("{asked}: {text}")),
            other => other,
        })?;
        pmem.bytes = bytes;
        Ok(())
    }
    /// The size that the tier in byte-addressable memory is to have, superblock and log counted; `None` if there is no such tier.
    pub fn pmem_bytes(&self) -> Option<u64> {
        self.inner.pmem.as_ref().map(|pmem| pmem.lock().bytes)
    }
    /// Ends as if the process had been killed: nothing more is written. For benchmarks and tests of recovery. The directory
    /// is free again once every clone of this handle and every session is dropped.
    pub fn kill(self) {
        self.inner.background.stop();
    }
}

/// Bytes in front of a store in memory that has no log.
const SUPERBLOCK: u64 = terrace_media::SUPERBLOCK_BYTES as u64;

/// Refuses what there is no room for where it lies.
pub(crate) fn refuse_too_much(
    what: &str,
    bytes: u64,
    before: u64,
    dir: &std::path::Path,
) -> Result<(), StoreError> {
    let more = bytes.saturating_sub(before);
    let free = terrace_media::detect(dir).map_or(u64::MAX, |place| place.free_bytes);
    if more <= free {
        return Ok(());
    }
    Err(StoreError::Options(format!(
        "{} for {what}, {} more than now: {} has {} free",
        human_bytes(bytes),
        human_bytes(more),
        dir.display(),
        human_bytes(free)
    )))
}

impl std::ops::Deref for OpenStore {
    type Target = dyn Store;
    fn deref(&self) -> &Self::Target {
        &*self.inner.store
    }
}
