//! Targets that read media: small valid stores, mangled, opened by everything that reads their formats.
//!
//! ```text
//!   image    tiny stores with a history, one for each state     layout   where what lies in them
//!      |                                                            |
//!   mangle   bytes of the fuzzer --> edits: bits, stale copies, zeros, fields <--'
//!      |     seal: all checksums made right again, so that what is behind them is reached
//!      v
//!   recover: opened by the engine       log: by the log alone       blocks: by the format's inspector
//!   check: by the offline check, repaired, opened
//! ```

mod blocks;
mod check;
mod decoders;
mod image;
mod layout;
mod log;
mod mangle;
mod recover;
mod seal;
mod session;
mod targets;

pub(super) use decoders::{MANIFEST, RECORD, SUPERBLOCK};
pub(super) use log::{LOG_BLOCK, LOG_BYTE};
pub(super) use targets::{
    BLOCKS, CHECK_BLOCK, CHECK_BYTE, RECOVER_BLOCK, RECOVER_BYTE, TAC_BLOCKS, TAC_CHECK_BLOCK,
    TAC_CHECK_BYTE, TAC_CHECK_TIERED, TAC_RECOVER_BLOCK, TAC_RECOVER_BYTE, TAC_RECOVER_TIERED,
};
