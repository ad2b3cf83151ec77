//! Requests as bytes, and how long their answers are.

use std::io::Write as _;

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Redis,
    Memcached,
}

/// What is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Request {
    /// A value is read.
    Get,
    /// A value is written.
    Set,
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::Set => "set",
        })
    }
}

/// Keys all have this many bytes, so that answers do.
const KEY_DIGITS: usize = 12;

/// Appends a request.
pub fn write(protocol: Protocol, request: Request, key: u64, value: &[u8], out: &mut Vec<u8>) {
    let key = format!("key:{key:0width$}", width = KEY_DIGITS);
    // Writing to a Vec can't fail.
    let _ = match (protocol, request) {
        (Protocol::Redis, Request::Get) => {
            write!(out, "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())
        }
        (Protocol::Redis, Request::Set) => {
            write!(out, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), value.len())
        }
        (Protocol::Memcached, Request::Get) => write!(out, "get {key}\r\n"),
        (Protocol::Memcached, Request::Set) => write!(out, "set {key} 0 0 {}\r\n", value.len()),
    };
    if request == Request::Set {
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

/// The length of the answer to a request for a key that is there.
pub fn answer_bytes(protocol: Protocol, request: Request, value_bytes: usize) -> usize {
    match (protocol, request) {
        (Protocol::Redis, Request::Get) => format!("${value_bytes}\r\n").len() + value_bytes + 2,
        (Protocol::Redis, Request::Set) => "+OK\r\n".len(),
        (Protocol::Memcached, Request::Get) => {
            let header = format!("VALUE key:{:0width$} 0 {value_bytes}\r\n", 0, width = KEY_DIGITS);
            header.len() + value_bytes + "\r\nEND\r\n".len()
        }
        (Protocol::Memcached, Request::Set) => "STORED\r\n".len(),
    }
}
