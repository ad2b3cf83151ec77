//! What all sessions and background steps of a store share, beside index, space and log.
//!
//! # Thread safety
//! Counters are striped by session slot. Everything else is atomics, or a lock that no hot path takes.

use std::sync::atomic::Ordering::*;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::Condvar;

use crate::clock::{Clock, Mark, SteadyClock, Time};
use crate::commit::Commit;
use crate::databases::Databases;
use crate::durability::Durability;
use crate::epoch::Epochs;
use crate::hash::KeyHasher;
use crate::op::DATABASES;
use crate::pace::Pace;
use crate::record::Kind;
use crate::reply::OpError;
use crate::session::RemovalFn;
use crate::space::Replaced;
use crate::stats::Failure;
use crate::sync::{AtomicBool, AtomicI64, AtomicU64, Mutex, yield_now};
use crate::version::{TICKS_FROM_TIME_MAX, TICKS_MAX, Version};

/// Counters of one session slot; sums over all slots are the store's.
#[derive(Default)]
pub(crate) struct SlotCounters {
    pub keys: [AtomicI64; DATABASES],
    /// Those of them whose record has an expiry.
    pub expiring: [AtomicI64; DATABASES],
    pub tombstones: AtomicI64,
    /// Gets answered from DRAM, byte-addressable media, block media.
    pub hits: [AtomicU64; 3],
    pub misses: AtomicU64,
    pub misses_expired: AtomicU64,
    pub misses_flushed: AtomicU64,
    pub expired: AtomicU64,
    pub evicted: AtomicU64,
    pub stalls: AtomicU64,
    pub refused: AtomicU64,
    /// Records copied within the log: see `compress`.
    pub copied: AtomicU64,
}

impl SlotCounters {
    /// A counted record of this database gave way to another one, or to none; whether they had an expiry.
    #[inline]
    pub fn count_expiry(&self, db: u8, before: bool, after: bool) {
        if before != after {
            self.expiring[usize::from(db) & 15].fetch_add(i64::from(after) - i64::from(before), Relaxed);
        }
    }
}

/// The last exchange of databases.
#[derive(Clone, Copy, Default)]
pub(crate) struct Swapped {
    pub version: u64,
    pub databases: Databases,
}

pub(crate) struct Shared {
    pub hasher: KeyHasher,
    pub durability: Durability,
    clock: Arc<dyn Clock>,
    /// Every batch moves it on: on no line with what everybody reads.
    steady: CachePadded<SteadyClock>,
    /// What the clock part of versions is ahead of the store's time.
    version_ahead_us: i64,
    pub epochs: Epochs,
    pub commit: Commit,
    /// Records of a database with at most this version are dead.
    pub flush_versions: [AtomicU64; DATABASES],
    /// The newest of them.
    pub flush_version: AtomicU64,
    /// Where the databases lie, for operations: [`swapped`](Self::swapped) tells of the last change.
    pub databases: AtomicU64,
    /// The same, and the version of that change; 0 for none. A leaf.
    pub swapped: Mutex<Swapped>,
    /// Versions up to here may have been forgotten: new ones must be above.
    pub version_floor: AtomicU64,
    pub counters: Box<[CachePadded<SlotCounters>]>,
    slots: Mutex<Vec<bool>>,
    /// A session gathers room for a long group: two would wait for each other.
    pub gathering: AtomicBool,
    /// Nobody may be inside an operation (a whole-database flush changes what is live).
    paused: AtomicBool,
    pub pause: Mutex<()>,
    /// The log needs every page up to this sequence number persisted.
    pub flush_wanted: AtomicU64,
    /// How fast the log may be filled.
    pub pace: Pace,
    pub sync_wanted: AtomicBool,
    pub log_failed: AtomicBool,
    /// Why: the first reason.
    log_failure: OnceLock<(&'static str, Failure)>,
    /// Who hears of keys that background work deletes. Not swapped for schedules: a leaf that only background work takes.
    pub removal: parking_lot::Mutex<Option<RemovalFn>>,
    /// What keys of a database that expire had left on average when somebody asked last.
    pub mean_ttl_ms: [AtomicU64; DATABASES],
    /// Whether somebody wants to hear of each key that expires.
    pub tells_expired: AtomicBool,
    /// Expired keys stay until then.
    pub expiry_held_until_ms: AtomicU64,
    /// Whether dead keys that were found are being deleted.
    pub is_purging: AtomicBool,
    /// Whether for some there was no room.
    pub has_unpurged: AtomicBool,
    /// Not swapped for schedules: nobody waits without a timeout.
    work: parking_lot::Mutex<bool>,
    work_ready: Condvar,
}

impl Shared {
    pub fn new(
        hasher: KeyHasher,
        durability: Durability,
        clock: Arc<dyn Clock>,
        sessions: usize,
        start_version: u64,
        mark: Mark,
        immediate: bool,
    ) -> Self {
        let steady = CachePadded::new(SteadyClock::resume(&*clock, mark));
        let version_ahead_us = version_ahead(start_version, steady.now_us(&*clock));
        Self {
            hasher,
            durability,
            clock,
            steady,
            version_ahead_us,
            epochs: Epochs::new(sessions),
            commit: Commit::new(sessions, start_version, immediate),
            flush_versions: Default::default(),
            flush_version: AtomicU64::new(0),
            databases: AtomicU64::new(Databases::default().word()),
            swapped: Mutex::default(),
            version_floor: AtomicU64::new(start_version),
            counters: (0..sessions).map(|_| CachePadded::default()).collect(),
            slots: Mutex::new(vec![false; sessions]),
            gathering: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            pause: Mutex::new(()),
            flush_wanted: AtomicU64::new(0),
            pace: Pace::default(),
            sync_wanted: AtomicBool::new(false),
            log_failed: AtomicBool::new(false),
            log_failure: OnceLock::new(),
            removal: parking_lot::Mutex::new(None),
            mean_ttl_ms: Default::default(),
            tells_expired: AtomicBool::new(false),
            expiry_held_until_ms: AtomicU64::new(0),
            is_purging: AtomicBool::new(false),
            has_unpurged: AtomicBool::new(false),
            work: parking_lot::Mutex::new(false),
            work_ready: Condvar::new(),
        }
    }
    /// Nothing can be made durable any more: nothing is acknowledged from now on. The first reason counts.
    #[cold]
    pub fn fail_log(&self, what: &str, error: &dyn std::fmt::Display) {
        self.log_failure.get_or_init(|| {
            let failure = Failure::now(what, error);
            tracing::error!(
                "{}; nothing is acknowledged any more, restart after repairing the device",
                failure.what
            );
            // Every answer from now on names it, and answers are copied freely: once for a store that is of no more use.
            (failure.what.clone().leak(), failure)
        });
        self.log_failed.store(true, SeqCst);
    }
    /// Why the log failed, if it has.
    pub fn log_failure(&self) -> Option<&Failure> {
        self.log_failure.get().map(|(_, failure)| failure)
    }
    /// What is answered once it has.
    #[cold]
    pub fn log_error(&self) -> OpError {
        OpError::LogFailed(self.log_failure.get().map_or("the log failed", |(what, _)| what))
    }
    /// The store's time in microseconds: since the Unix epoch as long as nobody sets the clock. It never runs backwards.
    #[inline]
    pub fn now_us(&self) -> u64 {
        self.steady.now_us(&*self.clock)
    }
    /// The store's time, and what the wall clock is ahead of it.
    pub fn time(&self) -> Time {
        self.steady.time(&*self.clock)
    }
    /// Keeps how the wall clock lies, if somebody set it.
    pub fn note_wall(&self) {
        self.steady.note_wall(&*self.clock);
    }
    /// The clock part of versions at a moment of the store's time.
    #[inline]
    pub fn version_us(&self, now_us: u64) -> u64 {
        now_us.saturating_add_signed(self.version_ahead_us)
    }
    /// No version is above this one before a mark of time; 0 if versions are made of that time, so that the mark tells.
    pub fn version_mark(&self, mark_us: u64) -> u64 {
        if self.version_ahead_us == 0 {
            return 0;
        }
        Version::new(self.version_us(mark_us).min(TICKS_MAX), 0).0
    }
    /// For measuring a span of real time.
    #[inline]
    pub fn clock_us(&self) -> u64 {
        self.clock.elapsed_us()
    }
    /// Whether at least `us` have passed since the clock showed `since_us`; a clock that went back counts as well.
    pub fn has_passed(&self, since_us: u64, us: u64) -> bool {
        let now = self.clock_us();
        now < since_us || now - since_us >= us
    }
    /// Enters an epoch for session `slot`, waiting out a pause.
    #[inline]
    pub fn enter(&self, slot: usize) {
        loop {
            self.epochs.enter(slot);
            if !self.paused.load(SeqCst) {
                return;
            }
            self.epochs.leave(slot);
            yield_now();
        }
    }
    /// Runs `f` while no session is inside an operation. The caller must be outside of its epoch.
    pub fn while_paused<R>(&self, f: impl FnOnce() -> R) -> R {
        let _one_at_a_time = self.pause.lock();
        self.paused.store(true, SeqCst);
        let epoch = self.epochs.advance();
        while !self.epochs.passed(epoch) {
            yield_now();
        }
        let result = f();
        self.paused.store(false, SeqCst);
        result
    }
    pub fn take_slot(&self) -> Option<usize> {
        let mut slots = self.slots.lock();
        let free = slots.iter().position(|taken| !taken)?;
        slots[free] = true;
        Some(free)
    }
    pub fn give_slot(&self, slot: usize) {
        self.slots.lock()[slot] = false;
    }
    pub fn sessions_open(&self) -> usize {
        self.slots.lock().iter().filter(|taken| **taken).count()
    }
    pub fn sessions_max(&self) -> usize {
        self.counters.len()
    }
    pub fn keys(&self, db: u8) -> u64 {
        self.counters.iter().map(|c| c.keys[db as usize].load(Relaxed)).sum::<i64>().max(0) as u64
    }
    pub fn expiring(&self, db: u8) -> u64 {
        self.counters.iter().map(|c| c.expiring[db as usize].load(Relaxed)).sum::<i64>().max(0) as u64
    }
    pub fn sum(&self, field: impl Fn(&SlotCounters) -> &AtomicU64) -> u64 {
        self.counters.iter().map(|c| field(c).load(Relaxed)).sum()
    }
    pub fn tombstones(&self) -> u64 {
        self.counters.iter().map(|c| c.tombstones.load(Relaxed)).sum::<i64>().max(0) as u64
    }
    /// Records of this database with at most this version are dead.
    #[inline]
    pub fn flushed(&self, db: u8) -> u64 {
        self.flush_versions[usize::from(db) & 15].load(Relaxed)
    }
    /// Where the databases lie. Sound as long as the caller is in its epoch.
    #[inline]
    pub fn databases(&self) -> Databases {
        Databases::from_stored(self.databases.load(Relaxed))
    }
    /// They lie elsewhere from now on. Nobody is in an operation.
    pub fn swap(&self, swapped: Swapped) {
        *self.swapped.lock() = swapped;
        self.databases.store(swapped.databases.word(), SeqCst);
    }
    /// See [`Context::forgotten`](crate::space::Context::forgotten).
    pub fn forgotten(&self, kind: Kind) {
        if kind == Kind::Tombstone {
            self.counters[0].tombstones.fetch_sub(1, Relaxed);
        }
    }
    /// See [`Context::poisoned`](crate::space::Context::poisoned).
    pub fn poisoned(&self, kind: Kind, db: u8, expires: bool) {
        if expires {
            self.counters[0].expiring[usize::from(db) & 15].fetch_sub(1, Relaxed);
        }
        if kind == Kind::Tombstone {
            self.forgotten(kind);
            self.counters[0].keys[usize::from(db) & 15].fetch_add(1, Relaxed);
        }
    }
    /// See [`Context::recount`](crate::space::Context::recount).
    pub fn recount(&self, db: u8, version: u64, found: Option<Replaced>) {
        // A flush sets the counts to nothing while it holds this: it came before, and took both counts, or it comes after.
        let _no_flush = self.pause.lock();
        let flushed = self.flushed(db);
        let was_live = found.is_some_and(|old| old.version > flushed && old.kind != Kind::Tombstone);
        let counters = &self.counters[0];
        if version > flushed && !was_live {
            counters.keys[usize::from(db) & 15].fetch_add(1, Relaxed);
        }
        if was_live && found.is_some_and(|old| old.expires) {
            counters.expiring[usize::from(db) & 15].fetch_sub(1, Relaxed);
        }
    }
    /// See [`Context::expired`](crate::space::Context::expired).
    pub fn expired(&self, db: u8) {
        let counters = &self.counters[0];
        counters.keys[usize::from(db) & 15].fetch_sub(1, Relaxed);
        counters.count_expiry(db, true, false);
        counters.expired.fetch_add(1, Relaxed);
    }
    /// Wakes a background thread.
    pub fn notify_work(&self) {
        let mut work = self.work.lock();
        if !*work {
            *work = true;
            self.work_ready.notify_all();
        }
    }
    pub fn wait_for_work(&self, timeout: Duration) {
        let mut work = self.work.lock();
        if !*work {
            self.work_ready.wait_for(&mut work, timeout);
        }
        *work = false;
    }
}

/// What versions are to be ahead of a store's time: nothing, unless there are newer ones, or they could not last.
fn version_ahead(newest: u64, now_us: u64) -> i64 {
    let after = Version(newest).ticks() + 1;
    let base = if now_us <= TICKS_FROM_TIME_MAX { after.max(now_us) } else { after };
    base as i64 - now_us as i64
}
