//! The rules of the house that no compiler checks. Each rule is a function from text to failures, so that each is tested
//! on a planted violation.

mod imports;
mod links;
mod prose;
mod sizes;
mod source;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

/// A broken rule: where, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Failure {
    /// `path` or `path:line`, relative to the workspace.
    place: String,
    /// What is wrong and what to do.
    text: String,
}

impl Failure {
    fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: place.into(), text: text.into() }
    }
}

/// A text file of the project.
struct SourceFile {
    /// Relative to the workspace, with forward slashes.
    path: String,
    text: String,
}

impl SourceFile {
    #[cfg(test)]
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }
    fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|e| e == extension)
    }
}

/// Runs every rule and prints what it finds; fails if a rule is broken.
///
/// # Errors
/// If the project can't be read.
pub fn run() -> anyhow::Result<ExitCode> {
    let root = workspace_root()?;
    let (paths, files) = project_files(&root)?;
    let metadata = output_of(
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["metadata", "--format-version=1", "--no-deps"])
            .current_dir(&root),
    )?;
    let crates = imports::parse(&metadata)?;

    let mut failures = imports::check(&crates);
    failures.extend(source::check_forbids(&files));
    failures.extend(links::check(&files, &paths));
    for file in &files {
        failures.extend(prose::check(file));
        failures.extend(sizes::check(file));
        failures.extend(source::check(file));
    }
    failures.sort();
    for failure in &failures {
        eprintln!("{}: {}", failure.place, failure.text);
    }
    if !failures.is_empty() {
        eprintln!("tidy: {} broken rules in {} files", failures.len(), files.len());
        return Ok(ExitCode::FAILURE);
    }
    println!("tidy: {} crates, {} files, nothing to do", crates.len(), files.len());
    Ok(ExitCode::SUCCESS)
}

fn workspace_root() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask lies in the workspace")?.to_path_buf())
}

/// Every path that git tracks or would track, and those files that hold text.
fn project_files(root: &Path) -> anyhow::Result<(BTreeSet<String>, Vec<SourceFile>)> {
    let listing = output_of(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(root),
    )?;
    let mut paths = BTreeSet::new();
    let mut files = Vec::new();
    for path in listing.lines() {
        // A file may be deleted in the tree and still be in the index; unreadable as UTF-8 means a fixture.
        if let Ok(bytes) = std::fs::read(root.join(path)) {
            paths.insert(path.to_owned());
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(SourceFile { path: path.to_owned(), text });
            }
        }
    }
    Ok((paths, files))
}

fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("can't run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{command:?} printed something other than UTF-8"))
}
