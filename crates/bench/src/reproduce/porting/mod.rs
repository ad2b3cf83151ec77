//! Observations on Porting In-memory KV Stores to Persistent Memory. The same store twice: its index in DRAM, and on the medium.
//!
//! ```text
//!   P1 P2 P3 inserts: throughput, against DRAM, tails (figure 7, section 6.1, table 4)   inserts.rs
//!   P4 P5    restarts: how long, and what is lost (figures 17 and 18, section 6.5)       restarts.rs
//!   P6       throughput while the table grows (figures 8 and 9)                          growth.rs
//!   P7       YCSB's mixes, operations a second (figures 13 and 14, table 6)              mixes.rs
//!                                                                  all of them over      bed.rs
//!   P3 P5    redis-server beside them, where it is installed: without and with snapshots, with its log       redis.rs
//! ```
//!
//! The paper's four systems are two engines behind two protocols: `heap-persistent` is its fully persistent Redis and Memcached,
//! `heap-hybrid` its hybrid ones: with slabs, as Memcached, and with an allocation a record, as Redis. `heap-persistent` has slabs alone.
//! Here all are driven in this process, so that no protocol's time is between them.

mod bed;
mod growth;
mod inserts;
mod mixes;
mod redis;
mod restarts;

use super::{Part, Study};

/// The study.
pub const STUDY: Study = Study {
    name: "porting",
    about: "Porting to persistent memory (the index in DRAM, or on the medium): the paper's figures and ours",
    parts: &[
        Part { id: "P1", source: inserts::figure_7 },
        Part { id: "P2", source: inserts::section_6_1 },
        Part { id: "P3", source: inserts::table_4 },
        Part { id: "P4", source: restarts::figures_17_and_18 },
        Part { id: "P5", source: restarts::section_6_5 },
        Part { id: "P6", source: growth::figures_8_and_9 },
        Part { id: "P7", source: mixes::figures_13_and_14 },
    ],
};
