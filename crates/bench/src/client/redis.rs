//! A Redis connection: RESP2, pipelined.

use std::io::Write;
use std::net::SocketAddr;

use super::Work;
use super::wire::{BODY_MAX, Protocol, Wire, number};
use crate::latency::Tally;
use crate::plan::Planned;

/// A connection to a server that speaks RESP.
pub struct Redis {
    wire: Wire,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Redis {
    /// Connects.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { wire: Wire::connect(address)?, key: Vec::new(), value: Vec::new() })
    }
}

impl Protocol for Redis {
    fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    fn fill(&mut self, planned: Planned, nonce: u64, work: &Work<'_>) -> std::io::Result<()> {
        work.content.key(planned.record(), &mut self.key);
        let request = &mut self.wire.request;
        if planned.kind().reads() {
            write!(request, "*2\r\n$3\r\nGET\r\n${}\r\n", self.key.len())?;
            request.extend_from_slice(&self.key);
            request.extend_from_slice(b"\r\n");
        }
        if planned.kind().writes() {
            work.content.value(planned.record(), nonce, &mut self.value);
            write!(request, "*3\r\n$3\r\nSET\r\n${}\r\n", self.key.len())?;
            request.extend_from_slice(&self.key);
            write!(request, "\r\n${}\r\n", self.value.len())?;
            request.extend_from_slice(&self.value);
            request.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    fn drain(&mut self, planned: Planned, work: &Work<'_>, tally: &mut Tally) -> anyhow::Result<()> {
        if planned.kind().reads() {
            let line = self.wire.line()?;
            match line.split_first() {
                Some((b'$', len)) => match number(len)? {
                    -1 => work.read(planned.record(), None, tally),
                    len @ 0..=BODY_MAX => {
                        work.read(planned.record(), Some(self.wire.body(len as usize)?), tally);
                    }
                    len => anyhow::bail!("GET was answered by a value of {len} bytes"),
                },
                Some((b'-', error)) => tally.error(String::from_utf8_lossy(error)),
                _ => anyhow::bail!("GET was answered by {}", line.escape_ascii()),
            }
        }
        if planned.kind().writes() {
            let line = self.wire.line()?;
            match line.split_first() {
                Some((b'+', _)) => tally.sets += 1,
                Some((b'-', error)) => tally.error(String::from_utf8_lossy(error)),
                _ => anyhow::bail!("SET was answered by {}", line.escape_ascii()),
            }
        }
        Ok(())
    }
}
