//! The admin port: `GET /metrics` for Prometheus, `GET /health` for whoever restarts servers.
//!
//! One thread answers one request after the other and closes each connection; a peer that is slow costs the next one at most
//! [`PATIENCE`] twice. It belongs on loopback or a private network: it asks nobody who they are.

mod metrics;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::pressure::{self, Kind};
use crate::shared::Shared;
use crate::worker::Inbox;

const WAKE: Token = Token(0);
const LISTENER: Token = Token(1);
/// How long a peer may take to ask, and again to take the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Requests are shorter than this.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// A bound admin port.
pub(crate) struct Admin {
    listener: TcpListener,
}

/// The admin port's thread.
pub(crate) struct Running {
    listener: TcpListener,
    poll: Poll,
    shared: Arc<Shared>,
    workers: Vec<Arc<Inbox>>,
}

impl Admin {
    /// Binds the port.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)
            .map_err(|error| io::Error::new(error.kind(), format!("listening on {address}: {error}")))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Makes it ready to run; the waker makes it see that the server stops.
    pub fn prepare(self, shared: Arc<Shared>, workers: Vec<Arc<Inbox>>) -> io::Result<(Running, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let fd = self.listener.as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), LISTENER, Interest::READABLE)?;
        Ok((Running { listener: self.listener, poll, shared, workers }, waker))
    }
}

impl Running {
    /// Answers until the server stops.
    ///
    /// # Errors
    /// If waiting for events fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(4);
        while !self.shared.stopping.load(Relaxed) {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            while !self.shared.stopping.load(Relaxed) {
                match self.listener.accept() {
                    // An accepted socket blocks, whatever the listener does.
                    Ok((stream, _)) => {
                        if let Err(error) = self.serve(stream) {
                            tracing::debug!(%error, "an admin request failed");
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => {
                        tracing::warn!(%error, "accepting an admin connection failed");
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = read_head(&mut stream)?;
        let (status, kind, body) = self.respond(&request);
        let head = format!(
            "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())
    }

    /// It lives; what it has too little of stands below. A restart would not help.
    fn health(&self) -> String {
        let (shared, stats) = (&self.shared, self.shared.store.stats());
        shared.pressure.look(shared, &stats);
        let kinds = shared.pressure.now().into_iter().map(|kind| match kind {
            Kind::Stalling => format!("{}: writes wait for room\n", kind.name()),
            _ => format!("{}: {}\n", kind.name(), pressure::reason(shared, &stats, kind)),
        });
        std::iter::once("ok\n".to_owned()).chain(kinds).collect()
    }

    fn respond(&self, request: &[u8]) -> (&'static str, &'static str, String) {
        const TEXT: &str = "text/plain; charset=utf-8";
        let mut words = request.split(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        match (method, path) {
            (b"GET", b"/metrics") => match metrics::text(&self.shared) {
                Ok(body) => ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", body),
                Err(error) => ("500 Internal Server Error", TEXT, format!("{error}\n")),
            },
            (b"GET", b"/health") if self.workers.iter().any(|worker| worker.is_dead()) => {
                ("503 Service Unavailable", TEXT, "a worker has ended\n".into())
            }
            (b"GET", b"/health") => ("200 OK", TEXT, self.health()),
            (b"GET", _) => ("404 Not Found", TEXT, "there are /metrics and /health\n".into()),
            _ => ("405 Method Not Allowed", TEXT, "only GET\n".into()),
        }
    }
}

/// Reads up to the empty line, or as much of it as comes in time.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while head.len() < REQUEST_BYTES_MAX && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => break,
            n => head.extend_from_slice(&buffer[..n]),
        }
    }
    Ok(head)
}
