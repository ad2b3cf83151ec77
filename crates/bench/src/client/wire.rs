//! What the two network clients share: a buffered connection that can't deadlock on its own pipeline.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::{Client, Work};
use crate::latency::Tally;
use crate::plan::Planned;

/// Requests and expected answers in flight on a connection. More than the kernel's socket buffers would let client and
/// server wait for each other, each with full buffers; a pipeline of more bytes is sent in parts.
const IN_FLIGHT_BYTES: usize = 64 << 10;

/// The longest line that either protocol may answer with.
const LINE_MAX: u64 = 64 << 10;

/// No value of ours is longer; a longer announcement is not believed.
pub const BODY_MAX: i64 = 512 << 20;

/// How a protocol writes a request and reads its answer.
pub trait Protocol: Send {
    /// The connection.
    fn wire(&mut self) -> &mut Wire;
    /// Appends an operation's requests to [`Wire::request`].
    fn fill(&mut self, planned: Planned, nonce: u64, work: &Work<'_>) -> io::Result<()>;
    /// Reads and counts an operation's answers.
    fn drain(&mut self, planned: Planned, work: &Work<'_>, tally: &mut Tally) -> anyhow::Result<()>;
}

impl<P: Protocol> Client for P {
    fn run(&mut self, work: &Work<'_>, tally: &mut Tally) -> anyhow::Result<()> {
        let each = work.content.payload_bytes() as usize * 2 + 64;
        let mut took = work.due.map_or(Duration::ZERO, |due| due.elapsed());
        let mut nonces = work.nonce..;
        for part in work.operations.chunks((IN_FLIGHT_BYTES / each).max(1)) {
            for (planned, nonce) in part.iter().zip(&mut nonces) {
                self.fill(*planned, nonce, work)?;
            }
            let start = Instant::now();
            self.wire().send()?;
            for planned in part {
                self.drain(*planned, work, tally)?;
            }
            took += start.elapsed();
        }
        tally.record_batch(work.operations, took);
        Ok(())
    }
}

/// A connection: requests are collected, sent, and their answers read.
pub struct Wire {
    stream: BufReader<TcpStream>,
    /// Requests not sent yet.
    pub request: Vec<u8>,
    line: Vec<u8>,
    body: Vec<u8>,
}

impl Wire {
    /// Connects.
    pub fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("nobody answers at {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::with_capacity(64 << 10, stream),
            request: Vec::new(),
            line: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Sends what was collected.
    pub fn send(&mut self) -> io::Result<()> {
        self.stream.get_mut().write_all(&self.request)?;
        self.request.clear();
        Ok(())
    }

    /// The next line of the answer, without its end.
    pub fn line(&mut self) -> anyhow::Result<&[u8]> {
        self.line.clear();
        (&mut self.stream).take(LINE_MAX).read_until(b'\n', &mut self.line)?;
        match self.line.strip_suffix(b"\r\n") {
            Some(line) => Ok(line),
            None if self.line.is_empty() => anyhow::bail!("the server closed the connection"),
            None => anyhow::bail!("the server answered a line without an end"),
        }
    }

    /// The next `len` bytes of the answer; the line end behind them is consumed and checked.
    pub fn body(&mut self, len: usize) -> anyhow::Result<&[u8]> {
        self.body.resize(len + 2, 0);
        self.stream.read_exact(&mut self.body)?;
        self.body.strip_suffix(b"\r\n").context("a value of the answer does not end in a line end")
    }
}

/// A number in an answer.
pub fn number(text: &[u8]) -> anyhow::Result<i64> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .with_context(|| format!("expected a number, was answered {}", text.escape_ascii()))
}
