//! The offline check of a mangled store's files: it agrees with opening about what can be opened, and its repair makes
//! that so.

use std::cell::RefCell;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tempfile::TempDir;
use terrace::check::{CheckError, CheckOptions, Report, check};
use terrace_media::{SUPERBLOCK_BYTES, Superblock};
use terrace_testkit::sweep::MediaKind;

use super::image::Engine;
use super::layout::Layout;
use super::mangle::mangle;
use super::session::Open;
use crate::contents::media_of;

thread_local! {
    /// Made once a thread; the files in it are written anew for each input.
    static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

/// On this kind of media.
pub(in crate::fuzz) fn check_files(kind: MediaKind, engine: Engine, input: &[u8]) -> Result<(), String> {
    FOLDER.with_borrow_mut(|folder| {
        let folder = match folder {
            Some(folder) => folder,
            None => {
                folder.insert(TempDir::new().map_err(|error| format!("no temporary directory: {error}"))?)
            }
        };
        on_files(engine, kind, folder.path(), input)
    })
}

fn on_files(engine: Engine, kind: MediaKind, dir: &Path, input: &[u8]) -> Result<(), String> {
    let mangled = mangle(engine, kind, input);
    write(engine, &mangled.layout, dir, &mangled.media)
        .map_err(|error| format!("the files can't be written: {error}"))?;
    let opened = open(engine, kind, &mangled.media);
    let report = match told(check(dir, &CheckOptions::default()))? {
        Some(report) => report,
        None => return Ok(()),
    };
    if let (true, Err(error)) = (report.is_clean(), &opened) {
        return Err(format!("clean, says the check, and opening says: {error}"));
    }
    let repair = CheckOptions { repair: true, ..CheckOptions::default() };
    let Some(repaired) = told(check(dir, &repair))? else { return Ok(()) };
    let files = read(kind, dir).map_err(|error| format!("the files can't be read: {error}"))?;
    match open(engine, kind, &files) {
        // Nothing stands for a lost manifest or superblock of the log; and what was sealed may be beyond repair, if that is told.
        Err(error) if !lost(&error) && (!mangled.sealed || repaired.is_clean()) => Err(format!(
            "repaired ({}), and opening says: {error}; before: {opened:?}; the check: {:?}",
            repaired.repairs.join("; "),
            repaired.problems
        )),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether opening misses what the store has no third copy of.
fn lost(error: &str) -> bool {
    error.contains("manifest") || error.contains("superblock is gone")
}

/// The report, if the store can be checked at all; its text is made, for that must not fail either.
fn told(outcome: Result<Report, CheckError>) -> Result<Option<Report>, String> {
    match outcome {
        Ok(report) => {
            let text = report.to_string();
            let last = text.lines().last().unwrap_or_default();
            if report.is_clean() == (last == "clean") {
                Ok(Some(report))
            } else {
                Err(format!("its last line: {last}"))
            }
        }
        Err(error @ CheckError::Locked(_)) => Err(format!("the files are locked: {error}")),
        Err(_) => Ok(None),
    }
}

fn open(engine: Engine, kind: MediaKind, bytes: &[Vec<u8>]) -> Result<(), String> {
    Open::new(engine, &media_of(kind, bytes), false).map(Open::kill).map_err(|error| error.to_string())
}

fn write(engine: Engine, layout: &Layout, dir: &Path, media: &[Vec<u8>]) -> std::io::Result<()> {
    let data_bytes = media[media.len() - 1].len();
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&layout.sizes.store_id.to_le_bytes());
    let superblock = Superblock {
        engine: engine.name().into(),
        options: format!(
            "block_bytes = {}\nlog_block_bytes = {}\nlog_bytes = {}\nmanifests_apart = {}\n{}",
            layout.sizes.block_bytes,
            layout.sizes.log_block_bytes,
            layout.sizes.log_bytes,
            layout.sizes.manifests_apart,
            if layout.kind == MediaKind::Tiered {
                format!("pmem_bytes = {}\n", behind_superblock(&media[0]))
            } else {
                String::new()
            }
        )
        .into_bytes(),
        identity,
        hash_seed: 7,
        media_bytes: data_bytes as u64,
        created_ms: 1,
    };
    let encode = |superblock: &Superblock| superblock.encode().map_err(std::io::Error::other);
    let pmem = || {
        let superblock = Superblock { media_bytes: behind_superblock(&media[0]), ..superblock.clone() };
        fs::write(dir.join("pmem"), [&encode(&superblock)?[..], &media[0]].concat())
    };
    match layout.kind {
        MediaKind::Byte => return pmem(),
        MediaKind::Block => fs::write(dir.join("log"), &media[0])?,
        MediaKind::Tiered => {
            pmem()?;
            fs::write(dir.join("pmem-place"), dir.join("pmem").as_os_str().as_bytes())?;
        }
    }
    fs::write(dir.join("superblock"), encode(&superblock)?)?;
    fs::write(dir.join("data"), &media[1])?;
    fs::write(dir.join("formatted"), b"")
}

/// The length of a region with these bytes behind its superblock.
fn behind_superblock(bytes: &[u8]) -> u64 {
    (SUPERBLOCK_BYTES + bytes.len()) as u64
}

fn read(kind: MediaKind, dir: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let file = |name| fs::read(dir.join(name));
    let pmem = || file("pmem").map(|mut bytes| bytes.split_off(SUPERBLOCK_BYTES));
    Ok(match kind {
        MediaKind::Byte => vec![pmem()?],
        MediaKind::Block => vec![file("log")?, file("data")?],
        MediaKind::Tiered => vec![pmem()?, file("data")?],
    })
}
