//! The store behind `memcached`: a cache in DRAM, and files only where they were asked for.
//!
//! # Invariants
//! - A directory is emptied only if this command made it ([`MARKER`]) and nobody has it open.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use terrace::engine::Durability;
use terrace::{Options, Tier, WhenFull};
use terrace_media::{DirLock, LOCK_FILE};

use super::options::CommandLine;

/// The file that says whose directory it is.
const MARKER: &str = "memcached-cache";
const MARKER_TEXT: &str = "A cache of terrace's memcached command. What lies here goes at its next start.\n";

/// With `-e`, DRAM in front of the file is this part of it.
const DRAM_PART: u64 = 8;
const DRAM_MIN: u64 = 16 << 20;

/// The directory that goes with a file of memcached's.
fn dir_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".terrace");
    name.into()
}

/// What the store is opened with.
pub fn options(line: &CommandLine) -> Options {
    let bytes = line.megabytes << 20;
    let common = Options {
        dram_records: Some(bytes),
        durability: Durability::None,
        when_full: if line.refuse { WhenFull::Refuse } else { WhenFull::Evict },
        background_threads: line.extended.ext_threads.unwrap_or((line.threads / 4).clamp(1, 8)),
        recovery_threads: line.threads,
        ..Options::default()
    };
    let tier = |bytes| Some(Tier { bytes, place: None });
    match (&line.extended.ext_path, &line.memory_file) {
        (Some((path, ssd_bytes)), _) => {
            Options { engine: "tac".into(), dir: Some(dir_of(path)), ssd: tier(*ssd_bytes), ..common }
        }
        (None, Some(file)) => Options {
            engine: "tac".into(),
            dir: Some(dir_of(file)),
            dram_records: Some((bytes / DRAM_PART).max(DRAM_MIN)),
            pmem: tier(bytes),
            ..common
        },
        (None, None) => Options { engine: "dram".into(), ..common },
    }
}

/// Makes the directory, empty unless `-e` keeps what is in it.
///
/// # Errors
/// If it is somebody else's, in use, or can't be made.
pub fn prepare(line: &CommandLine) -> anyhow::Result<()> {
    match &line.extended.ext_path {
        Some((path, _)) => empty(&dir_of(path)),
        None => Ok(()),
    }
}

fn empty(dir: &Path) -> anyhow::Result<()> {
    let marker = dir.join(MARKER);
    let named = || format!("the cache's directory {}", dir.display());
    match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(dir).with_context(named)?;
        }
        Err(error) => return Err(error).with_context(named),
        Ok(mut entries) => {
            anyhow::ensure!(
                marker.exists() || entries.next().is_none(),
                "{} holds something that this command did not make: choose another -o ext_path, or move it away",
                dir.display()
            );
            let _lock = DirLock::acquire(dir)?;
            for entry in fs::read_dir(dir).with_context(named)? {
                let entry = entry.with_context(named)?;
                let keep = entry.path() == marker || entry.file_name() == LOCK_FILE;
                if !keep && entry.file_type().with_context(named)?.is_file() {
                    fs::remove_file(entry.path()).with_context(named)?;
                }
            }
        }
    }
    fs::write(marker, MARKER_TEXT).with_context(named)
}

#[cfg(test)]
mod tests {
    use super::super::options::{Wanted, read};
    use super::*;

    fn line(text: &str) -> CommandLine {
        let arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        match read(&arguments) {
            Ok(Wanted::Serve(line)) => *line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cache_lies_in_dram_unless_a_file_is_named() {
        let plain = options(&line("-m 100"));
        assert_eq!((plain.engine.as_str(), plain.dir, plain.dram_records), ("dram", None, Some(100 << 20)));
        assert_eq!(plain.when_full, WhenFull::Evict);
        assert_eq!(options(&line("-M")).when_full, WhenFull::Refuse);
        let ssd = options(&line("-m 100 -o ext_path=/mnt/x:2G,ext_threads=3"));
        assert_eq!((ssd.dir, ssd.ssd.unwrap().bytes), (Some("/mnt/x.terrace".into()), 2 << 30));
        assert_eq!(
            (ssd.dram_records, ssd.background_threads, ssd.durability),
            (Some(100 << 20), 3, Durability::None)
        );
        let pmem = options(&line("-m 1024 -e /mnt/pmem/y"));
        assert_eq!((pmem.dir, pmem.pmem.unwrap().bytes), (Some("/mnt/pmem/y.terrace".into()), 1 << 30));
        assert_eq!(pmem.dram_records, Some(128 << 20));
    }

    #[test]
    fn only_its_own_directory_is_emptied() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cache");
        let dir = dir_of(&path);
        let line = line(&format!("-o ext_path={}:1G", path.display()));
        prepare(&line).unwrap();
        fs::write(dir.join("blocks"), "old").unwrap();
        let held = DirLock::acquire(&dir).unwrap();
        assert!(prepare(&line).unwrap_err().to_string().contains("in use"));
        assert!(dir.join("blocks").exists());
        drop(held);
        prepare(&line).unwrap();
        assert!(!dir.join("blocks").exists() && dir.join(MARKER).exists());
        fs::remove_file(dir.join(MARKER)).unwrap();
        fs::write(dir.join("precious"), "data").unwrap();
        assert!(prepare(&line).unwrap_err().to_string().contains("did not make"));
        assert!(dir.join("precious").exists());
    }
}
