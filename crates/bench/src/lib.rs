//! The YCSB driver: loads records, runs a workload against a store in this process or over the network, and reports.
//!
//! ```text
//!   Config --> plan (distribution + workload, drawn before the clock starts)
//!                |
//!                v         one thread each
//!   driver --> Client: Local (terrace::open -> Session), Redis, Memcached
//!                |             every batch timed from submission to settled
//!                v
//!   Report --> table for people, JSON for programs
//!
//!   indexes   indexes alone, without a store around them
//!   trace     policies of tiers alone: hit ratios of simulated placements
//!   compare   engines beside each other, each as above, in turns
//!   reproduce papers' figures beside ours
//! ```
//!
//! **What the numbers mean.** A latency is the time of the *batch* that an operation was in, from its submission until
//! every answer of it may be given out; each operation of the batch counts once with that time. With `--batch 1` it is the
//! operation's own. Throughput is operations over the wall time of the measured phase, the filling of batches included,
//! the drawing of keys excluded (all are drawn before, at 8 bytes an operation).

#![forbid(unsafe_code)]

pub mod client;
pub mod compare;
pub mod config;
pub mod content;
pub mod distribution;
pub mod indexes;
pub mod interrupt;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod trace;
pub mod workload;

mod driver;
mod json;
mod latency;
mod permute;
mod plan;
mod progress;
mod rng;
mod run;
mod storage;

pub use client::Endpoint;
pub use config::{Config, Verify};
pub use distribution::Distribution;
pub use report::Report;
pub use run::run;
pub use workload::Workload;
