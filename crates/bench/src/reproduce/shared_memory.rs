//! Where files stay in memory: what emulated PMem is made of.

use std::path::Path;

use anyhow::Context;
use tempfile::TempDir;

use super::{Figure, Kind, Outcome, Row};

/// The directory.
pub const PATH: &str = "/dev/shm";

/// Why nothing that needs it can be measured here, if so.
pub fn missing() -> Option<String> {
    (!Path::new(PATH).is_dir()).then(|| format!("there is no {PATH}, which PMem is made of"))
}

/// What a part has that needs it, if it is not there: one row, which says so.
pub fn outcome_without(
    id: &'static str,
    what: impl Into<String>,
    paper: impl Into<Figure>,
    kind: Kind,
) -> Option<Outcome> {
    let reason = missing()?;
    let row = Row::not_measured(id, what, paper, kind, reason);
    Some(Outcome { rows: vec![row], plots: Vec::new() })
}

/// A directory in it, which goes when this is dropped.
///
/// # Errors
/// If it can't be made.
pub fn directory() -> anyhow::Result<TempDir> {
    let made = tempfile::Builder::new().prefix("terrace-reproduce-").tempdir_in(PATH);
    made.with_context(|| format!("can't make a directory in {PATH}"))
}
