//! Which engine made a store, for whoever opens it without naming one.

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
