//! SCMKV: records stay in their logs, in memory that persists, and a static hash table there finds them.
//!
//! ```text
//!   S1  what flushing costs (figure 8)               flushing.rs    timed; flushes are counted, too: counted.rs
//!   S2  against an ordered index and an LSM (fig. 8)  rivals.rs      lsm.rs: an LSM of another crate
//!   S3  threads (figure 10)                          threads.rs
//!   S4  look-ups of absent keys (section 3.3)        absent.rs
//!                                                                   stores that are timed: bed.rs
//! ```
//!
//! The paper emulates its memory by DRAM, and so does this: a profile that adds nothing. Its Masstree is our B+tree with a store around
//! it, which keeps nothing, and its LevelDB is `fjall`, whose files lie in the same memory.

mod absent;
mod bed;
mod counted;
mod flushing;
mod lsm;
mod rivals;
mod threads;

use super::{Part, Study};

/// The study.
pub const STUDY: Study = Study {
    name: "scmkv",
    about: "SCMKV (records in logs in persistent memory, a hash table there): the paper's figures and ours",
    parts: &[
        Part { id: "S1", source: flushing::figure_8 },
        Part { id: "S2", source: rivals::figure_8 },
        Part { id: "S3", source: threads::figure_10 },
        Part { id: "S4", source: absent::section_3_3 },
    ],
};
