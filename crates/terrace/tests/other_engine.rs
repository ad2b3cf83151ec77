//! A store opens with the engine that made it and no other.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use terrace::engine::StoreError;
use terrace::{Options, Place, Tier};
use terrace_media::{SUPERBLOCK_BYTES, Superblock};

fn options(dir: &Path, byte: bool) -> Options {
    let tier = Tier { bytes: 32 << 20, place: Some(Place::Path(dir.into())) };
    let (pmem, ssd, profile) =
        if byte { (Some(tier), None, Some("dram".into())) } else { (None, Some(tier), None) };
    let (engine, dir) = ("hetermm".into(), Some(dir.into()));
    Options { engine, dir, dram_records: Some(2 << 20), pmem, ssd, profile, ..Options::default() }
}

/// Changes the name in a superblock, which is sound otherwise.
fn made_by(path: &Path, engine: &str) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = [0; SUPERBLOCK_BYTES];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let superblock = Superblock { engine: engine.into(), ..Superblock::decode(&bytes).unwrap() };
    file.write_all_at(&superblock.encode().unwrap(), 0).unwrap();
}

fn refused_and_unharmed(dir: &Path, byte: bool) {
    let store = terrace::open(options(dir, byte)).unwrap();
    store.set(b"key", b"value").unwrap();
    store.close().unwrap();
    let superblock = dir.join(if byte { "pmem" } else { "superblock" });

    made_by(&superblock, "tac");
    let Err(StoreError::Options(text)) = terrace::open(options(dir, byte)) else {
        panic!("another engine's store was opened, or taken for damaged");
    };
    assert!(text.contains("made by engine \"tac\"") && text.contains("\"hetermm\""), "{text}");

    made_by(&superblock, "hetermm");
    let store = terrace::open(options(dir, byte)).unwrap();
    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    store.close().unwrap();
}

#[test]
fn on_block_media() {
    refused_and_unharmed(tempfile::tempdir().unwrap().path(), false);
}

#[test]
fn on_byte_addressable_media() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    refused_and_unharmed(dir.path(), true);
}
