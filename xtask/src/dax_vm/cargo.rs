//! This workspace's own programs, built for the guest (which is a machine like this one).

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::image::Program;
use super::packages::output;

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Where cargo builds.
///
/// # Errors
/// If cargo doesn't say.
pub fn target() -> anyhow::Result<PathBuf> {
    let metadata = output(cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    Ok(metadata["target_directory"].as_str().context("cargo names no target directory")?.into())
}

/// The server, and the program that tests it in the guest.
///
/// # Errors
/// If they don't build.
pub fn programs(profile: &str) -> anyhow::Result<Vec<Program>> {
    let packages = ["--package", "terrace-cli", "--package", "terrace-proof", "--bins"];
    let built = build("build", profile, &packages)?;
    let named = |name: &str| {
        let file = built.iter().find(|(target, _)| target == name).map(|(_, file)| file.clone());
        let file = file.with_context(|| format!("cargo built no {name}"))?;
        Ok(Program { file, name: name.into() })
    };
    ["terrace", "terrace-proof"].into_iter().map(named).collect()
}

/// The test programs of the crate that knows how bytes become durable.
///
/// # Errors
/// If they don't build.
pub fn media_tests(profile: &str) -> anyhow::Result<Vec<Program>> {
    let built = build("test", profile, &["--no-run", "--package", "terrace-media", "--lib", "--tests"])?;
    Ok(built.into_iter().map(|(name, file)| Program { file, name: format!("media-{name}") }).collect())
}

/// Names of targets and their programs.
fn build(what: &str, profile: &str, options: &[&str]) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let built = cargo()
        .args([what, "--quiet", "--message-format=json-render-diagnostics", "--profile", profile])
        .args(options)
        .stderr(Stdio::inherit())
        .output()
        .context("can't run cargo")?;
    if !built.status.success() {
        bail!("cargo {what} failed");
    }
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&built.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        if let (Some(file), Some(name)) = (message["executable"].as_str(), message["target"]["name"].as_str())
        {
            programs.push((name.to_owned(), PathBuf::from(file)));
        }
    }
    Ok(programs)
}
