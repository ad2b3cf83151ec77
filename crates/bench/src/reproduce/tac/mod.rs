//! TaC: An Anti-Caching Key-Value Store on Heterogeneous Memory Architectures.
//!
//! ```text
//!   T1 hits of placements (table 3)     hits.rs        of T3 and T4 the hits, too; from the engine: placed.rs over bed.rs
//!   T5 eviction alone (figure 12)       eviction.rs    from the engine: eviction_engine.rs over caches.rs
//!   T2 T3 throughput                    timed.rs
//!   T4 whole bufs (figure 11)           swapping.rs    over bed.rs; simulated: hits.rs
//!   T6 lists (figure 10)                contention.rs  partitions, as far as two cores show them
//! ```

mod bed;
mod caches;
mod contention;
mod engine;
mod eviction;
mod eviction_engine;
mod hits;
mod memory;
mod placed;
mod swapping;
mod timed;

use super::{Part, Study};
use crate::Distribution;

/// The study.
pub const STUDY: Study = Study {
    name: "tac",
    about: "TaC (three-tier anti-caching on DRAM, PMem and SSD): the paper's figures and ours",
    parts: &[
        Part { id: "T1", source: hits::table_3 },
        Part { id: "T2", source: engine::figure_6 },
        Part { id: "T3", source: engine::figure_8 },
        Part { id: "T4", source: engine::figure_11 },
        Part { id: "T5", source: eviction::figure_12 },
        Part { id: "T6", source: engine::figure_10 },
    ],
};

/// Both generators that go by the name of Zipf 0.99: the paper does not say which one it used.
const DISTRIBUTIONS: [Distribution; 2] = [Distribution::Zipfian(0.99), Distribution::Ycsb];

/// As part of a file's name.
fn file_part(distribution: Distribution) -> &'static str {
    if distribution == Distribution::Ycsb { "ycsb" } else { "zipf" }
}
