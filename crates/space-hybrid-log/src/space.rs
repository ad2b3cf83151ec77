//! The space: what all its parts share, and the seam to the machine.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{
    Frames, Lower, Slot, State, Written, manifest_area, manifest_unit, older_copy, total_bytes,
};
use terrace_engine::record::{Head, NewRecord};
use terrace_engine::space::{Arrival, Class, Context, Fetch, Found, Limits, Room, Space, Want};
use terrace_engine::{Failure, Progress, StoreError, TierStats};
use terrace_index::{Address, Index, Key};

use crate::address::Addresses;
use crate::extent::OpenExtents;
use crate::flush::Flushing;
use crate::open::{FRAMES_MIN, HybridOptions};
use crate::read::Reads;
use crate::reclaim::Reclaiming;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex};
use crate::tombstones::Sweep;
use crate::write::OpenPage;

/// HeterMM's record space over a lower tier. See the crate's text.
pub struct HybridLog<L: Lower> {
    pub(crate) lower: L,
    pub(crate) options: HybridOptions,
    pub(crate) addresses: Addresses,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) frames: Frames,
    pub(crate) pool: Mutex<Pool>,
    pub(crate) last_seq: AtomicU64,
    /// Pages up to this sequence number should be flushed, so that space can be reclaimed.
    pub(crate) flush_target: AtomicU64,
    /// Background state: one step at a time.
    pub(crate) steps: Mutex<Steps<L>>,
    pub(crate) extents: Mutex<OpenExtents>,
    /// Extents that were written, and how many of them are known to be synced.
    pub(crate) extents_unsynced: AtomicU64,
    extents_synced: AtomicU64,
    extents_syncing: Mutex<()>,
    /// A typical record's length on the medium, so that one read usually gets a whole record.
    pub(crate) typical_bytes: AtomicU64,
    /// A write found no frame or no slot.
    pub(crate) hungry: AtomicBool,
    /// Slots beyond the reserve that a large value waits for.
    pub(crate) wanted: AtomicUsize,
    /// Bytes that writes were refused for; 0 once there is room again.
    pub(crate) full: AtomicBool,
    /// Not even deletes find room.
    pub(crate) stuck: AtomicBool,
    /// Frames that may be in use: the index may need the memory of the others.
    pub(crate) frames_allowed: AtomicUsize,
    pub(crate) details: Details,
    /// A write or sync failed, so that nothing more is flushed; and why.
    pub(crate) has_failed: AtomicBool,
    pub(crate) failure: OnceLock<Failure>,
    /// What kept recovery from looking at what it adopts.
    pub(crate) adoption_failed: Mutex<Option<StoreError>>,
    /// Used blocks without a header: torn, or adopted by what describes them (recovery).
    pub(crate) lost_headers: Mutex<Vec<u32>>,
    /// Which slots hold, or held, a block.
    pub(crate) written: Written,
    /// One manifest is stored at a time. Whether both copies are known to be the same.
    manifest_copies: Mutex<bool>,
    purge_at: AtomicU64,
}

/// Free slots and frames, and the pages in the order of their sequence numbers.
pub(crate) struct Pool {
    pub slots: Vec<u32>,
    pub frames: Vec<u32>,
    /// Mutable and read-only pages, oldest first.
    pub unsealed: VecDeque<u32>,
    /// Sealed blocks that still have a frame, oldest first, with their sequence numbers.
    pub clean: VecDeque<(u32, u64)>,
    /// Frames whose memory was given up to the index.
    pub parked: Vec<u32>,
}

/// What background steps remember.
pub(crate) struct Steps<L: Lower> {
    pub flushing: Flushing,
    pub reclaiming: Reclaiming<L>,
    pub sweep: Sweep,
}

/// Counts for people and tests.
#[derive(Default)]
pub(crate) struct Details {
    pub sealed: AtomicU64,
    pub reused: AtomicU64,
    pub reclaimed: AtomicU64,
    pub moved: AtomicU64,
    pub tombstones_dropped: AtomicU64,
    pub extents_written: AtomicU64,
    pub purged_blocks: AtomicU64,
    pub damaged: AtomicU64,
    pub headers_lost: AtomicU64,
}

/// What a session keeps: its open page and its reads.
pub struct Local<L: Lower> {
    pub(crate) page: Option<OpenPage>,
    pub(crate) reads: Reads<L>,
}

impl<L: Lower> HybridLog<L> {
    pub(crate) fn assemble(lower: L, options: HybridOptions, slots: Box<[Slot]>, frames: usize) -> Self {
        let free = (0..slots.len() as u32).rev().collect();
        Self {
            addresses: Addresses::new(options.block_bytes),
            frames: Frames::new(frames, options.block_bytes),
            pool: Mutex::new(Pool {
                slots: free,
                frames: (0..frames as u32).rev().collect(),
                unsealed: VecDeque::new(),
                clean: VecDeque::new(),
                parked: Vec::new(),
            }),
            frames_allowed: AtomicUsize::new(frames),
            slots,
            last_seq: AtomicU64::new(0),
            flush_target: AtomicU64::new(0),
            steps: Mutex::new(Steps {
                flushing: Flushing::default(),
                reclaiming: Reclaiming::default(),
                sweep: Sweep::default(),
            }),
            extents: Mutex::new(OpenExtents::default()),
            extents_unsynced: AtomicU64::new(0),
            extents_synced: AtomicU64::new(0),
            extents_syncing: Mutex::new(()),
            typical_bytes: AtomicU64::new(128),
            hungry: AtomicBool::new(false),
            wanted: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            details: Details::default(),
            has_failed: AtomicBool::new(false),
            failure: OnceLock::new(),
            adoption_failed: Mutex::new(None),
            lost_headers: Mutex::new(Vec::new()),
            written: Written::default(),
            manifest_copies: Mutex::new(false),
            purge_at: AtomicU64::new(0),
            lower,
            options,
        }
    }

    /// Where a slot's block starts on the medium.
    #[inline]
    pub(crate) fn block_offset(&self, slot: u32) -> u64 {
        manifest_area::<L>() + u64::from(slot) * self.options.block_bytes as u64
    }
    /// Slots kept for deletes and reclamation.
    pub(crate) fn reserve(&self) -> usize {
        (self.slots.len() / 64).clamp(RECLAIM_SLOTS + 2, 64)
    }
}

/// Slots that only reclamation takes: with none, it could move nothing, and nothing would ever be free again.
pub(crate) const RECLAIM_SLOTS: usize = 2;

impl<L: Lower> Space for HybridLog<L> {
    type Local = Local<L>;
    const TOMBSTONES: bool = true;

    fn limits(&self) -> Limits {
        self.options.limits()
    }
    fn attach(&self, _slot: usize) -> Result<Local<L>, StoreError> {
        Ok(Local {
            page: None,
            reads: Reads::new(self.lower.queue().map_err(StoreError::io("a queue of reads"))?),
        })
    }
    fn detach(&self, local: &mut Local<L>) {
        // The page stays mutable and is flushed in its turn; nobody appends to it any more.
        local.page = None;
    }
    #[inline]
    fn touch(&self, address: Address) {
        self.touch_record(address);
    }
    #[inline]
    fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Vec<u8>) -> Fetch {
        self.fetch_record(address, key, want, out)
    }
    fn generation(&self, address: Address) -> u64 {
        self.slots[self.addresses.place(address).slot as usize].seq.load(Acquire)
    }
    #[inline]
    fn prepare(&self, local: &mut Local<L>, words: usize, records: usize, class: Class) -> Room {
        let keep = if class == Class::Write { self.reserve() } else { RECLAIM_SLOTS };
        self.prepare_page(&mut local.page, words, records, keep)
    }
    #[inline]
    fn fits(&self, local: &Local<L>, words: usize, records: usize) -> bool {
        self.page_fits(&local.page, words, records)
    }
    #[inline]
    fn put(
        &self,
        local: &mut Local<L>,
        old: Option<(Address, &Head)>,
        record: &NewRecord<'_>,
    ) -> (Address, u64) {
        self.put_record(&mut local.page, old, record)
    }
    fn release(&self, address: Address, head: &Head) {
        let slot = &self.slots[self.addresses.place(address).slot as usize];
        // Release: who finds nothing live here must also find the successor's version issued.
        slot.live_bytes.fetch_sub(head.meta.slot_words() as i64 * 8, Release);
    }

    fn write_extent(
        &self,
        _local: &mut Local<L>,
        parts: &[&[u8]],
        description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>> {
        self.store_extent(parts, description)
    }
    fn release_extent(&self, description: &[u8]) {
        self.forget_extent(description);
    }
    fn extent_bytes(&self, description: &[u8]) -> u64 {
        total_bytes(description)
    }
    fn fetch_extent(&self, description: &[u8], out: &mut Vec<u8>) -> Fetch {
        self.load_extent(description, out)
    }
    fn start_read(&self, local: &mut Local<L>, address: Option<Address>, extent: &[u8], token: u64) -> bool {
        match address {
            Some(address) => self.start_record(&mut local.reads, address, token),
            None => self.start_extent(&mut local.reads, extent, token),
        }
    }
    fn reap(&self, local: &mut Local<L>, wait: bool, out: &mut Vec<Arrival>) {
        self.reap_reads(&mut local.reads, wait, out);
    }
    fn read_fd(&self, local: &Local<L>) -> Option<RawFd> {
        self.lower.fd(local.reads.queue())
    }

    fn step<I: Index>(&self, index: &I, context: &dyn Context) -> Progress {
        let Some(mut steps) = self.steps.try_lock() else { return Progress::Idle };
        let flushed = self.flush_step(&mut steps.flushing, context);
        let reclaimed = self.reclaim_step(&mut steps.reclaiming, index, context);
        let swept = self.sweep_step(&mut steps.sweep, index, context);
        let all = [flushed, reclaimed, swept];
        if all.contains(&Progress::Worked) {
            Progress::Worked
        } else if all.contains(&Progress::Blocked) {
            Progress::Blocked
        } else {
            Progress::Idle
        }
    }
    fn persisted_seq(&self) -> u64 {
        let pool = self.pool.lock();
        match pool.unsealed.front() {
            Some(&oldest) => self.slots[oldest as usize].seq.load(SeqCst) - 1,
            None => self.last_seq.load(SeqCst),
        }
    }
    fn last_seq(&self) -> u64 {
        self.last_seq.load(SeqCst)
    }
    fn find_expired(&self, context: &dyn Context, found: &mut dyn FnMut(u8, &[u8])) {
        self.find_dead(context, &self.purge_at, found);
    }
    fn find_victims<I: Index>(
        &self,
        index: &I,
        context: &dyn Context,
        count: usize,
        found: &mut dyn FnMut(u8, &[u8]),
    ) {
        self.oldest_keys(index, context, count, found);
    }
    fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(SeqCst)
    }
    fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }

    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        let wanted = self.extents_unsynced.load(SeqCst);
        if self.extents_synced.load(SeqCst) < wanted {
            let _one_at_a_time = self.extents_syncing.lock();
            if self.extents_synced.load(SeqCst) < wanted {
                let covered = self.extents_unsynced.load(SeqCst);
                let headers = self.written.sync_begins();
                let synced = self.lower.sync();
                self.written.synced(&self.slots, synced, headers)?;
                self.extents_synced.store(covered, SeqCst);
            }
        }
        Ok(())
    }
    #[track_caller]
    fn save_manifest(&self, bytes: &[u8]) -> io::Result<()> {
        let mut same = self.manifest_copies.lock();
        let mut unit = vec![0; manifest_unit::<L>() as usize];
        unit[..bytes.len()].copy_from_slice(bytes);
        self.written.encode(&self.slots, self.options.store_id, &mut unit);
        let first = if *same { 0 } else { older_copy(&self.lower)? };
        *same = false;
        // Both, one after the other: a crash may tear one, and rot in one must not bring an older manifest back, with what was
        // flushed or freed since.
        for copy in [first, 1 - first] {
            // No closure: what makes it durable is to be named by the caller's line (see `Lower`).
            let stored = match self.lower.write(copy * manifest_unit::<L>(), &unit) {
                Ok(()) => self.lower.sync(),
                failed => failed,
            };
            if let Err(error) = stored {
                self.fail("storing the manifest", &error);
                return Err(error);
            }
        }
        *same = true;
        Ok(())
    }
    fn scan_media(
        &self,
        trusted_seq: u64,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        found: &(dyn Fn(Found) + Sync),
    ) -> Result<(), StoreError> {
        self.scan_blocks(trusted_seq, threads, progress, found)
    }
    fn read_keys(
        &self,
        addresses: &[Address],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        self.read_record_keys(addresses, found)
    }
    fn adopt(&self, found: &Found) {
        self.adopt_record(found);
    }
    fn adopt_extent(&self, description: &[u8]) {
        self.adopt_pieces(description);
    }
    fn finish_recovery(&self) -> Result<(), StoreError> {
        self.settle_slots()
    }
    fn close<I: Index>(&self, index: &I, context: &dyn Context) -> Result<(), StoreError> {
        self.flush_all(index, context)
    }

    fn tiers(&self) -> Vec<TierStats> {
        let block = self.options.block_bytes as u64;
        let mut dram = TierStats {
            tier: "dram",
            medium: format!("{} pages of {} KiB", self.frames.count(), block / 1024),
            capacity_bytes: self.frames_allowed.load(Relaxed) as u64 * block,
            ..TierStats::default()
        };
        let mut lower = TierStats {
            tier: L::NAME,
            medium: self.lower.describe(),
            capacity_bytes: self.slots.len() as u64 * block,
            media: self.lower.counters(),
            ..TierStats::default()
        };
        for slot in &self.slots {
            let live = slot.live_bytes.load(Relaxed).max(0) as u64;
            let used = u64::from(slot.used_bytes.load(Relaxed));
            let state = slot.state();
            if state == State::Free {
                continue;
            }
            // A page holds nearly as many live records as its share of live bytes says.
            let records = u64::from(slot.count.load(Relaxed)) * live / used.max(1);
            if slot.frame().is_some() {
                dram.live_bytes += live;
                dram.used_bytes += block;
                dram.records += records;
            } else {
                lower.live_bytes += live;
                lower.records += records;
            }
            if matches!(state, State::Sealed | State::Extents | State::Freeing) {
                lower.used_bytes += block;
            }
        }
        vec![dram, lower]
    }
    fn dram_bytes(&self) -> u64 {
        let pool = self.pool.lock();
        let frames = (self.frames.count() - pool.frames.len() - pool.parked.len()) * self.options.block_bytes;
        (frames + std::mem::size_of_val(&*self.slots)) as u64
    }
    fn index_grew(&self, index_bytes: u64) {
        if let Some(budget) = self.options.dram_budget {
            let allowed = budget.saturating_sub(index_bytes) / self.options.block_bytes as u64;
            // Fewer than this many pages can't work; writes are refused before (see `take_page`).
            let allowed = (allowed as usize).clamp(FRAMES_MIN, self.frames.count());
            self.frames_allowed.store(allowed, Relaxed);
        }
    }
    fn details(&self) -> Vec<(&'static str, u64)> {
        let d = &self.details;
        let (slots, frames) = {
            let pool = self.pool.lock();
            (pool.slots.len() as u64, pool.frames.len() as u64)
        };
        vec![
            ("page_bytes", self.options.block_bytes as u64),
            ("pages", self.frames_allowed.load(Relaxed) as u64),
            ("pages_free", frames),
            ("blocks", self.slots.len() as u64),
            ("blocks_free", slots),
            ("blocks_sealed", d.sealed.load(Relaxed)),
            ("blocks_reused", d.reused.load(Relaxed)),
            ("blocks_reclaimed", d.reclaimed.load(Relaxed)),
            ("records_moved", d.moved.load(Relaxed)),
            ("tombstones_dropped", d.tombstones_dropped.load(Relaxed)),
            ("extents_written", d.extents_written.load(Relaxed)),
            ("blocks_purged", d.purged_blocks.load(Relaxed)),
            ("records_damaged", d.damaged.load(Relaxed)),
            ("headers_lost", d.headers_lost.load(Relaxed)),
        ]
    }
}
