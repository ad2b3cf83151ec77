//! The space: what all its parts share, and the seam to the machine.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{Blocks, DramTarget, Image, KEYS_A_LOAD, Lower, Reads, Sweep, total_bytes};
use terrace_engine::Buffer;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::{Head, NewRecord, RecordView};
use terrace_engine::space::{
    Arrival, Background, Class, Context, Counted, DeviceReads, Durable, Fetch, Former, Found, FoundKeys,
    LargeValues, Limits, Records, Room, Sizing, Under, Want,
};
use terrace_engine::{Failure, MoreRoom, Progress, Scanned, StoreError, TierStats};
use terrace_index::{Address, AnyIndex, Index, Key};

use crate::admit::Judged;
use crate::chosen::Chosen;
use crate::copies::WithStages;
use crate::debts::{Debts, Haste, Settling};
use crate::defrag::Defrag;
use crate::evict::{Draining, Evicting};
use crate::flights::Flights;
use crate::large::Large;
use crate::location::{Location, Locations};
use crate::middle::{Middle, MiddleSteps};
use crate::open::{SLABS_MIN, SlabOptions};
use crate::partition::Others;
use crate::placement::Dealer;
use crate::retired::{Cooling, Retired};
use crate::round::{Retiring, Rounds};
use crate::sample::Sampling;
use crate::slab::Slabs;
use crate::stage::Stage;
use crate::stats::Details;
use crate::swap::Bufs;
use crate::sync::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Mutex};
use crate::temperature::Temperature;
use crate::top_up::Early;
use crate::warm::Warming;
use crate::write::Local;

/// Slabs in DRAM over pages on a lower tier. See the crate's text.
pub struct SlabSpace<L: Lower> {
    pub(crate) blocks: Blocks<L>,
    pub(crate) options: SlabOptions,
    pub(crate) locations: Locations,
    pub(crate) slabs: Slabs,
    /// The tier between DRAM and the blocks, if there is one.
    pub(crate) middle: Option<Middle>,
    pub(crate) retired: Retired,
    pub(crate) rounds: Rounds,
    pub(crate) temperature: Temperature,
    /// Copies of large values.
    pub(crate) large: Large,
    /// The policy of DRAM.
    pub(crate) policy: Chosen,
    /// What the placement needs: whose turn it is, and slots of DRAM whose records are bound for the middle tier.
    pub(crate) dealer: Dealer,
    pub(crate) bound: Mutex<Vec<u64>>,
    /// Records that were put beside unread ones.
    pub(crate) debts: Debts,
    /// No record in a page has a newer version.
    pub(crate) page_versions: AtomicU64,
    /// Bufs that were read around records which went up.
    pub(crate) bufs: Bufs,
    /// Background state, with the first partition: one step at a time.
    pub(crate) steps: Mutex<Steps>,
    /// The other partitions.
    pub(crate) others: Others,
    pub(crate) flights: Mutex<Flights>,
    /// Who needs room at once.
    pub(crate) early: Early,
    /// Slabs are being emptied.
    pub(crate) is_draining: AtomicBool,
    /// Partitions that can't let a slot go for which somebody waits.
    pub(crate) starving_partitions: AtomicUsize,
    /// 1: what is on the medium changes no more.
    pub(crate) stopped: AtomicU64,
    /// The sequence numbers of pages that are being written.
    pub(crate) aloft: Mutex<Vec<u64>>,
    /// The newest page written.
    pub(crate) last_page: AtomicU64,
    /// 1: blocks that large values wait for can't be had.
    pub(crate) whole_blocks_out: AtomicU64,
    /// 1: there is nothing to gain by moving records.
    pub(crate) exhausted: AtomicU64,
    /// What moving showed not to be there to gain, whatever the counters say.
    pub(crate) elusive_bytes: AtomicU64,
    /// Credit that a large value waits for, and the step before which one asked last.
    pub(crate) credit_wanted: AtomicU64,
    pub(crate) credit_asked_at: AtomicU64,
    /// Free blocks that would give it that credit, where free blocks alone do.
    pub(crate) free_wanted: AtomicU64,
    /// 1: evicting alone would give it that.
    pub(crate) starving: AtomicU64,
    pub(crate) judged: Mutex<Judged>,
    /// Bytes that may become dirty before background steps look again.
    pub(crate) credit: AtomicI64,
    /// What deletes may take beyond it.
    pub(crate) overdraft: AtomicI64,
    pub(crate) details: Details,
    pub(crate) purge_dram_at: AtomicU64,
    pub(crate) purge_middle_at: AtomicU64,
    pub(crate) purge_at: AtomicU64,
}

/// What background steps remember.
pub(crate) struct Steps {
    cooling: Cooling,
    pub stage: Stage,
    image: Image,
    evicting: Evicting,
    draining: Draining,
    pub retiring: Retiring,
    pub defrag: Defrag,
    pub middle: MiddleSteps,
    sweep: Sweep,
    warming: Warming,
    sampling: Sampling,
    settling: Settling,
}

impl Steps {
    fn new(policy: &Chosen, classes: usize) -> Self {
        Self {
            cooling: Cooling::default(),
            stage: Stage::default(),
            image: Image::default(),
            evicting: Evicting::new(policy, classes),
            draining: Draining::default(),
            retiring: Retiring::default(),
            defrag: Defrag::default(),
            middle: MiddleSteps::default(),
            sweep: Sweep::default(),
            warming: Warming::default(),
            sampling: Sampling::default(),
            settling: Settling::default(),
        }
    }
}

impl<L: Lower> SlabSpace<L> {
    pub(crate) fn assemble(
        blocks: Blocks<L>,
        middle: Option<Middle>,
        options: SlabOptions,
        (slabs, slabs_max): (usize, usize),
    ) -> Self {
        let target =
            |most| DramTarget::new(slabs, (SLABS_MIN, most), options.slab_bytes(), options.dram_budget);
        let slabs = Slabs::new((slabs, slabs_max), target, options.slab_bytes(), options.record_bytes_max())
            .with_partitions(options.partitions);
        blocks.limit_lists(target(slabs_max).whole_bytes());
        let (policy, classes) = (Chosen::new(options.eviction), slabs.classes.count());
        Self {
            locations: Locations::new(options.block_bytes, L::UNIT),
            retired: Retired::new(classes),
            rounds: Rounds::default(),
            temperature: Temperature::new(slabs.classes.count(), options.eviction.asks_for_thresholds()),
            large: Large::new(slabs.target.whole_bytes(), slabs.slab_bytes),
            dealer: Dealer::default(),
            bound: Mutex::default(),
            debts: Debts::default(),
            page_versions: AtomicU64::new(0),
            bufs: Bufs::default(),
            steps: Mutex::new(Steps::new(&policy, classes)),
            others: Others::new(options.partitions, &policy, classes),
            policy,
            flights: Mutex::default(),
            early: Early::default(),
            is_draining: AtomicBool::new(false),
            starving_partitions: AtomicUsize::new(0),
            stopped: AtomicU64::new(0),
            aloft: Mutex::default(),
            last_page: AtomicU64::new(0),
            whole_blocks_out: AtomicU64::new(0),
            exhausted: AtomicU64::new(0),
            elusive_bytes: AtomicU64::new(0),
            credit_wanted: AtomicU64::new(0),
            credit_asked_at: AtomicU64::new(0),
            free_wanted: AtomicU64::new(0),
            starving: AtomicU64::new(0),
            judged: Mutex::default(),
            credit: AtomicI64::new(0),
            overdraft: AtomicI64::new(0),
            details: Details::default(),
            purge_dram_at: AtomicU64::new(0),
            purge_middle_at: AtomicU64::new(0),
            middle,
            purge_at: AtomicU64::new(0),
            slabs,
            blocks,
            options,
        }
    }

    /// Every page up to this sequence number is on the medium, whole.
    pub(crate) fn sealed(&self) -> u64 {
        let aloft = self.aloft.lock();
        aloft.iter().min().map_or_else(|| self.blocks.last_seq.load(SeqCst), |first| first - 1)
    }

    /// Whether pages are on their way that will land.
    pub(crate) fn is_aloft(&self) -> bool {
        !self.aloft.lock().is_empty() && !self.blocks.failure.has_failed()
    }

    /// Whether an address is of a slot of the middle tier.
    pub(crate) fn is_in_middle(&self, address: Address) -> bool {
        matches!(self.locations.location(address), Location::Pmem(_))
    }

    /// What is on the medium changes no more: waits for the step that is under way and for pages aloft, and none follows.
    pub(crate) fn stop_steps(&self) {
        loop {
            let steps = self.steps.lock();
            let still = self.hold_still();
            // Launched by who has one of these locks, and landed so.
            if !self.is_aloft() {
                self.stopped.store(1, SeqCst);
                return;
            }
            drop((still, steps));
            crate::sync::yield_now();
        }
    }

    /// What was hot when the store was closed comes up again in the background.
    pub(crate) fn begin_warming(&self, list: Vec<u64>) {
        self.steps.lock().warming.begin(list);
    }

    /// The durable copy of a record in DRAM.
    pub(crate) fn home_of(&self, address: Address) -> Option<Address> {
        match self.locations.location(address) {
            Location::Dram(offset) => self.slabs.slot(offset).home(),
            Location::Pmem(_) | Location::Page(..) => None,
        }
    }
}

impl<L: Lower> Records for SlabSpace<L> {
    type Local = Local<L>;
    const TOMBSTONES: bool = true;
    fn limits(&self) -> Limits {
        self.limits_now()
    }
    fn attach(&self, slot: usize) -> Result<Local<L>, StoreError> {
        if self.stopped.load(SeqCst) == 1 {
            return Err(StoreError::Options("the store was closed: it must be opened again".into()));
        }
        let queue = self.blocks.lower.queue().map_err(StoreError::io("a queue of reads"))?;
        let reads = if self.swaps_bufs() { Reads::of_bufs(queue) } else { Reads::new(queue) };
        Ok(Local::new(reads, slot % self.slabs.partitions()))
    }
    fn detach(&self, local: &mut Local<L>) {
        self.rest_local(local);
    }
    #[inline]
    fn touch(&self, address: Address) {
        self.touch_record(address);
    }
    #[inline]
    fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
        self.fetch_record(address, key, want, out)
    }
    fn generation(&self, address: Address) -> u64 {
        match self.locations.location(address) {
            // Read at once, inside an epoch.
            Location::Dram(_) | Location::Pmem(_) => 0,
            Location::Page(place, _) => self.blocks.slots[place.slot as usize].seq.load(Acquire),
        }
    }
    #[inline]
    fn prepare(&self, local: &mut Local<L>, records: &[usize], class: Class) -> Room {
        self.prepare_slots(local, records, class)
    }
    #[inline]
    fn fits(&self, local: &Local<L>, records: &[usize]) -> bool {
        self.slots_fit(local, records)
    }
    #[inline]
    fn put(&self, local: &mut Local<L>, under: Under<'_>, record: &NewRecord<'_>) -> (Address, u64) {
        self.put_record(local, under, record)
    }
    const BLIND: bool = true;
    #[inline]
    fn takes_unread(&self, unread: Address, flushed: u64) -> bool {
        self.may_put_beside(unread, flushed)
    }
    #[inline]
    fn version_bound(&self) -> u64 {
        self.page_versions.load(SeqCst)
    }
    #[inline]
    fn issued(&self, local: &mut Local<L>) {
        self.let_homes_go(local);
    }
    #[inline]
    fn rest(&self, local: &mut Local<L>) {
        self.rest_local(local);
    }
    fn release(&self, address: Address, head: &Head) {
        self.release_record(address, head);
    }
    #[inline]
    fn hit(
        &self,
        local: &mut Local<L>,
        index: &AnyIndex,
        key: &Key<'_>,
        address: Address,
        _tier: u8,
        read: Option<&[u8]>,
    ) {
        self.note_hit(local, index, key, address, read);
    }
}

impl<L: Lower> LargeValues for SlabSpace<L> {
    fn write_extent(
        &self,
        local: &mut Local<L>,
        value: &[u8],
        former: Option<Former<'_>>,
        description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>> {
        self.admit_extent(local, value, former, description)
    }
    fn release_extent(&self, description: &[u8], other: &[u8]) {
        self.large.forget(description);
        self.blocks.forget_unshared(description, other);
    }
    fn extent_bytes(&self, description: &[u8]) -> u64 {
        total_bytes(description)
    }
    fn fetch_extent(&self, description: &[u8], out: &mut Buffer) -> Fetch {
        self.load_large(description, out)
    }
    fn keep_extent(&self, key: &Key<'_>, description: &[u8], value: &[u8]) {
        self.keep_large(key.hash, description, value);
    }
}

impl<L: Lower> DeviceReads for SlabSpace<L> {
    fn read_bytes(&self, address: Address) -> usize {
        Locations::read_bytes(address)
    }
    fn start_read(&self, local: &mut Local<L>, address: Option<Address>, extent: &[u8], token: u64) -> bool {
        match address {
            Some(address) => self.start_read_of(local, address, token),
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

impl<L: Lower> Background for SlabSpace<L> {
    fn step(&self, index: &AnyIndex, context: &dyn Context) -> Progress {
        let Some(mut steps) = self.steps.try_lock() else { return self.help(index, context) };
        self.details.steps.fetch_add(1, Relaxed);
        if self.stopped.load(SeqCst) == 1 {
            return Progress::Idle;
        }
        let Steps {
            cooling,
            stage,
            image,
            evicting,
            draining,
            retiring,
            defrag,
            middle,
            sweep,
            warming,
            sampling,
            settling,
        } = &mut *steps;
        let collected = self.retired.collect(cooling, self.policy.has_lists(), &self.slabs, context);
        self.unlist(evicting, cooling);
        let taken = self.slabs.has_empty() && {
            let _still = self.hold_still();
            self.slabs.take_empty()
        };
        let parked = self.slabs.park();
        let balanced = self.large_step();
        let mut all =
            vec![if collected || taken || parked || balanced { Progress::Worked } else { Progress::Idle }];
        all.push(self.round_step(retiring, (stage, evicting.filling()), index, context));
        let walking = matches!(retiring, Retiring::Sealing { .. } | Retiring::Walking { .. });
        all.push(self.evict_step((evicting, draining), stage, walking, index, context));
        all.push(self.fetch_step(index, context));
        all.push(self.middle_step(middle, stage, index, context));
        all.push(self.defrag_step(defrag, image, index, context));
        all.push(self.warm_step(warming, index, context));
        let (aside, launched) = self.step_of_another(index, context).unzip();
        all.extend(aside);
        let copies = WithStages { space: self, stages: [stage, &defrag.stage] };
        all.push(self.blocks.sweep_step(sweep, self.slabs.target.whole_bytes(), &copies, index, context));
        let is_short = self.blocks.free.refuses()
            || self.exhausted.load(Relaxed) == 1
            || self.starving.load(Relaxed) == 1
            || self.index_has_dram();
        let haste = match all.contains(&Progress::Worked) {
            _ if is_short || self.starving_partitions.load(SeqCst) > 0 || draining.is_under_way() => {
                Haste::Urgent
            }
            true => Haste::None,
            false => Haste::Idle,
        };
        all.push(self.settle_step(settling, haste, index, context));
        self.admit_step(context);
        let (tombstones, keys) = context.tombstones_and_keys();
        let above: u64 = self.slabs.table.iter().map(|slab| u64::from(slab.live.load(Relaxed))).sum();
        self.debts.limit_to_share_of(above);
        let below = (keys + tombstones).saturating_sub(above);
        self.temperature.age(above, below);
        self.sample_step(sampling, above, below, context);
        let progress = if all.contains(&Progress::Worked) {
            Progress::Worked
        } else if all.contains(&Progress::Blocked) || Retired::is_waiting(cooling) || self.is_aloft() {
            Progress::Blocked
        } else {
            Progress::Idle
        };
        let mut launched: Vec<_> = launched.unwrap_or_default();
        launched.append(&mut self.flights.lock().depart(0));
        drop(steps);
        self.fly_all(launched, index, context);
        progress
    }
    fn find_expired(&self, index: &AnyIndex, context: &dyn Context, found: &mut FoundKeys<'_>) -> Progress {
        self.find_dead(index, context, found)
    }
    fn sample_deadlines(&self, found: &mut dyn FnMut(u8, u64)) {
        self.blocks.sample_deadlines(found);
    }
    fn find_victims(&self, index: &AnyIndex, context: &dyn Context, count: usize, found: &mut FoundKeys<'_>) {
        let Some(steps) = self.steps.try_lock() else { return };
        let copies = WithStages { space: self, stages: [&steps.stage, &steps.defrag.stage] };
        let in_middle =
            |found: &mut FoundKeys<'_>| self.middle.as_ref().is_some_and(|middle| middle.keys(count, found));
        if !self.blocks.oldest_keys(&copies, index, context, KEYS_A_LOAD, found) && !in_middle(found) {
            self.keys_in_dram(count, found);
        }
    }
    fn is_full(&self) -> bool {
        self.blocks.free.refuses() || self.starving.load(Relaxed) == 1
    }
    fn close(&self, index: &AnyIndex, context: &dyn Context) -> Result<(), StoreError> {
        // What is dirty is written down; no session is open.
        self.settle_all(&mut self.steps.lock().settling, index, context);
        self.retire_every_round(index, context)
    }
}

impl<L: Lower> Durable for SlabSpace<L> {
    fn persisted_seq(&self) -> u64 {
        self.rounds.retired.load(SeqCst)
    }
    fn last_seq(&self) -> u64 {
        self.rounds.current.load(SeqCst)
    }
    fn sealed_seq(&self) -> u64 {
        self.sealed()
    }
    fn cut_seq(&self, _trusted: u64) -> u64 {
        // Rounds are retired only once the manifest trusts their pages.
        self.rounds.retired.load(SeqCst)
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
        self.scan_middle(found)?;
        self.blocks.scan_blocks(trusted_seq, threads, progress, &|slot, entry, words| {
            found(self.found_in_page(slot, entry, words));
        })
    }
    fn scan_again(
        &self,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        found: &(dyn Fn(Found) + Sync),
    ) -> Result<(), StoreError> {
        self.report_middle(found);
        self.blocks.scan_again(threads, progress, &|slot, entry, words| {
            found(self.found_in_page(slot, entry, words));
        })
    }
    fn scanned(&self) -> Scanned {
        self.scanned_of_both()
    }
    fn recovery_bytes(&self, index_bytes: u64) -> u64 {
        self.slabs.target.recovery_bytes(index_bytes, self.dram_bytes())
    }
    fn read_keys(
        &self,
        addresses: &[Address],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        // They are sorted, and so the slots come before the pages.
        let first = addresses.partition_point(|&address| self.is_in_middle(address));
        for (i, &address) in addresses[..first].iter().enumerate() {
            let record = match (&self.middle, self.locations.location(address)) {
                (Some(middle), Location::Pmem(at)) => middle.slabs.record(at),
                _ => None,
            };
            found(i, record.as_deref().and_then(RecordView::decode).map(|view| view.key));
        }
        let places = addresses[first..].iter().map(|&address| self.locations.place(address));
        self.blocks.read_record_keys(places, &mut |i, key| found(first + i, key))
    }
    fn adopt(&self, found: &Found) {
        if let Location::Pmem(at) = self.locations.location(found.address) {
            self.adopt_in_middle(at, found);
            return;
        }
        self.blocks.adopt_record(self.locations.place(found.address), found.words, found.kind);
    }
    fn adopt_extent(&self, description: &[u8]) {
        self.blocks.adopt_pieces(description);
    }
    fn clear_torn(&self) -> Result<(), StoreError> {
        self.blocks.clear_torn()
    }
    fn finish_recovery(&self) -> Result<(), StoreError> {
        if let Some(middle) = &self.middle {
            middle.slabs.clear_unadopted();
        }
        self.blocks.clear_unadopted()
    }
    fn save_snapshot<I: Index>(&self, index: &I, counted: &Counted, sequence: u64) -> Option<u32> {
        self.save(index, counted, sequence)
    }
    fn load_snapshot<I: Index>(
        &self,
        index: &mut I,
        place: u32,
        manifest: &Manifest,
        threads: usize,
    ) -> Result<(Counted, u64), String> {
        self.load(index, place, manifest, threads)
    }
}

impl<L: Lower> Sizing for SlabSpace<L> {
    fn tiers(&self) -> Vec<TierStats> {
        self.tier_stats()
    }
    fn dram_bytes(&self) -> u64 {
        let lists = self.blocks.limit_lists(self.slabs.target.whole_bytes());
        let table = lists as usize + self.blocks.slots.bytes() + std::mem::size_of_val(&*self.slabs.table);
        let middle = self.middle.as_ref().map_or(0, Middle::dram_bytes);
        (self.slabs.used_slabs() * self.slabs.slab_bytes + table) as u64
            + self.temperature.bytes()
            + self.debts.bytes()
            + middle
    }
    fn index_grew(&self, index_bytes: u64) {
        self.slabs.target.index_takes(index_bytes);
    }
    fn more_dram(&self) -> MoreRoom {
        MoreRoom::WhileOpen
    }
    fn resize_dram(&self, bytes: u64) -> Result<(), StoreError> {
        self.slabs.target.resize(bytes)
    }
    fn resize_tier(&self, tier: &str, bytes: u64) -> Result<(), StoreError> {
        self.resize_tier_to(tier, bytes)
    }
    fn details(&self) -> Vec<(&'static str, u64)> {
        self.detail_pairs()
    }
}
