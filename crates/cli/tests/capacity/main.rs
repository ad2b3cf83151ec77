//! The real server with more data than DRAM, with a full store, and with records of every size.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod full;
mod groups;
mod grown;
mod load;
mod memory;
mod more_than_dram;
#[path = "../common/server.rs"]
mod server;
mod sizes;
