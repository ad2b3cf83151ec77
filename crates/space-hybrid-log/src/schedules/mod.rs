//! Schedules of a page's life, explored: `cargo xtask schedules`.
//!
//! ```text
//!   reader ----+                                 in an epoch: look up, fetch; on block media wait outside of it
//!   writer ----+--> HybridLog, Clht (the product's)
//!   stepper ---+        |         '--> World: epochs that a test can make lie
//!                     Medium: bytes in memory, moved piece by piece, with a scheduling point between
//! ```
//!
//! What is planted is a machine that breaks the space's rules: an epoch that has not passed, the result of a
//! read that is believed though its place was reused.

mod cached;
mod pages;
mod unflushed;
