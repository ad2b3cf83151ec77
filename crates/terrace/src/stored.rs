//! What lies at a place, for whoever opens a store there: its engine, or that something of a store is left.

use std::io::Read;
use std::path::Path;

use terrace_media::{SUPERBLOCK_BYTES, Superblock};

/// The engine of the store at a path, if there is one and its superblock can be read: a store's directory, or its region.
///
/// It opens nothing for itself and takes no lock: what [`open`](crate::open) finds may differ if the store is made or removed
/// meanwhile, and then it says so.
pub fn stored_engine(place: &Path) -> Option<String> {
    let files = if place.is_dir() {
        vec![place.join("superblock"), place.join("pmem")]
    } else {
        vec![place.to_owned()]
    };
    files.iter().find_map(|file| {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut bytes)).ok()?;
        Superblock::decode(&bytes).ok().map(|superblock| superblock.engine)
    })
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
