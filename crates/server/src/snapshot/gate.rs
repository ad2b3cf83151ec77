//! A moment in which no worker has a batch in flight.
//!
//! # Thread safety
//! A worker that sees the gate closed begins no batch, and says so once its last one is answered ([`Inbox::arrive`], release; read
//! with acquire): all that it did, and noted, is seen by who closed the gate. It is woken after the gate was closed and after it was
//! opened, so that it sees both.
//!
//! [`Inbox::arrive`]: crate::worker::Inbox::arrive

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::registry::Registry;

/// Workers that take longer to come to rest are let go on: a device is slow.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked whether workers died.
const LOOK: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Default)]
pub(crate) struct Gate {
    /// Closed for the time of this number; 0 while it is open.
    closed: AtomicU64,
    /// How often it was closed.
    turns: AtomicU64,
    lock: Mutex<()>,
    arrived: Condvar,
}

impl Gate {
    /// Whether no batch may be begun.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Relaxed) != 0
    }

    /// The number that a worker at rest says; 0 while the gate is open. Acquire: what was done before it was closed is seen.
    pub fn turn(&self) -> u64 {
        self.closed.load(Acquire)
    }

    /// A worker has come to rest.
    pub fn tell(&self) {
        let _in_order = self.lock.lock();
        self.arrived.notify_all();
    }

    /// Closes it and waits until all workers rest; `None`, and it is open, if that takes too long or `stops`.
    pub(super) fn close<'a>(
        &'a self,
        connections: &'a Registry,
        stops: impl Fn() -> bool,
    ) -> Option<Closed<'a>> {
        let turn = self.turns.fetch_add(1, Relaxed) + 1;
        self.closed.store(turn, Release);
        let closed = Closed { gate: self, connections };
        connections.wake_all();
        let end = Instant::now() + PATIENCE;
        let mut lock = self.lock.lock();
        while !connections.all_rest(turn) {
            if stops() || Instant::now() >= end {
                drop(lock);
                return None;
            }
            let _timed_out = self.arrived.wait_for(&mut lock, LOOK);
        }
        drop(lock);
        Some(closed)
    }

    /// After a closing in vain: leaves it open for as long, so that a slow device does not keep everybody waiting.
    pub(super) fn leave_open(&self, stops: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && !stops() {
            std::thread::sleep(LOOK);
        }
    }
}

/// Opens the gate when it is dropped.
pub(super) struct Closed<'a> {
    gate: &'a Gate,
    connections: &'a Registry,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.gate.closed.store(0, Relaxed);
        self.connections.wake_all();
    }
}
