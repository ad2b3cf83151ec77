//! The log: events of the program, on standard error.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// Starts logging at a level or filter; without one `RUST_LOG` decides, and without that what matters is shown.
///
/// # Errors
/// If the filter can't be read.
pub fn start(filter: Option<&str>) -> anyhow::Result<()> {
    let filter = match filter {
        Some(text) => EnvFilter::try_new(text).with_context(|| {
            format!("--log-level {text:?}: expected error, warn, info, debug, trace or a filter")
        })?,
        None => EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // Failing to write a line of the log is no reason to stop.
        .log_internal_errors(false);
    log.try_init().map_err(|error| anyhow::anyhow!("can't start logging: {error}"))
}
