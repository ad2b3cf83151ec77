//! What is compared, and how large it is made.

use std::path::Path;

use terrace::engine::Durability;
use terrace::{Options, Place, Tier};

use super::WORD_BYTES;
use crate::record::record_bytes;

/// DRAM that a store of bonsai is given for ten million pairs: what one of any size takes at most, so that ratios stay.
const BONSAI_DRAM: u64 = 16 << 20;
const BONSAI_DRAM_PAIRS: u64 = 10_000_000;
/// The least that it works with.
const BONSAI_DRAM_LEAST: u64 = 1 << 20;
/// DRAM for records that hetermm works with at least.
const RECORDS_LEAST: u64 = 2 << 20;
/// DRAM and PMem that any store has at least.
const LEAST_BYTES: u64 = 64 << 20;
/// Bytes of PMem for a write beside its record: its entry's head, its group's, and what fills up cache lines.
const AROUND_BYTES: u64 = 128;
/// DRAM for a record's part of a hash table.
const INDEX_BYTES: u64 = 128;

/// An engine, and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// Ours, as the paper has it.
    Bonsai,
    /// An entry of an ordered tree in DRAM for each record.
    Tree,
    /// A log that keeps records, a hash table on the medium.
    Log,
    /// A hash table in DRAM over a heap on the medium.
    Heap,
}

impl System {
    pub const ALL: [Self; 4] = [Self::Bonsai, Self::Tree, Self::Log, Self::Heap];

    /// As options name it.
    pub fn engine(self) -> &'static str {
        match self {
            Self::Bonsai => "bonsai",
            Self::Tree => "hetermm",
            Self::Log => "scmkv",
            Self::Heap => "heap-hybrid",
        }
    }
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tree => "hetermm with btree",
            Self::Bonsai | Self::Log | Self::Heap => self.engine(),
        }
    }
    /// Whether it knows the order of keys.
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::Bonsai | Self::Tree)
    }
    /// DRAM for what was written last, of bonsai.
    pub fn bonsai_dram_bytes(pairs: u64) -> u64 {
        (BONSAI_DRAM * pairs / BONSAI_DRAM_PAIRS).clamp(BONSAI_DRAM_LEAST, BONSAI_DRAM)
    }
    /// PMem for so many pairs and so many writes of them, with little to clean.
    pub fn pmem_bytes(writes: u64, key_bytes: usize) -> u64 {
        let record = record_bytes("", key_bytes, WORD_BYTES);
        LEAST_BYTES + writes * (record + AROUND_BYTES) / 4 * 5
    }
    /// What a store is opened with that has so many pairs, and takes so many writes of them; without a directory it ends with the process.
    pub fn options(self, (pairs, writes): (u64, u64), key_bytes: usize, dir: Option<&Path>) -> Options {
        let index = if self == Self::Tree { "btree" } else { "clht" };
        let data = pairs * record_bytes(self.engine(), key_bytes, WORD_BYTES);
        let (dram, dram_records) = match self {
            // A quarter of the records is in DRAM, as in its paper.
            Self::Tree => (None, Some((data / 4).max(RECORDS_LEAST))),
            Self::Bonsai | Self::Log => (Some(LEAST_BYTES), None),
            Self::Heap => (Some(LEAST_BYTES + pairs * INDEX_BYTES), None),
        };
        Options {
            engine: self.engine().into(),
            index: index.into(),
            dir: dir.map(|dir| dir.join("store")),
            dram,
            dram_records,
            pmem: Some(Tier {
                bytes: Self::pmem_bytes(writes, key_bytes),
                place: dir.map(|dir| Place::Path(dir.to_owned())),
            }),
            expected_records: (self == Self::Log).then_some(pairs),
            durability: Durability::Sync,
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_dram_stay_up_to_what_the_engine_takes() {
        let of = System::bonsai_dram_bytes;
        assert_eq!((of(10_000_000), of(5_000_000), of(100_000_000)), (16 << 20, 8 << 20, 16 << 20));
        assert_eq!(of(1000), BONSAI_DRAM_LEAST);
    }
}
