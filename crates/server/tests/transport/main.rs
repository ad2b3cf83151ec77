//! What carries the protocols, and the bounds on connections: Unix sockets, TLS, time and memory.

#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

mod limits;
mod ours;
mod tls;
mod unix;
