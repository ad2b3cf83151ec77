//! The store behind `memcached`: a cache in DRAM, and files only where they were asked for.
//!
//! # Invariants
//! - A directory is emptied only if this command made it ([`MARKER`]) and nobody has it open.
//! - What `-e` kept is used only after an orderly stop: [`RUNNING`] is on the medium before anything can change, and goes when
//!   everything is saved. Who finds it begins empty, for pages of before the crash hold what was overwritten or deleted since.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use terrace::engine::Durability;
use terrace::{Options, Tier, WhenFull};
use terrace_media::{DirLock, LOCK_FILE, PlaceKind, detect};

use super::options::CommandLine;

/// The file that says whose directory it is.
const MARKER: &str = "memcached-cache";
const MARKER_TEXT: &str = "A cache of terrace's memcached command. What lies here goes at its next start.\n";

/// The file that is there while a cache of `-e` may hold what its files don't.
const RUNNING: &str = "memcached-running";
const RUNNING_TEXT: &str =
    "A cache of terrace's memcached command runs here, or has crashed: then its next start begins empty.\n";
/// What a store leaves in the directory of a cache; nothing else is removed from one.
const STORE_FILES: [&str; 10] = [
    "superblock",
    "superblock.new",
    "formatted",
    "formatted.new",
    "clock",
    "clock.new",
    "log",
    "data",
    "pmem",
    "pmem-place",
];

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
///
/// # Errors
/// If the place of `-e` can't be examined.
pub fn options(line: &CommandLine) -> anyhow::Result<Options> {
    let Some(file) = &line.memory_file else { return Ok(options_on(line, PlaceKind::Plain)) };
    let place = detect(file).with_context(|| format!("-e {}: it can't be examined", file.display()))?;
    if place.kind == PlaceKind::Plain {
        tracing::warn!(
            "-e {}: {} is no persistent memory: it is used as an SSD is",
            file.display(),
            place.filesystem
        );
    }
    Ok(options_on(line, place.kind))
}

/// As [`options`], the place of `-e` being of this kind.
fn options_on(line: &CommandLine, kind: PlaceKind) -> Options {
    let bytes = line.megabytes << 20;
    let common = Options {
        dram_records: Some(bytes),
        durability: Durability::None,
        when_full: if line.refuse { WhenFull::Refuse } else { WhenFull::Evict },
        background_threads: line.extended.ext_threads.unwrap_or((line.threads / 4).clamp(1, 8)),
        threads: line.threads,
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
            pmem: tier(bytes).filter(|_| kind != PlaceKind::Plain),
            ssd: tier(bytes).filter(|_| kind == PlaceKind::Plain),
            ..common
        },
        (None, None) => Options { engine: "dram".into(), ..common },
    }
}

/// Makes the directory of `ext_path`, empty. (That of `-e` the store makes, and keeps what is in it.)
///
/// # Errors
/// If it is somebody else's, in use, or can't be made; if the directory above is not there: a name that was mistyped must not
/// become a place.
pub fn prepare(line: &CommandLine) -> anyhow::Result<()> {
    match (&line.extended.ext_path, &line.memory_file) {
        (Some((path, _)), _) => {
            let dir = dir_of(path);
            check_above(&dir, "-o ext_path")?;
            empty(&dir)
        }
        (None, Some(file)) => {
            let dir = dir_of(file);
            check_above(&dir, "-e")?;
            check_metadata(file)?;
            begin(&dir).with_context(|| format!("-e: the cache's directory {}", dir.display()))
        }
        (None, None) => Ok(()),
    }
}

/// The store is saved and closed: its files hold everything.
///
/// # Errors
/// If the directory can't be changed; then the next start begins empty.
pub fn ended(line: &CommandLine) -> anyhow::Result<()> {
    let Some(file) = line.memory_file.as_ref().filter(|_| line.extended.ext_path.is_none()) else {
        return Ok(());
    };
    let dir = dir_of(file);
    let removed = fs::remove_file(dir.join(RUNNING)).and_then(|()| sync(&dir));
    removed.with_context(|| format!("-e: the cache's directory {}", dir.display()))
}

/// A cache of `-e` is about to run: what a crash left goes, and from now on a crash leaves [`RUNNING`].
fn begin(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir)?;
    let running = dir.join(RUNNING);
    let _lock = DirLock::acquire(dir)?;
    if running.exists() {
        tracing::warn!("-e: the last run ended without a stop in order: the cache begins empty");
        for name in STORE_FILES {
            match fs::remove_file(dir.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
    }
    fs::write(&running, RUNNING_TEXT)?;
    fs::File::open(&running)?.sync_all()?;
    Ok(sync(dir)?)
}

/// What memcached itself has saved beside the file can't be used; where it is empty memcached has failed to save, and what the
/// operator wants to be done about it is not known.
fn check_metadata(file: &Path) -> anyhow::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".meta");
    let path = PathBuf::from(name);
    match fs::metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("-e: {}", path.display())),
        Ok(found) => anyhow::ensure!(
            found.len() > 0,
            "-e {}: its metadata file {} is empty: the items of a memcached that should be in it are lost; remove both files to \
             begin anew",
            file.display(),
            path.display()
        ),
    }
    tracing::warn!("-e: {} is memcached's own and is not read: the cache is terrace's", path.display());
    Ok(())
}

fn sync(dir: &Path) -> std::io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

/// Whether a directory can be made where it is to lie.
fn check_above(dir: &Path, flag: &str) -> anyhow::Result<()> {
    let above = dir.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    anyhow::ensure!(
        above.is_dir(),
        "{flag}: {} is no directory: correct the path, or make it first",
        above.display()
    );
    Ok(())
}

fn empty(dir: &Path) -> anyhow::Result<()> {
    let marker = dir.join(MARKER);
    let named = || format!("the cache's directory {}", dir.display());
    match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir(dir).with_context(named)?;
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
        let options = |line: &CommandLine| options_on(line, PlaceKind::Dax);
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
        assert_eq!((pmem.dram_records, pmem.ssd), (Some(128 << 20), None));
        let block = options_on(&line("-m 1024 -e /mnt/disk/y"), PlaceKind::Plain);
        assert_eq!((block.ssd.unwrap().bytes, block.pmem), (1 << 30, None));
    }

    #[test]
    fn what_a_crash_left_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("memory");
        let dir = dir_of(&file);
        let line = line(&format!("-e {}", file.display()));
        let kept = dir.join("data");
        prepare(&line).unwrap();
        fs::write(&kept, "saved").unwrap();
        fs::write(dir.join("notes.txt"), "somebody's").unwrap();
        ended(&line).unwrap();
        prepare(&line).unwrap();
        assert!(kept.exists(), "an orderly stop keeps everything");
        prepare(&line).unwrap();
        assert!(!kept.exists(), "a crash keeps nothing");
        assert!(dir.join("notes.txt").exists());
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
