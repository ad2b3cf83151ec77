//! The crash explorer: what power loss, the death of the process and bad devices may do to terrace's media.
//!
//! ```text
//!    engine, unmodified                         1. record: one history of stores, flushes, fences,
//!      |  store flush fence   |  write sync        writes, syncs, acknowledgements
//!      v                      v
//!   SimRegion              SimBlock  ------> Recorder ----finish----> Trace
//!                                                                      |
//!   2. replay, event by event                                          v
//!      line 0x40: base | s1 s2 . s3      page 7: base | v1 v2       Explorer
//!                      any prefix                any, or torn          |
//!      a fence moves flushed stores      a sync moves the last         | at each crash point, many choices
//!      into base                         version into base             v
//!                                                                  CrashImage ---> check: open the engine on it,
//!   3. judge                                                                       ask the Oracle
//! ```
//!
//! The engine runs once; the crashes are made afterwards from the trace, so that a check never meets the locks or threads
//! of the running engine, and a history replays from its seed alone. Each image holds *all* media of the history: what one
//! lost while the other kept it is among the choices.
//!
//! [`shadow`] is the same question put to a process with real threads: a power cut of the running server, one at a time.
//!
//! `docs/media-model.md` says what is assumed of real media; this crate is that page as code. Its README shows how to
//! drive it.

#![forbid(unsafe_code)]

pub mod actor;
pub mod block;
pub mod coverage;
pub mod explorer;
pub mod fault;
pub mod image;
pub mod oracle;
pub mod point;
pub mod queue;
pub mod recorder;
pub mod redundant;
pub mod region;
pub mod rng;
pub mod shadow;
pub mod shrink;
pub mod snapshot;
pub mod trace;

mod choices;
mod page_choice;
mod replay;

pub use actor::set_actor;
pub use block::SimBlock;
pub use coverage::{coverage, reach};
pub use explorer::Explorer;
pub use fault::{Access, Fault, FaultKind};
pub use image::CrashImage;
pub use oracle::{Oracle, Promise, Violation};
pub use point::{CrashPoint, Failure, PointKind, Statistics};
pub use queue::{QueueOrder, SimQueue};
pub use recorder::Recorder;
pub use redundant::SiteUse;
pub use region::SimRegion;
pub use rng::Rng;
pub use shrink::shortest;
pub use snapshot::{Crash, Model};
pub use trace::{Position, SiteId, SiteKind, Trace};
