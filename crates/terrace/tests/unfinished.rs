//! A store that a power cut left unfinished is made again; found by the torture.

use std::os::unix::fs::FileExt;
use std::path::Path;

use terrace::{Options, Place, Tier};

fn options(dir: &Path) -> Options {
    let tier = Tier { bytes: 24 << 20, place: Some(Place::Path(dir.into())) };
    Options {
        dir: Some(dir.into()),
        dram_records: Some(2 << 20),
        pmem: Some(tier),
        profile: Some("dram".into()),
        engine: "hetermm".into(),
        ..Options::default()
    }
}

#[test]
fn half_a_superblock_on_byte_addressable_media_is_none() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    let store = terrace::open(options(dir.path())).unwrap();
    store.set(b"key", b"value").unwrap();
    store.close().unwrap();
    let path = dir.path().join("pmem");
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();

    // Everything behind the magic may be there in part before the magic is.
    file.write_all_at(b"TERRMAKE", 0).unwrap();
    file.write_all_at(&[0; 1000], 2000).unwrap();
    let store = terrace::open(options(dir.path())).unwrap();
    assert_eq!(store.get(b"key").unwrap(), None, "nothing had been acknowledged in it");
    store.set(b"key", b"again").unwrap();
    store.close().unwrap();
    let store = terrace::open(options(dir.path())).unwrap();
    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"again"[..]));
    store.close().unwrap();

    // With the magic, it was finished: what is wrong now is damage.
    file.write_all_at(&[0; 8], 2000).unwrap();
    file.write_all_at(b"x", 60).unwrap();
    assert!(terrace::open(options(dir.path())).is_err());
}
