//! The log: events of the program, on standard error or in a file.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Starts logging at a level or filter; without one `RUST_LOG` decides, and without that what matters is shown.
///
/// # Errors
/// If the filter can't be read.
pub fn start(filter: Option<&str>) -> anyhow::Result<()> {
    start_into(filter, None)
}

/// The same into a file, if one is named.
///
/// # Errors
/// If the filter can't be read, or the file can't be written.
pub fn start_into(filter: Option<&str>, file: Option<&Path>) -> anyhow::Result<()> {
    let filter = match filter {
        Some(text) => EnvFilter::try_new(text).with_context(|| {
            format!("--log-level {text:?}: expected error, warn, info, debug, trace or a filter")
        })?,
        None => EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Failing to write a line of the log is no reason to stop.
        .log_internal_errors(false);
    let started = match file {
        None => log.with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).try_init(),
        Some(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            open(&path).with_context(|| format!("can't write the log to {}", path.display()))?;
            log.with_writer(LogFile(path)).with_ansi(false).try_init()
        }
    };
    started.map_err(|error| anyhow::anyhow!("can't start logging: {error}"))
}

/// A file that is opened for each line: whoever rotates logs gives its name to another.
struct LogFile(PathBuf);

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Either;

    fn make_writer(&'a self) -> Either {
        open(&self.0).map_or(Either::Errors(io::stderr()), Either::File)
    }
}

/// Where a line goes.
enum Either {
    File(File),
    /// The file can't be had now.
    Errors(io::Stderr),
}

impl Write for Either {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Errors(errors) => errors.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Errors(errors) => errors.flush(),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}
