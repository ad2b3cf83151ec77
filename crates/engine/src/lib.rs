//! The machine that every terrace engine shares.
//!
//! ```text
//!   Batch of Ops --> Session --> Machine --- update / get ---> Index (plug-in)
//!                       |           |------- put / fetch ----> Space (hybrid log, dram, ...)
//!                       |           '------- append ---------> Log   (one sequential log a session)
//!                    Settled <--- Commit (positions, dependencies), Waiters (who is woken), Epochs (who has left)
//! ```
//!
//! `sync` names the primitives, which tests swap; `schedules` (in tests) and `tests/loom.rs` explore what they may do.

#![forbid(unsafe_code)]

pub mod batch;
pub mod clock;
pub mod databases;
pub mod durability;
pub mod edit;
pub mod hash;
pub mod machine;
pub mod manifest;
pub mod op;
pub mod record;
pub mod reply;
pub mod session;
pub mod shared_words;
pub mod space;
pub mod stats;
pub mod version;

mod background;
mod commit;
mod compress;
mod core;
mod decide;
mod epoch;
mod generations;
mod pace;
mod pending;
mod promised;
mod read_cache;
mod recover;
#[cfg(all(test, shuttle))]
mod schedules;
mod settle;
mod shared;
mod sync;
mod unsynced;
mod waiters;

pub use batch::{Batch, Row, Settled};
pub use commit::Barrier;
pub use core::SEAL_BYTES;
pub use durability::Durability;
pub use edit::{Edit, EditFn, NewBytes, OldRecord, Outcome, Put};
pub use machine::{Machine, MachineOptions, StoreHandle};
pub use op::{
    Condition, DATABASES, Delta, Direction, ExpireAt, ExpireIf, Expiry, Op, OpKind, RangeStart, Span,
};
pub use pending::{fetch_lost, fetch_view};
pub use read_cache::ReadCache;
pub use reply::{Meta, OpError, Reply};
pub use session::{Progress, Removal, RemovalFn, Session, Store, StoreError};
pub use stats::{Failure, LogStats, MoreRoom, RecoveryStats, Scanned, SnapshotUse, Stats, TierStats};
pub use terrace_media::Buffer;
