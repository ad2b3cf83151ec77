//! Tests of every promise of the `Index` and `OrderedIndex` traits on `btree`: model, sizes, threads.
//! `btree_shuttle.rs` explores schedules.
#![cfg(not(shuttle))]

mod common;
mod concurrent;
mod growth;
mod model;
mod separators;
mod visitor;
