//! A store is made only where nothing of one lies.

use std::path::Path;

use terrace::{Options, Tier};

fn options(dir: &Path, engine: &str) -> Options {
    Options {
        engine: engine.into(),
        dir: Some(dir.into()),
        dram_records: Some(4 << 20),
        ssd: Some(Tier { bytes: 32 << 20, place: None }),
        ..Options::default()
    }
}

#[test]
fn a_store_whose_superblock_is_gone_is_not_made_anew() {
    for engine in ["tac", "hetermm"] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let store = terrace::open(options(dir.path(), engine)).unwrap();
        store.set(b"key", b"value").unwrap();
        store.close().unwrap();
        std::fs::rename(at("superblock"), at("away")).unwrap();
        let refused = || terrace::open(options(dir.path(), engine)).map(drop).unwrap_err().to_string();
        assert!(refused().contains("no superblock"), "{}", refused());
        // Nor where its marker went, too.
        std::fs::rename(at("formatted"), at("marker")).unwrap();
        assert!(refused().contains("data)"), "{}", refused());
        std::fs::rename(at("marker"), at("formatted")).unwrap();
        std::fs::rename(at("away"), at("superblock")).unwrap();
        let store = terrace::open(options(dir.path(), engine)).unwrap();
        assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        store.close().unwrap();
    }
}

#[test]
fn what_a_store_left_that_died_while_it_was_made_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("log"), vec![0; 1 << 20]).unwrap();
    std::fs::write(dir.path().join("data"), vec![0; 1 << 20]).unwrap();
    terrace::open(options(dir.path(), "tac")).unwrap().close().unwrap();
}
