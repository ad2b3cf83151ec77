//! Where the data is, and what it costs.

use std::time::{SystemTime, UNIX_EPOCH};

use terrace_media::CountersSnapshot;

/// A picture of a store at one moment.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// The engine's name (`hetermm`, `dram`).
    pub engine: &'static str,
    /// The index's name.
    pub index: &'static str,
    /// DRAM held by the index, in bytes.
    pub index_bytes: u64,
    /// Live keys in all databases.
    pub keys: u64,
    /// Tombstones the index still holds.
    pub tombstones: u64,
    /// The tiers that exist, fastest first.
    pub tiers: Vec<TierStats>,
    /// Gets that missed.
    pub misses: u64,
    /// Of those, gets that found a record that had expired.
    pub misses_expired: u64,
    /// Of those, gets that found a record that a whole-database flush has forgotten.
    pub misses_flushed: u64,
    /// Records expired (by access or in the background).
    pub expired: u64,
    /// Records evicted because the store was full.
    pub evicted: u64,
    /// The log, if there is one.
    pub log: Option<LogStats>,
    /// Times a write had to wait for space, and in all how long.
    pub stalls: u64,
    /// Writes refused because the store was full.
    pub refused: u64,
    /// Bytes of DRAM the engine holds beside the index: pages, tables, buffers.
    pub dram_other_bytes: u64,
    /// How records and index get more DRAM.
    pub more_dram: MoreRoom,
    /// What recovery found, if the store was opened from existing data.
    pub recovery: Option<RecoveryStats>,
    /// Why nothing is acknowledged any more: a sync or a write of the log failed, or a sync of large values.
    pub log_failure: Option<Failure>,
    /// Why the lower tier takes no more pages: a write or a sync of it failed.
    pub tier_failure: Option<Failure>,
    /// Free-form pairs that belong to one engine (`pages_free`, `blocks_reclaimed`, …).
    pub engine_details: Vec<(&'static str, u64)>,
}

impl Stats {
    /// What was asked of a tier's device: the log's accesses, too, if that lies on it. (On byte-addressable media the two share a
    /// region, whose counters are the tier's.)
    pub fn traffic(&self, tier: &TierStats) -> CountersSnapshot {
        let log = self.log.filter(|_| tier.tier == "ssd").map(|log| log.media);
        tier.media + log.unwrap_or_default()
    }
}

/// What failed first, for good: it stays so until the store is opened again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was being done, and what the system said to it, on one line.
    pub what: String,
    /// When, in milliseconds since the Unix epoch, by the system's clock.
    pub since_ms: u64,
}

impl Failure {
    /// A failure that happened now.
    pub fn now(what: &str, error: &dyn std::fmt::Display) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // It is told in protocols of lines.
        let what = format!("{what}: {error}").replace(char::is_control, " ");
        Self { what, since_ms: since.map_or(0, |since| since.as_millis() as u64) }
    }
}

/// How something gets more room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MoreRoom {
    /// A store keeps what it was made with.
    #[default]
    Never,
    /// When it is opened with more.
    WhenOpened,
    /// While it is open.
    WhileOpen,
}

/// One tier.
#[derive(Clone, Debug, Default)]
pub struct TierStats {
    /// `dram`, `pmem` or `ssd`.
    pub tier: &'static str,
    /// What it is, for people (`emulated optane-200`, `ext4 file, O_DIRECT through io_uring`).
    pub medium: String,
    /// Live records whose only copy in reach is here (a record that is also in a higher tier counts there).
    pub records: u64,
    /// Bytes live records occupy here, headers included.
    pub live_bytes: u64,
    /// Bytes in use, garbage included.
    pub used_bytes: u64,
    /// Bytes there are.
    pub capacity_bytes: u64,
    /// Bytes that it takes on a disk so far, of a tier that begins small; 0: it is as large as it is to be.
    pub taken_bytes: u64,
    /// Why it can't take more, if its disk refuses.
    pub cramped: Option<String>,
    /// How it gets more room; of tier `dram` [`Stats::more_dram`] says it.
    pub more_room: MoreRoom,
    /// Gets answered from here.
    pub hits: u64,
    /// Accesses (zero for DRAM, which is not counted); without those of a log in a file of its own: see [`Stats::traffic`].
    pub media: CountersSnapshot,
}

/// The operation log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStats {
    /// Bytes in log blocks in use.
    pub used_bytes: u64,
    /// Bytes of the log area.
    pub capacity_bytes: u64,
    /// Accesses of the log's own medium, where that is not a tier's.
    pub media: CountersSnapshot,
}

/// What an opening made of the snapshot that a clean stop saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotUse {
    /// There was none.
    #[default]
    None,
    /// Index and space are what it says.
    Used,
    /// Something about it was not right: the media were scanned.
    Refused,
}

/// How much of what survives an opening went through, record by record. What shows that a page is there, and which one it is (a line
/// or a header of each, a footer beside a snapshot), is no part of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Pages of which the records were read, each once in however many passes. Where the log is a part of the pages, its are among them.
    pub pages: u64,
    /// Pages there are, in use or not.
    pub of: u64,
}

/// What recovery did.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecoveryStats {
    /// Whether the store had been closed cleanly.
    pub clean: bool,
    /// Whether a snapshot spared the scan.
    pub snapshot: SnapshotUse,
    /// How often the media were read for the newest record of each key; 0 with a snapshot.
    pub passes: u64,
    /// Pages that were scanned.
    pub scanned: Scanned,
    /// Records found live.
    pub records: u64,
    /// Of those, records that came from the log.
    pub from_log: u64,
    /// Damaged records found and poisoned.
    pub poisoned: u64,
    /// Wall time in nanoseconds.
    pub nanoseconds: u64,
}
