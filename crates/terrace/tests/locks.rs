//! One process, one opener a store, whatever name it is reached by.

use std::path::Path;

use terrace::engine::{Durability, StoreError};
use terrace::{OpenStore, Options, Place, Tier};

/// Opens a byte-addressable store on a path in memory, with `dir` as the directory of its own.
fn open(path: &Path, dir: &Path) -> Result<OpenStore, StoreError> {
    terrace::open(Options {
        dir: Some(dir.to_path_buf()),
        dram: Some(16 << 20),
        pmem: Some(Tier { bytes: 32 << 20, place: Some(Place::Path(path.to_path_buf())) }),
        profile: Some("dram".into()),
        durability: Durability::None,
        background_threads: 0,
        engine: "hetermm".into(),
        ..Options::default()
    })
}

#[test]
fn a_file_is_open_once_whatever_directory_comes_with_it() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let home = tempfile::tempdir().unwrap();
    let file = memory.path().join("pmem");
    let (one, other) = (home.path().join("one"), home.path().join("other"));
    // Made through its directory, opened through its own name.
    drop(open(memory.path(), &one).unwrap());
    let first = open(&file, &one).unwrap();
    for path in [file.as_path(), memory.path()] {
        let error = open(path, &other).err().unwrap().to_string();
        assert!(error.contains("is in use by process"), "{error}");
    }
    drop(first);
    open(&file, &other).unwrap();
}

#[test]
fn a_file_in_the_place_of_the_directory_is_told() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let options = Options {
        dir: Some(file),
        dram: Some(16 << 20),
        ssd: Some(Tier { bytes: 64 << 20, place: None }),
        durability: Durability::None,
        background_threads: 0,
        engine: "hetermm".into(),
        ..Options::default()
    };
    let error = terrace::open(options).err().unwrap().to_string();
    assert!(error.ends_with("file is a file, and not a directory for a store"), "{error}");
}
