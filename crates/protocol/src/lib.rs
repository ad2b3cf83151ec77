//! Two protocols as functions of bytes: requests to commands and answers to bytes, with no input or output of its own.
//!
//! ```text
//!   bytes received --> resp::Parser, memcached parser --> arguments (ranges of those bytes)
//!   answers        --> resp::Encoder, memcached lines --> bytes to send
//! ```
#![forbid(unsafe_code)]

pub mod memcached;
pub mod resp;
