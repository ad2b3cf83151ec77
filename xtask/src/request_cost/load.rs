//! The client: one thread that keeps a pipeline full on each of its connections.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::wire::{self, Protocol, Request};

/// What a measurement begins with, uncounted.
const WARM_UP: Duration = Duration::from_millis(300);
/// Without an answer for so long a server is taken for stuck.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whom to ask, and what for.
pub struct Load {
    pub address: SocketAddr,
    pub protocol: Protocol,
    pub connections: usize,
    pub keys: u64,
    pub value_bytes: usize,
}

/// What came of it.
pub struct Outcome {
    /// CPU time of the server for a request.
    pub cpu_us: f64,
    pub requests_per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

struct Connection {
    stream: TcpStream,
    /// A whole pipeline of requests, used again and again with other keys.
    sent: Instant,
    unsent: Vec<u8>,
    missing: usize,
}

impl Load {
    /// Sets every key.
    ///
    /// # Errors
    /// If the server does not answer as it should.
    pub fn fill(&self) -> anyhow::Result<()> {
        let mut stream = std::net::TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let value = vec![b'v'; self.value_bytes];
        let (mut request, mut answers) = (Vec::new(), Vec::new());
        for first in (0..self.keys).step_by(500) {
            let last = (first + 500).min(self.keys);
            request.clear();
            (first..last).for_each(|key| wire::write(self.protocol, Request::Set, key, &value, &mut request));
            stream.write_all(&request)?;
            let one = wire::answer_bytes(self.protocol, Request::Set, self.value_bytes);
            answers.resize(one * (last - first) as usize, 0);
            stream.read_exact(&mut answers).context("setting the keys")?;
        }
        Ok(())
    }

    /// Keeps asking for so long; `cpu` tells the server's CPU time so far.
    ///
    /// # Errors
    /// If the server ends, gets stuck, or answers more than it was asked for.
    pub fn run(
        &self,
        request: Request,
        pipeline: usize,
        length: Duration,
        cpu: impl Fn() -> anyhow::Result<Duration>,
    ) -> anyhow::Result<Outcome> {
        let value = vec![b'v'; self.value_bytes];
        let answer = wire::answer_bytes(self.protocol, request, self.value_bytes) * pipeline;
        let mut keys = Keys { state: 0x9E37_79B9_7F4A_7C15, end: self.keys };
        let mut poll = Poll::new()?;
        let mut connections = Vec::new();
        for i in 0..self.connections {
            let stream = std::net::TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(i), Interest::READABLE | Interest::WRITABLE)?;
            connections.push(Connection { stream, sent: Instant::now(), unsent: Vec::new(), missing: 0 });
        }
        let mut send = |connection: &mut Connection| -> anyhow::Result<()> {
            connection.unsent.clear();
            for _ in 0..pipeline {
                wire::write(self.protocol, request, keys.next(), &value, &mut connection.unsent);
            }
            connection.missing = answer;
            connection.sent = Instant::now();
            flush(connection)
        };
        connections.iter_mut().try_for_each(&mut send)?;
        let mut latencies = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
        let mut buffer = vec![0; 1 << 18];
        let mut events = Events::with_capacity(1024);
        let started = Instant::now();
        let (mut begun, mut cpu_before, mut batches) = (None, Duration::ZERO, 0u64);
        loop {
            poll.poll(&mut events, Some(PATIENCE))?;
            ensure!(!events.is_empty(), "no answer within {PATIENCE:?}");
            for event in &events {
                let connection = &mut connections[event.token().0];
                if event.is_writable() {
                    flush(connection)?;
                }
                loop {
                    match connection.stream.read(&mut buffer) {
                        Ok(0) => bail!("the server closed a connection"),
                        Ok(bytes) => {
                            ensure!(bytes <= connection.missing, "{}", unexpected(&buffer[..bytes]));
                            connection.missing -= bytes;
                            if connection.missing == 0 {
                                latencies.saturating_record(connection.sent.elapsed().as_nanos() as u64);
                                batches += 1;
                                send(connection)?;
                                // What is answered already comes with an event of its own.
                                break;
                            }
                        }
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            let now = Instant::now();
            match begun {
                None if now - started >= WARM_UP => {
                    (begun, cpu_before, batches) = (Some(now), cpu()?, 0);
                    latencies.reset();
                }
                Some(begun) if now - begun >= length => {
                    let requests = (batches * pipeline as u64) as f64;
                    ensure!(requests > 0.0, "nothing was answered");
                    return Ok(Outcome {
                        cpu_us: (cpu()? - cpu_before).as_secs_f64() * 1e6 / requests,
                        requests_per_second: requests / (now - begun).as_secs_f64(),
                        p50_us: latencies.value_at_quantile(0.5) as f64 / 1e3,
                        p99_us: latencies.value_at_quantile(0.99) as f64 / 1e3,
                    });
                }
                _ => {}
            }
        }
    }
}

fn unexpected(bytes: &[u8]) -> String {
    let text = &bytes[..bytes.len().min(80)];
    format!("more was answered than was asked for; it begins with {}", text.escape_ascii())
}

fn flush(connection: &mut Connection) -> anyhow::Result<()> {
    while !connection.unsent.is_empty() {
        match connection.stream.write(&connection.unsent) {
            Ok(bytes) => drop(connection.unsent.drain(..bytes)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Keys drawn evenly.
struct Keys {
    state: u64,
    end: u64,
}

impl Keys {
    fn next(&mut self) -> u64 {
        // An xorshift: what matters is that neighbours in a pipeline are not neighbours in the store.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % self.end
    }
}
