//! HeterMM: records in pages that move from DRAM to persistent memory, behind an index in DRAM that knows addresses
//! alone.
//!
//! ```text
//!   H1        beside a stand-in for TIPS (table 2)                        peer.rs over stand_in.rs
//!   H2 H3     bursts a set, hits in DRAM (section 6.2.1, figure 14)       writes.rs, hits.rs over counted.rs
//!   H4        what the operation log costs (figure 15)                    log.rs
//!   H5        kills, and how fast a store is back (section 6.3.2)         kills.rs over kept.rs
//!   H6        beside the same index without a lower tier (figs 8, 9)      ceiling.rs
//!   H7        Zipf 1.5 (section 6.2.2)                                    skew.rs
//!                                                                         stores that are timed: bed.rs
//! ```
//!
//! Records have the paper's lengths, 8 + 64 bytes, and DRAM holds a quarter of them, with the index beside that, as in
//! the paper.

mod bed;
mod ceiling;
mod counted;
mod hits;
mod kept;
mod kills;
mod log;
mod peer;
mod skew;
mod stand_in;
mod writes;

use super::{Part, Study};
use crate::record::record_bytes;

/// The study.
pub const STUDY: Study = Study {
    name: "hetermm",
    about: "HeterMM (an index in DRAM over records in DRAM and persistent memory): the paper's figures and ours",
    parts: &[
        Part { id: "H1", source: peer::table_2 },
        Part { id: "H2", source: writes::section_6_2_1 },
        Part { id: "H3", source: hits::figure_14 },
        Part { id: "H4", source: log::figure_15 },
        Part { id: "H5", source: kills::section_6_3_2 },
        Part { id: "H6", source: ceiling::figures_8_and_9 },
        Part { id: "H7", source: skew::section_6_2_2 },
    ],
};

/// Why rows beside TIPS have no figure.
const NO_PEER: &str = "TIPS is another system, and our stand-in for it has a hash table alone";

/// The paper's records.
const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 64;
/// The paper's DRAM, as a share of the records.
const DRAM_PERCENT: f64 = 25.0;
/// DRAM for records that the engine has at least.
const DRAM_LEAST: u64 = 2 << 20;
/// PMem that a store has at least.
const PMEM_LEAST: u64 = 64 << 20;
/// Bytes of PMem for a write beside its record: its entry in the log, its group's head, and what fills up cache lines.
const AROUND_BYTES: u64 = 128;

/// Bytes of the records.
fn data_bytes(records: u64) -> u64 {
    records * record_bytes("hetermm", KEY_BYTES, VALUE_BYTES)
}

/// DRAM for so many records.
fn dram_bytes(records: u64) -> u64 {
    ((data_bytes(records) as f64 * DRAM_PERCENT / 100.0) as u64).max(DRAM_LEAST)
}

/// PMem for so many writes, with little to clean.
fn pmem_bytes(writes: u64) -> u64 {
    PMEM_LEAST + (data_bytes(writes) + writes * AROUND_BYTES) / 4 * 5
}

/// Records and DRAM, for people: at small scales DRAM is more than a quarter.
fn sizes(records: u64) -> String {
    format!(
        "{records} records of {KEY_BYTES} + {VALUE_BYTES} B, DRAM for {:.0}% of them",
        100.0 * dram_bytes(records) as f64 / data_bytes(records) as f64
    )
}
