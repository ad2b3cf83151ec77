//! Tiny blocking clients for tests, written from the protocols' documentation and sharing no code with the server.

mod memcached;
mod resp;

pub use memcached::{Item, MemcachedClient};
pub use resp::{RespClient, Value};

use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any answer takes, shorter than anybody's patience: a server that hangs fails its test instead of stalling it.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    Ok(BufReader::new(stream))
}

/// A line without its line end.
fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended within a line"));
    }
    if line.pop() != Some(b'\r') {
        return Err(malformed("a line without \\r"));
    }
    String::from_utf8(line).map_err(|_| malformed("a line that is no text"))
}

/// `length` bytes and a line end.
fn read_block(stream: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut block = vec![0; length + 2];
    stream.read_exact(&mut block)?;
    if !block.ends_with(b"\r\n") {
        return Err(malformed("a block without its line end"));
    }
    block.truncate(length);
    Ok(block)
}

fn malformed(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
