//! The operation log of terrace: one sequential log a session, all in blocks of one shared area, on either kind of media.
//!
//! ```text
//!   session 3: Writer --+  entries combined in DRAM, written as one checksummed group
//!                       v
//!   area: | superblock | block 0: slot 3, chain 7 | block 1: slot 9, chain 0 | block 2: free | block 3: slot 3, chain 8 | ...
//!                        [header][group][group]...
//!   LogDevice: ByteLog (non-temporal stores, one fence a group) or BlockLog (whole pages; one sync covers all sessions)
//!
//!   Log::open: scan blocks -> follow chains -> cut by dependencies -> make the cut durable -> Replay
//! ```
//!
//! The log doesn't know what entries mean. It promises: what a completed write and (on block media) a sync covered is
//! replayed, in order; what is replayed was written, whole, and rests on nothing that is missing; what a recovery left out
//! never comes back. `docs/formats/log.md` has the bytes, `judge` the argument. `sync` names
//! the primitives, and `schedules` (in tests) explores what threads may do between the locks.

#![forbid(unsafe_code)]

mod archive;
mod block_format;
mod block_log;
mod byte_log;
mod device;
mod error;
mod group;
mod judge;
mod log;
mod open;
mod replay;
mod scan;
#[cfg(all(test, shuttle))]
mod schedules;
mod sync;
mod table;
mod verify;
mod writer;

pub use archive::{Archive, Tail as TailCursor};
pub use block_log::BlockLog;
pub use byte_log::ByteLog;
pub use device::{LogDevice, Tail};
pub use error::LogError;
pub use log::{Log, LogOptions, Oldest};
pub use replay::{PLACES_APART, Replay, ReplayEntry};
pub use verify::{LogReport, cut_damage, verify};
pub use writer::Writer;
