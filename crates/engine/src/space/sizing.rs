//! How much there is, and where.

use super::records::Records;
use crate::read_cache::ReadCache;
use crate::session::StoreError;
use crate::stats::{MoreRoom, TierStats};

/// Sizes and statistics.
pub trait Sizing: Records {
    /// What is where.
    fn tiers(&self) -> Vec<TierStats>;

    /// DRAM held beside the index, in bytes.
    fn dram_bytes(&self) -> u64;

    /// Pairs for `INFO` and tests.
    fn details(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// The index now holds this many bytes of DRAM: pages may have to give way.
    fn index_grew(&self, _index_bytes: u64) {}

    /// DRAM for records (with the index, where the store was opened so) is to be this much from now on. What has to leave leaves
    /// in background steps. See [`Store::resize_dram`](crate::Store::resize_dram).
    ///
    /// # Errors
    /// [`StoreError::Options`] if it can't be: the text says what can.
    fn resize_dram(&self, _bytes: u64) -> Result<(), StoreError> {
        Err(StoreError::Options(
            "DRAM can't be resized while this engine runs: open the store with another size".into(),
        ))
    }

    /// How it gets more DRAM: whoever implements [`resize_dram`](Self::resize_dram) gets it while the store is open.
    fn more_dram(&self) -> MoreRoom {
        MoreRoom::WhenOpened
    }

    /// How the read cache takes records in; `None` if there is none that could be switched on.
    fn read_cache(&self) -> Option<ReadCache> {
        None
    }

    /// Another way for the read cache to take records in. See [`Store::set_read_cache`](crate::Store::set_read_cache).
    ///
    /// # Errors
    /// [`StoreError::Options`] if there is no such cache.
    fn set_read_cache(&self, cache: ReadCache) -> Result<(), StoreError> {
        Err(StoreError::Options(format!(
            "this engine has no read cache: leave read-cache {cache} out, or use engine hetermm"
        )))
    }

    /// A tier below DRAM, by its name in statistics, is to be this long from now on. See
    /// [`Store::resize_tier`](crate::Store::resize_tier).
    ///
    /// # Errors
    /// [`StoreError::Options`] if it can't be: the text says what can. [`StoreError::Io`]: the medium's.
    fn resize_tier(&self, tier: &str, _bytes: u64) -> Result<(), StoreError> {
        Err(StoreError::Options(format!(
            "tier {tier} can't be resized while this engine runs: make a store of another size"
        )))
    }
}
