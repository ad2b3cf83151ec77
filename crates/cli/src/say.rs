//! Output that survives a closed pipe: `println!` would panic there.

use std::io::{self, Write};

/// Writes text and a line end to standard output.
///
/// # Errors
/// If it can't be written, a closed pipe included ([`is_broken_pipe`]).
pub fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// As [`line`], but a server goes on serving when nobody reads what it prints.
pub fn announce(text: &str) {
    if let Err(error) = line(text) {
        tracing::debug!(%error, "standard output is closed");
    }
}

/// Writes text and a line end to standard error, if anybody listens.
pub fn error(text: &str) {
    // Nowhere is left to report a failure to.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether an error only says that the reader of our output has gone.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
