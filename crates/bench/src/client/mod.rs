//! Ways to a store: in this process, or over the network by either protocol.

mod about;
mod local;
mod memcached;
mod redis;
mod wire;

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Instant;

pub use about::About;
pub use local::Local;
pub use memcached::Memcached;
pub use redis::Redis;

use crate::content::Content;
use crate::latency::Tally;
use crate::plan::Planned;

/// One thread's way to a store.
pub trait Client: Send {
    /// Runs operations as one batch. Its answers and the time from submission (or from when it was due) until all were there are tallied before this
    /// returns or, by a client that keeps several batches in flight, before [`finish`](Self::finish) does.
    ///
    /// # Errors
    /// If the connection fails or answers what no store would. Refused operations are counted, not errors.
    fn run(&mut self, batch: &Work<'_>, tally: &mut Tally) -> anyhow::Result<()>;

    /// Waits for what is still in flight.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn finish(
        &mut self,
        _content: &Content,
        _verify: crate::Verify,
        _tally: &mut Tally,
    ) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A batch to run.
pub struct Work<'a> {
    /// The operations.
    pub operations: &'a [Planned],
    /// Makes keys and values.
    pub content: &'a Content,
    /// Which reads to compare.
    pub verify: crate::Verify,
    /// Makes each batch's values new.
    pub nonce: u64,
    /// When it was due, if batches come at a rate: what it waited since then is part of its time.
    pub due: Option<Instant>,
}

impl Work<'_> {
    /// Counts the answer to a read.
    pub(crate) fn read(&self, record: u64, value: Option<&[u8]>, tally: &mut Tally) {
        match value {
            None => tally.misses += 1,
            Some(value) => {
                if self.verify.wants(tally.gets) {
                    tally.verified += 1;
                    tally.wrong += u64::from(!self.content.is_value(record, value));
                }
            }
        }
        tally.gets += 1;
    }
}

/// A server, as `--connect` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `redis://HOST:PORT`.
    Redis(SocketAddr),
    /// `memcached://HOST:PORT`.
    Memcached(SocketAddr),
}

impl Endpoint {
    /// A new connection.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn connect(self) -> anyhow::Result<Box<dyn Client>> {
        Ok(match self {
            Self::Redis(address) => Box::new(Redis::connect(address)?),
            Self::Memcached(address) => Box::new(Memcached::connect(address)?),
        })
    }
}

impl FromStr for Endpoint {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?}: expected redis://HOST:PORT or memcached://HOST:PORT");
        let (scheme, rest) = text.split_once("://").ok_or_else(expected)?;
        let (make, port): (fn(SocketAddr) -> Self, u16) = match scheme {
            "redis" => (Self::Redis, 6379),
            "memcached" => (Self::Memcached, 11211),
            _ => return Err(expected()),
        };
        let host = rest.trim_end_matches('/');
        let named = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
            host.to_owned()
        } else {
            format!("{host}:{port}")
        };
        let mut found = named.to_socket_addrs().map_err(|error| format!("{text:?}: {error}"))?;
        found.next().map(make).ok_or_else(|| format!("{text:?}: the host has no address"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(address) => write!(f, "redis://{address}"),
            Self::Memcached(address) => write!(f, "memcached://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        let redis: Endpoint = "redis://127.0.0.1:7000".parse().unwrap();
        assert_eq!(redis.to_string(), "redis://127.0.0.1:7000");
        let memcached: Endpoint = "memcached://127.0.0.1/".parse().unwrap();
        assert_eq!(memcached.to_string(), "memcached://127.0.0.1:11211");
        for wrong in ["127.0.0.1:6379", "http://127.0.0.1:80", ""] {
            assert!(wrong.parse::<Endpoint>().unwrap_err().contains("expected"), "{wrong:?}");
        }
    }
}
