//! How large the parts of a store are: chosen once, from its tiers, and kept in its superblock.

use serde::{Deserialize, Serialize};
use terrace_engine::StoreError;
use terrace_space_heap::Granularity;

use crate::open::SESSIONS;
use crate::options::Options;
use crate::size::human_bytes;

/// Pages and blocks: large enough for the longest key and inline value together, small enough that a small DRAM has many.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 256 << 10..=1 << 20;
/// Blocks that hold 300 MiB in one value, and how many DRAM has room for where these are chosen before smaller ones.
const MIDDLE_BLOCK: u64 = 512 << 10;
const MIDDLE_BLOCKS: u64 = 48;
/// A log block holds the longest record and the longest atomic group; a small log has many small ones, for each thread has some.
const LOG_BLOCK_BYTES: u64 = 256 << 10;
/// A large log has blocks that hold as long a group as a page of the largest size does.
const LOG_BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Blocks that a log with larger ones still has.
const LOG_BLOCKS_MIN: u64 = 256;
/// How far the copies of the manifest lie from each other: a multiple of every size of block, and within the smallest tier.
const MANIFESTS_APART: u64 = 4 << 20;
/// The least DRAM for records that pages of the smallest size can work with.
const DRAM_MIN: u64 = 8 * (256 << 10);
/// What a thread's buffers take when all are busy with many large answers, as measured; those of a few threads are within what may be
/// over a budget.
const THREAD_BYTES: u64 = 4 << 20;
const FEW_THREADS: usize = 2;
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
    /// Blocks between the two copies of the manifest, in bytes; none of a store that was made before format 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifests_apart: Option<u64>,
    /// Of a store on both kinds of media, the bytes of memory that it has beside its files: the log and a middle tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmem_bytes: Option<u64>,
    /// Buckets of a hash table that keeps its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<u64>,
    /// How long the chunks of a heap are; none of one with slabs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heap: Option<Granularity>,
}

impl Sizes {
    /// Bytes of blocks between the two copies of the manifest.
    pub fn apart(&self) -> u64 {
        self.manifests_apart.unwrap_or(0)
    }
}

/// The text that a superblock keeps.
pub(super) fn encode(sizes: &Sizes) -> Result<String, StoreError> {
    toml::to_string(sizes)
        .map_err(|error| StoreError::Options(format!("sizes that can't be stored: {error}")))
}

pub(super) fn decode(text: &str) -> Result<Sizes, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// As many bytes as whole blocks of the log have.
pub(super) fn whole_log_blocks(bytes: u64) -> u64 {
    bytes / LOG_BLOCK_BYTES * LOG_BLOCK_BYTES
}

/// Of a log of so many bytes, a whole number of them; large ones only if there are enough for all threads.
fn log_block(log_bytes: u64, threads: usize) -> u64 {
    let large =
        log_bytes >= LOG_BLOCKS_MIN * LOG_BLOCK_BYTES_MAX && log_bytes.is_multiple_of(LOG_BLOCK_BYTES_MAX);
    let fits = threads <= threads_for(log_bytes, LOG_BLOCK_BYTES_MAX);
    if large && fits { LOG_BLOCK_BYTES_MAX } else { LOG_BLOCK_BYTES }
}

/// Sessions beside those of threads: a snapshot has one.
const SESSIONS_BESIDE: usize = 1;

/// Threads that a log has places for.
fn threads_for(log_bytes: u64, log_block_bytes: u64) -> usize {
    let most = terrace_blocks::sessions_max(log_bytes, log_block_bytes).unwrap_or(usize::MAX);
    most.saturating_sub(SESSIONS_BESIDE).min(SESSIONS)
}

/// The log of a new store: its share of a tier, or more if the threads need it, up to half of the tier.
///
/// # Errors
/// [`StoreError::Options`] if that is too little for the threads; the text says how many fit, and what to change.
pub(super) fn log_bytes_for(options: &Options, share: u64, tier: (&str, u64)) -> Result<u64, StoreError> {
    let (flag, bytes) = tier;
    let blocks = terrace_blocks::log_blocks_for(options.threads.saturating_add(SESSIONS_BESIDE));
    let needed = blocks.saturating_mul(LOG_BLOCK_BYTES);
    let most = whole_log_blocks(bytes / 2);
    let log_bytes = match options.threads > threads_for(share, LOG_BLOCK_BYTES) {
        true => needed.min(most),
        false => share,
    };
    let fit = threads_for(log_bytes, LOG_BLOCK_BYTES);
    if options.threads <= fit {
        return Ok(whole_log_blocks(log_bytes));
    }
    Err(StoreError::Options(format!(
        "{} threads: a log for so many takes {}, and {flag} has {}: give --threads {fit} (or memcached's -t) at most, or {flag} {} or \
         more",
        options.threads,
        human_bytes(needed),
        human_bytes(bytes),
        human_bytes(needed.saturating_mul(2)),
    )))
}

/// Refuses more threads than any store takes.
///
/// # Errors
/// [`StoreError::Options`] with how many that is.
pub(crate) fn check_threads_at_all(options: &Options) -> Result<(), StoreError> {
    let most = SESSIONS;
    if options.threads <= most {
        return Ok(());
    }
    Err(StoreError::Options(format!(
        "{} threads: give --threads {most} (or memcached's -t) at most",
        options.threads
    )))
}

/// Refuses more threads than the log of a store has places for.
///
/// # Errors
/// [`StoreError::Options`] with how many fit, and what to change.
pub(super) fn check_threads(options: &Options, sizes: &Sizes) -> Result<(), StoreError> {
    let fit = threads_for(sizes.log_bytes, sizes.log_block_bytes);
    if options.threads <= fit {
        return Ok(());
    }
    Err(StoreError::Options(format!(
        "{} threads: the log of this store, {} in blocks of {}, was made with places for {fit}: give --threads {fit} (or \
         memcached's -t) at most (a log keeps its size; a new store that is made with more threads has a larger one)",
        options.threads,
        human_bytes(sizes.log_bytes),
        human_bytes(sizes.log_block_bytes)
    )))
}

/// Refuses other chunks than those that the heap of a store was made with.
///
/// # Errors
/// [`StoreError::Options`] with what it has.
pub(super) fn check_heap(options: &Options, sizes: &Sizes) -> Result<(), StoreError> {
    let stored = sizes.heap.unwrap_or_default();
    match options.heap.filter(|asked| *asked != stored) {
        None => Ok(()),
        Some(asked) => Err(StoreError::Options(format!(
            "--heap {asked}: this store was made with --heap {stored}, which it keeps: leave it out, or make another store"
        ))),
    }
}

/// DRAM for records. `--dram-records` is just that; `--dram` bounds the whole process: buffers come off it here, and
/// the index takes pages away as it grows.
pub(super) fn dram_for_records(options: &Options) -> u64 {
    match (options.dram_records, options.dram) {
        (Some(records), _) => records,
        (None, Some(all)) => all.saturating_sub(buffers_of(all, options.threads)),
        (None, None) => terrace_media::Machine::detect().usable_bytes() / 4,
    }
}

/// What a budget for the whole process leaves to buffers: those of a few threads have room in any budget.
pub(crate) fn buffers_of(all: u64, threads: usize) -> u64 {
    let further = threads.saturating_sub(FEW_THREADS) as u64;
    (all / 4).min(64 << 20).max(further.saturating_mul(THREAD_BYTES))
}

/// Refuses a budget that the buffers of its threads would take.
///
/// # Errors
/// [`StoreError::Options`] with the least that can be, and how many threads it is enough for.
pub(crate) fn check_budget(options: &Options) -> Result<(), StoreError> {
    let (None, Some(all)) = (options.dram_records, options.dram) else { return Ok(()) };
    let least = buffers_of(0, options.threads).saturating_add(DRAM_MIN);
    if least == DRAM_MIN || all >= least {
        return Ok(());
    }
    let fit = FEW_THREADS as u64 + all.saturating_sub(DRAM_MIN) / THREAD_BYTES;
    Err(StoreError::Options(format!(
        "--dram {} with {} threads: what is on its way takes {} a thread, so give --dram {} or more, or --threads {fit} (memcached's \
         -t) at most",
        human_bytes(all),
        options.threads,
        human_bytes(THREAD_BYTES),
        human_bytes(least),
    )))
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
    // A store's longest value is some hundred of its blocks: where DRAM has room for enough larger ones they are not the smallest.
    let of_dram = if dram / MIDDLE_BLOCK >= MIDDLE_BLOCKS { MIDDLE_BLOCK.max(dram / 64) } else { dram / 64 };
    let block = of_dram.min(bytes / 128).max(1);
    let block_bytes = (1u64 << block.ilog2()).clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
    let log_block_bytes = log_block(log_bytes, options.threads);
    let manifests_apart = Some(MANIFESTS_APART);
    let (pmem_bytes, buckets, heap) = (None, None, None);
    Ok(Sizes { block_bytes, log_block_bytes, log_bytes, manifests_apart, pmem_bytes, buckets, heap })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_holds_the_buffers_of_its_threads() {
        assert_eq!([1, 2, 4].map(|threads| buffers_of(32 << 20, threads)), [8 << 20; 3]);
        assert_eq!(buffers_of(64 << 20, 16), 56 << 20);
        assert_eq!(buffers_of(8 << 30, 16), 64 << 20);
        let checked = |dram, threads| {
            let options = Options { threads, dram: Some(dram), ..Options::default() };
            check_budget(&options).map_err(|error| error.to_string())
        };
        assert!(checked(4 << 20, 2).is_ok() && checked(64 << 20, 16).is_ok());
        let refused = checked(64 << 20, 48).unwrap_err();
        assert!(refused.contains("--dram 186 MiB or more") && refused.contains("--threads 17 "), "{refused}");
        assert!(checked(186 << 20, 48).is_ok() && checked(64 << 20, 17).is_ok());
    }

    #[test]
    fn a_log_has_places_for_the_threads() {
        let at = |threads, share, bytes| {
            let options = Options { threads, ..Options::default() };
            log_bytes_for(&options, share, ("--ssd", bytes)).map_err(|error| error.to_string())
        };
        let share = 8 << 20;
        assert_eq!(at(1, share, 64 << 20), Ok(share), "few threads change nothing");
        assert_eq!(at(12, share, 64 << 20), Ok(share));
        let more = at(13, share, 64 << 20).unwrap();
        assert!(more > share && threads_for(more, LOG_BLOCK_BYTES) == 13);
        // Blocks are large where so many still are enough.
        assert_eq!(log_block(256 << 20, 1), LOG_BLOCK_BYTES_MAX);
        assert_eq!(log_block(256 << 20, 124), LOG_BLOCK_BYTES_MAX);
        assert_eq!(log_block(256 << 20, 125), LOG_BLOCK_BYTES);
        for threads in 1..=SESSIONS {
            let log_bytes = at(threads, share, 1 << 30).unwrap();
            assert!(threads_for(log_bytes, log_block(log_bytes, threads)) >= threads, "{threads}");
        }
        let refused = at(100, share, 32 << 20).unwrap_err();
        assert!(refused.contains("--threads 28 ") && refused.contains("--ssd 104 MiB"), "{refused}");
        assert!(at(28, share, 32 << 20).is_ok() && at(100, share, 104 << 20).is_ok());
        assert!(check_threads_at_all(&Options { threads: 256, ..Options::default() }).is_err());
    }
}
