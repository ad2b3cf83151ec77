//! Bounds on connections that may change while the server runs, and the memory that their buffers hold.
//!
//! # Thread safety
//! Every number stands alone: relaxed. Who changes one wakes the workers ([`Shared::wake_workers`](crate::shared::Shared)),
//! which then look at their connections anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::options::{ServerOptions, SoftLimit};

/// A bound that may change; 0 is none.
#[derive(Debug, Default)]
pub(crate) struct Bound(AtomicU64);

impl Bound {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// The bound, if there is one.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Relaxed)).filter(|value| *value > 0)
    }

    /// Changes it; 0 lifts it.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// Unsent bytes that a client may have for a while; 0 is none.
#[derive(Debug, Default)]
pub(crate) struct SoftBound {
    /// So many.
    pub bytes: Bound,
    /// For so many milliseconds.
    pub ms: Bound,
}

impl SoftBound {
    /// Changes it.
    pub fn set(&self, limit: SoftLimit) {
        self.bytes.set(limit.bytes as u64);
        self.ms.set(u64::try_from(limit.time.as_millis()).unwrap_or(u64::MAX));
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// Connections at a time (Redis's `maxclients`).
    pub connections: Bound,
    /// Milliseconds without a byte from a client after which it is closed (`timeout`).
    pub idle_ms: Bound,
    /// Milliseconds that a client has to log in, where it must.
    pub login_ms: Bound,
    /// Milliseconds that a client has for a TLS handshake.
    pub handshake_ms: Bound,
    /// Seconds of silence after which the kernel asks whether a peer is still there (`tcp-keepalive`).
    pub keepalive_s: Bound,
    /// Unsent bytes for which a client is closed (`client-output-buffer-limit`, hard).
    pub output_bytes: Bound,
    /// The same for a client that subscribes to channels: its messages come whether it reads or not.
    pub subscriber_output_bytes: Arc<Bound>,
    /// Unsent bytes for which a client is closed when they have been more for too long (`client-output-buffer-limit`, soft).
    pub output_soft: SoftBound,
    /// The same for a client that subscribes to channels.
    pub subscriber_output_soft: SoftBound,
    /// Those of replicas, of which there are none: they are told as they were set.
    pub replica_output_bytes: Bound,
    /// Likewise.
    pub replica_output_soft: SoftBound,
    /// Bytes in the buffers of all clients, and in what is kept for them (`maxmemory-clients`).
    pub clients_bytes: Bound,
    /// 1: where no password is needed, only clients of this machine are let in (`protected-mode`).
    pub protected_mode: Bound,
    /// What these hold.
    pub held: Held,
    /// What those of them hold that must log in and have not.
    pub strangers: Held,
}

impl Limits {
    /// As the options say.
    pub fn new(options: &ServerOptions) -> Self {
        let ms = |duration: Duration| Bound::new(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        let soft = |limit| {
            let bound = SoftBound::default();
            bound.set(limit);
            bound
        };
        Self {
            connections: Bound::new(options.max_connections as u64),
            idle_ms: ms(options.idle_timeout),
            login_ms: ms(options.login_timeout),
            handshake_ms: ms(options.handshake_timeout),
            keepalive_s: Bound::new(options.tcp_keepalive.as_secs()),
            output_bytes: Bound::new(options.output_bytes_max as u64),
            subscriber_output_bytes: Arc::new(Bound::new(options.subscriber_output_bytes_max as u64)),
            output_soft: soft(options.output_soft_max),
            subscriber_output_soft: soft(options.subscriber_output_soft_max),
            replica_output_bytes: Bound::new(256 << 20),
            replica_output_soft: soft(SoftLimit { bytes: 64 << 20, time: Duration::from_secs(60) }),
            clients_bytes: Bound::new(options.clients_bytes_max as u64),
            protected_mode: Bound::new(options.protected_mode.into()),
            held: Held::default(),
            strangers: Held::default(),
        }
    }

    /// Whether all clients together hold more than they may.
    pub fn is_over(&self) -> bool {
        self.clients_bytes.get().is_some_and(|max| self.held.bytes() as u64 > max)
    }

    /// Whether those of them that must log in and have not hold more than their part.
    pub fn strangers_are_over(&self) -> bool {
        let bound = self.clients_bytes.get();
        bound.is_some_and(|max| self.strangers.bytes() as u64 > max / STRANGERS_PART)
    }
}

/// Clients that must log in and have not may hold one part of so many of what all may.
const STRANGERS_PART: u64 = 4;

/// Classes of connections by what they hold; smaller ones than [`CLASS_BYTES_MIN`] have none.
const CLASSES: usize = 28;
const CLASS_BYTES_MIN: usize = 1 << 10;

/// Bytes in clients' buffers, and how many clients there are of each size, so that those that hold most are found whichever
/// worker has them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: AtomicUsize,
    classes: [AtomicUsize; CLASSES],
}

impl Held {
    /// A connection that held `before` holds `after`.
    pub fn change(&self, before: usize, after: usize) {
        // Wraps around where it shrinks, as the sum then does.
        self.bytes.fetch_add(after.wrapping_sub(before), Relaxed);
        let (left, entered) = (class(before), class(after));
        if left != entered {
            if let Some(class) = left {
                self.classes[class].fetch_sub(1, Relaxed);
            }
            if let Some(class) = entered {
                self.classes[class].fetch_add(1, Relaxed);
            }
        }
    }

    /// All of them.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// What each connection of the topmost class holds at least, if there is one.
    pub fn topmost(&self) -> Option<usize> {
        let class = self.classes.iter().rposition(|count| count.load(Relaxed) > 0)?;
        Some(CLASS_BYTES_MIN << class)
    }
}

fn class(bytes: usize) -> Option<usize> {
    let class = (bytes / CLASS_BYTES_MIN).checked_ilog2()?;
    Some((class as usize).min(CLASSES - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_by_size() {
        let held = Held::default();
        held.change(0, 100);
        assert_eq!((held.bytes(), held.topmost()), (100, None));
        held.change(0, 40 << 10);
        held.change(0, 3 << 20);
        assert_eq!(held.topmost(), Some(2 << 20));
        held.change(3 << 20, 16 << 10);
        assert_eq!((held.bytes(), held.topmost()), (100 + (56 << 10), Some(32 << 10)));
        held.change(40 << 10, 0);
        held.change(16 << 10, 0);
        assert_eq!((held.bytes(), held.topmost()), (100, None));
        assert_eq!(class(usize::MAX), Some(CLASSES - 1));
    }

    #[test]
    fn no_bound_is_never_passed() {
        let limits = Limits::default();
        limits.held.change(0, usize::MAX / 2);
        assert!(!limits.is_over());
        limits.clients_bytes.set(1);
        assert!(limits.is_over());
    }

    #[test]
    fn strangers_have_a_part_of_it() {
        let limits = Limits::default();
        limits.strangers.change(0, 251);
        assert!(!limits.strangers_are_over(), "there is no bound");
        limits.clients_bytes.set(1000);
        assert!(limits.strangers_are_over() && !limits.is_over());
        limits.strangers.change(251, 250);
        assert!(!limits.strangers_are_over());
    }
}
