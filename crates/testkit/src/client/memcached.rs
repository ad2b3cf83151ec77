//! memcached's classic text protocol.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use super::{malformed, read_block, read_line};

/// What a retrieval found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: String,
    /// The flags.
    pub flags: u32,
    /// The value.
    pub value: Vec<u8>,
    /// The cas token, if it was asked for.
    pub cas: Option<u64>,
}

/// A connection.
#[derive(Debug)]
pub struct MemcachedClient {
    stream: BufReader<TcpStream>,
    outgoing: Vec<u8>,
}

impl MemcachedClient {
    /// Connects.
    ///
    /// # Errors
    /// As [`TcpStream::connect`].
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { stream: super::connect(address)?, outgoing: Vec::new() })
    }
    /// Queues a command line, without its line end; [`flush`](Self::flush) sends it.
    pub fn queue(&mut self, line: &str) {
        self.outgoing.extend_from_slice(line.as_bytes());
        self.outgoing.extend_from_slice(b"\r\n");
    }
    /// Queues a storage command: `line` without the length, which comes last (or before `cas`, for `cas`), and the value.
    pub fn queue_store(&mut self, line: &str, value: &[u8], cas: Option<u64>) {
        let cas = cas.map_or(String::new(), |cas| format!(" {cas}"));
        self.queue(&format!("{line} {}{cas}", value.len()));
        self.outgoing.extend_from_slice(value);
        self.outgoing.extend_from_slice(b"\r\n");
    }
    /// Sends what is queued.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.stream.get_mut().write_all(&self.outgoing)?;
        self.outgoing.clear();
        Ok(())
    }
    /// The next answer of one line (`STORED`, `DELETED`, a number, ...).
    ///
    /// # Errors
    /// If the connection fails or the line is malformed.
    pub fn receive_line(&mut self) -> io::Result<String> {
        read_line(&mut self.stream)
    }
    /// The next answer to a retrieval: items up to `END`.
    ///
    /// # Errors
    /// If the connection fails or the answer is malformed; an error that the server reports is the error's text.
    pub fn receive_items(&mut self) -> io::Result<Vec<Item>> {
        let mut items = Vec::new();
        loop {
            let line = read_line(&mut self.stream)?;
            let fields: Vec<&str> = line.split(' ').collect();
            let (key, flags, length, cas) = match fields[..] {
                ["END"] => return Ok(items),
                ["VALUE", key, flags, length] => (key, flags, length, None),
                ["VALUE", key, flags, length, cas] => (key, flags, length, Some(cas)),
                _ => return Err(malformed(line)),
            };
            let wrong = |_| malformed(line.clone());
            items.push(Item {
                key: key.into(),
                flags: flags.parse().map_err(wrong)?,
                value: read_block(&mut self.stream, length.parse().map_err(wrong)?)?,
                cas: cas.map(|cas| cas.parse().map_err(wrong)).transpose()?,
            });
        }
    }
    /// Sends a command line and waits for an answer of one line.
    ///
    /// # Errors
    /// As [`receive_line`](Self::receive_line).
    pub fn command(&mut self, line: &str) -> io::Result<String> {
        self.queue(line);
        self.flush()?;
        self.receive_line()
    }
    /// Stores a value with a storage command (`set key flags exptime`) and waits for the answer.
    ///
    /// # Errors
    /// As [`receive_line`](Self::receive_line).
    pub fn store(&mut self, line: &str, value: &[u8]) -> io::Result<String> {
        self.queue_store(line, value, None);
        self.flush()?;
        self.receive_line()
    }
    /// Reads one key, with its cas token.
    ///
    /// # Errors
    /// As [`receive_items`](Self::receive_items).
    pub fn gets(&mut self, key: &str) -> io::Result<Option<Item>> {
        self.queue(&format!("gets {key}"));
        self.flush()?;
        Ok(self.receive_items()?.pop())
    }
}
