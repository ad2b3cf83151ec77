//! BonsaiKV: records in persistent memory in the order of their keys, forty to a node that has one entry in DRAM.
//!
//! ```text
//!   B1 B2 B5  bytes of DRAM and PMem a pair, reads a get (figure 10, table 3, section 4.1.3)   memory.rs, reads.rs: counted.rs
//!   B3 B7     gets, puts, scans beside an entry a record, a log, a heap (figs 10, 14)          rivals.rs                |
//!   B4        packing of the log (figure 11a)                                                  packing.rs               |
//!   B6        several devices (figure 12a)                                                     striped.rs               |
//!   B8        several nodes (figure 12b)                                                       coherence.rs             |
//!   aim       what is asked of ours: beside hetermm with btree and scmkv, and restarts         aims.rs                  |
//!                                    stores that are timed: bed.rs     what is compared, and its sizes: systems.rs -----'
//! ```
//!
//! The paper's rivals are other systems. Ours that are shaped like them stand beside: `hetermm` with `btree` has an entry of an ordered
//! tree a record (its DRAM-only variant, and FlatStore), `scmkv` a log that keeps records, `heap-hybrid` a hash table in DRAM over records
//! in PMem (Viper).

mod aims;
mod bed;
mod coherence;
mod counted;
mod memory;
mod packing;
mod reads;
mod rivals;
mod striped;
mod systems;

use super::{Part, Settings, Study};

/// The study.
pub const STUDY: Study = Study {
    name: "bonsai",
    about: "BonsaiKV (ordered records in persistent memory, an entry for forty in DRAM): the paper's figures and ours",
    parts: &[
        Part { id: "B1", source: memory::figure_10 },
        Part { id: "B2", source: memory::table_3 },
        Part { id: "B3", source: rivals::figure_10 },
        Part { id: "B4", source: packing::figure_11a },
        Part { id: "B5", source: reads::section_4_1_3 },
        Part { id: "B6", source: striped::figure_12a },
        Part { id: "B7", source: rivals::figure_14 },
        Part { id: "B8", source: coherence::figure_12b },
        Part { id: "aim", source: aims::in_one_run },
    ],
};

/// Pairs at scale 1: a 120th of those of the paper's table 3.
const PAIRS: u32 = 1_000_000;
/// Bytes of a key, and of a value.
const WORD_BYTES: usize = 8;

fn pairs(settings: &Settings) -> u64 {
    u64::from(settings.records(PAIRS))
}
