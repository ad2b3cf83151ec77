//! SIGTERM and SIGINT: the first asks for an orderly end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, iterator};

/// What a process that was told twice exits with.
const EXIT_AT_ONCE: i32 = 1;

/// Asks for an orderly end as the first signal does, from within.
pub fn ask() {
    if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
        tracing::error!(%error, "the server could not be told to end");
    }
}

/// The signals, caught.
pub struct Signals(iterator::Signals);

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn install() -> anyhow::Result<Self> {
        let told = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // In this order: the first signal passes the shutdown before it arms it.
            flag::register_conditional_shutdown(signal, EXIT_AT_ONCE, Arc::clone(&told))
                .and_then(|_| flag::register(signal, Arc::clone(&told)))
                .context("can't catch signals")?;
        }
        Ok(Self(iterator::Signals::new([SIGTERM, SIGINT]).context("can't catch signals")?))
    }

    /// Blocks until one came; its name.
    pub fn wait(mut self) -> &'static str {
        match self.0.forever().next() {
            Some(SIGINT) => "SIGINT",
            _ => "SIGTERM",
        }
    }
}
