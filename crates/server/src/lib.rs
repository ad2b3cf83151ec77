//! terrace behind the Redis and memcached protocols.
//!
//! ```text
//!   listeners --> Acceptor --hands out--> Worker (event loop + Session), one a thread
//!                                           |  Connection --Protocol::parse--> Batch --> store
//!                                           |  Connection <-Protocol::answer-- settled
//!        Endpoint: TCP, TLS, Unix         |  registry::  what connections know of each other, and push
//!   admin port --> Admin: /metrics, /health |-- resp::, memcached::  implement Protocol
//!                                           '-- snapshot::  a file of one moment, by a thread of its own
//!                                               Exchange: the same without sockets, for fuzzing
//! ```
#![forbid(unsafe_code)]

mod accept;
mod accesses;
mod admin;
mod effort;
mod endpoint;
mod exchange;
mod limits;
mod listener;
mod loading;
mod memcached;
mod options;
mod output;
mod pressure;
mod protocol;
mod redis_conf;
mod registry;
mod resp;
mod server;
mod shared;
mod snapshot;
mod stop;
mod tally;
mod tls;
mod withheld;
mod worker;

pub use endpoint::{Endpoint, UNIX_MODE_DEFAULT, unix_mode};
pub use exchange::Exchange;
pub use loading::{Loading, Progress};
pub use memcached::{MemcachedProtocols, MemcachedUsers, WrongUsers};
pub use options::{MoreRoomBy, ServerOptions, SoftLimit};
pub use redis_conf::{REDIS_VERSION, check_parameter, glob_matches, is_without_meaning, split_words};
pub use server::{Addresses, Server};
pub use stop::{OnStop, StopKind};
pub use tls::{ClientAuth, TlsOptions};
