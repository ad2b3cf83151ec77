//! The offline check of a mangled store's files: it agrees with opening about what can be opened, and its repair makes
//! that so.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use tempfile::TempDir;
use terrace::check::{CheckError, CheckOptions, Report, check};
use terrace_media::{SUPERBLOCK_BYTES, Superblock};
use terrace_testkit::sweep::MediaKind;

use super::layout::Layout;
use super::mangle::mangle;
use super::session::{Open, media};
use crate::fuzz::Target;

/// On byte-addressable media.
pub(in crate::fuzz) static CHECK_BYTE: Target = Target {
    name: "check-byte",
    about: "the offline check and its repair of a mangled store on byte-addressable media",
    bytes_max: 200,
    words: &[],
    run: |input| run(MediaKind::Byte, input),
};

/// On block media.
pub(in crate::fuzz) static CHECK_BLOCK: Target = Target {
    name: "check-block",
    about: "the offline check and its repair of a mangled store on block media",
    bytes_max: 200,
    words: &[],
    run: |input| run(MediaKind::Block, input),
};

thread_local! {
    /// Made once a thread; the files in it are written anew for each input.
    static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

fn run(kind: MediaKind, input: &[u8]) -> Result<(), String> {
    FOLDER.with_borrow_mut(|folder| {
        let folder = match folder {
            Some(folder) => folder,
            None => {
                folder.insert(TempDir::new().map_err(|error| format!("no temporary directory: {error}"))?)
            }
        };
        on_files(kind, folder.path(), input)
    })
}

fn on_files(kind: MediaKind, dir: &Path, input: &[u8]) -> Result<(), String> {
    let mangled = mangle(kind, input);
    write(&mangled.layout, dir, &mangled.media)
        .map_err(|error| format!("the files can't be written: {error}"))?;
    let opened = open(kind, &mangled.media);
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
    match open(kind, &files) {
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

fn open(kind: MediaKind, bytes: &[Vec<u8>]) -> Result<(), String> {
    Open::new(&media(kind, bytes), false).map(Open::kill).map_err(|error| error.to_string())
}

fn write(layout: &Layout, dir: &Path, media: &[Vec<u8>]) -> std::io::Result<()> {
    let data_bytes = media[media.len() - 1].len();
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&layout.sizes.store_id.to_le_bytes());
    let superblock = Superblock {
        engine: "hetermm".into(),
        options: format!(
            "block_bytes = {}\nlog_block_bytes = {}\nlog_bytes = {}\n",
            layout.sizes.block_bytes, layout.sizes.log_block_bytes, layout.sizes.log_bytes
        )
        .into_bytes(),
        identity,
        hash_seed: 7,
        media_bytes: data_bytes as u64
            + if layout.kind == MediaKind::Byte { SUPERBLOCK_BYTES as u64 } else { 0 },
        created_ms: 1,
    };
    let superblock = superblock.encode().map_err(std::io::Error::other)?;
    match layout.kind {
        MediaKind::Byte => fs::write(dir.join("pmem"), [&superblock[..], &media[0]].concat()),
        MediaKind::Block => {
            fs::write(dir.join("superblock"), superblock)?;
            fs::write(dir.join("log"), &media[0])?;
            fs::write(dir.join("data"), &media[1])?;
            fs::write(dir.join("formatted"), b"")
        }
    }
}

fn read(kind: MediaKind, dir: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    Ok(match kind {
        MediaKind::Byte => vec![fs::read(dir.join("pmem"))?.split_off(SUPERBLOCK_BYTES)],
        MediaKind::Block => vec![fs::read(dir.join("log"))?, fs::read(dir.join("data"))?],
    })
}
