//! What the machine boots from: busybox, the kernel's modules, Debian's tools, and this workspace's own programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::cpio::Cpio;
use super::packages::{Kernel, find, output};

/// Emulated NVDIMMs, their two modes, memory hot-plug from them, and virtio's kind of persistent memory.
const MODULES: [&str; 8] =
    ["nfit", "nd_pmem", "device_dax", "dax_pmem", "kmem", "virtio_pci", "virtio_pmem", "crc32c_intel"];
const TOOLS: [&str; 3] = ["ndctl", "daxctl", "mke2fs"];

/// The first program. It prepares the machine and runs the job of this boot; lines for the host begin with `@@`.
const INIT: &str = r#"#!/bin/sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
ip link set lo up
while read module; do insmod "/modules/$module" || echo "@@NO $module"; done </modules/order
echo "@@UP $(cut -d' ' -f1 /proc/uptime)"
. /job
echo "@@EXIT $?"
poweroff -f
"#;

/// The parts of an image that every boot has.
pub struct Image {
    /// The kernel.
    pub kernel: PathBuf,
    bytes: Vec<u8>,
}

/// A program of this workspace, built.
pub struct Program {
    /// Where cargo left it.
    pub file: PathBuf,
    /// Its name in the guest's `/bin`.
    pub name: String,
}

impl Image {
    /// Gathers everything.
    ///
    /// # Errors
    /// If a tool or module is missing.
    pub fn build(cache: &Path, programs: &[Program]) -> anyhow::Result<Self> {
        let kernel = Kernel::get(cache)?;
        let mut cpio = Cpio::default();
        for directory in ["proc", "sys", "dev", "run", "mnt", "etc"] {
            cpio.directory(directory);
        }
        let busybox = find("busybox").context("busybox is missing")?;
        cpio.file("bin/busybox", &std::fs::read(busybox)?);
        cpio.link("bin/sh", "busybox");
        cpio.file("init", INIT.as_bytes());
        let mut order = String::new();
        for file in kernel.modules(&MODULES)? {
            let (name, bytes) = module(&file)?;
            cpio.file(&format!("modules/{name}"), &bytes);
            order.push_str(&format!("{name}\n"));
        }
        cpio.file("modules/order", order.as_bytes());
        let mut libraries = Vec::new();
        for tool in TOOLS {
            let file = find(tool).with_context(|| format!("{tool} is missing"))?;
            libraries.extend(needed(&file)?);
            cpio.file(&format!("sbin/{tool}"), &std::fs::read(file)?);
        }
        for program in programs {
            libraries.extend(needed(&program.file)?);
            let stripped = cache.join(format!("stripped-{}", program.name));
            output(Command::new("strip").arg("-o").arg(&stripped).arg(&program.file))?;
            cpio.file(&format!("bin/{}", program.name), &std::fs::read(&stripped)?);
            std::fs::remove_file(&stripped)?;
        }
        libraries.sort();
        libraries.dedup();
        for library in libraries {
            let bytes = std::fs::read(&library).with_context(|| library.clone())?;
            cpio.file(&library, &bytes);
        }
        Ok(Self { kernel: kernel.image, bytes: cpio.finish() })
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes an image whose job is this shell script.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self, path: &Path, job: &str) -> anyhow::Result<()> {
        let mut cpio = Cpio::default();
        cpio.file("job", job.as_bytes());
        let bytes = [&self.bytes[..], &cpio.finish()].concat();
        std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
    }
}

/// A module's name and content, unpacked.
fn module(file: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let name = file.file_name().and_then(|name| name.to_str()).context("a module has a name")?;
    let unpack = match name.rsplit_once('.') {
        Some((name, "xz")) => Some((name, "xz")),
        Some((name, "zst")) => Some((name, "zstd")),
        _ => None,
    };
    let Some((name, tool)) = unpack else { return Ok((name.to_owned(), std::fs::read(file)?)) };
    let output =
        Command::new(tool).arg("-dc").arg(file).output().with_context(|| format!("can't run {tool}"))?;
    anyhow::ensure!(output.status.success(), "{tool} can't unpack {}", file.display());
    Ok((name.to_owned(), output.stdout))
}

/// The shared libraries of a program, as the loader finds them here.
fn needed(program: &Path) -> anyhow::Result<Vec<String>> {
    let listing = output(Command::new("ldd").arg(program))?;
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
    Ok(listing.lines().filter_map(path).collect())
}
