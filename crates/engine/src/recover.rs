//! The recovery driver: the newest version of each key wins, wherever it lies.
//!
//! ```text
//! blocks' footers --+                         +--> adopt: the address goes into the index
//!                   +--> winner of each key --+
//! log after its cut +    (hash + check)       +--> restore: the record is appended again, version and all
//! ```
//!
//! Old log blocks are kept until the pages that the restored records went to are persisted (`retire`), so that a crash
//! during or after recovery finds them again; nothing else on the medium is changed before every winner is known. Then torn
//! pages are cleared, the manifest trusts the others, and only after that are copies that lost given up (`Space::clear_torn`).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Instant;

use parking_lot::Mutex;
use terrace_index::{Address, Change, Index, Key, Verdict};
use terrace_log::{Log, LogDevice, Replay};

use crate::core::{Core, Generation, decode_generation};
use crate::machine::{Machine, MachineOptions};
use crate::manifest::Manifest;
use crate::record::{Kind, Lifetime, RecordView};
use crate::session::StoreError;
use crate::space::{Counted, Found, Space};
use crate::stats::{RecoveryStats, SnapshotUse};

/// Shards of the table of winners, so that several threads can fill it.
const SHARDS: usize = 64;

#[derive(Default)]
struct TakeHash(u64);
impl Hasher for TakeHash {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {}
    fn write_u64(&mut self, hash: u64) {
        // The shard took the top bits; these are as good.
        self.0 = hash;
    }
    fn write_u32(&mut self, check: u32) {
        self.0 ^= u64::from(check) << 20;
    }
}

/// Where a key's newest version is.
enum Winner {
    Media(Found),
    Log { version: u64, record: Vec<u8> },
}

impl Winner {
    fn version(&self) -> u64 {
        match self {
            Winner::Media(found) => found.version,
            Winner::Log { version, .. } => *version,
        }
    }
}

type Table = HashMap<(u64, u32), Winner, BuildHasherDefault<TakeHash>>;

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
        let (log, mut replay) = match log {
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
        let restored = restored.and_then(Result::ok);
        let shards: Vec<Mutex<Table>> = (0..SHARDS).map(|_| Mutex::default()).collect();
        let max_version = Mutex::new(0u64);
        let shard = |hash: u64| &shards[(hash >> 58) as usize % SHARDS];
        let scan = |found: Found| {
            let mut table = shard(found.hash).lock();
            let winner = table.entry((found.hash, found.check));
            let entry = winner.or_insert(Winner::Media(found));
            if entry.version() < found.version {
                *entry = Winner::Media(found);
            }
            drop(table);
            let mut max = max_version.lock();
            *max = (*max).max(found.version);
        };
        if restored.is_none() {
            space.scan_media(manifest.persisted_seq, options.threads.max(1), progress, &scan)?;
        }
        let mut max_version = max_version.into_inner().max(restored.map_or(0, |(_, newest)| newest));
        if let Some(replay) = &mut replay
            && restored.is_none()
        {
            max_version = max_version.max(replay.max_version());
            let floor = manifest.log_floor;
            let mut bad_entry = None;
            let read = replay.for_each(|entry| {
                let (entry_slot, version, entry) = (entry.slot, entry.version, entry.bytes);
                match decode_generation(entry) {
                    Some(Generation::Flush { mask }) => {
                        for (db, flushed) in manifest.flush_versions.iter_mut().enumerate() {
                            if mask >> db & 1 == 1 {
                                *flushed = (*flushed).max(version);
                            }
                        }
                        return;
                    }
                    Some(Generation::Swap(databases)) => {
                        if version > manifest.databases_version {
                            (manifest.databases, manifest.databases_version) = (databases, version);
                        }
                        return;
                    }
                    None => {}
                }
                if version <= floor {
                    return;
                }
                let view = RecordView::decode(entry).filter(|view| view.head.version == version);
                let Some(view) = view else {
                    bad_entry.get_or_insert((entry_slot, version));
                    return;
                };
                let key = options.hasher.key(view.head.meta.db(), view.key);
                let check = options.hasher.check(key.db, key.bytes);
                let mut table = shard(key.hash).lock();
                let newer = table.get(&(key.hash, check)).is_none_or(|winner| match winner {
                    // The block has only the news that the record was damaged; here it is whole.
                    Winner::Media(found) if found.kind == Kind::Poison => found.version <= version,
                    winner => winner.version() < version,
                });
                if newer {
                    table.insert((key.hash, check), Winner::Log { version, record: entry.to_vec() });
                }
            });
            read.map_err(|error| StoreError::Corrupt(format!("replaying the log: {error}")))?;
            if let Some((slot, version)) = bad_entry {
                return Err(StoreError::Corrupt(format!(
                    "replaying the log: version {version} of session {slot} is no record of that version, \
                     though its checksum holds: it was not written by this program"
                )));
            }
        }
        if let Some(why) = manifest.senseless(max_version) {
            return Err(StoreError::Corrupt(why));
        }
        let machine = Self::assemble(options, index, space, log, manifest, max_version);
        if manifest.snapshot.is_some() {
            machine.give_up_snapshot(manifest.persisted_seq)?;
        }
        let mut from_log = Vec::new();
        let mut need_keys = Vec::new();
        let counters = &machine.shared.counters[0];
        // No time before this one is used again: what has lapsed by now stays so, and no older version of its key outlives it.
        let now_ms = machine.shared.now_us() / 1000;
        let has_lapsed = |life: Lifetime| life.alone && life.is_over(now_ms);
        if let Some((counted, _)) = restored {
            for (keys, &saved) in counters.keys.iter().zip(&counted.keys) {
                keys.store(saved as i64, Relaxed);
            }
            counters.tombstones.store(counted.tombstones as i64, Relaxed);
            for (expiring, &saved) in counters.expiring.iter().zip(&counted.expiring) {
                expiring.store(saved as i64, Relaxed);
            }
            (stats.records, stats.poisoned) = (counted.keys.iter().sum(), counted.poisoned);
        }
        for shard in shards {
            for ((hash, _), winner) in shard.into_inner() {
                match winner {
                    Winner::Media(found) => {
                        if found.version <= manifest.flush_versions[usize::from(found.db) & 15] {
                            continue;
                        }
                        if has_lapsed(found.life) {
                            continue;
                        }
                        machine.space.adopt(&found);
                        if machine.index.needs_key() {
                            need_keys.push(found);
                        } else {
                            let key = Key { hash, db: found.db, bytes: &[] };
                            insert(&machine.index, &key, found.address);
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
                    Winner::Log { version, record } => {
                        let life = RecordView::decode(&record).map(|view| view.head.life());
                        if !life.is_some_and(has_lapsed) {
                            from_log.push((version, record));
                        }
                    }
                }
            }
        }
        need_keys.sort_unstable_by_key(|found: &Found| found.address);
        let addresses: Vec<_> = need_keys.iter().map(|found| found.address).collect();
        machine.space.read_keys(&addresses, &mut |i, bytes| {
            let Found { hash, db, address, .. } = need_keys[i];
            let key = Key { hash, db, bytes: bytes.unwrap_or_default() };
            if bytes.is_some() {
                insert(&machine.index, &key, address);
            } else {
                machine.index.insert_unreadable(&key, address);
            }
        })?;
        drop((addresses, need_keys));
        for (_, record) in &from_log {
            if let Some(view) = RecordView::decode(record)
                && view.head.meta.kind() == Kind::Extent
                && view.head.version > manifest.flush_versions[usize::from(view.head.meta.db()) & 15]
            {
                machine.space.adopt_extent(view.value);
            }
        }
        machine.space.clear_torn()?;
        // Before other copies go: rot in a page that is not trusted passes for a torn flush, and would not be missed.
        if machine.space.sealed_seq() > manifest.persisted_seq {
            let stored = machine.save_manifest(|_| {});
            stored.map_err(StoreError::io("storing a manifest that trusts what was found"))?;
        }
        machine.space.finish_recovery()?;
        // In the order of their versions, so that what was written last lies together in the newest pages.
        from_log.sort_unstable_by_key(|(version, _)| *version);
        let mut machine = Arc::new(machine);
        let mut core = Core::open(&machine)?;
        // Nothing expires and nothing is evicted yet: a delete takes room in the log, which can't be had from it before all
        // that it holds is back.
        let background = machine.background.lock();
        for (_, record) in &from_log {
            let Some(view) = RecordView::decode(record) else { continue };
            if view.head.version <= manifest.flush_versions[usize::from(view.head.meta.db()) & 15] {
                continue;
            }
            core.restore(&view)?;
            if view.head.meta.kind() != Kind::Tombstone {
                stats.records += 1;
            }
            stats.from_log += 1;
        }
        drop((background, core));
        if let Some(replay) = replay {
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
