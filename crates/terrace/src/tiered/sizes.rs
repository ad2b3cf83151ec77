//! How large the parts of a store are: chosen once, from its tiers, and kept in its superblock.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use terrace_engine::StoreError;

use crate::options::Options;
use crate::size::human_bytes;

/// Pages and blocks: large enough for the longest key and inline value together, small enough that a small DRAM has many.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 256 << 10..=1 << 20;
/// A log block holds the longest record and the longest atomic group; a small log has many small ones, for each thread has some.
const LOG_BLOCK_BYTES: u64 = 256 << 10;
/// A large log has blocks that hold as long a group as a page of the largest size does.
const LOG_BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Blocks that a log with larger ones still has.
const LOG_BLOCKS_MIN: u64 = 256;
/// The least DRAM for records that pages of the smallest size can work with.
const DRAM_MIN: u64 = 8 * (256 << 10);
/// The least of a lower tier.
const LOWER_MIN: u64 = 24 << 20;

/// Sizes that every such engine has, as its superblock keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sizes {
    /// A block of records.
    pub block_bytes: u64,
    /// A block of the operation log.
    pub log_block_bytes: u64,
    /// The operation log.
    pub log_bytes: u64,
    /// Of a store on both kinds of media, the bytes of memory that it has beside its files: the log and a middle tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmem_bytes: Option<u64>,
}

impl AsMut<Self> for Sizes {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl AsRef<Self> for Sizes {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The text that a superblock keeps.
pub(super) fn encode(sizes: &impl Serialize) -> Result<String, StoreError> {
    toml::to_string(sizes)
        .map_err(|error| StoreError::Options(format!("sizes that can't be stored: {error}")))
}

pub(super) fn decode<S: DeserializeOwned>(text: &str) -> Result<S, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// As many bytes as whole blocks of the log have.
pub(super) fn whole_log_blocks(bytes: u64) -> u64 {
    bytes / LOG_BLOCK_BYTES * LOG_BLOCK_BYTES
}

/// Of a log of so many bytes, a whole number of them.
fn log_block(log_bytes: u64) -> u64 {
    let large =
        log_bytes >= LOG_BLOCKS_MIN * LOG_BLOCK_BYTES_MAX && log_bytes.is_multiple_of(LOG_BLOCK_BYTES_MAX);
    if large { LOG_BLOCK_BYTES_MAX } else { LOG_BLOCK_BYTES }
}

/// DRAM for records. `--dram-records` is just that; `--dram` bounds the whole process: buffers come off it here, and
/// the index takes pages away as it grows.
pub(super) fn dram_for_records(options: &Options) -> u64 {
    match (options.dram_records, options.dram) {
        (Some(records), _) => records,
        (None, Some(all)) => all.saturating_sub(buffers_of(all)),
        (None, None) => terrace_media::Machine::detect().usable_bytes() / 4,
    }
}

/// What a budget for the whole process leaves to buffers.
pub(crate) fn buffers_of(all: u64) -> u64 {
    (all / 4).min(64 << 20)
}

/// Sizes for a new store whose lower tier has `bytes` bytes, `log_bytes` of them for the log, and whose blocks are pages of
/// DRAM.
///
/// # Errors
/// [`StoreError::Options`] if there is too little of a tier.
pub(crate) fn choose(options: &Options, bytes: u64, log_bytes: u64) -> Result<Sizes, StoreError> {
    let dram = dram_for_records(options);
    if dram < DRAM_MIN {
        return Err(StoreError::Options(format!(
            "{} of DRAM for records: at least {} are needed (--dram-records, or --dram with {} more)",
            human_bytes(dram),
            human_bytes(DRAM_MIN),
            human_bytes(16 << 20)
        )));
    }
    if bytes < LOWER_MIN {
        return Err(StoreError::Options(format!(
            "a lower tier of {}: at least {} are needed",
            human_bytes(bytes),
            human_bytes(LOWER_MIN)
        )));
    }
    let block = (dram / 64).min(bytes / 128).max(1);
    let block_bytes = (1u64 << block.ilog2()).clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
    Ok(Sizes { block_bytes, log_block_bytes: log_block(log_bytes), log_bytes, pmem_bytes: None })
}
