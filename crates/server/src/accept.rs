//! The acceptor: one thread that takes connections from the listeners and hands each to the worker that has the fewest.
//!
//! A listener a worker with SO_REUSEPORT would save this thread, but spreads connections by hash: with as few connections as
//! many clients keep, one worker may get most of them.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use crate::protocol::{Peer, Protocol};
use crate::shared::{Counters, Shared, wall_clock_ms};
use crate::worker::{Arrival, Inbox};

const WAKE: Token = Token(usize::MAX);
/// When the process is out of descriptors, accepting is tried again after this long: no event will tell.
const RETRY: Duration = Duration::from_millis(100);

/// A port and what is spoken there.
pub(crate) struct Listener {
    /// Bound and listening.
    pub socket: TcpListener,
    /// Makes a new connection's protocol.
    pub connect: fn(Peer) -> Box<dyn Protocol>,
    /// What a client is told when there are too many.
    pub refusal: &'static str,
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
            poll.registry().register(&mut listener.socket, Token(i), Interest::READABLE)?;
        }
        Ok((Self { shared, poll, listeners, workers, next_id: AtomicU64::new(1) }, waker))
    }

    /// Accepts until the server stops.
    ///
    /// # Errors
    /// If waiting for events fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(16);
        let mut retry = false;
        loop {
            match self.poll.poll(&mut events, retry.then_some(RETRY)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            if self.shared.stopping.load(Relaxed) {
                return Ok(());
            }
            // The listeners are few: asking each costs less than remembering which had an error.
            retry = false;
            for listener in &self.listeners {
                retry |= self.accept_all(listener);
            }
        }
    }

    /// Accepts what is there; `true` if it must be tried again without an event.
    fn accept_all(&self, listener: &Listener) -> bool {
        loop {
            match listener.socket.accept() {
                Ok((stream, _)) => {
                    if let Err(error) = self.hand_over(listener, stream) {
                        tracing::debug!(%error, "a connection ended before it was served");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    return true;
                }
            }
        }
    }

    fn hand_over(&self, listener: &Listener, mut stream: TcpStream) -> io::Result<()> {
        let counters = &self.shared.counters;
        let worker =
            self.workers.iter().filter(|worker| !worker.is_dead()).min_by_key(|worker| worker.open());
        let room = Counters::read(&counters.connected) < self.shared.options.max_connections as u64;
        let Some(worker) = worker.filter(|_| room) else {
            Counters::add(&counters.rejected, 1);
            return stream.write(listener.refusal.as_bytes()).map(|_| ());
        };
        stream.set_nodelay(true)?;
        let peer = Peer {
            id: self.next_id.fetch_add(1, Relaxed),
            remote: stream.peer_addr()?,
            local: stream.local_addr()?,
            since_ms: wall_clock_ms(),
        };
        Counters::add(&counters.accepted, 1);
        Counters::add(&counters.connected, 1);
        worker.send(Arrival { stream, protocol: (listener.connect)(peer) })
    }
}
