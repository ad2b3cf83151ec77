//! The same few questions over either protocol, several at a time.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use terrace_testkit::client::{MemcachedClient, RespClient, Value};

use super::setting::Speaks;

/// A question.
pub enum Ask<'a> {
    Get(&'a str),
    Set(&'a str, &'a [u8], Option<Duration>),
    Delete(&'a str),
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Value(Option<Vec<u8>>),
    Stored,
    Deleted,
    /// An error's text: for want of room, or of another kind.
    Refused(String),
}

impl Answer {
    /// Of the value that it brings.
    pub fn bytes(&self) -> usize {
        if let Self::Value(Some(value)) = self { value.len() } else { 0 }
    }
}

/// A connection.
pub enum Client {
    Redis(RespClient),
    Memcached(MemcachedClient),
}

impl Client {
    /// # Errors
    /// If nobody listens there.
    pub fn connect(address: SocketAddr, speaks: Speaks) -> io::Result<Self> {
        Ok(match speaks {
            Speaks::Redis => Self::Redis(RespClient::connect(address)?),
            Speaks::Memcached => Self::Memcached(MemcachedClient::connect(address)?),
        })
    }

    /// Queues a question.
    pub fn queue(&mut self, ask: &Ask<'_>) {
        match (self, ask) {
            (Self::Redis(client), Ask::Get(key)) => client.queue(&[b"GET", key.as_bytes()]),
            (Self::Redis(client), Ask::Set(key, value, None)) => {
                client.queue(&[b"SET", key.as_bytes(), value]);
            }
            (Self::Redis(client), Ask::Set(key, value, Some(ttl))) => {
                let ttl = ttl.as_millis().to_string();
                client.queue(&[b"SET", key.as_bytes(), value, b"PX", ttl.as_bytes()]);
            }
            (Self::Redis(client), Ask::Delete(key)) => client.queue(&[b"DEL", key.as_bytes()]),
            (Self::Memcached(client), Ask::Get(key)) => client.queue(&format!("get {key}")),
            (Self::Memcached(client), Ask::Set(key, value, ttl)) => {
                let ttl = ttl.map_or(0, |ttl| ttl.as_secs());
                client.queue_store(&format!("set {key} 0 {ttl}"), value, None);
            }
            (Self::Memcached(client), Ask::Delete(key)) => client.queue(&format!("delete {key}")),
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

    /// The answer to the oldest question without one.
    ///
    /// # Errors
    /// If the connection fails, or the answer makes no sense.
    pub fn receive(&mut self, ask: &Ask<'_>) -> io::Result<Answer> {
        match self {
            Self::Redis(client) => Ok(match (ask, client.receive()?) {
                (Ask::Get(_), Value::Bulk(value)) => Answer::Value(Some(value)),
                (Ask::Get(_), Value::Null) => Answer::Value(None),
                (Ask::Set(..), Value::Simple(_)) => Answer::Stored,
                (Ask::Delete(_), Value::Integer(_)) => Answer::Deleted,
                (_, Value::Error(text)) => Answer::Refused(text),
                (_, other) => return Err(nonsense(&format!("{other:?}"))),
            }),
            Self::Memcached(client) => match ask {
                Ask::Get(_) => Ok(Answer::Value(client.receive_items()?.pop().map(|item| item.value))),
                Ask::Set(..) | Ask::Delete(_) => Ok(match client.receive_line()?.as_str() {
                    "STORED" => Answer::Stored,
                    "DELETED" | "NOT_FOUND" => Answer::Deleted,
                    line if line.starts_with("SERVER_ERROR") => Answer::Refused(line.into()),
                    line => return Err(nonsense(line)),
                }),
            },
        }
    }

    /// A command of Redis's as an administrator types it; its answer is text or a number.
    ///
    /// # Errors
    /// If it is refused, or the connection speaks memcached's protocol.
    pub fn administer(&mut self, line: &str) -> anyhow::Result<String> {
        let Self::Redis(client) = self else { anyhow::bail!("{line}: only over Redis's protocol") };
        match client.text(line)? {
            Value::Simple(text) => Ok(text),
            Value::Integer(number) => Ok(number.to_string()),
            Value::Bulk(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            other => anyhow::bail!("{line}: {other:?}"),
        }
    }

    /// How many keys it says it has.
    ///
    /// # Errors
    /// If it does not say.
    pub fn keys(&mut self) -> anyhow::Result<u64> {
        match self {
            Self::Redis(_) => Ok(self.administer("DBSIZE")?.parse()?),
            Self::Memcached(client) => {
                client.queue("stats");
                client.flush()?;
                let mut keys = None;
                loop {
                    let line = client.receive_line()?;
                    if line == "END" {
                        return keys.ok_or_else(|| anyhow::anyhow!("stats without curr_items"));
                    }
                    if let Some(number) = line.strip_prefix("STAT curr_items ") {
                        keys = Some(number.parse()?);
                    }
                }
            }
        }
    }
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("an answer without sense: {what}"))
}
