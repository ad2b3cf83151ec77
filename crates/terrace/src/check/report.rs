//! What a check found, for people.

use std::fmt;
use std::io;
use std::path::PathBuf;

use terrace_engine::StoreError;

use crate::size::human_bytes;

/// Numbers of a checked heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapCounts {
    /// Pages.
    pub pages: u64,
    /// Pages that hold nothing.
    pub pages_empty: u64,
    /// Chunks of the others.
    pub chunks: u64,
    /// Free ones.
    pub chunks_free: u64,
    /// Chunks that count for nothing: a crash tore them, or they are of steps that don't count.
    pub chunks_void: u64,
}

/// Numbers of a checked store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of a heap, in place of blocks and log.
    pub heap: Option<HeapCounts>,
    /// Blocks on the lower tier.
    pub blocks: u64,
    /// Free ones.
    pub blocks_free: u64,
    /// Blocks of records that count.
    pub blocks_records: u64,
    /// Blocks of large values' pieces.
    pub blocks_extents: u64,
    /// Blocks of what clean stops saved.
    pub blocks_snapshot: u64,
    /// Blocks that a crash tore while they were flushed or freed: they count for nothing.
    pub blocks_torn: u64,
    /// Records in blocks, in the order of [`terrace_engine::record::Kind`]: values, extents, tombstones, poisons.
    pub records: [u64; 4],
    /// Bytes that all records in blocks occupy.
    pub record_bytes: u64,
    /// Bytes of those that are the newest version of their key.
    pub live_bytes: u64,
    /// Records in the middle tier.
    pub middle_records: u64,
    /// Records whose checksum does not match.
    pub damaged: u64,
    /// Keys with a value, expired ones included.
    pub keys: u64,
    /// Of these, keys whose newest version is in the log only.
    pub keys_in_log: u64,
    /// Of the keys, those that have expired by now.
    pub expired: u64,
    /// Of the keys, those whose value is an extent.
    pub extents: u64,
    /// Bytes of these extents.
    pub extent_bytes: u64,
    /// Keys whose newest version is a tombstone.
    pub tombstones: u64,
    /// Keys that answer an error until they are set or deleted: their newest version is damaged or stands for damage.
    pub poisoned: u64,
    /// Entries in the log.
    pub log_entries: u64,
    /// Of these, entries that opening will replay.
    pub log_needed: u64,
}

/// What a check found. Displayed, its last line is `clean` or the number of problems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What the store is, a line each.
    pub about: Vec<String>,
    /// Numbers.
    pub counts: Counts,
    /// What is as a crash may leave it.
    pub notes: Vec<String>,
    /// What was changed.
    pub repairs: Vec<String>,
    /// After a repair, what it can't mend, a line each, with what can be done instead.
    pub beyond: Vec<String>,
    /// What is wrong, a line each.
    pub problems: Vec<String>,
    /// Problems of which only the number is told.
    pub unlisted: u64,
    /// What no repair mends: the manifest is gone, the middle tier or the log's own superblock can't be read, keys of large values
    /// that answer errors.
    pub(super) no_manifest: bool,
    pub(super) middle_fails: bool,
    pub(super) log_fails: bool,
    pub(super) large_fail: u64,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problem_count() == 0
    }
    /// How many problems there are.
    pub fn problem_count(&self) -> u64 {
        self.problems.len() as u64 + self.unlisted
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.about {
            writeln!(f, "{line}")?;
        }
        let c = &self.counts;
        let share =
            |part: u64| if c.record_bytes == 0 { 0.0 } else { part as f64 * 100.0 / c.record_bytes as f64 };
        let heap = c.heap.map(|heap| {
            let HeapCounts { pages, pages_empty, chunks, chunks_free, chunks_void } = heap;
            format!("heap     {pages} pages, {pages_empty} empty; {chunks} chunks: {chunks_free} free, {chunks_void} void")
        });
        let lower = heap.unwrap_or_else(|| {
            format!(
                "blocks   {}: {} of records, {} of extents, {} of a snapshot, {} free, {} torn",
                c.blocks, c.blocks_records, c.blocks_extents, c.blocks_snapshot, c.blocks_free, c.blocks_torn
            )
        });
        writeln!(f, "{lower}")?;
        let [values, extents, tombstones, poisons] = c.records;
        writeln!(
            f,
            "records  {values} values, {extents} extents, {tombstones} tombstones, {poisons} poisons, {} damaged; {}, {:.1}% garbage",
            c.damaged,
            human_bytes(c.record_bytes),
            share(c.record_bytes - c.live_bytes)
        )?;
        if c.middle_records > 0 {
            writeln!(f, "middle   {} records in PMem slots", c.middle_records)?;
        }
        if c.heap.is_none() {
            writeln!(f, "log      {} entries, {} of them needed", c.log_entries, c.log_needed)?;
        }
        writeln!(
            f,
            "keys     {}: {} in the log only, {} expired, {} large ({}); {} tombstones, {} poisoned",
            c.keys,
            c.keys_in_log,
            c.expired,
            c.extents,
            human_bytes(c.extent_bytes),
            c.tombstones,
            c.poisoned
        )?;
        let told = [
            ("note", &self.notes),
            ("repaired", &self.repairs),
            ("problem", &self.problems),
            ("not repaired", &self.beyond),
        ];
        for (word, lines) in told {
            for line in lines {
                writeln!(f, "{word}: {line}")?;
            }
        }
        if self.unlisted > 0 {
            writeln!(f, "problem: {} more damaged records", self.unlisted)?;
        }
        match self.problem_count() {
            0 => write!(f, "clean"),
            1 => write!(f, "1 problem"),
            problems => write!(f, "{problems} problems"),
        }
    }
}

/// Why a store can't be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// There is no store.
    #[error("{}: no store is here ({why})", path.display())]
    NoStore {
        /// Where.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// Somebody has it open, or its lock can't be taken.
    #[error(transparent)]
    Locked(#[from] terrace_media::LockError),
    /// Its superblock can't be trusted, or its media are not what that says.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A medium can't be mapped.
    #[error(transparent)]
    Map(#[from] terrace_media::MapError),
    /// A medium can't be read or, in a repair, written.
    #[error("{what}: {source}")]
    Io {
        /// Doing what.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

impl CheckError {
    pub(super) fn reading(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what: format!("reading {what}"), source }
    }
}
