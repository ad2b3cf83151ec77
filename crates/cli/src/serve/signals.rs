//! Signals: the first SIGTERM, SIGINT or SIGQUIT asks for an orderly end, and repeating it soon cuts nothing short. SIGHUP: read
//! files again. Signals without a meaning here do nothing.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator;

/// What a process that was told again exits with.
const EXIT_AT_ONCE: i32 = 1;
/// So long after the first signal another one does nothing: `timeout`, wrappers and terminals send several at once.
const ORDERLY: Duration = Duration::from_secs(10);

/// Asks for an orderly end as the first signal does, from within.
pub fn ask() {
    if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
        tracing::error!(%error, "the server could not be told to end");
    }
}

/// The signals, caught.
pub struct Signals(Receiver<Signal>);

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
        let stopping = [&[SIGTERM, SIGINT, SIGQUIT], more].concat();
        let all = stopping.iter().chain(&[SIGHUP, SIGUSR1, SIGUSR2, SIGALRM]);
        let mut caught = iterator::Signals::new(all).context("can't catch signals")?;
        let (tell, told) = channel();
        let listen = move || {
            let mut first = None;
            for signal in caught.forever() {
                let asked = if stopping.contains(&signal) {
                    let since = first.get_or_insert_with(Instant::now).elapsed();
                    if since >= ORDERLY {
                        tracing::error!(
                            "told again after {} s: ending at once, what is not saved is lost",
                            since.as_secs()
                        );
                        signal_hook::low_level::exit(EXIT_AT_ONCE);
                    }
                    Signal::Stop(name(signal))
                } else if signal == SIGHUP {
                    Signal::Reload
                } else {
                    tracing::info!("{} has no meaning here", name(signal));
                    continue;
                };
                // Who is ending already does not listen any more.
                let _heard = tell.send(asked);
            }
        };
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(listen)
            .context("no thread for signals can be started")?;
        Ok(Self(told))
    }

    /// Blocks until one came.
    pub fn next(&mut self) -> Signal {
        // The thread ends with the process.
        self.0.recv().unwrap_or(Signal::Stop("the end of the thread for signals"))
    }
}

fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}
