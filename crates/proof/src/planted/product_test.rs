//! Detectors that are tests of the product itself, built from the copy: `test CRATE TARGET NAME`, where TARGET is `lib` for the
//! tests beside the code, or an integration test's name. Exactly one test must have NAME in its path. `schedules CRATE TARGET NAME`
//! is a test that explores schedules: it is built with shuttle's primitives, and the entry's histories are its schedules.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::library::Detector;

/// A program of tests: how it is built, the crate's folder, and `lib` or the integration test.
type Program = (Kind, String, String);

/// How a program of tests is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// As users do.
    Plain,
    /// With shuttle's primitives, which explore schedules.
    Schedules,
}

/// What a detector's name says, if it is a test.
struct Named<'a> {
    kind: Kind,
    folder: &'a str,
    target: &'a str,
    test: &'a str,
}

/// The programs of the tests that are detectors.
#[derive(Default)]
pub(super) struct ProductTests {
    workspace: PathBuf,
    programs: BTreeMap<Program, PathBuf>,
}

impl<'a> Named<'a> {
    fn of(detector: &'a Detector) -> Option<Self> {
        let mut words = detector.name.split(' ');
        let kind = match words.next()? {
            "test" => Kind::Plain,
            "schedules" => Kind::Schedules,
            _ => return None,
        };
        Some(Self { kind, folder: words.next()?, target: words.next()?, test: words.next()? })
    }
    fn program(&self) -> Program {
        (self.kind, self.folder.into(), self.target.into())
    }
}

/// What cargo says of something it built.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    executable: PathBuf,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl ProductTests {
    /// Builds those that these detectors name. `cargo` gives a command with the copy's settings.
    pub fn build<'a>(
        workspace: &Path,
        cargo: impl Fn(Kind) -> Command,
        detectors: impl Iterator<Item = &'a Detector>,
    ) -> anyhow::Result<Self> {
        let wanted: BTreeSet<Program> =
            detectors.filter_map(Named::of).map(|named| named.program()).collect();
        let mut tests = Self { workspace: workspace.into(), programs: BTreeMap::new() };
        for kind in [Kind::Plain, Kind::Schedules] {
            let programs: Vec<&Program> = wanted.iter().filter(|program| program.0 == kind).collect();
            if !programs.is_empty() {
                tests.build_some(kind, &programs, cargo(kind))?;
            }
        }
        for program in &wanted {
            ensure!(tests.programs.contains_key(program), "there are no tests {program:?}");
        }
        Ok(tests)
    }

    fn build_some(&mut self, kind: Kind, programs: &[&Program], mut cargo: Command) -> anyhow::Result<()> {
        cargo.args(["test", "--quiet", "--no-run", "--message-format", "json-render-diagnostics"]);
        if kind == Kind::Plain {
            cargo.arg("--release");
        }
        let mut folders: BTreeSet<&str> = programs.iter().map(|(_, folder, _)| folder.as_str()).collect();
        if kind == Kind::Schedules {
            // Those that the chore builds: others would have other features of what others wrote.
            folders.extend(["index", "log", "engine", "space-hybrid-log", "space-slab"]);
        }
        for folder in folders {
            let package = if folder == "terrace" { folder.into() } else { format!("terrace-{folder}") };
            cargo.args(["--package", &package]);
        }
        for target in programs.iter().map(|(_, _, target)| target).collect::<BTreeSet<_>>() {
            match target.as_str() {
                "lib" => cargo.arg("--lib"),
                name => cargo.args(["--test", name]),
            };
        }
        let built = cargo.stderr(std::process::Stdio::inherit()).output().context("building tests")?;
        ensure!(built.status.success(), "the tests of the copy do not compile: see the errors above");
        for line in String::from_utf8_lossy(&built.stdout).lines() {
            // Libraries that the tests need have no program.
            let Ok(artifact) = serde_json::from_str::<Artifact>(line) else { continue };
            let Some(folder) = artifact.manifest_path.parent().and_then(Path::file_name) else { continue };
            let is_lib = artifact.target.kind.iter().any(|kind| kind == "lib");
            let target = if is_lib { "lib".into() } else { artifact.target.name };
            self.programs.insert((kind, folder.to_string_lossy().into(), target), artifact.executable);
        }
        Ok(())
    }

    /// Whether a crate's program of this name was built on the way.
    pub fn have_program(&self, folder: &str, name: &str) -> bool {
        self.programs.contains_key(&(Kind::Plain, folder.into(), name.into()))
    }

    /// What runs this detector, if it is a test.
    pub fn command(&self, detector: &Detector) -> Option<Command> {
        let named = Named::of(detector)?;
        let mut command = Command::new(self.programs.get(&named.program())?);
        command.arg(named.test).current_dir(self.workspace.join("crates").join(named.folder));
        if named.kind == Kind::Schedules {
            command.env("SHUTTLE_ITERATIONS", detector.histories.to_string());
            command.env("SHUTTLE_RANDOM_SEED", detector.seed.to_string());
        }
        Some(command)
    }
}

/// Checks that crates have tests of the names that detectors say, as far as the text of their files tells.
pub(super) fn check<'a>(
    workspace: &Path,
    detectors: impl Iterator<Item = &'a Detector>,
) -> anyhow::Result<()> {
    let mut texts: BTreeMap<PathBuf, String> = BTreeMap::new();
    for detector in detectors {
        let Some(named) = Named::of(detector) else { continue };
        let crate_folder = workspace.join("crates").join(named.folder);
        let folder = crate_folder.join(if named.target == "lib" { "src" } else { "tests" });
        let text = match texts.entry(folder) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(unread) => {
                let text = sources(unread.key())?;
                unread.insert(text)
            }
        };
        let name = named.test.rsplit("::").next().unwrap_or_default();
        ensure!(text.contains(name), "{}: there is no such test", detector.name);
    }
    Ok(())
}

/// All sources below a folder, one behind the other.
fn sources(folder: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            text += &sources(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(&path)?;
        }
    }
    Ok(text)
}

/// Whether a detector is a test.
pub(super) fn is_test(detector: &Detector) -> bool {
    Named::of(detector).is_some()
}

/// Whether the output is that of a single test.
pub(super) fn ran_one(output: &str) -> bool {
    output.lines().any(|line| line == "running 1 test")
}

/// What a failed test said first, if it said anything.
pub(super) fn complaint(output: &str) -> Option<String> {
    let mut lines = output.lines().skip_while(|line| !line.contains("panicked at"));
    let place = lines.next()?;
    let said = lines.next().unwrap_or_default();
    Some(if said.is_empty() { place.into() } else { said.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_and_outputs_understood() {
        let detector = Detector::usual("test log lib a_test".into());
        let named = Named::of(&detector).unwrap();
        assert_eq!((named.program(), named.test), ((Kind::Plain, "log".into(), "lib".into()), "a_test"));
        let detector = Detector::usual("schedules index shuttle a_test".into());
        assert_eq!(Named::of(&detector).unwrap().kind, Kind::Schedules);
        assert!(!is_test(&Detector::usual("log byte".into())));
        let output =
            "running 1 test\n---- a stdout ----\nthread 'a' panicked at src/a.rs:1:2:\nit is gone\nnote";
        assert!(ran_one(output) && !ran_one("running 0 tests"));
        assert_eq!(complaint(output).as_deref(), Some("it is gone"));
        assert_eq!(complaint("killed"), None);
    }
}
