//! How connections reach a worker.
//!
//! # Thread safety
//! The acceptor pushes under the lock and wakes; the worker takes everything under the lock. Connections that other workers
//! push to come the same way ([`Inbox::nudge`]). `open` counts connections
//! handed over and not yet closed; it steers balance only. The lock is a leaf: nothing else is locked inside.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use Ordering::{Acquire, Relaxed, Release};
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
    /// Connections of the worker that another thread has something for: place and id.
    nudges: Mutex<Vec<(usize, u64)>>,
    waker: Waker,
    open: AtomicUsize,
    dead: AtomicBool,
    /// The bounds on connections have changed.
    recheck: AtomicBool,
    /// The last turn of the gate at which the worker came to rest.
    rested: AtomicU64,
}

impl Inbox {
    /// An inbox whose worker `waker` wakes.
    pub fn new(waker: Waker) -> Self {
        Self {
            arrivals: Mutex::default(),
            nudges: Mutex::default(),
            waker,
            open: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
            recheck: AtomicBool::new(false),
            rested: AtomicU64::new(0),
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

    /// Wakes the worker; a failure is told in the log.
    pub fn wake_or_warn(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::warn!(%error, "a worker can't be woken");
        }
    }

    /// Has the worker look at the connection with this id at this place, if it is still there.
    pub fn nudge(&self, slot: usize, id: u64) {
        let mut nudges = self.nudges.lock();
        nudges.push((slot, id));
        // More than one: the worker was woken for the first, and takes all.
        let first = nudges.len() == 1;
        drop(nudges);
        if first {
            self.wake_or_warn();
        }
    }

    /// The connections to look at.
    pub fn take_nudges(&self) -> Vec<(usize, u64)> {
        std::mem::take(&mut *self.nudges.lock())
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

    /// The worker rests: all its batches are answered, and it begins none. Release: who sees that sees all it did.
    pub fn arrive(&self, turn: u64) {
        self.rested.store(turn, Release);
    }

    /// Whether it rested at this turn of the gate.
    pub fn rests(&self, turn: u64) -> bool {
        self.rested.load(Acquire) == turn
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
