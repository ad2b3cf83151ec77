//! Installs a library and builds its program, in the cache alone.
//!
//! What the runtime's own package manager can't get is no failure of terrace: the library is skipped. A program that does not
//! compile is a failure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::library::{Language, Library};
use super::outcome::Outcome;
use super::run::to_end;

/// How to run a library's examples.
pub struct Program {
    words: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    folder: PathBuf,
}

impl Program {
    /// The command, in its folder of the cache.
    pub fn command(&self) -> Command {
        command(&self.words, &self.environment, &self.folder)
    }
}

fn command(words: &[OsString], environment: &[(&str, OsString)], folder: &Path) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(environment.iter().map(|(name, value)| (name, value))).current_dir(folder);
    command
}

/// What has to be done before the program can run.
struct Steps {
    /// Runtimes and tools that must be on PATH.
    needs: &'static [&'static str],
    /// Gets packages. Not repeated while the manifest is the same.
    install: Vec<OsString>,
    /// Compiles.
    build: Option<Vec<OsString>>,
    run: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
}

/// Installs and builds. The inner error is what stands for the library's examples if that can't be done.
///
/// # Errors
/// If the cache can't be written.
pub fn program(
    library: &Library,
    cache: &Path,
    patience: Duration,
) -> anyhow::Result<Result<Program, Outcome>> {
    let folder = cache.join(library.language.folder());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(library.language.folder());
    copy(&source, &folder).with_context(|| format!("copying {}", source.display()))?;
    let steps = steps(library, cache, &folder);
    for need in steps.needs {
        if !is_on_path(need) {
            return Ok(Err(Outcome::library_skipped(format!("no {need} on PATH"))));
        }
    }
    let manifest = std::fs::read(folder.join(library.manifest))?;
    let stamp = folder.join(format!("{}.installed", library.name));
    if std::fs::read(&stamp).ok().as_ref() != Some(&manifest) {
        eprintln!("{}: installing", library.name);
        let ended = to_end(&mut command(&steps.install, &steps.environment, &folder), patience)?;
        if !ended.succeeded() {
            let why = format!("{} can't install it: {}", steps.install[0].display(), ended.reason());
            return Ok(Err(Outcome::library_skipped(why)));
        }
        std::fs::write(stamp, manifest)?;
    }
    if let Some(build) = &steps.build {
        let ended = to_end(&mut command(build, &steps.environment, &folder), patience)?;
        if !ended.succeeded() {
            eprintln!("{}", ended.errors);
            return Ok(Err(Outcome::failed("building the program", &ended.reason())));
        }
    }
    Ok(Ok(Program { words: steps.run, environment: steps.environment, folder }))
}

fn steps(library: &Library, cache: &Path, folder: &Path) -> Steps {
    let of = |name: &str| folder.join(name).into_os_string();
    match library.language {
        Language::Python => {
            let packages = folder.join(library.name).join("packages");
            let mut path = packages.clone().into_os_string();
            path.push(":");
            path.push(folder);
            Steps {
                needs: &["python3"],
                install: words(&[
                    "python3",
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--upgrade",
                    "--requirement",
                    library.manifest,
                    "--target",
                    &packages.to_string_lossy(),
                ]),
                build: None,
                run: words(&["python3", library.program]),
                environment: vec![
                    ("PYTHONPATH", path),
                    ("PYTHONDONTWRITEBYTECODE", "1".into()),
                    ("PIP_CACHE_DIR", of("pip-cache")),
                    ("PIP_ROOT_USER_ACTION", "ignore".into()),
                ],
            }
        }
        Language::Node => {
            let own = library.manifest.trim_end_matches("/package.json");
            Steps {
                needs: &["node", "npm"],
                install: words(&[
                    "npm",
                    "install",
                    "--prefix",
                    own,
                    "--no-package-lock",
                    "--no-audit",
                    "--no-fund",
                    "--ignore-scripts",
                ]),
                build: None,
                run: words(&["node", library.program]),
                environment: vec![("npm_config_cache", of("npm-cache"))],
            }
        }
        Language::Go => {
            let package = format!("./{}", library.program);
            let binary = format!("./{}.program", library.program);
            Steps {
                needs: &["go"],
                install: words(&["go", "mod", "download"]),
                build: Some(words(&["go", "build", "-o", &binary, &package])),
                run: words(&[&folder.join(&binary).to_string_lossy()]),
                environment: vec![
                    ("GOPATH", of("path")),
                    ("GOCACHE", of("cache")),
                    ("GOFLAGS", "-modcacherw -buildvcs=false".into()),
                    ("GOTOOLCHAIN", "local".into()),
                ],
            }
        }
        Language::Java => {
            let repository = format!("-Dmaven.repo.local={}", folder.join("repository").display());
            let source = format!("{}.java", library.program);
            Steps {
                needs: &["java", "javac", "mvn"],
                install: words(&[
                    "mvn",
                    "--quiet",
                    "--batch-mode",
                    &repository,
                    "dependency:copy-dependencies",
                    "-DoutputDirectory=libraries",
                ]),
                build: Some(words(&[
                    "javac",
                    "-nowarn",
                    "-encoding",
                    "UTF-8",
                    "-d",
                    "classes",
                    "-cp",
                    "libraries/*",
                    "Examples.java",
                    &source,
                ])),
                // Small: the machine has other things to do.
                run: words(&[
                    "java",
                    "-Xmx128m",
                    "-XX:TieredStopAtLevel=1",
                    "-cp",
                    "classes:libraries/*",
                    library.program,
                ]),
                environment: Vec::new(),
            }
        }
        Language::Rust => {
            let target = cache.join("rust-target");
            let binary = target.join("debug").join(library.program);
            Steps {
                needs: &["cargo"],
                install: words(&["cargo", "fetch", "--quiet"]),
                build: Some(words(&["cargo", "build", "--quiet", "--bin", library.program])),
                run: vec![binary.into_os_string()],
                environment: vec![("CARGO_TARGET_DIR", target.into_os_string())],
            }
        }
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Copies what is under `from`; what else is there stays, such as what was installed. A file that is the same keeps its time, so
/// that it is not compiled again.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let copied = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &copied)?;
            continue;
        }
        let bytes = std::fs::read(entry.path())?;
        if std::fs::read(&copied).ok().as_ref() != Some(&bytes) {
            std::fs::write(copied, bytes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_whole_and_keep_what_else_is_there() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(from.path().join("in")).unwrap();
        std::fs::write(from.path().join("in/a"), "new").unwrap();
        std::fs::create_dir(to.path().join("in")).unwrap();
        std::fs::write(to.path().join("in/a"), "old").unwrap();
        std::fs::write(to.path().join("in/installed"), "kept").unwrap();
        copy(from.path(), to.path()).unwrap();
        assert_eq!(std::fs::read(to.path().join("in/a")).unwrap(), b"new");
        assert_eq!(std::fs::read(to.path().join("in/installed")).unwrap(), b"kept");
    }

    #[test]
    fn programs_on_path() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("no-such-program-at-all"));
    }
}
