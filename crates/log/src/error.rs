//! What can go wrong with a log.

use std::io;

/// Why a log operation did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No free block. Nothing is lost: reclaim, then repeat the call.
    #[error("the log is full: no block can be reused before more of it is persisted elsewhere")]
    Full,
    /// An entry, an atomic step or its dependencies are larger than a group may be.
    #[error("{bytes} bytes must be written as one group, and a group holds at most {max}")]
    TooLarge {
        /// Bytes needed: header, dependencies and entries.
        bytes: usize,
        /// The largest possible group.
        max: usize,
    },
    /// The medium failed.
    #[error("log i/o: {0}")]
    Io(#[from] io::Error),
    /// An earlier write of this session failed, and what reached the medium is unknown until the log is opened again.
    #[error("an earlier write to this session's log failed; open the store again")]
    Broken,
    /// Bytes that were once complete have changed. Nothing was modified.
    #[error(
        "log block {block} is corrupt at byte {offset} of the log area (session slot {slot:?}): {reason}"
    )]
    Corrupt {
        /// The session slot, where it is known.
        slot: Option<u16>,
        /// The block's number.
        block: u32,
        /// Offset of the bad place in the log area, in bytes.
        offset: u64,
        /// What proves it.
        reason: &'static str,
    },
    /// The area is not this store's log, or was made with other options.
    #[error("not the log that was asked for: {0}")]
    Mismatch(String),
}
