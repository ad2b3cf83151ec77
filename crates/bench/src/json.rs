//! What a run leaves, JSON for programs foremost: to a file, or to standard output.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// Writes a value with a line end; `-` is standard output.
pub fn write<T: Serialize + ?Sized>(value: &T, path: &Path) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    write_text(path, &text)
}

/// Writes a file; `-` is standard output.
pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return Ok(std::io::stdout().write_all(text.as_bytes())?);
    }
    std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
}
