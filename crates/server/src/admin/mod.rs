//! The admin port: `GET /metrics` for Prometheus, `GET /health/live` for whoever restarts servers, `GET /health/ready` for whoever
//! sends them clients. It answers while the store is opened, too; then the server lives and is not ready.
//!
//! One thread answers one request after the other and closes each connection; a peer that is slow costs the next one at most
//! [`PATIENCE`] twice. It belongs on loopback or a private network: it asks nobody who they are.

mod metrics;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::loading::Progress;
use crate::pressure::{self, Kind};
use crate::server::spawn;
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

/// The admin port's thread, and how to reach it. Dropping it ends it.
pub(crate) struct Desk {
    counter: Arc<Counter>,
    waker: Option<Waker>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// What the thread answers from.
struct Counter {
    stopping: AtomicBool,
    progress: &'static Progress,
    /// The server, once there is one.
    server: OnceLock<Served>,
}

struct Served {
    shared: Arc<Shared>,
    workers: Vec<Arc<Inbox>>,
}

struct Running {
    listener: TcpListener,
    poll: Poll,
    counter: Arc<Counter>,
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

    /// Answers from now on: until there is a server, that its store is being opened.
    pub fn serve(self, progress: &'static Progress) -> io::Result<Desk> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let fd = self.listener.as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), LISTENER, Interest::READABLE)?;
        let counter =
            Arc::new(Counter { stopping: AtomicBool::new(false), progress, server: OnceLock::new() });
        let running = Running { listener: self.listener, poll, counter: Arc::clone(&counter) };
        let thread = spawn("admin".into(), move || running.run())?;
        Ok(Desk { counter, waker: Some(waker), thread: Some(thread) })
    }
}

impl Desk {
    /// There is a server. Its waker makes the thread see that the server stops.
    pub fn open(
        mut self,
        shared: Arc<Shared>,
        workers: Vec<Arc<Inbox>>,
    ) -> io::Result<(Waker, JoinHandle<io::Result<()>>)> {
        let _first = self.counter.server.set(Served { shared, workers });
        self.waker
            .take()
            .zip(self.thread.take())
            .ok_or_else(|| io::Error::other("the admin port has a server"))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.counter.stopping.store(true, Relaxed);
        if let (Some(waker), Some(thread)) = (self.waker.take(), self.thread.take())
            && waker.wake().is_ok()
            && !matches!(thread.join(), Ok(Ok(())))
        {
            tracing::error!("the admin port did not close in order");
        }
    }
}

impl Counter {
    fn is_stopping(&self) -> bool {
        match self.server.get() {
            Some(served) => served.shared.stopping.load(Relaxed),
            None => self.stopping.load(Relaxed),
        }
    }
}

impl Running {
    /// Answers until the server stops.
    ///
    /// # Errors
    /// If waiting for events fails.
    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(4);
        while !self.counter.is_stopping() {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            while !self.counter.is_stopping() {
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

    fn respond(&self, request: &[u8]) -> Response {
        let mut words = request.split(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let text = |status, body: String| (status, TEXT, body);
        match (method, path, self.counter.server.get()) {
            (b"GET", b"/metrics", Some(served)) => match metrics::text(&served.shared) {
                Ok(body) => ("200 OK", METRICS, body),
                Err(error) => text("500 Internal Server Error", format!("{error}\n")),
            },
            (b"GET", b"/metrics", None) => {
                let (done, total) = self.counter.progress.get();
                ("200 OK", METRICS, metrics::loading(done, total))
            }
            (b"GET", b"/health" | b"/health/live" | b"/health/ready", Some(served)) => served.health(),
            (b"GET", b"/health/live", None) => text("200 OK", "ok\n".into()),
            (b"GET", b"/health" | b"/health/ready", None) => {
                text(UNAVAILABLE, format!("{}\n", self.counter.progress.text()))
            }
            (b"GET", ..) => {
                text("404 Not Found", "there are /metrics, /health, /health/live and /health/ready\n".into())
            }
            _ => text("405 Method Not Allowed", "only GET\n".into()),
        }
    }
}

/// Status, type and body.
type Response = (&'static str, &'static str, String);

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const UNAVAILABLE: &str = "503 Service Unavailable";

impl Served {
    /// Whether it lives; what it has too little of stands below, and changes nothing: a restart would not help.
    fn health(&self) -> Response {
        if self.workers.iter().any(|worker| worker.is_dead()) {
            return (UNAVAILABLE, TEXT, "a worker has ended\n".into());
        }
        let (shared, stats) = (&self.shared, self.shared.store.stats());
        shared.pressure.look(shared, &stats);
        let kinds = shared.pressure.now().into_iter().map(|kind| match kind {
            Kind::Stalling => format!("{}: writes wait for room\n", kind.name()),
            _ => format!("{}: {}\n", kind.name(), pressure::reason(shared, &stats, kind)),
        });
        ("200 OK", TEXT, std::iter::once("ok\n".to_owned()).chain(kinds).collect())
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
