//! The memcached protocol on a running server, compared with what the original answers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod admin;
mod beyond;
mod binary;
mod client;
mod conformance;
mod coverage;
mod meta;
mod original;
mod ours;
mod random;
mod sizes;
mod table;
mod watch;
