//! The space: what all its parts share, and the seam to the machine.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{
    Blocks, DramTarget, Emptiest, FooterEntry, Frames, KEYS_A_LOAD, Lower, Place, RECLAIM_SLOTS, Reads,
    State, Sweep, total_bytes,
};
use terrace_engine::Buffer;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::{Head, NewRecord};
use terrace_engine::space::{
    Arrival, Background, Class, Context, Counted, DeviceReads, Durable, Fetch, Former, Found, FoundKeys,
    FoundRecords, LargeValues, Limits, Records, Room, Sizing, Under, Want,
};
use terrace_engine::{Failure, MoreRoom, Progress, ReadCache, Scanned, StoreError, TierStats};
use terrace_index::{Address, AnyIndex, Index, Key};

use crate::address::Addresses;
use crate::cache::{CACHED_FRAMES_MIN, Cache};
use crate::flush::Flushing;
use crate::group::Group;
use crate::open::{FRAMES_MIN, GROUP_PART, HybridOptions};
use crate::reclaim::Reclaiming;
use crate::sync::{AtomicU64, Mutex};
use crate::trade::Trading;
use crate::write::OpenPage;

/// HeterMM's record space over a lower tier. See the crate's text.
pub struct HybridLog<L: Lower> {
    pub(crate) blocks: Blocks<L>,
    pub(crate) options: HybridOptions,
    pub(crate) addresses: Addresses,
    pub(crate) frames: Frames,
    pub(crate) pool: Mutex<Pool>,
    pub(crate) cache: Cache,
    /// Whether writers began next to no pages of late, so that few frames are kept free for them. A hint: whoever finds none waits.
    pub(crate) resting: std::sync::atomic::AtomicBool,
    /// The store was closed: what is on the medium changes no more. Set under the lock of `steps`.
    pub(crate) stopped: std::sync::atomic::AtomicBool,
    /// Pages up to this sequence number should be flushed, so that space can be reclaimed.
    pub(crate) flush_target: AtomicU64,
    /// Background state: one step at a time.
    pub(crate) steps: Mutex<Steps<L>>,
    /// Frames that may be in use.
    pub(crate) target: DramTarget,
    pub(crate) details: Details,
    purge_at: AtomicU64,
}

/// Free frames, and the pages in the order of their sequence numbers.
pub(crate) struct Pool {
    pub frames: Vec<u32>,
    /// Mutable and read-only pages, oldest first.
    pub unsealed: VecDeque<u32>,
    /// Sealed blocks that still have a frame, oldest first, with their sequence numbers.
    pub clean: VecDeque<(u32, u64)>,
    /// Frames that may not be in use now, whose memory the system has: the index needs it, or the store was given less.
    pub parked: Vec<u32>,
}

/// What background steps remember.
pub(crate) struct Steps<L: Lower> {
    pub flushing: Flushing,
    pub trading: Trading,
    pub reclaiming: Reclaiming<L>,
    pub sweep: Sweep,
}

/// Counts for people and tests.
#[derive(Default)]
pub(crate) struct Details {
    pub sealed: AtomicU64,
    pub reclaimed: AtomicU64,
    pub moved: AtomicU64,
}

/// What a session keeps: its open page and its reads.
pub struct Local<L: Lower> {
    pub(crate) page: Option<OpenPage>,
    pub(crate) group: Group,
    pub(crate) reads: Reads<L>,
    /// Reads below DRAM since one was copied.
    pub(crate) missed: u32,
}

impl<L: Lower> HybridLog<L> {
    pub(crate) fn assemble(
        blocks: Blocks<L>,
        options: HybridOptions,
        (frames, frames_max): (usize, usize),
    ) -> Self {
        blocks.limit_lists(options.dram_bytes);
        let all = Frames::with_reserve(frames, frames_max, options.block_bytes);
        Self {
            addresses: Addresses::new(options.block_bytes),
            pool: Mutex::new(Pool {
                frames: (0..frames as u32).rev().collect(),
                unsealed: VecDeque::new(),
                clean: VecDeque::new(),
                parked: (frames as u32..all.count() as u32).rev().collect(),
            }),
            target: DramTarget::new(
                frames,
                (FRAMES_MIN, all.count()),
                options.block_bytes,
                options.dram_budget,
            ),
            resting: false.into(),
            stopped: false.into(),
            // Memory is read where it is, and a batch's reads wait for each other: there a copy costs more than it saves.
            cache: Cache::new(
                all.count(),
                options.block_bytes,
                if L::DIRECT { ReadCache::Off } else { ReadCache::Gated },
            ),
            frames: all,
            flush_target: AtomicU64::new(0),
            steps: Mutex::new(Steps {
                flushing: Flushing::default(),
                trading: Trading::default(),
                reclaiming: Reclaiming::default(),
                sweep: Sweep::default(),
            }),
            details: Details::default(),
            purge_at: AtomicU64::new(0),
            blocks,
            options,
        }
    }
}

impl<L: Lower> HybridLog<L> {
    /// A record of a block, as recovery wants it.
    fn found(&self, slot: u32, entry: &FooterEntry, words: u32) -> Found {
        Found {
            hash: entry.hash,
            check: entry.check,
            version: entry.version,
            address: self.addresses.address(Place { slot, offset: entry.offset }),
            words,
            kind: entry.kind,
            db: entry.db,
            life: entry.life,
        }
    }
}

impl<L: Lower> Records for HybridLog<L> {
    type Local = Local<L>;
    const TOMBSTONES: bool = true;
    fn limits(&self) -> Limits {
        let limits = self.options.limits();
        // DRAM that the index has taken, or that was given back, holds no group.
        let dram_bytes = self.target.frames() * self.blocks.block_bytes;
        Limits {
            group_bytes: limits.group_bytes.min(dram_bytes / GROUP_PART).max(limits.short_group_bytes),
            ..limits
        }
    }
    fn attach(&self, _slot: usize) -> Result<Local<L>, StoreError> {
        if self.stopped.load(SeqCst) {
            return Err(StoreError::Options("the store was closed: it must be opened again".into()));
        }
        Ok(Local {
            page: None,
            group: Group::default(),
            reads: Reads::new(self.blocks.lower.queue().map_err(StoreError::io("a queue of reads"))?),
            missed: 0,
        })
    }
    fn detach(&self, local: &mut Local<L>) {
        // The page stays mutable and is flushed in its turn; nobody appends to it any more.
        local.page = None;
        self.give_back(&mut local.group);
    }
    #[inline]
    fn rest(&self, local: &mut Local<L>) {
        if local.group.holds_any() {
            self.give_back(&mut local.group);
        }
    }
    const TOUCHES_TWICE: bool = true;
    #[inline]
    fn touch(&self, address: Address) {
        self.touch_record(address);
    }
    #[inline]
    fn touch_again(&self, address: Address) {
        self.touch_copy(address);
    }
    #[inline]
    fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
        self.fetch_record(address, key, want, out)
    }
    #[inline]
    fn hit(
        &self,
        local: &mut Local<L>,
        _index: &AnyIndex,
        _key: &Key<'_>,
        address: Address,
        tier: u8,
        read: Option<&[u8]>,
    ) {
        if tier != 0 {
            self.record_missed(local, address, read);
        }
    }
    fn generation(&self, address: Address) -> u64 {
        self.blocks.slots[self.addresses.place(address).slot as usize].seq.load(Acquire)
    }
    #[inline]
    fn prepare(&self, local: &mut Local<L>, records: &[usize], class: Class) -> Room {
        let keep = if class == Class::Write { self.blocks.reserve() } else { RECLAIM_SLOTS };
        let words = records.iter().sum();
        if records.len() > 1 && !self.fits_a_page(words, records.len()) {
            return self.prepare_pages(local, records, keep);
        }
        if !local.group.is_empty() {
            // Left over, and by now perhaps somebody else's.
            self.give_back(&mut local.group);
        }
        self.prepare_page(&mut local.page, words, records.len(), keep)
    }
    #[inline]
    fn fits(&self, local: &Local<L>, records: &[usize]) -> bool {
        if local.group.is_empty() {
            return self.page_fits(&local.page, records.iter().sum(), records.len());
        }
        self.pages_fit(local, records)
    }
    #[inline]
    fn put(&self, local: &mut Local<L>, under: Under<'_>, record: &NewRecord<'_>) -> (Address, u64) {
        if !local.group.is_empty() {
            self.turn_page(local, record.words());
        }
        self.put_record(&mut local.page, under.to_rewrite(), record)
    }
    fn release(&self, address: Address, head: &Head) {
        let slot = &self.blocks.slots[self.addresses.place(address).slot as usize];
        // Release: who finds nothing live here must also find the successor's version issued.
        slot.live_bytes.fetch_sub(head.meta.slot_words() as i64 * 8, Release);
    }
}

impl<L: Lower> LargeValues for HybridLog<L> {
    fn write_extent(
        &self,
        _local: &mut Local<L>,
        value: &[u8],
        former: Option<Former<'_>>,
        description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>> {
        self.blocks.store_extent(value, &self.blocks.parts_of(value, former), description)
    }
    fn release_extent(&self, description: &[u8], other: &[u8]) {
        self.blocks.forget_unshared(description, other);
    }
    fn extent_bytes(&self, description: &[u8]) -> u64 {
        total_bytes(description)
    }
    fn fetch_extent(&self, description: &[u8], out: &mut Buffer) -> Fetch {
        self.blocks.load_extent(description, out)
    }
}

impl<L: Lower> DeviceReads for HybridLog<L> {
    fn start_read(&self, local: &mut Local<L>, address: Option<Address>, extent: &[u8], token: u64) -> bool {
        match address {
            Some(address) => {
                self.blocks.start_record(&mut local.reads, self.addresses.place(address), None, token)
            }
            None => self.blocks.start_extent(&mut local.reads, extent, token),
        }
    }
    fn reap(&self, local: &mut Local<L>, wait: bool, out: &mut Vec<Arrival>) {
        self.blocks.reap_reads(&mut local.reads, wait, out);
    }
    fn read_fd(&self, local: &Local<L>) -> Option<RawFd> {
        self.blocks.lower.fd(local.reads.queue())
    }
}

impl<L: Lower> Background for HybridLog<L> {
    fn step(&self, index: &AnyIndex, context: &dyn Context) -> Progress {
        let Some(mut steps) = self.steps.try_lock() else { return Progress::Idle };
        if self.stopped.load(SeqCst) {
            return Progress::Idle;
        }
        let Steps { trading, flushing, .. } = &mut *steps;
        let traded = self.trade_step(trading, flushing, context);
        let flushed = self.flush_step(&mut steps.flushing, context);
        let reclaimed = self.reclaim_step(&mut steps.reclaiming, index, context);
        let swept = self.blocks.sweep_step(&mut steps.sweep, self.target.whole_bytes(), self, index, context);
        let traded = if traded { Progress::Worked } else { Progress::Idle };
        let all = [traded, flushed, reclaimed, swept];
        if all.contains(&Progress::Worked) {
            Progress::Worked
        } else if all.contains(&Progress::Blocked) {
            Progress::Blocked
        } else {
            Progress::Idle
        }
    }
    const COMPRESSES: bool = true;
    fn unflushed_bytes(&self) -> u64 {
        self.pool.lock().unsealed.len() as u64 * self.blocks.block_bytes as u64
    }
    fn walk_unflushed(
        &self,
        index: &AnyIndex,
        context: &dyn Context,
        after: u64,
        is_old: &dyn Fn(u64) -> bool,
        found: &mut FoundRecords<'_>,
    ) -> Option<u64> {
        self.walk_pages(index, context, after, is_old, found)
    }
    fn find_expired(&self, index: &AnyIndex, context: &dyn Context, found: &mut FoundKeys<'_>) -> Progress {
        // Frames stay where they are while background steps are held up.
        let Some(_steps) = self.steps.try_lock() else { return Progress::Idle };
        self.target.lists(self.blocks.limit_lists(self.target.whole_bytes()));
        self.blocks.find_dead(self, index, context, &self.purge_at, found)
    }
    fn sample_deadlines(&self, found: &mut dyn FnMut(u8, u64)) {
        self.blocks.sample_deadlines(found);
    }
    fn find_victims(
        &self,
        index: &AnyIndex,
        context: &dyn Context,
        _count: usize,
        found: &mut FoundKeys<'_>,
    ) {
        let Some(_steps) = self.steps.try_lock() else { return };
        if !self.blocks.oldest_keys(self, index, context, KEYS_A_LOAD, found) {
            self.blocks.free.hungry.store(true, SeqCst);
        }
    }
    fn is_full(&self) -> bool {
        self.blocks.free.full.load(Relaxed)
    }
    fn wants_victims(&self) -> bool {
        self.is_full() || self.blocks.free.soon_full.load(Relaxed)
    }
    fn close(&self, index: &AnyIndex, context: &dyn Context) -> Result<(), StoreError> {
        self.flush_all(index, context)
    }
}

impl<L: Lower> Durable for HybridLog<L> {
    fn persisted_seq(&self) -> u64 {
        let pool = self.pool.lock();
        match pool.unsealed.front() {
            Some(&oldest) => self.blocks.slots[oldest as usize].seq.load(SeqCst) - 1,
            None => self.blocks.last_seq.load(SeqCst),
        }
    }
    fn last_seq(&self) -> u64 {
        self.blocks.last_seq.load(SeqCst)
    }
    fn has_failed(&self) -> bool {
        self.blocks.failure.has_failed()
    }
    fn failure(&self) -> Option<Failure> {
        self.blocks.failure.get().cloned()
    }
    #[track_caller]
    fn sync(&self) -> io::Result<()> {
        self.blocks.sync_extents()
    }
    #[track_caller]
    fn save_manifest(&self, bytes: &[u8]) -> io::Result<()> {
        self.blocks.save_manifest(bytes)
    }
    fn scan_media(
        &self,
        trusted_seq: u64,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        found: &(dyn Fn(Found) + Sync),
    ) -> Result<(), StoreError> {
        self.blocks.scan_blocks(trusted_seq, threads, progress, &|slot, entry, words| {
            found(self.found(slot, entry, words));
        })
    }
    fn scan_again(
        &self,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        found: &(dyn Fn(Found) + Sync),
    ) -> Result<(), StoreError> {
        self.blocks.scan_again(threads, progress, &|slot, entry, words| {
            found(self.found(slot, entry, words));
        })
    }
    fn scanned(&self) -> Scanned {
        self.blocks.scanned()
    }
    fn recovery_bytes(&self, index_bytes: u64) -> u64 {
        self.target.recovery_bytes(index_bytes, self.dram_bytes())
    }
    fn read_keys(
        &self,
        addresses: &[Address],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        self.blocks.read_record_keys(addresses.iter().map(|&address| self.addresses.place(address)), found)
    }
    fn adopt(&self, found: &Found) {
        self.blocks.adopt_record(self.addresses.place(found.address), found.words, found.kind);
    }
    fn adopt_extent(&self, description: &[u8]) {
        self.blocks.adopt_pieces(description);
    }
    fn clear_torn(&self) -> Result<(), StoreError> {
        self.blocks.clear_torn()
    }
    fn finish_recovery(&self) -> Result<(), StoreError> {
        self.blocks.clear_unadopted()
    }
    fn save_snapshot<I: Index>(&self, index: &I, counted: &Counted, sequence: u64) -> Option<u32> {
        self.blocks.save_stopped(self, index, counted, sequence)
    }
    fn load_snapshot<I: Index>(
        &self,
        index: &mut I,
        place: u32,
        manifest: &Manifest,
        threads: usize,
    ) -> Result<(Counted, u64), String> {
        let restored = self.blocks.load_stopped(self, index, place, manifest, threads)?;
        Ok((restored.counted, restored.newest))
    }
}

impl<L: Lower> Sizing for HybridLog<L> {
    fn tiers(&self) -> Vec<TierStats> {
        let block = self.blocks.block_bytes as u64;
        let mut dram = TierStats {
            tier: "dram",
            medium: format!("{} pages of {} KiB", self.target.frames(), block / 1024),
            capacity_bytes: self.target.frames() as u64 * block,
            ..TierStats::default()
        };
        let mut lower = TierStats {
            tier: L::NAME,
            medium: self.blocks.lower.describe(),
            capacity_bytes: self.blocks.slots.len() as u64 * block,
            media: self.blocks.lower.counters(),
            taken_bytes: if L::DIRECT { 0 } else { self.blocks.backed_bytes() },
            cramped: self.blocks.backing_refused(),
            ..TierStats::default()
        };
        for slot in self.blocks.slots.iter() {
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
        let frames = (self.frames.count() - pool.frames.len() - pool.parked.len()) * self.blocks.block_bytes;
        let lists = self.blocks.limit_lists(self.target.whole_bytes());
        let noted = self.blocks.slots.len() * Emptiest::BYTES_A_SLOT;
        (frames + self.blocks.slots.bytes() + noted) as u64 + lists + self.cache.aside_bytes()
    }
    fn index_grew(&self, index_bytes: u64) {
        self.target.index_takes(index_bytes);
    }
    fn more_dram(&self) -> MoreRoom {
        MoreRoom::WhileOpen
    }
    fn read_cache(&self) -> Option<ReadCache> {
        Some(self.cache.admission())
    }
    fn set_read_cache(&self, cache: ReadCache) -> Result<(), StoreError> {
        if cache != ReadCache::Off && !self.cache.is_possible() {
            let (pages, bytes) = (self.frames.count(), self.blocks.block_bytes);
            return Err(StoreError::Options(format!(
                "DRAM has {pages} pages of {bytes} bytes, which are all for writers: read-cache {cache} needs at least {CACHED_FRAMES_MIN}"
            )));
        }
        self.cache.set_admission(cache);
        Ok(())
    }
    fn resize_dram(&self, bytes: u64) -> Result<(), StoreError> {
        self.target.resize(bytes)
    }
    fn details(&self) -> Vec<(&'static str, u64)> {
        let (d, counts) = (&self.details, &self.blocks.counts);
        let (slots, frames) = {
            let pool = self.pool.lock();
            (self.blocks.free.slots.lock().len() as u64, pool.frames.len() as u64)
        };
        vec![
            ("page_bytes", self.blocks.block_bytes as u64),
            ("pages", self.target.frames() as u64),
            ("pages_free", frames),
            ("pages_cached", self.cache.counts.pages.load(Relaxed)),
            ("records_cached", self.cache.counts.records.load(Relaxed)),
            ("cache_table_bytes", self.cache.aside_bytes()),
            ("cache_admitted", self.cache.counts.admitted.load(Relaxed)),
            ("cache_kept", self.cache.counts.kept.load(Relaxed)),
            ("cache_left", self.cache.counts.left.load(Relaxed)),
            ("blocks", self.blocks.slots.len() as u64),
            ("blocks_free", slots),
            ("blocks_sealed", d.sealed.load(Relaxed)),
            ("blocks_reused", counts.reused.load(Relaxed)),
            ("blocks_reclaimed", d.reclaimed.load(Relaxed)),
            ("records_moved", d.moved.load(Relaxed)),
            ("tombstones_dropped", counts.tombstones_dropped.load(Relaxed)),
            ("extents_written", counts.extents_written.load(Relaxed)),
            ("extents_moved", counts.extents_moved.load(Relaxed)),
            ("gathered_bytes", counts.gathered_bytes.load(Relaxed)),
            ("blocks_purged", counts.purged.load(Relaxed)),
            ("blocks_looked_at", counts.looked_at.load(Relaxed)),
            ("records_damaged", counts.damaged.load(Relaxed)),
            ("headers_lost", counts.headers_lost.load(Relaxed)),
            ("snapshots_saved", counts.snapshots_saved.load(Relaxed)),
            ("snapshots_not_saved", counts.snapshots_not_saved.load(Relaxed)),
            ("reads_merged", counts.reads_merged.load(Relaxed)),
        ]
    }
}
