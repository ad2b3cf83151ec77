//! A memcached connection: the classic text protocol, pipelined.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::Context;

use super::Work;
use super::wire::{BODY_MAX, Protocol, Wire, number};
use crate::latency::Tally;
use crate::plan::Planned;

/// A connection to a server that speaks memcached's text protocol.
pub struct Memcached {
    wire: Wire,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Memcached {
    /// Connects.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { wire: Wire::connect(address)?, key: Vec::new(), value: Vec::new() })
    }

    fn read_value(&mut self, planned: Planned, work: &Work<'_>, tally: &mut Tally) -> anyhow::Result<()> {
        let line = self.wire.line()?;
        if line == b"END" {
            work.read(planned.record(), None, tally);
            return Ok(());
        }
        if refused(line) {
            tally.error(String::from_utf8_lossy(line));
            return Ok(());
        }
        // VALUE <key> <flags> <bytes>
        let mut words = line.split(|&byte| byte == b' ');
        anyhow::ensure!(words.next() == Some(b"VALUE"), "get was answered by {}", line.escape_ascii());
        let len = number(words.nth(2).context("VALUE without a length")?)?;
        anyhow::ensure!((0..=BODY_MAX).contains(&len), "get was answered by a value of {len} bytes");
        work.read(planned.record(), Some(self.wire.body(len as usize)?), tally);
        let end = self.wire.line()?;
        anyhow::ensure!(end == b"END", "get was ended by {}", end.escape_ascii());
        Ok(())
    }
}

impl Protocol for Memcached {
    fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    fn fill(&mut self, planned: Planned, nonce: u64, work: &Work<'_>) -> std::io::Result<()> {
        work.content.key(planned.record(), &mut self.key);
        let request = &mut self.wire.request;
        if planned.kind().reads() {
            request.extend_from_slice(b"get ");
            request.extend_from_slice(&self.key);
            request.extend_from_slice(b"\r\n");
        }
        if planned.kind().writes() {
            work.content.value(planned.record(), nonce, &mut self.value);
            request.extend_from_slice(b"set ");
            request.extend_from_slice(&self.key);
            write!(request, " 0 0 {}\r\n", self.value.len())?;
            request.extend_from_slice(&self.value);
            request.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    fn drain(&mut self, planned: Planned, work: &Work<'_>, tally: &mut Tally) -> anyhow::Result<()> {
        if planned.kind().reads() {
            self.read_value(planned, work, tally)?;
        }
        if planned.kind().writes() {
            let line = self.wire.line()?;
            if line == b"STORED" {
                tally.sets += 1;
            } else if refused(line) {
                tally.error(String::from_utf8_lossy(line));
            } else {
                anyhow::bail!("set was answered by {}", line.escape_ascii());
            }
        }
        Ok(())
    }
}

fn refused(line: &[u8]) -> bool {
    line == b"ERROR" || line.starts_with(b"SERVER_ERROR") || line.starts_with(b"CLIENT_ERROR")
}
