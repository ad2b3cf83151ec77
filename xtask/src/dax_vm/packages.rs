//! What comes from Debian: tools on this machine, and a kernel for the virtual one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Programs that must be here, and the packages that have them.
const TOOLS: [(&str, &str); 9] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("ndctl", "ndctl"),
    ("daxctl", "daxctl"),
    ("mke2fs", "e2fsprogs"),
    ("modprobe", "kmod"),
    ("depmod", "kmod"),
    ("strip", "binutils"),
    ("setpriv", "util-linux"),
];
/// It depends on the newest kernel of its kind.
const KERNEL: &str = "linux-image-cloud-amd64";

/// What this machine lacks.
pub struct Missing {
    packages: Vec<&'static str>,
}

impl Missing {
    /// Looks for every tool.
    pub fn detect() -> Self {
        let mut packages: Vec<_> =
            TOOLS.iter().filter(|(tool, _)| find(tool).is_none()).map(|tool| tool.1).collect();
        packages.dedup();
        Self { packages }
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }

    /// What to do about it.
    pub fn advice(&self) -> String {
        format!(
            "missing here; install with: apt-get install --no-install-recommends {}",
            self.packages.join(" ")
        )
    }

    /// Installs them.
    ///
    /// # Errors
    /// If there is no apt or it fails, as it does without the right to.
    pub fn install(&self) -> anyhow::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let all = ["install", "--yes", "-qq", "--no-install-recommends"].iter().chain(&self.packages);
        let status = Command::new("apt-get").args(all).env("DEBIAN_FRONTEND", "noninteractive").status();
        if !status.is_ok_and(|status| status.success()) {
            bail!("apt-get did not install what is {}", self.advice());
        }
        Ok(())
    }
}

/// Where a program is; also where only root looks.
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|dir| dir.join(tool)).find(|file| file.is_file())
}

/// A kernel, unpacked.
pub struct Kernel {
    /// What to boot.
    pub image: PathBuf,
    /// Holds `lib/modules/VERSION`.
    pub root: PathBuf,
    /// Its version.
    pub version: String,
}

impl Kernel {
    /// The kernel in the cache; fetched with apt, which checks its checksum, if there is none.
    ///
    /// # Errors
    /// If it can't be fetched or unpacked.
    pub fn get(cache: &Path) -> anyhow::Result<Self> {
        let root = cache.join("kernel");
        if !root.is_dir() {
            fetch(cache, &root)?;
        }
        let modules = root.join("lib/modules");
        let version = std::fs::read_dir(&modules)
            .ok()
            .and_then(|mut entries| entries.next()?.ok()?.file_name().into_string().ok())
            .with_context(|| format!("{} is empty; remove {}", modules.display(), root.display()))?;
        let image = root.join("boot").join(format!("vmlinuz-{version}"));
        anyhow::ensure!(image.is_file(), "{} is missing; remove {}", image.display(), root.display());
        Ok(Self { image, root, version })
    }

    /// Files of these modules and those they need, in the order in which they must be loaded. What is built in has none.
    ///
    /// # Errors
    /// If one is unknown.
    pub fn modules(&self, names: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
        let modprobe = find("modprobe").context("modprobe is missing")?;
        let mut files = Vec::new();
        for name in names {
            let mut command = Command::new(&modprobe);
            // Not with this machine's own settings.
            command
                .args(["-C", "/dev/null", "--show-depends", "-S", &self.version, "-d"])
                .arg(&self.root)
                .arg(name);
            for line in output(&mut command)?.lines() {
                if let Some(file) = line.strip_prefix("insmod ") {
                    let file = PathBuf::from(file.trim());
                    if !files.contains(&file) {
                        files.push(file);
                    }
                }
            }
        }
        Ok(files)
    }
}

fn fetch(cache: &Path, root: &Path) -> anyhow::Result<()> {
    let how = || format!("can't fetch {KERNEL}: does `apt-get update` work here?");
    let depends = output(Command::new("apt-cache").args(["depends", KERNEL])).with_context(how)?;
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let package = package.with_context(how)?;
    let download = cache.join("download");
    // What an earlier attempt left.
    let _ = std::fs::remove_dir_all(&download);
    std::fs::create_dir_all(&download)?;
    let fetching = ["-qq", "-o", "APT::Sandbox::User=root", "download", package];
    output(Command::new("apt-get").args(fetching).current_dir(&download)).with_context(how)?;
    let deb = std::fs::read_dir(&download)?.next().context("apt-get left nothing")??.path();
    let unpacked = download.join("kernel");
    output(Command::new("dpkg").arg("-x").arg(&deb).arg(&unpacked))?;
    let version = package.trim_start_matches("linux-image-");
    let depmod = find("depmod").context("depmod is missing")?;
    output(Command::new(depmod).arg("-b").arg(&unpacked).arg(version))?;
    // Last, so that a kernel in the cache is whole.
    std::fs::rename(&unpacked, root)?;
    std::fs::remove_dir_all(&download)?;
    Ok(())
}

/// What a command printed.
///
/// # Errors
/// If it can't be run or fails, with what it said.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("can't run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
