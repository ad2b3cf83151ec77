//! The machine that every terrace engine shares.
//!
//! ```text
//!   Batch of Ops --> Session --> Machine --- update / get ---> Index (plug-in)
//!                       |           |------- put / fetch ----> Space (hybrid log, dram, ...)
//!                       |           '------- append ---------> Log   (one sequential log a session)
//!                    Settled <--- Commit (positions, dependencies)
//! ```

pub mod batch;
pub mod durability;
pub mod op;
pub mod reply;
pub mod session;
pub mod stats;

mod commit;
mod pending;

pub use batch::{Batch, Settled};
pub use durability::Durability;
pub use op::{Condition, DATABASES, Delta, ExpireAt, ExpireIf, Expiry, Op, OpKind, Span};
pub use reply::{Meta, OpError, Reply};
pub use session::{Progress, Session, Store, StoreError};
pub use stats::{LogStats, RecoveryStats, Stats, TierStats};
