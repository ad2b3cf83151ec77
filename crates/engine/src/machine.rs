//! An open store: index, space, log, and what they share.
//!
//! # Thread safety
//! `step` may run on several threads: each part of it is guarded by a lock that is only tried.
//!
//! # Lock order
//! `compression` > `background` > `manifest` > the space's own locks > the log's table. No lock is held while a session is waited for,
//! except `pause`, which nobody inside an epoch takes.

mod context;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

use terrace_index::{AnyIndex, Index};
use terrace_log::{Log, LogDevice};

use crate::clock::{Clock, Mark, Time};
use crate::commit::Barrier;
use crate::compress::Compression;
use crate::core::Core;
use crate::durability::Durability;
use crate::hash::KeyHasher;
use crate::manifest::Manifest;
use crate::promised::Promised;
use crate::session::{Progress, Session, Store, StoreError};
use crate::shared::Shared;
use crate::space::Space;
use crate::stats::{LogStats, RecoveryStats, Stats};
use crate::sync::{AtomicU64, Mutex};
use crate::version::{SLOTS_MAX, TICKS_MAX, Version};

/// What a machine is built from, beside its index, space and log.
pub struct MachineOptions {
    /// The engine's name, for people.
    pub engine: &'static str,
    /// When answers are given.
    pub durability: Durability,
    /// Whether a completed log write is safe from power loss at once.
    pub immediate: bool,
    /// Evict when full, instead of refusing.
    pub evict: bool,
    /// Sessions that can be open at once, at most [`SLOTS_MAX`] less one for background work.
    pub sessions: usize,
    /// Key hashes.
    pub hasher: KeyHasher,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Recovery's threads.
    pub threads: usize,
    /// Over so many keys a pass of recovery decides at most, beside what the DRAM allows: tests make many passes of few keys.
    pub recovery_keys: usize,
}

/// A store of one engine. See the crate's picture.
pub struct Machine<I: Index, S: Space, D: LogDevice> {
    /// The index.
    pub index: I,
    /// The space.
    pub space: S,
    pub(crate) log: Promised<S, Log<D>>,
    pub(crate) shared: Shared,
    pub(crate) options: MachineOptions,
    pub(crate) background: Mutex<Option<Core<I, S, D>>>,
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) compression: Mutex<Compression>,
    /// A log floor on its way: see [`Machine::raise_log_floor`].
    floor: Mutex<FloorState>,
    /// The log floor that the stored manifest has.
    stored_floor: AtomicU64,
    /// The sequence number up to which the stored manifest trusts pages, and the one that somebody waits for.
    stored_seq: AtomicU64,
    wanted_seq: AtomicU64,
    /// The version floor that the stored manifest has: see [`Machine::keep_below_floor`].
    version_bound: AtomicU64,
    syncing: Mutex<()>,
    wakers: Box<[Mutex<Option<Arc<OwnedFd>>>]>,
    pub(crate) recovery: Option<RecoveryStats>,
}

/// How the log floor rises: a moment is taken; once every session has passed it, all versions below it lie in pages up to
/// some sequence number; once those are persisted the floor is durable elsewhere.
enum FloorState {
    /// What the log holds is not all in pages yet: a floor taken now would pass over it.
    Recovering,
    Idle,
    Passing {
        version: u64,
        epoch: u64,
    },
    Persisting {
        version: u64,
        seq: u64,
        barrier: Barrier,
    },
}

/// How far ahead of use the clock's high-water mark is stored, and how close to it a new one is.
const TIME_AHEAD_US: u64 = 10_000_000;
const TIME_MARGIN_US: u64 = 5_000_000;
impl<I: Index, S: Space, D: LogDevice> Machine<I, S, D> {
    pub(crate) fn assemble(
        options: MachineOptions,
        index: I,
        space: S,
        log: Option<Log<D>>,
        manifest: Manifest,
        max_version: u64,
    ) -> Self {
        let sessions = (options.sessions + 1).min(SLOTS_MAX);
        let flushed = manifest.newest_generation();
        let start = max_version.max(manifest.version_floor).max(flushed);
        // The mark of a clean stop is the time of the stop.
        let ahead_us = if manifest.clean { 0 } else { TIME_AHEAD_US };
        let mark = Mark { us: manifest.time_us, ahead_us };
        let shared = Shared::new(
            options.hasher,
            options.durability,
            options.clock.clone(),
            sessions,
            start,
            mark,
            options.immediate,
        );
        shared.take_generations(&manifest);
        Self {
            index,
            space,
            log: Promised::new(log),
            shared,
            options,
            background: Mutex::new(None),
            stored_floor: manifest.log_floor.into(),
            stored_seq: manifest.persisted_seq.into(),
            wanted_seq: 0.into(),
            version_bound: manifest.version_floor.into(),
            manifest: Mutex::new(manifest),
            compression: Mutex::default(),
            floor: Mutex::new(FloorState::Recovering),
            syncing: Mutex::new(()),
            wakers: (0..sessions).map(|_| Mutex::new(None)).collect(),
            recovery: None,
        }
    }

    /// One round of background work by a session that waits; yields if there was nothing to do.
    pub(crate) fn work(self: &Arc<Self>) -> Progress {
        let progress = self.step_once();
        if progress != Progress::Worked {
            crate::sync::yield_now();
        }
        progress
    }
    /// The same, for a session whose log group found no block. `false` once the log has failed.
    pub(crate) fn work_for_log(self: &Arc<Self>) -> bool {
        self.work();
        if self.space.has_failed() {
            let why = self.space.failure().map_or_else(|| "it failed".into(), |failure| failure.what);
            let what =
                "the log is full: its blocks are freed once pages are flushed, and the lower tier takes none";
            self.shared.fail_log(what, &why);
            self.wake_waiters();
        }
        !self.shared.log_failed.load(Relaxed)
    }

    pub(crate) fn set_waker(&self, slot: usize, waker: Option<Arc<OwnedFd>>) {
        *self.wakers[slot].lock() = waker;
    }
    /// Wakes the sessions that wait for a position.
    pub(crate) fn wake_waiters(&self) {
        self.shared.commit.waiters.wake(|slot| {
            if let Some(waker) = &*self.wakers[slot].lock() {
                // A full counter means that it is readable already.
                let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
            }
        });
    }

    /// One step: whatever is due first.
    pub(crate) fn step_once(self: &Arc<Self>) -> Progress {
        self.space.index_grew(self.index.memory_bytes());
        let mut blocked = false;
        let parts: [&dyn Fn() -> Progress; 7] = [
            &|| self.sync_step(),
            &|| self.time_step().unwrap_or(Progress::Blocked),
            &|| self.space.step(AnyIndex::of(&self.index), &**self),
            &|| self.compress_step(),
            &|| self.floor_step(),
            &|| self.expire_step(),
            &|| self.evict_step(),
        ];
        let mut worked = false;
        for part in parts {
            match part() {
                Progress::Worked => worked = true,
                Progress::Blocked => blocked = true,
                Progress::Idle => {}
            }
        }
        match (worked, blocked) {
            (true, _) => Progress::Worked,
            (false, true) => Progress::Blocked,
            (false, false) => Progress::Idle,
        }
    }

    fn sync_step(&self) -> Progress {
        let Some(log) = self.log.keeper() else { return Progress::Idle };
        if !self.shared.take_sync() {
            return Progress::Idle;
        }
        let Some(_one_at_a_time) = self.syncing.try_lock() else {
            self.shared.put_off_sync();
            return Progress::Blocked;
        };
        if self.shared.log_failed.load(SeqCst) {
            return Progress::Idle;
        }
        let Some(covered) = self.shared.commit.sync_begins() else { return Progress::Idle };
        // Extents first: a log entry must not be durable before the value it describes.
        if let Err(error) = self.space.sync() {
            // It stays failed: nothing is acknowledged any more.
            self.shared.fail_log("syncing large values on the lower tier", &error);
        } else if let Err(error) = log.sync() {
            self.shared.fail_log("syncing the log", &error);
        } else {
            self.shared.commit.synced(&covered);
        }
        self.wake_waiters();
        Progress::Worked
    }

    fn time_step(&self) -> std::io::Result<Progress> {
        self.shared.note_wall();
        let now = self.shared.now_us();
        {
            let Some(manifest) = self.manifest.try_lock() else { return Ok(Progress::Idle) };
            let wanted = self.wanted_seq.load(SeqCst);
            let trust = wanted > manifest.persisted_seq && wanted <= self.space.sealed_seq();
            if now + TIME_MARGIN_US <= manifest.time_us && !trust {
                return Ok(Progress::Idle);
            }
        }
        self.save_manifest(|_| {}).map(|()| Progress::Worked)
    }

    /// Stores the manifest with what is true now, changed by `change`.
    #[track_caller]
    pub(crate) fn save_manifest(&self, change: impl FnOnce(&mut Manifest)) -> std::io::Result<()> {
        let mut current = self.manifest.lock();
        let mut manifest = *current;
        manifest.sequence += 1;
        manifest.persisted_seq = manifest.persisted_seq.max(self.space.sealed_seq());
        self.shared.time();
        let now = self.shared.now_us();
        manifest.time_us = manifest.time_us.max(now + TIME_AHEAD_US);
        let floor = self.shared.version_floor.load(SeqCst).max(self.shared.version_mark(manifest.time_us));
        manifest.version_floor = manifest.version_floor.max(floor);
        if S::SELF_KEPT {
            let ahead =
                self.shared.version_us(manifest.time_us).max(Version(self.newest()).ticks() + TIME_AHEAD_US);
            manifest.version_floor = manifest.version_floor.max(Version::new(ahead.min(TICKS_MAX), 0).0);
        }
        self.note_generations(&mut manifest);
        (manifest.clean, manifest.snapshot) = (false, None);
        change(&mut manifest);
        self.space.save_manifest(&manifest.encode())?;
        *current = manifest;
        self.version_bound.store(manifest.version_floor, SeqCst);
        self.stored_floor.store(manifest.log_floor, SeqCst);
        self.stored_seq.store(manifest.persisted_seq, SeqCst);
        Ok(())
    }

    /// The newest version that was issued.
    fn newest(&self) -> u64 {
        (0..self.shared.sessions_max()).map(|slot| self.shared.commit.issued(slot)).max().unwrap_or(0)
    }

    /// Where a deleted key leaves nothing on the media, its versions are all below a floor that is stored ahead of use: it is raised
    /// before a batch whose versions might come near. A failure of it is the medium's, and shows in what is written.
    #[inline]
    pub(crate) fn keep_below_floor(&self, last: Version, now_us: u64) {
        if S::SELF_KEPT {
            let seen = Version(self.shared.version_floor.load(Relaxed));
            let next = last.max(seen).ticks().max(self.shared.version_us(now_us));
            if next + TIME_MARGIN_US > Version(self.version_bound.load(Relaxed)).ticks() {
                let _ = self.save_manifest(|_| {});
            }
        }
    }

    /// Everything that the log brought back is in pages: from now on its floor may rise.
    pub(crate) fn recovered(&self) {
        *self.floor.lock() = FloorState::Idle;
    }

    /// Whether some of what the log holds may be in no page yet.
    pub(crate) fn is_recovering(&self) -> bool {
        self.floor.try_lock().is_none_or(|state| matches!(*state, FloorState::Recovering))
    }

    /// The log needs the oldest quarter of what is not in pages yet to be there.
    pub(crate) fn want_oldest_pages(&self) {
        let (persisted, last) = (self.space.persisted_seq(), self.space.last_seq());
        let oldest = persisted + last.saturating_sub(persisted).div_ceil(4);
        self.shared.flush_wanted.fetch_max(oldest, SeqCst);
    }

    /// Moves the log floor up and frees log blocks.
    fn floor_step(&self) -> Progress {
        let Some(log) = self.log.keeper() else { return Progress::Idle };
        let Some(mut state) = self.floor.try_lock() else { return Progress::Idle };
        let (free, used) = (log.free_blocks(), log.used_blocks());
        if free * 4 < used && !self.is_compressing(free, used) {
            // Early, so that nobody has to wait for all of them at once.
            self.want_oldest_pages();
        }
        self.shared.pace.set(free, free + used, log.capacity_bytes());
        match &*state {
            FloorState::Recovering => Progress::Idle,
            FloorState::Idle => {
                if log.used_blocks() == 0 {
                    return if log.owes_blocks() { self.free_log(log) } else { Progress::Idle };
                }
                let ticks = self.shared.version_us(self.shared.now_us());
                let version = Version::new(ticks, 0).0.saturating_sub(1);
                *state = FloorState::Passing { version, epoch: self.shared.epochs.advance() };
                Progress::Idle
            }
            FloorState::Passing { version, epoch } => {
                if !self.shared.epochs.passed(*epoch) {
                    return Progress::Idle;
                }
                let (version, seq) = (*version, self.space.last_seq());
                *state = FloorState::Persisting { version, seq, barrier: self.shared.commit.barrier() };
                Progress::Idle
            }
            FloorState::Persisting { version, seq, barrier } => {
                let (version, seq) = (*version, *seq);
                let persisted = self.space.persisted_seq();
                if persisted >= seq && self.shared.commit.passed(barrier) {
                    *state = FloorState::Idle;
                    let floor = self.stored_floor.load(SeqCst).max(version);
                    let saved = self.save_manifest(|manifest| {
                        if self.generations_stored(manifest) {
                            manifest.log_floor = floor;
                        }
                    });
                    return if saved.is_ok() { self.free_log(log) } else { Progress::Blocked };
                }
                // The log may shrink before the floor rises.
                if log.free_blocks() * 2 >= log.used_blocks() {
                    Progress::Idle
                } else if self.cuts_more() {
                    match self.save_manifest(|_| {}) {
                        Ok(()) => self.free_log(log),
                        Err(_) => Progress::Blocked,
                    }
                } else if self.space.cut_seq(0) > 0 {
                    // Where it may be cut follows from no manifest.
                    self.free_log(log)
                } else {
                    Progress::Idle
                }
            }
        }
    }

    /// Whether the log could be cut further if the stored manifest trusted all that is sealed.
    fn cuts_more(&self) -> bool {
        let stored = self.manifest.lock().persisted_seq;
        self.space.cut_seq(self.space.sealed_seq()) > self.space.cut_seq(stored)
    }

    pub(crate) fn free_log(&self, log: &Log<D>) -> Progress {
        let stored = *self.manifest.lock();
        let floor = stored.log_floor;
        if !self.generations_stored(&stored) {
            // The log may hold the only trace of a whole-database flush.
            self.shared.want_sync();
            return Progress::Idle;
        }
        match log.reclaim(self.space.cut_seq(stored.persisted_seq), floor) {
            Ok(0) => Progress::Idle,
            Ok(_) => {
                if log.free_blocks() > 1 {
                    self.shared.flush_wanted.store(0, SeqCst);
                }
                Progress::Worked
            }
            Err(error) => {
                self.shared.fail_log("freeing blocks of the log", &error);
                self.wake_waiters();
                Progress::Blocked
            }
        }
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let mut details = self.space.details();
        if let Some(log) = self.log.keeper().filter(|_| S::COMPRESSES) {
            details.push(("log_blocks_compressed", log.superseded_blocks()));
            details.push(("log_records_copied", self.shared.sum(|counters| &counters.copied)));
        }
        details
    }

    /// The log's medium may be that of a tier.
    fn log_stats(&self, log: &Log<D>) -> LogStats {
        LogStats {
            used_bytes: log.used_bytes(),
            capacity_bytes: log.capacity_bytes(),
            // On byte-addressable media log and blocks share the region, and the tier counts for both.
            media: if self.options.immediate {
                Default::default()
            } else {
                log.device().counters().snapshot()
            },
        }
    }
}

/// A machine behind the object-safe face.
pub struct StoreHandle<I: Index, S: Space, D: LogDevice>(pub Arc<Machine<I, S, D>>);

impl<I: Index, S: Space, D: LogDevice> Drop for StoreHandle<I, S, D> {
    /// The background session holds the machine that holds it: a store that was not closed would never be freed.
    fn drop(&mut self) {
        let background = self.0.background.lock().take();
        drop(background);
    }
}

impl<I: Index, S: Space, D: LogDevice> Store for StoreHandle<I, S, D> {
    fn session(&self) -> Result<Box<dyn Session>, StoreError> {
        Ok(Box::new(Core::open(&self.0)?))
    }
    fn len(&self, db: u8) -> u64 {
        let place = self.0.shared.swapped.lock().databases.place(db);
        self.0.shared.keys(place)
    }
    fn expiring(&self, db: u8) -> u64 {
        let place = self.0.shared.swapped.lock().databases.place(db);
        self.0.shared.expiring(place)
    }
    fn mean_ttl_ms(&self, db: u8) -> u64 {
        self.0.mean_ttl_ms(db)
    }
    fn time(&self) -> Time {
        self.0.shared.time()
    }
    fn stats(&self) -> Stats {
        let machine = &self.0;
        let shared = &machine.shared;
        let mut tiers = machine.space.tiers();
        for (i, name) in ["dram", "pmem", "ssd"].into_iter().enumerate() {
            for tier in tiers.iter_mut().filter(|tier| tier.tier == name) {
                tier.hits = shared.sum(|c| &c.hits[i]);
            }
        }
        Stats {
            engine: machine.options.engine,
            index: machine.index.name(),
            index_bytes: machine.index.memory_bytes(),
            keys: self.len_all(),
            tombstones: shared.tombstones(),
            tiers,
            misses: shared.sum(|c| &c.misses),
            misses_expired: shared.sum(|c| &c.misses_expired),
            misses_flushed: shared.sum(|c| &c.misses_flushed),
            expired: shared.sum(|c| &c.expired),
            evicted: shared.sum(|c| &c.evicted),
            log: machine.log.keeper().map(|log| machine.log_stats(log)),
            stalls: shared.sum(|c| &c.stalls),
            refused: shared.sum(|c| &c.refused),
            dram_other_bytes: machine.space.dram_bytes(),
            more_dram: machine.space.more_dram(),
            recovery: machine.recovery,
            log_failure: shared.log_failure().cloned(),
            tier_failure: machine.space.failure(),
            engine_details: machine.details(),
        }
    }
    fn on_removal(&self, told: Option<crate::session::RemovalFn>) {
        *self.0.shared.removal.lock() = told;
    }
    fn hear_expired(&self, each: bool) {
        self.0.shared.tells_expired.store(each, Relaxed);
    }
    fn hold_expiry(&self, until_ms: u64) {
        self.0.shared.expiry_held_until_ms.store(until_ms, Relaxed);
        self.0.shared.notify_work();
    }
    fn resize_dram(&self, bytes: u64) -> Result<(), StoreError> {
        self.0.space.resize_dram(bytes)
    }
    fn read_cache(&self) -> Option<crate::ReadCache> {
        self.0.space.read_cache()
    }
    fn set_read_cache(&self, cache: crate::ReadCache) -> Result<(), StoreError> {
        self.0.space.set_read_cache(cache)
    }
    fn resize_tier(&self, tier: &str, bytes: u64) -> Result<(), StoreError> {
        self.0.space.resize_tier(tier, bytes)
    }
    fn step(&self) -> Progress {
        self.0.step_once()
    }
    fn wait_for_work(&self, timeout: Duration) {
        self.0.shared.wait_for_work(timeout);
    }
    fn close(&self) -> Result<(), StoreError> {
        let machine = &self.0;
        *machine.background.lock() = None;
        if let open @ 1.. = machine.shared.sessions_open() {
            return Err(StoreError::SessionsOpen(open));
        }
        if let Some(failure) = machine.shared.log_failure() {
            return Err(StoreError::Corrupt(format!(
                "the log failed while the store was open ({}): what was acknowledged is in it, nothing more was saved",
                failure.what
            )));
        }
        if let Some(log) = machine.log.keeper() {
            machine.space.sync().map_err(StoreError::io("syncing the lower tier"))?;
            log.sync().map_err(|error| StoreError::Corrupt(format!("syncing the log: {error}")))?;
            if let Some(covered) = machine.shared.commit.sync_begins() {
                machine.shared.commit.synced(&covered);
            }
        }
        machine.space.close(AnyIndex::of(&machine.index), &**machine)?;
        let newest = machine.newest();
        let snapshot = machine.save_snapshot();
        machine
            .save_manifest(|manifest| {
                manifest.clean = true;
                manifest.time_us = machine.shared.now_us();
                manifest.snapshot =
                    snapshot.and_then(|(place, sequence)| (sequence == manifest.sequence).then_some(place));
                manifest.persisted_seq = machine.space.sealed_seq();
                manifest.version_floor = manifest.version_floor.max(newest);
                manifest.log_floor = manifest.log_floor.max(newest);
            })
            .map_err(StoreError::io("storing the manifest"))?;
        if let Some(log) = machine.log.keeper() {
            let failed = |error| StoreError::Corrupt(format!("emptying the log: {error}"));
            log.reclaim(machine.space.last_seq(), newest).map_err(failed)?;
            log.sync().map_err(failed)?;
        }
        Ok(())
    }
}
