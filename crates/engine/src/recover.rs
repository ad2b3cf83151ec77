//! The recovery driver: the newest version of each key wins, wherever it lies.
//!
//! ```text
//! blocks' footers --+                         +--> adopt: the address goes into the index
//!                   +--> winner of each key --+
//! log after its cut +    (hash + check)       +--> restore: the record is appended again, version and all
//! ```
//!
//! The table of winners has its share of the DRAM, and where it does not hold all keys the media are read in several passes, each
//! for some of the keys (`winners`); what the log brings back is read from it again, a part at a time (`from_log`).
//!
//! Old log blocks are kept until the pages that the restored records went to are persisted (`retire`), so that a crash
//! during or after recovery finds them again; nothing else on the medium is changed before every winner is known. Then torn
//! pages are cleared, the manifest trusts the others, and only after that are copies that lost given up (`Durable::clear_torn`).

mod from_log;
mod winners;

use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Instant;

use terrace_index::{Address, Change, Index, Key, Verdict};
use terrace_log::{Log, LogDevice, Replay};

use crate::core::{Core, Generation, decode_generation};
use crate::machine::{Machine, MachineOptions};
use crate::manifest::Manifest;
use crate::record::{Kind, Lifetime};
use crate::session::StoreError;
use crate::space::{Counted, Space};
use crate::stats::{RecoveryStats, SnapshotUse};
use crate::sync::AtomicU64;
use from_log::FromLog;
use winners::{ENTRY_BYTES, Winner, Winners};

/// Keys are asked of the space for so many records at a time.
const KEYS_AT_ONCE: usize = 1 << 14;

impl<I: Index, S: Space, D: LogDevice> Machine<I, S, D> {
    /// Opens a store: builds the machine from its parts and recovers what is on the media.
    ///
    /// `manifest` is the newest one stored, or the default for a new store; `replay` what the log holds after its cut.
    ///
    /// # Errors
    /// If a medium fails or can't be trusted.
    pub fn open(
        options: MachineOptions,
        index: I,
        space: S,
        log: Option<(Log<D>, Option<Replay<D>>)>,
        manifest: Manifest,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Arc<Self>, StoreError> {
        let started = Instant::now();
        let (log, replay) = match log {
            None => (None, None),
            Some((log, replay)) => (Some(log), replay),
        };
        let recovering = manifest != Manifest::default() || replay.is_some();
        let mut stats = RecoveryStats { clean: manifest.clean, ..RecoveryStats::default() };
        let (mut manifest, mut index) = (manifest, index);
        let restored = Self::load_snapshot(&mut index, &space, &manifest, replay.as_ref(), &options);
        stats.snapshot = match &restored {
            None => SnapshotUse::None,
            Some(Ok(_)) => SnapshotUse::Used,
            Some(Err(why)) => {
                tracing::warn!("the snapshot of the last stop is not used, everything is scanned: {why}");
                SnapshotUse::Refused
            }
        };
        let reopened = space.reopen(&manifest)?;
        let restored = reopened.map(|counted| (counted, 0)).or(restored.and_then(Result::ok));
        let mut from_log = replay.map(FromLog::new);
        let max_version = AtomicU64::new(restored.map_or(0, |(_, newest)| newest));
        let mut winners = Winners::new(table_bytes(&options, &space, &index));
        let threads = options.threads.max(1);
        if restored.is_none() {
            space.scan_media(manifest.persisted_seq, threads, progress, &|found| {
                max_version.fetch_max(found.version, Relaxed);
                winners.offer_media(&found);
            })?;
        }
        let mut max_version = max_version.load(Relaxed);
        let mut restored = restored;
        if S::ADDRESSED
            && let (Some(from_log), Some((counted, newest))) = (&from_log, &mut restored)
        {
            let newest_in_log = from_log.replay.max_version();
            max_version = max_version.max(newest_in_log);
            *counted = redo(&space, &from_log.replay, &mut manifest, *counted)?;
            *newest = max_version;
        }
        if let Some(from_log) = &mut from_log
            && restored.is_none()
        {
            max_version = max_version.max(from_log.replay.max_version());
            let floor = manifest.log_floor;
            from_log.offer(floor, &options.hasher, &winners, |version, generation| {
                take_generation(&mut manifest, version, generation);
            })?;
        }
        if let Some(why) = manifest.senseless(max_version) {
            return Err(StoreError::Corrupt(why));
        }
        let machine = Self::assemble(options, index, space, log, manifest, max_version);
        if manifest.snapshot.is_some() {
            machine.give_up_snapshot(manifest.persisted_seq)?;
        }
        let counters = &machine.shared.counters[0];
        if let Some((counted, _)) = restored {
            for (keys, &saved) in counters.keys.iter().zip(&counted.keys) {
                keys.store(saved as i64, Relaxed);
            }
            counters.tombstones.store(counted.tombstones as i64, Relaxed);
            for (expiring, &saved) in counters.expiring.iter().zip(&counted.expiring) {
                expiring.store(saved as i64, Relaxed);
            }
            (stats.records, stats.poisoned) = (counted.keys.iter().sum(), counted.poisoned);
        } else {
            machine.decide(&manifest, &mut winners, from_log.as_mut(), progress, &mut stats)?;
        }
        stats.scanned = machine.space.scanned();
        machine.space.index_grew(machine.index.memory_bytes());
        let is_forgotten = |version: u64, db: u8| version <= manifest.flush_versions[usize::from(db) & 15];
        if let Some(from_log) = &from_log {
            from_log.extents(&mut |view| {
                if !is_forgotten(view.head.version, view.head.meta.db()) {
                    machine.space.adopt_extent(view.value);
                }
            })?;
        }
        machine.space.clear_torn()?;
        // Before other copies go: rot in a page that is not trusted passes for a torn flush, and would not be missed.
        if machine.space.sealed_seq() > manifest.persisted_seq {
            let stored = machine.save_manifest(|_| {});
            stored.map_err(StoreError::io("storing a manifest that trusts what was found"))?;
        }
        machine.space.finish_recovery()?;
        let mut machine = Arc::new(machine);
        let mut core = Core::open(&machine)?;
        // Nothing expires and nothing is evicted yet: a delete takes room in the log, which can't be had from it before all
        // that it holds is back.
        let background = machine.background.lock();
        if let Some(from_log) = &from_log {
            // In the order of their versions, so that what was written last lies together in the newest pages.
            from_log.restore(table_bytes(&machine.options, &machine.space, &machine.index), &mut |view| {
                if is_forgotten(view.head.version, view.head.meta.db()) {
                    return Ok(());
                }
                core.restore(view)?;
                if view.head.meta.kind() != Kind::Tombstone {
                    stats.records += 1;
                }
                stats.from_log += 1;
                Ok(())
            })?;
        }
        drop((background, core));
        if let Some(FromLog { replay, .. }) = from_log {
            replay.retire(machine.space.last_seq());
        }
        machine.recovered();
        stats.nanoseconds = started.elapsed().as_nanos() as u64;
        if recovering && let Some(machine) = Arc::get_mut(&mut machine) {
            machine.recovery = Some(stats);
        }
        // The clock and the versions must be ahead on the medium before anything is answered.
        machine.save_manifest(|_| {}).map_err(StoreError::io("storing the manifest"))?;
        Ok(machine)
    }

    /// Adopts the winners of the pass that was made, and makes the others.
    fn decide(
        &self,
        manifest: &Manifest,
        winners: &mut Winners,
        mut from_log: Option<&mut FromLog<D>>,
        progress: &(dyn Fn(u64, u64) + Sync),
        stats: &mut RecoveryStats,
    ) -> Result<(), StoreError> {
        let counters = &self.shared.counters[0];
        // No time before this one is used again: what has lapsed by now stays so, and no older version of its key outlives it.
        let now_ms = self.shared.now_us() / 1000;
        let has_lapsed = |life: Lifetime| life.alone && life.is_over(now_ms);
        loop {
            stats.passes += 1;
            let mut need_keys = Vec::new();
            for winner in winners.take() {
                let found = match winner {
                    Winner::Media(found) => found,
                    Winner::Log { place, life, .. } => {
                        if !has_lapsed(life)
                            && let Some(from_log) = &mut from_log
                        {
                            from_log.wins(place);
                        }
                        continue;
                    }
                };
                if found.version <= manifest.flush_versions[usize::from(found.db) & 15] {
                    continue;
                }
                if has_lapsed(found.life) {
                    continue;
                }
                self.space.adopt(&found);
                if self.index.needs_key() {
                    need_keys.push((found.address, found.hash, found.db));
                } else {
                    let key = Key { hash: found.hash, db: found.db, bytes: &[] };
                    insert(&self.index, &key, found.address);
                }
                if found.kind == Kind::Tombstone {
                    counters.tombstones.fetch_add(1, Relaxed);
                } else {
                    counters.keys[usize::from(found.db) & 15].fetch_add(1, Relaxed);
                    counters.expiring[usize::from(found.db) & 15]
                        .fetch_add(found.life.expires().into(), Relaxed);
                    stats.records += 1;
                }
                stats.poisoned += u64::from(found.kind == Kind::Poison);
            }
            need_keys.sort_unstable();
            for part in need_keys.chunks(KEYS_AT_ONCE) {
                let addresses: Vec<_> = part.iter().map(|&(address, ..)| address).collect();
                self.space.read_keys(&addresses, &mut |i, bytes| {
                    let (address, hash, db) = part[i];
                    let key = Key { hash, db, bytes: bytes.unwrap_or_default() };
                    if bytes.is_some() {
                        insert(&self.index, &key, address);
                    } else {
                        self.index.insert_unreadable(&key, address);
                    }
                })?;
            }
            drop(need_keys);
            if !winners.next_pass(table_bytes(&self.options, &self.space, &self.index)) {
                return Ok(());
            }
            let share = winners.share();
            let of_pass = |done: u64, total: u64| progress(share.of(done, total), total);
            self.space
                .scan_again(self.options.threads.max(1), &of_pass, &|found| winners.offer_media(&found))?;
            if let Some(from_log) = &mut from_log {
                from_log.offer(manifest.log_floor, &self.options.hasher, winners, |_, _| {})?;
            }
        }
    }
}

/// The manifest with a change of whole databases that the log has.
fn take_generation(manifest: &mut Manifest, version: u64, generation: Generation) {
    match generation {
        Generation::Flush { mask } => {
            for (db, flushed) in manifest.flush_versions.iter_mut().enumerate() {
                if mask >> db & 1 == 1 {
                    *flushed = (*flushed).max(version);
                }
            }
        }
        Generation::Swap(databases) => {
            if version > manifest.databases_version {
                (manifest.databases, manifest.databases_version) = (databases, version);
            }
        }
    }
}

/// What counts once a space has made its index lead to what the log holds.
fn redo<S: Space, D: LogDevice>(
    space: &S,
    replay: &Replay<D>,
    manifest: &mut Manifest,
    counted: Counted,
) -> Result<Counted, StoreError> {
    let failed = |error| StoreError::Corrupt(format!("replaying the log: {error}"));
    replay
        .for_each(|entry| {
            if let Some(generation) = decode_generation(entry.bytes) {
                take_generation(manifest, entry.version, generation);
            }
        })
        .map_err(failed)?;
    space.redo(counted, replay.max_version(), &manifest.flush_versions, &|see| {
        let shown = replay.for_each(|entry| {
            if decode_generation(entry.bytes).is_none() {
                see(entry.version, entry.place, entry.bytes);
            }
        });
        shown.map_err(failed)
    })
}

/// What a pass may take for its table of winners.
fn table_bytes<I: Index, S: Space>(options: &MachineOptions, space: &S, index: &I) -> u64 {
    let keys = (options.recovery_keys as u64).saturating_mul(ENTRY_BYTES);
    space.recovery_bytes(index.memory_bytes()).min(keys)
}

impl<I: Index, S: Space, D: LogDevice> Machine<I, S, D> {
    /// What the snapshot says that the manifest names, with index and space brought back, and the newest version on the media;
    /// `None` if it names none. An error tells why it can't be used.
    fn load_snapshot(
        index: &mut I,
        space: &S,
        manifest: &Manifest,
        replay: Option<&Replay<D>>,
        options: &MachineOptions,
    ) -> Option<Result<(Counted, u64), String>> {
        let place = manifest.snapshot?;
        if !manifest.clean {
            return Some(Err("the manifest that names it is not of a clean stop".into()));
        }
        // A crash may have come before the log was emptied: what is left there is all in pages.
        let newer = replay.is_some_and(|replay| replay.max_version() > manifest.log_floor);
        if newer {
            return Some(Err("the log holds something newer".into()));
        }
        Some(space.load_snapshot(index, place, manifest, options.threads.max(1)))
    }

    /// Before anything changes, here or later: the snapshot must not be used again. What is trusted stays as it is, for nothing
    /// was cleared yet.
    fn give_up_snapshot(&self, trusted: u64) -> Result<(), StoreError> {
        let stored = self.save_manifest(|manifest| manifest.persisted_seq = trusted);
        stored.map_err(StoreError::io("storing a manifest that gives the snapshot up"))
    }

    /// Saves index and space at the end of a clean stop. Where, and the sequence number of the manifest that must say so.
    pub(crate) fn save_snapshot(&self) -> Option<(u32, u64)> {
        let sequence = self.manifest.lock().sequence + 1;
        let counted = Counted {
            keys: std::array::from_fn(|db| self.shared.keys(db as u8)),
            expiring: std::array::from_fn(|db| self.shared.expiring(db as u8)),
            tombstones: self.shared.tombstones(),
            poisoned: 0,
        };
        self.space.save_snapshot(&self.index, &counted, sequence).map(|place| (place, sequence))
    }
}

/// Adds the entry of a record that is the only one of its key.
fn insert(index: &impl Index, key: &Key<'_>, address: Address) {
    index.update(key, |_| Verdict::Differs, |_| (Change::Set(address), ()));
}
