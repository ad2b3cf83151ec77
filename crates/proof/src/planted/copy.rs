//! The copy of the workspace that the bugs are in. It stays under the target directory and only files that change are
//! written again, so that its builds are incremental. What others wrote is built once for both: the copy has the same profile
//! and build directory, and a version of its own, so that its crates are not taken for those of the original.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::library::Detector;
use super::product_test::{Kind, ProductTests, is_test};

/// The copy.
pub(super) struct Copy {
    pub path: PathBuf,
    /// Where its programs are.
    target: PathBuf,
    /// Where everything else that is built is, shared with the original.
    build: PathBuf,
    /// What compiles the workspace's crates.
    compiler: PathBuf,
}

/// Copies what git knows of (and new files that it doesn't ignore), `changed` in its changed form.
pub(super) fn make(root: &Path, changed: &BTreeMap<PathBuf, String>) -> anyhow::Result<Copy> {
    let root = root.canonicalize()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let build = std::path::absolute(target)?;
    let (path, target) = (build.join("planted/workspace"), build.join("planted/target"));
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()
        .context("running git ls-files")?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let text = String::from_utf8(listed.stdout)?;
    let mut kept = BTreeSet::new();
    for name in text.split('\0').filter(|name| !name.is_empty()) {
        let from = root.join(name);
        if !from.is_file() {
            continue;
        }
        let to = path.join(name);
        let bytes = match changed.get(Path::new(name)) {
            Some(text) => text.clone().into_bytes(),
            None if name == "Cargo.toml" => settings(&fs::read_to_string(&from)?)?.into_bytes(),
            None => fs::read(&from)?,
        };
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&to, bytes)?;
        }
        kept.insert(to);
    }
    remove_others(&path, &kept)?;
    let compiler = build.join("planted/compile-quickly");
    if fs::read_to_string(&compiler).ok().as_deref() != Some(COMPILER) {
        fs::write(&compiler, COMPILER)?;
        fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755))?;
    }
    Ok(Copy { path, target, build, compiler })
}

/// Compiles the workspace's own crates, and not what others wrote: detectors run for seconds, and to optimise a program fully
/// takes longer than it runs.
const COMPILER: &str = "#!/bin/sh\nexec \"$@\" -C opt-level=1 -C lto=off\n";

/// The workspace's settings, for the copy.
fn settings(text: &str) -> anyhow::Result<String> {
    let (version, lints) = ("\nversion = \"0.", "[workspace.lints.rust]\n");
    for part in [version, lints] {
        ensure!(text.contains(part), "Cargo.toml has no {part:?}");
    }
    // Mutants leave things unused.
    let allow = format!("{lints}warnings = \"allow\"\n");
    Ok(text.replace("\"deny\"", "\"allow\"").replacen(lints, &allow, 1).replacen(
        version,
        "\nversion = \"999.",
        1,
    ))
}

/// Files of an earlier copy whose originals are gone.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

impl Copy {
    /// Builds the proofs of the copy and the tests, as far as these detectors need them.
    pub fn build(&self, detectors: &[&Detector]) -> anyhow::Result<ProductTests> {
        let tests = ProductTests::build(&self.path, |kind| self.cargo(kind), detectors.iter().copied())?;
        // Tests of its crate come with the program. Built without them it is another one, and so is all that it is made of, for
        // what others wrote has fewer features then.
        if !detectors.iter().all(|detector| is_test(detector))
            && !tests.have_program("proof", "terrace-proof")
        {
            let mut cargo = self.cargo(Kind::Plain);
            cargo.args(["build", "--quiet", "--release", "--package", "terrace-proof"]);
            ensure!(cargo.status()?.success(), "a mutant does not compile: see the errors above");
        }
        Ok(tests)
    }

    fn cargo(&self, kind: Kind) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.path);
        match kind {
            Kind::Plain => {
                cargo
                    .env("CARGO_TARGET_DIR", &self.target)
                    .env("CARGO_BUILD_BUILD_DIR", &self.build)
                    .env("RUSTC_WORKSPACE_WRAPPER", &self.compiler);
            }
            // The same flags and directory as the chore that explores schedules: what others wrote is there already.
            Kind::Schedules => {
                let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
                flags.push(" --cfg shuttle");
                cargo
                    .env("CARGO_TARGET_DIR", self.target.join("schedules"))
                    .env("CARGO_BUILD_BUILD_DIR", self.build.join("schedules"))
                    .env("RUSTFLAGS", flags)
                    .env("CARGO_PROFILE_DEV_LTO", "off")
                    .env("CARGO_PROFILE_DEV_DEBUG", "false");
            }
        }
        cargo
    }

    /// The program of the copy.
    pub fn program(&self) -> PathBuf {
        self.target.join("release/terrace-proof")
    }
}
