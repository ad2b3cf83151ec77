//! Tests of every promise of the `Index` trait on the hash tables: model, growth, threads, shrinking. `shuttle.rs` explores schedules.
#![cfg(not(shuttle))]
#![expect(clippy::unwrap_used, reason = "a test may panic, also in the functions that several tests share")]

mod common;
mod concurrent;
mod growth;
mod model;
mod shrink;
