//! SIGTERM and SIGINT: the first asks for an orderly end, the second ends at once. SIGHUP: read files again.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
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

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Read certificates and the like again.
    Reload,
    /// Stop; its name.
    Stop(&'static str),
}

impl Signals {
    /// Catches them from now on, and `more` that ask for an end.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn install(more: &[i32]) -> anyhow::Result<Self> {
        let told = Arc::new(AtomicBool::new(false));
        let stopping = [&[SIGTERM, SIGINT], more].concat();
        for &signal in &stopping {
            // In this order: the first signal passes the shutdown before it arms it.
            flag::register_conditional_shutdown(signal, EXIT_AT_ONCE, Arc::clone(&told))
                .and_then(|_| flag::register(signal, Arc::clone(&told)))
                .context("can't catch signals")?;
        }
        let all = stopping.iter().chain(&[SIGHUP]);
        Ok(Self(iterator::Signals::new(all).context("can't catch signals")?))
    }

    /// Blocks until one came.
    pub fn next(&mut self) -> Signal {
        match self.0.forever().next() {
            Some(SIGHUP) => Signal::Reload,
            Some(SIGINT) => Signal::Stop("SIGINT"),
            Some(SIGUSR1) => Signal::Stop("SIGUSR1"),
            _ => Signal::Stop("SIGTERM"),
        }
    }
}
