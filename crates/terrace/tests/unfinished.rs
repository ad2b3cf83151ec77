//! A store that a power cut left unfinished is made again (found by the torture), and one that was refused leaves nothing.

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
fn a_size_that_is_refused_leaves_no_file_of_that_size() {
    for (engine, ssd) in [
        ("hetermm", false),
        ("tac", false),
        ("heap-hybrid", false),
        ("heap-persistent", false),
        ("scmkv", false),
        ("bonsai", false),
        ("tac", true),
    ] {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
        let files = tempfile::tempdir().unwrap();
        let of = |bytes: u64| Options {
            engine: engine.into(),
            dir: ssd.then(|| files.path().join("store")),
            pmem: Some(Tier { bytes, place: Some(Place::Path(dir.path().into())) }),
            ssd: ssd.then_some(Tier { bytes: 64 << 20, place: None }),
            ..options(dir.path())
        };
        let refused = terrace::open(of(64 << 10)).err().unwrap().to_string();
        assert!(!dir.path().join("pmem").exists(), "{engine}: {refused}");
        assert!(!files.path().join("store/superblock").exists(), "{engine}: {refused}");
        let store = terrace::open(of(32 << 20)).unwrap_or_else(|error| panic!("{engine}: {error}"));
        store.set(b"key", b"value").unwrap();
        store.close().unwrap();
        // Of a store that is there nothing goes.
        assert!(
            terrace::open(Options { dram_records: Some(1), ..of(32 << 20) }).is_err()
                || engine.starts_with("heap")
                || ["scmkv", "bonsai"].contains(&engine)
        );
        let store = terrace::open(of(32 << 20)).unwrap();
        assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]), "{engine}");
        store.close().unwrap();
    }
}

#[test]
fn a_refused_store_on_an_ssd_leaves_no_files() {
    for engine in ["hetermm", "tac"] {
        let dir = tempfile::tempdir().unwrap();
        let of = |dram: u64| Options {
            ssd: Some(Tier { bytes: 64 << 20, place: None }),
            pmem: None,
            profile: None,
            engine: engine.into(),
            dram_records: Some(dram),
            ..options(dir.path())
        };
        // The space takes no so little DRAM, and says so when all else is there.
        assert!(terrace::open(of(1)).is_err());
        for name in ["superblock", "data", "log"] {
            assert!(!dir.path().join(name).exists(), "{engine}: {name}");
        }
        let store = terrace::open(of(4 << 20)).unwrap();
        store.set(b"key", b"value").unwrap();
        store.close().unwrap();
        assert!(terrace::open(of(1)).is_err());
        let store = terrace::open(of(4 << 20)).unwrap();
        assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]), "{engine}");
        store.close().unwrap();
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
