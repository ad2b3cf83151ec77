//! Copies of large values in DRAM.
//!
//! ```text
//!   get of a value over 16 KiB --> shelf: a copy? --> answered from DRAM
//!                                    '--> device --> worth its place? --> pool: chunks, counted as DRAM
//! ```
//!
//! A large value lies in pieces on the lower tier (`blocks/extent.rs`), whatever tier the record is in that describes it. One that
//! is read often gets a copy beside. It never changes and is always clean, so it can go at any time, and nothing of it outlives
//! the process: durability doesn't know of it.
//!
//! *Who enters*: by reads for each byte, which is what DRAM is to be spent on. A value that wants to enter must beat all copies
//! together that would have to go for it (as in size-aware TinyLFU), by the margin that `beats` asks for.
//!
//! *How much DRAM*: none at first. It moves between slabs and chunks by the same measure: where a value is read more often for
//! each byte than the next record to leave the class with the most slabs, chunks get slabs' worth; where it is the other way
//! round, slabs do. A slab is emptied first, so both together stay in the budget.

mod pool;
mod shelf;

use std::sync::atomic::Ordering::*;
use std::sync::{Arc, OnceLock};

use terrace_blocks::Lower;
use terrace_engine::Buffer;
use terrace_engine::record::Head;
use terrace_engine::space::Fetch;

use crate::space::SlabSpace;
use crate::sync::{AtomicU64, Mutex};
use crate::temperature::NO_RIVAL;
use pool::{Copied, Pool};
use shelf::{Id, Shelf};
use terrace_policy::Count;

/// Of a value over 16 KiB half a chunk is lost.
const CHUNK_BYTES: usize = 4 << 10;
const SHELVES_MAX: usize = 16;
/// Chunks from which on there is another shelf.
const CHUNKS_A_SHELF: usize = 1024;
/// Of DRAM, copies have at most three quarters, and one of them at most an eighth.
const SHARE: (u64, u64) = (3, 4);
const SHARE_OF_ONE: u64 = 8;
/// Times as much DRAM as at first that a store may get while it is open.
const RESERVE: u64 = 4;
/// Accesses between two slabs that copies give back.
const PACE: u64 = 256;

/// See the module.
pub(crate) struct Large {
    chunk_bytes: usize,
    chunks_max: usize,
    pool: OnceLock<Arc<Pool>>,
    shelves: Box<[Mutex<Shelf>]>,
    /// Chunks that may be held.
    granted: AtomicU64,
    /// What the hottest value that found no place asks for, since background steps looked last.
    asked: Mutex<Option<Asked>>,
    /// Bytes for chunks that slabs must not use: what is granted, or will be once slabs are empty.
    promised: AtomicU64,
    shrunk_at: AtomicU64,
    hits: AtomicU64,
    entered: AtomicU64,
    kept_out: AtomicU64,
}

/// A value, and how often it was read.
#[derive(Clone, Copy)]
struct Asked {
    bytes: usize,
    count: Count,
}

/// Reads of so many bytes, for a mebibyte, in sixteenths.
fn density(count: Count, bytes: usize) -> u64 {
    (u64::from(count.in_sixteenths()) << 20) / bytes.max(1) as u64
}

/// What gate `beats` asks for: half as much again, and the read that is under way doesn't count.
fn beats(count: Count, rival: u64) -> bool {
    u64::from(count.in_sixteenths()) > rival + rival / 2 + u64::from(Count::ONE.in_sixteenths())
}

impl Large {
    /// For a store with so much DRAM, in slabs of so many bytes.
    pub fn new(dram_bytes: u64, slab_bytes: usize) -> Self {
        let chunk_bytes = CHUNK_BYTES.min((slab_bytes / 4).next_multiple_of(8));
        let chunks = (dram_bytes / chunk_bytes as u64) as usize;
        let shelves = (chunks / CHUNKS_A_SHELF).clamp(1, SHELVES_MAX).next_power_of_two();
        Self {
            chunk_bytes,
            chunks_max: (dram_bytes * RESERVE / chunk_bytes as u64) as usize,
            pool: OnceLock::new(),
            shelves: (0..shelves).map(|_| Mutex::default()).collect(),
            granted: AtomicU64::new(0),
            asked: Mutex::default(),
            promised: AtomicU64::new(0),
            shrunk_at: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            kept_out: AtomicU64::new(0),
        }
    }
    fn shelf(&self, id: Id) -> &Mutex<Shelf> {
        &self.shelves[id.spread() % self.shelves.len()]
    }
    fn pool(&self) -> &Arc<Pool> {
        self.pool.get_or_init(|| Arc::new(Pool::new(self.chunks_max, self.chunk_bytes)))
    }
    fn ask(&self, asked: Asked) {
        let mut place = self.asked.lock();
        let hotter =
            place.is_none_or(|other| density(asked.count, asked.bytes) > density(other.count, other.bytes));
        if hotter {
            *place = Some(asked);
        }
    }
    /// A large value is no more: nor is its copy.
    pub fn forget(&self, description: &[u8]) {
        if self.pool.get().is_some()
            && let Some(id) = Id::of(description)
        {
            self.shelf(id).lock().remove(id);
        }
    }
    /// Bytes that slabs must not use.
    pub fn bytes(&self) -> u64 {
        self.promised.load(Relaxed)
    }
    /// Bytes of chunks that are held, and of the values in them.
    pub fn used_bytes(&self) -> u64 {
        self.pool.get().map_or(0, |pool| (pool.held() * self.chunk_bytes) as u64)
    }
    pub fn live_bytes(&self) -> u64 {
        self.held().1
    }
    fn held(&self) -> (u64, u64) {
        let held = self.shelves.iter().map(|shelf| shelf.lock().held());
        held.fold((0, 0), |sum, held| (sum.0 + held.0, sum.1 + held.1))
    }
    /// Counts for people and tests.
    pub fn pairs(&self) -> [(&'static str, u64); 5] {
        let (values, bytes) = self.held();
        [
            ("large_values_in_dram", values),
            ("large_value_bytes_in_dram", bytes),
            ("large_value_hits", self.hits.load(Relaxed)),
            ("large_values_entered", self.entered.load(Relaxed)),
            ("large_values_kept_out", self.kept_out.load(Relaxed)),
        ]
    }
}

impl<L: Lower> SlabSpace<L> {
    /// A large value, if it can be had without waiting.
    pub(crate) fn load_large(&self, description: &[u8], out: &mut Buffer) -> Fetch {
        if L::DIRECT {
            return self.blocks.load_extent(description, out);
        }
        let large = &self.large;
        let kept = match (large.pool.get(), Id::of(description)) {
            (Some(_), Some(id)) => large.shelf(id).lock().read(id),
            _ => None,
        };
        let Some((hash, copied)) = kept else { return Fetch::NeedsRead };
        copied.append_to(out);
        self.temperature.touch_large(hash);
        large.hits.fetch_add(1, Relaxed);
        Fetch::Match(Head::default())
    }

    /// A client has read this large value from the device: it is kept, if it is worth that.
    pub(crate) fn keep_large(&self, hash: u64, description: &[u8], value: &[u8]) {
        let large = &self.large;
        let Some(id) = Id::of(description).filter(|_| !L::DIRECT) else { return };
        let count = self.temperature.touch_large(hash);
        if value.len() as u64 > self.large_bytes_max() / SHARE_OF_ONE {
            return;
        }
        let (granted, pool) = (large.granted.load(Relaxed) as usize, large.pool());
        let mut shelf = large.shelf(id).lock();
        if shelf.has(id) {
            return;
        }
        let mut found: Option<Copied> = pool.take(value.len(), granted);
        if found.is_none() {
            let chunks = value.len().div_ceil(large.chunk_bytes);
            let counts = |hash| self.temperature.count_large(hash);
            if shelf.displace(chunks, |reads| beats(count, u64::from(reads)), counts) {
                found = pool.take(value.len(), granted);
            }
        }
        drop(shelf);
        match found {
            Some(copied) => {
                copied.fill(value);
                large.shelf(id).lock().put(id, hash, copied);
                large.entered.fetch_add(1, Relaxed);
            }
            None => {
                large.kept_out.fetch_add(1, Relaxed);
                large.ask(Asked { bytes: value.len(), count });
            }
        }
    }

    /// What copies may take of DRAM.
    fn large_bytes_max(&self) -> u64 {
        let all = self.slabs.target.whole_bytes() / SHARE.1 * SHARE.0;
        all.min(self.large.chunks_max as u64 * self.large.chunk_bytes as u64)
    }

    /// The next record to leave the class with the most slabs: how often records like it are read. 0 where none has to leave.
    fn density_of_records(&self) -> u64 {
        if self.slabs.used_slabs() < self.slabs.target.frames() {
            return 0;
        }
        let classes = &self.slabs.classes;
        let donor = (0..classes.count()).max_by_key(|&class| self.slabs.held(class)).unwrap_or(0);
        match self.temperature.rivals[donor].load(Relaxed) {
            NO_RIVAL => 0,
            rival => density(Count::sixteenths(rival), classes.bytes(donor)),
        }
    }

    /// Moves DRAM between slabs and copies of large values. Whether there was anything to do.
    pub(crate) fn large_step(&self) -> bool {
        let large = &self.large;
        let asked = large.asked.lock().take();
        let Some(pool) = large.pool.get() else { return false };
        let (slab, chunk) = (self.slabs.slab_bytes as u64, large.chunk_bytes as u64);
        let granted = large.granted.load(Relaxed) * chunk;
        let most = self.large_bytes_max();
        let counts = |hash| self.temperature.count_large(hash);
        let mut promised = large.promised.load(Relaxed);
        if promised > granted {
            // Slabs are being emptied for it.
        } else if let Some(Asked { bytes, count }) = asked {
            let records = (self.density_of_records() * bytes as u64) >> 20;
            if beats(count, records) {
                // Of what is wanted often there will be more.
                promised =
                    granted + (bytes as u64).next_multiple_of(chunk).max(granted / 8).next_multiple_of(slab);
            }
        } else if granted > 0 {
            let at = self.temperature.accesses() / PACE;
            if large.shrunk_at.swap(at, Relaxed) != at {
                let records = self.density_of_records();
                let coldest = large.shelves.iter().filter_map(|shelf| shelf.lock().coldest(counts));
                let copies = coldest.map(|(count, chunks)| density(count, chunks * chunk as usize)).min();
                if copies.unwrap_or(0) * 3 / 2 < records {
                    promised = granted.saturating_sub(slab);
                }
            }
        }
        promised = promised.min(most / slab * slab);
        let mut worked = large.promised.swap(promised, Relaxed) != promised;
        if promised < granted {
            large.granted.store(promised / chunk, Relaxed);
            self.drop_copies((promised / chunk) as usize, pool);
        }
        // What readers still hold is DRAM, too.
        let used = pool.trim((promised / chunk) as usize) as u64 * chunk;
        self.slabs.target.set_aside(promised.max(used));
        if promised > granted && self.slabs.used_slabs() <= self.slabs.target.frames() {
            large.granted.store(promised / chunk, Relaxed);
            worked = true;
        }
        worked
    }

    /// Lets copies go until so many chunks are held, from each shelf in turn.
    fn drop_copies(&self, limit: usize, pool: &Pool) {
        while pool.held() > limit {
            let dropped = self.large.shelves.iter().filter_map(|shelf| shelf.lock().drop_one()).count();
            if dropped == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_value_needs_as_many_reads_as_all_the_records_in_its_place() {
        // Records of 64 bytes, each read as often as can be told.
        let records = density(Count::MAX, 64);
        for megabytes in [1_u64, 64, 1024] {
            assert!(!beats(Count::MAX, (records * (megabytes << 20)) >> 20), "{megabytes} MiB");
        }
        assert!(beats(Count::MAX, 0) && !beats(Count::ONE, 0), "the read that asks is not counted");
    }
}
