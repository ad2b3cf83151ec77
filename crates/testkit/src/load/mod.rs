//! Clients of a real server that keep account of what they were promised, and the check after a crash.
//!
//! ```text
//!   Writer (a thread each, over Wire: Redis or memcached)
//!      own keys    -> Ledger   the states each may be in, in the order of the writer's pipelines
//!      their time  -> Leases   if asked for: what keys were given, which no restart and no clock may change
//!      shared keys -> history  linearizable, crashes included
//!   crash, restart, read_all -> check_own, check_shared: what was acknowledged is there
//! ```
//!
//! What counts as acknowledged depends on the crash and the mode ([`Losable`]). Where nothing may be lost, each key holds its
//! last acknowledged state or a later attempt. Where power loss may take the last moments (`batch:MS`), the survivors must be a
//! past: no lost write is older than the window; of each writer all pipelines up to one, that one in part, and none after it
//! (a pipeline is sent when the one before was answered); and what a surviving write had seen of the shared keys survived.

pub mod check;
mod leases;
pub mod ledger;
pub mod wire;
pub mod writer;

pub use check::{Found, check_shared, read_all, shared_keys, shared_values};
pub use leases::BRIEF_MS;
pub use ledger::{Ledger, Settled, State};
pub use wire::{Answer, Request, Wire};
pub use writer::{Losable, SHARED_KEYS, Shared, SharedCall, Writer, shared_key};
