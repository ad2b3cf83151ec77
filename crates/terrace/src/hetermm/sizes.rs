//! How large the parts of a store are: chosen once, from its tiers, and kept in its superblock.

use serde::{Deserialize, Serialize};
use terrace_engine::StoreError;
use terrace_space_hybrid_log::Sizes;

use crate::options::Options;
use crate::size::human_bytes;

/// Pages and blocks: large enough for the longest key and inline value together, small enough that a small DRAM has many.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 256 << 10..=1 << 20;
/// A log block holds the longest record and the longest atomic group.
const LOG_BLOCK_BYTES: usize = 256 << 10;
/// The least DRAM for records that pages of the smallest size can work with.
const DRAM_MIN: u64 = 8 * (256 << 10);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    block_bytes: u64,
    log_block_bytes: u64,
    log_bytes: u64,
}

pub(super) fn encode(sizes: &Sizes) -> String {
    format!(
        "block_bytes = {}\nlog_block_bytes = {}\nlog_bytes = {}\n",
        sizes.block_bytes, sizes.log_block_bytes, sizes.log_bytes
    )
}

pub(super) fn decode(text: &str) -> Result<Sizes, String> {
    let stored: Stored = toml::from_str(text).map_err(|error| error.to_string())?;
    Ok(Sizes {
        block_bytes: stored.block_bytes as usize,
        log_block_bytes: stored.log_block_bytes as usize,
        log_bytes: stored.log_bytes,
        dram_bytes: 0,
        dram_with_index: false,
        store_id: 0,
    })
}

/// DRAM for record pages. `--dram-records` is just that; `--dram` bounds the whole process: buffers come off it here, and
/// the index takes pages away as it grows.
pub(super) fn dram_for_records(options: &Options) -> u64 {
    match (options.dram_records, options.dram) {
        (Some(records), _) => records,
        (None, Some(all)) => all.saturating_sub((all / 4).min(64 << 20)),
        (None, None) => terrace_media::Machine::detect().usable_bytes() / 4,
    }
}

/// Sizes for a new store whose lower tier has `bytes` bytes, a share of them for the log.
pub(super) fn choose(options: &Options, bytes: u64, log_bytes: u64) -> Result<Sizes, StoreError> {
    let dram = dram_for_records(options);
    if dram < DRAM_MIN {
        return Err(StoreError::Options(format!(
            "{} of DRAM for records: at least {} are needed (--dram-records, or --dram with {} more)",
            human_bytes(dram),
            human_bytes(DRAM_MIN),
            human_bytes(16 << 20)
        )));
    }
    let least = 24 << 20;
    if bytes < least {
        return Err(StoreError::Options(format!(
            "a lower tier of {}: at least {} are needed",
            human_bytes(bytes),
            human_bytes(least)
        )));
    }
    let block = (dram / 64).min(bytes / 128).max(1);
    let block = (1u64 << block.ilog2()).clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
    let log_bytes = log_bytes / LOG_BLOCK_BYTES as u64 * LOG_BLOCK_BYTES as u64;
    Ok(Sizes {
        block_bytes: block as usize,
        log_block_bytes: LOG_BLOCK_BYTES,
        log_bytes,
        dram_bytes: dram,
        dram_with_index: false,
        store_id: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_survive_the_superblock() {
        let options = Options { dram_records: Some(64 << 20), ..Options::default() };
        let sizes = choose(&options, 1 << 30, 100 << 20).unwrap();
        let stored = decode(&encode(&sizes)).unwrap();
        assert_eq!((stored.block_bytes, stored.log_bytes), (1 << 20, 100 << 20));
        assert_eq!(stored.log_block_bytes, sizes.log_block_bytes);
        assert!(decode("block_bytes = 1").is_err());
    }

    #[test]
    fn impossible_sizes_are_refused_with_what_is_possible() {
        let options = Options { dram_records: Some(1 << 20), ..Options::default() };
        assert!(choose(&options, 1 << 30, 1 << 20).unwrap_err().to_string().contains("at least 2 MiB"));
        let options = Options { dram_records: Some(64 << 20), ..Options::default() };
        assert!(choose(&options, 1 << 20, 1 << 20).unwrap_err().to_string().contains("at least 24 MiB"));
    }
}
