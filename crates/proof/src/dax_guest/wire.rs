//! A connection of either protocol, for the writes of [`work`](super::work).

use std::io;
use std::net::SocketAddr;

use terrace_testkit::client::{MemcachedClient, RespClient, Value};

use super::work::Change;

/// A connection.
pub enum Wire {
    /// Redis's protocol.
    Redis(RespClient),
    /// memcached's.
    Memcached(MemcachedClient),
}

/// A write that was sent, and what its answer must be.
pub enum Expected {
    /// Stored; Redis tells the length that an append leads to.
    Stored(Option<usize>),
    /// Deleted, or there was nothing.
    Deleted(bool),
}

impl Wire {
    /// Connects.
    ///
    /// # Errors
    /// If the server can't be reached.
    pub fn connect(redis: bool, address: SocketAddr) -> io::Result<Self> {
        if redis {
            RespClient::connect(address).map(Self::Redis)
        } else {
            MemcachedClient::connect(address).map(Self::Memcached)
        }
    }

    /// Queues a write; `length` is that of the whole value afterwards.
    pub fn queue(&mut self, key: &str, change: Change, bytes: &[u8], length: usize) -> Expected {
        match (self, change) {
            (Self::Redis(client), Change::Set) => client.queue(&[b"SET", key.as_bytes(), bytes]),
            (Self::Redis(client), Change::Append) => {
                client.queue(&[b"APPEND", key.as_bytes(), bytes]);
                return Expected::Stored(Some(length));
            }
            (Self::Redis(client), Change::Delete { .. }) => client.queue(&[b"DEL", key.as_bytes()]),
            (Self::Memcached(client), Change::Set) => {
                client.queue_store(&format!("set {key} 0 0"), bytes, None)
            }
            (Self::Memcached(client), Change::Append) => {
                client.queue_store(&format!("append {key} 0 0"), bytes, None)
            }
            (Self::Memcached(client), Change::Delete { .. }) => client.queue(&format!("delete {key}")),
        }
        match change {
            Change::Delete { present } => Expected::Deleted(present),
            _ => Expected::Stored(None),
        }
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Redis(client) => client.flush(),
            Self::Memcached(client) => client.flush(),
        }
    }

    /// Reads the oldest answer.
    ///
    /// # Errors
    /// If the connection fails; [`io::ErrorKind::InvalidData`] if the answer isn't the one expected.
    pub fn receive(&mut self, expected: &Expected) -> io::Result<()> {
        match self {
            Self::Redis(client) => {
                let answer = client.receive()?;
                let wanted = match expected {
                    Expected::Stored(None) => Value::Simple("OK".into()),
                    Expected::Stored(Some(length)) => Value::Integer(*length as i64),
                    Expected::Deleted(present) => Value::Integer(i64::from(*present)),
                };
                compare(&answer, &wanted)
            }
            Self::Memcached(client) => {
                let answer = client.receive_line()?;
                let wanted = match expected {
                    Expected::Stored(_) => "STORED",
                    Expected::Deleted(true) => "DELETED",
                    Expected::Deleted(false) => "NOT_FOUND",
                };
                compare(&answer.as_str(), &wanted)
            }
        }
    }

    /// Reads a key.
    ///
    /// # Errors
    /// If the connection fails, or the server answers with an error.
    pub fn get(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Redis(client) => match client.command(&[b"GET", key.as_bytes()])? {
                Value::Bulk(value) => Ok(Some(value)),
                Value::Null => Ok(None),
                other => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("GET {key} was answered {other:?}"),
                )),
            },
            Self::Memcached(client) => Ok(client.gets(key)?.map(|item| item.value)),
        }
    }
}

fn compare<T: PartialEq + std::fmt::Debug>(answer: &T, wanted: &T) -> io::Result<()> {
    if answer == wanted {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{wanted:?} was expected, {answer:?} was answered"),
    ))
}
