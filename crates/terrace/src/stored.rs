//! What lies at a place, for whoever opens a store there: its engine, or that something of a store is left.

use std::io::Read;
use std::path::{Path, PathBuf};

use terrace_engine::StoreError;
use terrace_engine::clock::Clock;
use terrace_media::superblock::MAKING;
use terrace_media::{LOCK_FILE, PlaceKind, SUPERBLOCK_BYTES, Superblock, SuperblockError};

/// The engine of the store at a path, if there is one and its superblock can be read: a store's directory, or its region.
///
/// It opens nothing for itself and takes no lock: what [`open`](crate::open) finds may differ if the store is made or removed
/// meanwhile, and then it says so.
pub fn stored_engine(place: &Path) -> Option<String> {
    superblock_at(place).map(|superblock| superblock.engine)
}

/// The identity of the store at a path, as [`stored_engine`] finds it: two places with the same one are parts or copies of one store.
pub fn stored_identity(place: &Path) -> Option<[u8; 16]> {
    superblock_at(place).map(|superblock| superblock.identity)
}

/// The superblock of the store at a path, as [`stored_engine`] finds it.
pub(crate) fn superblock_at(place: &Path) -> Option<Superblock> {
    let files = if place.is_dir() {
        vec![place.join("superblock"), place.join("pmem")]
    } else {
        vec![place.to_owned()]
    };
    files.iter().find_map(|file| {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut bytes)).ok()?;
        Superblock::decode(&bytes).ok()
    })
}

/// What the files in a store's directory are, for people; the memory is told by what it begins with.
const PARTS: [(&str, &str); 11] = [
    ("superblock", "the superblock"),
    ("formatted", "the marker"),
    ("log", "the log"),
    ("data", "the blocks, which --ssd names by their directory"),
    ("clock", "the clock"),
    ("tiers", "the list of tiers"),
    ("pmem-place", "the place of the memory"),
    ("ssd-bytes", "the size of the tier"),
    ("dump.rdb", "the snapshot for Redis"),
    (LOCK_FILE, "the lock"),
    ("data.new", "an unfinished part"),
];

/// Of a file that is to be a tier's memory, what it is instead; `None` if it may be memory: of a store, or blank.
///
/// # Errors
/// If it can't be read.
pub(crate) fn is_no_memory(file: &Path) -> std::io::Result<Option<String>> {
    let mut page = Vec::new();
    std::fs::File::open(file)?.take(SUPERBLOCK_BYTES as u64).read_to_end(&mut page)?;
    let dir = file.parent().unwrap_or(Path::new("."));
    let name = file.file_name().unwrap_or_default();
    let part = PARTS.iter().find(|(part, _)| name == *part).map(|(_, what)| *what);
    let of = || dir.display();
    // A part may read as zeros still, and the file superblock begins as memory does.
    if let Some(what) = part.filter(|_| dir.join("superblock").exists()) {
        return Ok(Some(format!("{what} of the store in {}", of())));
    }
    if page.starts_with(b"terrLog1") {
        return Ok(Some(format!("a store's log, in {}", of())));
    }
    if page.starts_with(b"TRCMANI1") {
        return Ok(Some(format!("a store's blocks, in {}", of())));
    }
    let blank = page.iter().all(|byte| *byte == 0) || page.starts_with(&MAKING);
    match Superblock::decode(&page) {
        Err(SuperblockError::NotTerrace { found }) if !blank => {
            Ok(Some(format!("something else that begins with {found:02x?}, not terrace's")))
        }
        // What is wrong with a superblock is told when the memory is opened.
        _ => Ok(None),
    }
}

/// Whether a name in a store's directory is a part's, there already or not.
pub(crate) fn is_part_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| PARTS.iter().any(|(part, _)| name == *part))
}

/// What says that a directory's store was used, though none of its tiers lies there: its own notes.
fn notes(dir: &Path) -> Vec<PathBuf> {
    ["clock", "tiers", "formatted", "pmem-place"]
        .map(|name| dir.join(name))
        .into_iter()
        .filter(|path| path.exists())
        .collect()
}

/// Whether a tier's place forgets everything with the machine, and the machine has started since its store was open: then there is
/// nothing to miss.
fn went_with_the_machine(dir: &Path, tier: &Path, clock: &dyn Clock) -> bool {
    let on_tmpfs = terrace_media::detect(tier).is_ok_and(|place| place.kind == PlaceKind::Tmpfs);
    let boot = crate::tiered::clock::boot_of(dir);
    on_tmpfs && boot.is_some_and(|boot| boot != clock.boot())
}

/// A store is made only where nothing of one lies: a directory that has a store's notes has its tiers elsewhere, and they were not
/// found.
///
/// # Errors
/// [`StoreError::Corrupt`] with what lies there and what to do.
pub(crate) fn refuse_notes(dir: Option<&Path>, tier: &Path, clock: &dyn Clock) -> Result<(), StoreError> {
    let found = dir.map(notes).unwrap_or_default();
    let Some(first) = found.first() else { return Ok(()) };
    if dir.is_some_and(|dir| went_with_the_machine(dir, tier, clock)) {
        tracing::warn!(
            "{}: what was there went when the machine stopped, for it is on tmpfs",
            tier.display()
        );
        return Ok(());
    }
    let names: Vec<_> = found.iter().map(|path| path.display().to_string()).collect();
    Err(StoreError::Corrupt(format!(
        "no store is at {}, though {} {} left by one that was: is its disk not mounted, or its tier elsewhere (--ssd SIZE@PATH, \
         --pmem SIZE@PATH)? Put it back; or, to make a new store, give another --dir, or move {} away",
        tier.display(),
        names.join(", "),
        if found.len() == 1 { "was" } else { "were" },
        if found.len() == 1 { first.display().to_string() } else { "them".into() }
    )))
}

/// Bytes at the beginning of a file that its first use changes: headers and manifests lie there.
const FRONT_BYTES: u64 = 1 << 20;

/// Whether a file in a store's directory was used by a store. A store that died while it was made leaves zeros, and may be made
/// again.
///
/// # Errors
/// If it is there and can't be read.
pub(crate) fn holds_data(file: &Path) -> std::io::Result<bool> {
    let mut front = Vec::new();
    match std::fs::File::open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        opened => opened?.take(FRONT_BYTES).read_to_end(&mut front)?,
    };
    Ok(front.iter().any(|byte| *byte != 0))
}

/// What a directory holds of a store, by the names of its files; nothing if there is nothing of one, or what was never used.
///
/// # Errors
/// If a file is there and can't be read.
pub fn store_files(dir: &Path) -> std::io::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for name in ["superblock", "formatted"] {
        if dir.join(name).exists() {
            found.push(name);
        }
    }
    for name in ["log", "data", "pmem"] {
        if holds_data(&dir.join(name))? {
            found.push(name);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_told_from_what_was_only_made() {
        let dir = tempfile::tempdir().unwrap();
        assert!(store_files(dir.path()).unwrap().is_empty());
        std::fs::write(dir.path().join("data"), [0; 10_000]).unwrap();
        assert!(store_files(dir.path()).unwrap().is_empty(), "unfinished");
        std::fs::write(dir.path().join("log"), b"\0\0\x07").unwrap();
        std::fs::write(dir.path().join("formatted"), b"").unwrap();
        assert_eq!(store_files(dir.path()).unwrap(), ["formatted", "log"]);
    }
}
