//! SIGTERM, SIGINT and SIGQUIT ask for an orderly end; SIGHUP: read files again; SIGUSR1, SIGUSR2 and SIGALRM mean nothing here.
//!
//! Wrappers, terminals and `timeout` send a signal twice within milliseconds, so the same wish again within
//! [`PATIENCE`] changes nothing. After that it ends the process at once: whoever asks then has seen that it hangs.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator;

/// For so long an orderly end can't be cut short by asking again.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a process that was told again after that exits with.
const EXIT_AT_ONCE: i32 = 1;

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
        let all = [&stopping[..], &[SIGHUP, SIGUSR1, SIGUSR2, SIGALRM]].concat();
        let mut caught = iterator::Signals::new(&all).context("can't catch signals")?;
        let (tell, told) = channel();
        let watch = move || {
            let mut asked = None;
            for signal in &mut caught {
                let name = name(signal);
                if signal == SIGHUP {
                    // Nobody listens any more once an end was asked for.
                    let _gone = tell.send(Signal::Reload);
                } else if stopping.contains(&signal) {
                    match asked {
                        None => {
                            asked = Some(Instant::now());
                            let _gone = tell.send(Signal::Stop(name));
                        }
                        Some(first) if cuts_short(first, Instant::now()) => {
                            tracing::error!("{name} again: ending at once, without saving");
                            signal_hook::low_level::exit(EXIT_AT_ONCE);
                        }
                        Some(_) => tracing::warn!(
                            "{name} again: already stopping; asked for once more in {} s, it ends at once without saving",
                            PATIENCE.as_secs()
                        ),
                    }
                } else {
                    tracing::warn!("{name} means nothing here and is ignored");
                }
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(watch).context("can't catch signals")?;
        Ok(Self(told))
    }

    /// Blocks until one came.
    pub fn next(&mut self) -> Signal {
        // The thread that catches them lives as long as the process.
        self.0.recv().unwrap_or(Signal::Stop("the end of the signals' thread"))
    }
}

/// Whether a wish for an end, after a first one, cuts short what the first one began.
fn cuts_short(first: Instant, again: Instant) -> bool {
    again.duration_since(first) >= PATIENCE
}

fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_waited_cuts_an_end_short() {
        let first = Instant::now();
        assert!(!cuts_short(first, first + Duration::from_millis(3)));
        assert!(!cuts_short(first, first + PATIENCE - Duration::from_millis(1)));
        assert!(cuts_short(first, first + PATIENCE));
    }
}
