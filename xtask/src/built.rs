//! The command that is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The program that was named, or the command, built.
///
/// # Errors
/// If it can't be built.
pub fn or_build(program: Option<&Path>) -> anyhow::Result<PathBuf> {
    program.map_or_else(build, |program| Ok(program.to_path_buf()))
}

/// The command, as users build it.
fn build() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--package",
            "terrace-cli",
            "--message-format",
            "json-render-diagnostics",
        ])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !built.status.success() {
        bail!("terrace can't be built");
    }
    let messages = String::from_utf8(built.stdout)?;
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut found = parsed.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    found.next().context("cargo named no program")
}
