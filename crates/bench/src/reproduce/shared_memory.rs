//! Where files stay in memory: what emulated PMem is made of.

use std::path::Path;

use anyhow::Context;
use tempfile::TempDir;

/// The directory.
pub const PATH: &str = "/dev/shm";

/// Why nothing that needs it can be measured here, if so.
pub fn missing() -> Option<String> {
    (!Path::new(PATH).is_dir()).then(|| format!("there is no {PATH}, which PMem is made of"))
}

/// A directory in it, which goes when this is dropped.
///
/// # Errors
/// If it can't be made.
pub fn directory() -> anyhow::Result<TempDir> {
    let made = tempfile::Builder::new().prefix("terrace-reproduce-").tempdir_in(PATH);
    made.with_context(|| format!("can't make a directory in {PATH}"))
}
