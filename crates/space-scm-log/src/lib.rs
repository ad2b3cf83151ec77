//! Records in the pages of their own log on persistent memory, found by a static hash table there: SCMKV (`PAPER.md`); or by nodes in the
//! order of their keys, which hold short records themselves: BonsaiKV (`BONSAIKV.md`). What leads to records is a `Directory`.
//!
//! ```text
//! DRAM   front index --> frames: records that the table does not lead to yet          page table: kind, live bytes
//!
//! PMem   manifest | roots | page lines | buckets | [ page: log block, chains, parts, or what was moved ] ..
//!                                           '-- word --> entry, or chain --> entries in log blocks
//!
//! set    frame, front index, log group: one burst a batch          the answer waits for that alone
//! round  what is settled: chains | buckets | root; it leaves the front       later, for many at once
//! clean  what is live in a page moves; the page is a block of the log again
//! ```
//!
//! A record is written to the medium once: its entry in the session's log is where it stays, until its page is cleaned. The table leads to
//! nothing that a crash could take back, so a restart rolls nothing back: it opens the log, redoes what that holds above the root, and
//! answers.
//!
//! | file | what |
//! |---|---|
//! | `layout`, `medium` | the format, and where its parts lie |
//! | `directory` | what leads to records; `index`: it and what is in front of it, as the machine sees them |
//! | `table`, `chains`, `scan` | the hash table, changes of it, iteration |
//! | `nodes` | nodes in order; its own text has the picture |
//! | `dram`, `session` | frames, and who fills them |
//! | `space` | records; `large`: values too long for one |
//! | `keeper`, `rounds`, `apply` | rounds: the directory is made to lead to what is settled |
//! | `pages`, `walk`, `clean` | what pages hold, and how they become free |
//! | `background` | what has expired, victims, sizes |
//! | `reopen`, `open` | a restart |
//! | `inspect`, `repair` | reading it without opening it, and mending it |
//! | `absent` | what a look-up of a key costs that is not there, for a study |

#![forbid(unsafe_code)]

pub mod absent;
mod apply;
mod background;
mod chains;
mod clean;
mod directory;
mod dram;
mod index;
pub mod inspect;
mod keeper;
mod large;
mod layout;
mod medium;
mod nodes;
mod open;
mod pages;
mod reopen;
pub mod repair;
mod rounds;
mod scan;
#[cfg(all(test, shuttle))]
mod schedules;
mod session;
mod space;
mod sync;
mod table;
mod walk;

pub use medium::Geometry;
pub use nodes::{Coherence, Far};
pub use open::{
    FRAMES_BYTES_MAX_ORDERED, Opening, buckets_for, limits, limits_ordered, open, open_ordered, stored_bytes,
};
