//! How connections reach a worker.
//!
//! # Thread safety
//! The acceptor pushes under the lock and wakes; the worker takes everything under the lock. `open` counts connections
//! handed over and not yet closed; it steers balance only. The lock is a leaf: nothing else is locked inside.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use mio::Waker;
use parking_lot::Mutex;

use super::Transport;
use crate::protocol::Protocol;

/// A connection on its way to a worker.
pub(crate) struct Arrival {
    /// Its socket, not registered anywhere.
    pub stream: Transport,
    /// What it speaks.
    pub protocol: Box<dyn Protocol>,
}

/// One worker's inbox.
pub(crate) struct Inbox {
    arrivals: Mutex<Vec<Arrival>>,
    waker: Waker,
    open: AtomicUsize,
    dead: AtomicBool,
    /// The bounds on connections have changed.
    recheck: AtomicBool,
}

impl Inbox {
    /// An inbox whose worker `waker` wakes.
    pub fn new(waker: Waker) -> Self {
        Self {
            arrivals: Mutex::default(),
            waker,
            open: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
            recheck: AtomicBool::new(false),
        }
    }

    /// Hands a connection over.
    pub fn send(&self, arrival: Arrival) -> io::Result<()> {
        self.open.fetch_add(1, Relaxed);
        self.arrivals.lock().push(arrival);
        self.waker.wake()
    }

    /// Wakes the worker.
    pub fn wake(&self) -> io::Result<()> {
        self.waker.wake()
    }

    /// Makes the worker look at its connections anew.
    pub fn recheck(&self) {
        self.recheck.store(true, Relaxed);
        if let Err(error) = self.waker.wake() {
            tracing::warn!(%error, "a worker could not be woken");
        }
    }

    /// Whether it must; asked once a call of [`recheck`](Self::recheck).
    pub fn take_recheck(&self) -> bool {
        self.recheck.swap(false, Relaxed)
    }

    /// Everything that arrived.
    pub fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.arrivals.lock())
    }

    /// A connection was closed.
    pub fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    /// Connections that the worker has.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Marks the worker as ended, and drops what nobody will serve; returns how many those were.
    pub fn bury(&self) -> usize {
        self.dead.store(true, Relaxed);
        self.take().len()
    }

    /// Whether the worker has ended.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }
}
