//! Tests of every promise of the `Index` trait on the hash tables: model, growth, threads, shrinking. `shuttle.rs` explores schedules.
#![cfg(not(shuttle))]

mod common;
mod concurrent;
mod growth;
mod model;
mod shrink;
