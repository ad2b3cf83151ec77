//! Ctrl-C ends a benchmark in order, so that its temporary files go; once more, and it ends at once.

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

/// What a shell says of a process that SIGINT ended.
const EXIT_AT_ONCE: i32 = 128 + SIGINT;

/// Catches the signals that ask for an end, from now on.
///
/// # Errors
/// If the system refuses.
pub fn in_order() -> anyhow::Result<()> {
    let wish = terrace_bench::interrupt::flag();
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset.
        register_conditional_shutdown(signal, EXIT_AT_ONCE, wish.clone()).context("can't catch signals")?;
        register(signal, wish.clone()).context("can't catch signals")?;
    }
    Ok(())
}
