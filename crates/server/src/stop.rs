//! What a client's command to shut down does.

use std::fmt;
use std::sync::Arc;

/// How a client wants the server to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// memcached's `shutdown`: as on SIGINT.
    Now,
    /// memcached's `shutdown graceful`: as on SIGUSR1.
    Graceful,
}

/// Called when a client shuts the server down. It must return soon, and must not stop the server itself: it is called on a
/// worker's thread. (Raising a signal, or waking the thread that owns the server, is what it is for.)
#[derive(Clone)]
pub struct OnStop(Arc<dyn Fn(StopKind) + Send + Sync>);

impl OnStop {
    /// What to call.
    pub fn new(call: impl Fn(StopKind) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    /// Calls it.
    pub(crate) fn call(&self, kind: StopKind) {
        (self.0)(kind);
    }
}

impl fmt::Debug for OnStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnStop")
    }
}
