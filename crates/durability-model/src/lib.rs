//! The durability protocol as a small model, explored exhaustively.
//!
//! ```text
//!              Bounds, Bug
//!                  |
//!   session   positions   tier   slab   crash   recover        the steps of the protocol, on a `State` of a few hundred bytes
//!        \        |        |      |      |      /
//!                Protocol ------------> judge           what must hold after every crash
//!                  |
//!                search                                 all states, breadth first; the shortest way to a broken one
//! ```
//!
//! It imports nothing of the product: it says in 1,500 lines what the product must do, and tries it in every order. How
//! its steps map to functions of the product, and what it leaves out, is in `docs/durability.md`.
//!
//! A version is the number of a clock that never goes back; log blocks hold one group; pages hold two records.
#![forbid(unsafe_code)]

mod bounds;
mod bug;
mod crash;
mod hashed;
mod judge;
mod positions;
mod protocol;
mod recover;
mod search;
mod session;
mod slab;
pub mod state;
mod tier;

pub use bounds::{Bounds, Media, Mode};
pub use bug::Bug;
pub use protocol::{Action, Op, Protocol, Written};
pub use search::{Explore, Limits, Outcome, explore};
pub use slab::{Source, Step};
