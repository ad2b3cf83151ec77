//! terrace behind the Redis and memcached protocols.
#![forbid(unsafe_code)]

mod memcached;
mod options;
mod protocol;
mod shared;

pub use options::ServerOptions;
