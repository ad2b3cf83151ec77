//! What every engine must pass, written against `Store`, `Session` and `Batch` alone.
//!
//! ```text
//!   random batches ---> Store (any engine, through a Harness) ---> replies ---+
//!         '-----------> Model (one map, plain rules) ------------> replies ---+--> the same, or seed and step
//!
//!   threads of clients -> Store -> History of calls and returns --> linearizability checker
//!   RESP and memcached clients ---> a real server (tests of the binary live in `cli`)
//! ```
#![forbid(unsafe_code)]

pub mod case;
pub mod clean_stop;
pub mod client;
pub mod clocks;
pub mod concurrent;
pub mod conformance;
pub mod edits;
pub mod expiry;
pub mod history;
pub mod linearize;
pub mod load;
pub mod model;
pub mod random;
pub mod reference_index;
pub mod rng;
pub mod settings;
pub mod sweep;
