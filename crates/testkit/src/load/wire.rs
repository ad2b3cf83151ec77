//! One vocabulary over both protocols.

use std::io;
use std::net::SocketAddr;

use crate::client::{MemcachedClient, RespClient, Value};

/// What is asked.
#[derive(Clone, Debug)]
pub enum Request {
    /// Reads.
    Get(Vec<u8>),
    /// Writes.
    Set(Vec<u8>, Vec<u8>),
    /// Writes what is to live for so many milliseconds; of memcached whole seconds.
    SetFor(Vec<u8>, Vec<u8>, u64),
    /// Atomic; Redis only.
    SetAll(Vec<(Vec<u8>, Vec<u8>)>),
    /// Deletes.
    Delete(Vec<u8>),
    /// Adds 1. An absent key counts as 0 for Redis and is not found by memcached.
    Incr(Vec<u8>),
    /// An absent key counts as empty for Redis and is refused by memcached.
    Append(Vec<u8>, Vec<u8>),
    /// Writes over a part of a value, from an offset on; Redis only.
    Overwrite(Vec<u8>, usize, Vec<u8>),
}

/// What is answered.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// What a read found.
    Value(Option<Vec<u8>>),
    /// Also what an append or an overwrite in part answers.
    Stored,
    /// Whether there was something to delete.
    Deleted(bool),
    /// A sum.
    Number(i64),
}

/// A connection of either protocol.
pub enum Wire {
    /// Redis's.
    Redis(RespClient),
    /// memcached's.
    Memcached(MemcachedClient),
}

impl Wire {
    /// Connects.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn redis(address: SocketAddr) -> io::Result<Self> {
        RespClient::connect(address).map(Self::Redis)
    }
    /// Connects.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn memcached(address: SocketAddr) -> io::Result<Self> {
        MemcachedClient::connect(address).map(Self::Memcached)
    }

    /// Queues a request.
    ///
    /// # Panics
    /// If it is one that the protocol doesn't have.
    pub fn queue(&mut self, request: &Request) {
        match self {
            Self::Redis(client) => queue_redis(client, request),
            Self::Memcached(client) => queue_memcached(client, request),
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
    /// The answer to the oldest request without one.
    ///
    /// # Errors
    /// `InvalidData` if the answer makes no sense; any other if the connection fails.
    pub fn receive(&mut self, request: &Request) -> io::Result<Answer> {
        match self {
            Self::Redis(client) => receive_redis(client, request),
            Self::Memcached(client) => receive_memcached(client, request),
        }
    }
}

fn queue_redis(client: &mut RespClient, request: &Request) {
    match request {
        Request::Get(key) => client.queue(&[b"GET", key]),
        Request::Set(key, value) => client.queue(&[b"SET", key, value]),
        Request::SetFor(key, value, ms) => {
            client.queue(&[b"SET", key, value, b"PX", ms.to_string().as_bytes()]);
        }
        Request::SetAll(writes) => {
            let mut arguments: Vec<&[u8]> = vec![b"MSET"];
            arguments.extend(writes.iter().flat_map(|(key, value)| [&key[..], &value[..]]));
            client.queue(&arguments);
        }
        Request::Delete(key) => client.queue(&[b"DEL", key]),
        Request::Incr(key) => client.queue(&[b"INCR", key]),
        Request::Append(key, value) => client.queue(&[b"APPEND", key, value]),
        Request::Overwrite(key, at, value) => {
            client.queue(&[b"SETRANGE", key, at.to_string().as_bytes(), value]);
        }
    }
}

fn receive_redis(client: &mut RespClient, request: &Request) -> io::Result<Answer> {
    Ok(match (request, client.receive()?) {
        (Request::Get(_), Value::Bulk(value)) => Answer::Value(Some(value)),
        (Request::Get(_), Value::Null) => Answer::Value(None),
        (Request::Set(..) | Request::SetFor(..) | Request::SetAll(_), Value::Simple(ok)) if ok == "OK" => {
            Answer::Stored
        }
        (Request::Delete(_), Value::Integer(deleted @ 0..=1)) => Answer::Deleted(deleted == 1),
        (Request::Incr(_), Value::Integer(number)) => Answer::Number(number),
        (Request::Append(..) | Request::Overwrite(..), Value::Integer(_)) => Answer::Stored,
        (_, answer) => return Err(nonsense(request, &answer)),
    })
}

fn queue_memcached(client: &mut MemcachedClient, request: &Request) {
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    match request {
        Request::Get(key) => client.queue(&format!("get {}", text(key))),
        Request::Set(key, value) => client.queue_store(&format!("set {} 0 0", text(key)), value, None),
        Request::SetFor(key, value, ms) => {
            client.queue_store(&format!("set {} 0 {}", text(key), ms / 1000), value, None);
        }
        Request::SetAll(_) => panic!("memcached has no atomic write of several keys"),
        Request::Overwrite(..) => panic!("memcached has no overwrite in part"),
        Request::Delete(key) => client.queue(&format!("delete {}", text(key))),
        Request::Incr(key) => client.queue(&format!("incr {} 1", text(key))),
        Request::Append(key, value) => client.queue_store(&format!("append {} 0 0", text(key)), value, None),
    }
}

fn receive_memcached(client: &mut MemcachedClient, request: &Request) -> io::Result<Answer> {
    if let Request::Get(_) = request {
        return client.receive_items().map(|mut items| Answer::Value(items.pop().map(|item| item.value)));
    }
    let line = client.receive_line()?;
    Ok(match (request, line.as_str()) {
        (Request::Set(..) | Request::SetFor(..) | Request::Append(..), "STORED") => Answer::Stored,
        (Request::Delete(_), "DELETED") => Answer::Deleted(true),
        (Request::Delete(_), "NOT_FOUND") => Answer::Deleted(false),
        (Request::Incr(_), number) => Answer::Number(number.parse().map_err(|_| nonsense(request, &line))?),
        _ => return Err(nonsense(request, &line)),
    })
}

fn nonsense(request: &Request, answer: &dyn std::fmt::Debug) -> io::Error {
    let mut request = format!("{request:?}");
    request.truncate(80);
    io::Error::new(io::ErrorKind::InvalidData, format!("{request}.. was answered {answer:?}"))
}
