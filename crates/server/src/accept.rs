//! The acceptor: one thread that takes connections from the listeners and hands each to the worker that has the fewest.
//!
//! A listener a worker with SO_REUSEPORT would save this thread, but spreads connections by hash: with as few connections as
//! many clients keep, one worker may get most of them.

mod admission;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use mio::{Events, Interest, Poll, Token, Waker};

use crate::endpoint::Endpoint;
use crate::listener::{Accepted, ListeningSocket};
use crate::protocol::Peer;
use crate::shared::{Counters, Shared};
use crate::tally::Tally;
use crate::tls::TlsStream;
use crate::worker::{Arrival, Inbox, Transport};
pub(crate) use admission::{MEMCACHED, REDIS, Speaks};

const WAKE: Token = Token(usize::MAX);
/// When the process is out of descriptors, accepting is tried again after this long: no event will tell.
const RETRY: Duration = Duration::from_millis(100);

/// A socket and what is spoken there.
pub(crate) struct Listener {
    /// Bound and listening.
    pub socket: ListeningSocket,
    /// The protocol.
    pub speaks: &'static Speaks,
}

/// See the module.
pub(crate) struct Acceptor {
    shared: Arc<Shared>,
    poll: Poll,
    listeners: Vec<Listener>,
    workers: Vec<Arc<Inbox>>,
    next_id: AtomicU64,
}

impl Acceptor {
    /// An acceptor, and what wakes it to see that the server stops.
    ///
    /// # Errors
    /// If the event queue can't be made.
    pub fn new(
        shared: Arc<Shared>,
        mut listeners: Vec<Listener>,
        workers: Vec<Arc<Inbox>>,
    ) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        for (i, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener.socket.source(), Token(i), Interest::READABLE)?;
        }
        Ok((Self { shared, poll, listeners, workers, next_id: AtomicU64::new(1) }, waker))
    }

    /// Accepts until the server stops.
    ///
    /// # Errors
    /// If waiting for events fails.
    pub fn run(self) -> io::Result<()> {
        let Self { shared, mut poll, listeners, workers, next_id } = self;
        let door = Door { shared, workers, next_id };
        let mut events = Events::with_capacity(16);
        let mut failures = Tally::default();
        let mut retry = false;
        loop {
            match poll.poll(&mut events, retry.then_some(RETRY)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            if door.shared.stopping.load(Relaxed) {
                return Ok(());
            }
            // The listeners are few: asking each costs less than remembering which had an error.
            retry = false;
            for listener in &listeners {
                retry |= door.accept_all(listener, &mut failures);
            }
        }
    }
}

struct Door {
    shared: Arc<Shared>,
    workers: Vec<Arc<Inbox>>,
    next_id: AtomicU64,
}

impl Door {
    /// Accepts what is there; `true` if it must be tried again without an event.
    fn accept_all(&self, listener: &Listener, failures: &mut Tally) -> bool {
        loop {
            match listener.socket.accept() {
                Ok(accepted) => {
                    if let Err(error) = self.hand_over(listener, accepted) {
                        tracing::debug!(%error, "a connection ended before it was served");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    failures.note();
                    if let Some(times) = failures.due(self.shared.now_ms()) {
                        tracing::warn!(%error, times, "accepting a connection failed");
                    }
                    return true;
                }
            }
        }
    }

    fn hand_over(&self, listener: &Listener, accepted: Accepted) -> io::Result<()> {
        let (counters, limits) = (&self.shared.counters, &self.shared.limits);
        let Accepted { mut transport, remote, local } = accepted;
        let Listener { socket, speaks } = listener;
        let worker =
            self.workers.iter().filter(|worker| !worker.is_dead()).min_by_key(|worker| worker.open());
        let room = limits.connections.get().is_none_or(|max| Counters::read(&counters.connected) < max);
        let Some(worker) = worker.filter(|_| room) else {
            Counters::add(&counters.rejected, 1);
            return refuse(transport, socket.endpoint(), speaks.full);
        };
        if admission::is_denied(&self.shared, speaks, socket.endpoint(), &remote) {
            Counters::add(&counters.denied, 1);
            tracing::debug!(%remote, "denied: the protected mode lets in clients of this machine only");
            return refuse(transport, socket.endpoint(), speaks.denied);
        }
        if let (Transport::Tcp(stream), Some(seconds)) = (&transport, limits.keepalive_s.get()) {
            admission::keep_alive(stream, seconds)?;
        }
        if let (Endpoint::Tls(_), Some(tls)) = (socket.endpoint(), &self.shared.tls) {
            transport = match transport {
                Transport::Tcp(stream) => Transport::Tls(Box::new(TlsStream::new(stream, tls.config())?)),
                other => other,
            };
        }
        let id = self.next_id.fetch_add(1, Relaxed);
        let protocol = (speaks.connect)(Peer { id, remote, local, since_ms: self.shared.now_ms() });
        Counters::add(&counters.accepted, 1);
        Counters::add(&counters.connected, 1);
        worker.send(Arrival { stream: transport, protocol })
    }
}

/// Says why and closes. A client that expects TLS could not read it.
fn refuse(mut transport: Transport, endpoint: &Endpoint, why: &str) -> io::Result<()> {
    match endpoint {
        Endpoint::Tls(_) => Ok(()),
        Endpoint::Tcp(_) | Endpoint::Unix { .. } => transport.write(why.as_bytes()).map(|_| ()),
    }
}
