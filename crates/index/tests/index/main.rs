//! Tests of every promise of the `Index` trait on `clht`: model, growth, threads. `shuttle.rs` explores schedules.
#![cfg(not(shuttle))]

mod common;
mod concurrent;
mod growth;
mod model;
