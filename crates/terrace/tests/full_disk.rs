//! A store on a disk without a free byte opens: what is there is read and deleted, and writes are refused with the reason.
//!
//! The disk is a small tmpfs in a mount namespace of its own, in which this program runs again. Where the system gives none, nothing
//! is tested.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use terrace::check::CheckOptions;
use terrace::engine::Durability;
use terrace::{Options, Place, Tier};

/// Says that this process has mounts of its own.
const INSIDE: &str = "TERRACE_TEST_FULL_DISK";
const KEYS: u32 = 4_000;

#[test]
fn a_store_on_a_full_disk_opens() {
    if std::env::var_os(INSIDE).is_some() {
        return on_a_full_disk();
    }
    let able = Command::new("unshare").args(["-r", "-m", "true"]).status();
    if !able.is_ok_and(|status| status.success()) {
        return eprintln!("not tested: no mount namespaces here");
    }
    let again = Command::new("unshare")
        .args(["-r", "-m"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_store_on_a_full_disk_opens", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(again.success());
}

fn key(i: u32) -> Vec<u8> {
    format!("key:{i}").into_bytes()
}

/// Takes what room is left, to the last byte.
fn fill(disk: &Path) {
    let mut file = File::create(disk.join("filler")).unwrap();
    let mut step = 1 << 20;
    while step > 0 {
        match file.write(&vec![1; step]) {
            Ok(0) => step /= 2,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => step /= 2,
            Err(error) => panic!("{error}"),
        }
    }
}

fn on_a_full_disk() {
    for (engine, pmem) in [("tac", false), ("hetermm", false), ("tac", true)] {
        let home = tempfile::tempdir().unwrap();
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let disk = home.path();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=160m", "none"]).arg(disk).status();
        if !mounted.unwrap().success() {
            return eprintln!("not tested: nothing can be mounted here");
        }
        let dir = disk.join("store");
        let options = || Options {
            engine: engine.into(),
            dir: Some(dir.clone()),
            dram_records: Some(4 << 20),
            ssd: Some(Tier { bytes: 128 << 20, place: None }),
            pmem: pmem.then(|| Tier { bytes: 28 << 20, place: Some(Place::Path(memory.path().into())) }),
            profile: pmem.then(|| "dram".into()),
            // The disk loses everything with the machine.
            durability: Durability::None,
            ..Options::default()
        };
        let store = terrace::open(options()).unwrap();
        for i in 0..KEYS {
            store.set(&key(i), &vec![i as u8; 4_000]).unwrap();
        }
        store.close().unwrap();
        // What a start writes, if it can.
        for name in ["LOCK", "formatted", "clock", "pmem-place"] {
            let _ = fs::remove_file(dir.join(name));
        }
        fill(disk);

        let store = terrace::open(options()).unwrap_or_else(|error| panic!("{engine}: {error}"));
        for i in 0..KEYS {
            assert!(store.get(&key(i)).unwrap() == Some(vec![i as u8; 4_000]), "{engine}: {i}");
        }
        let mut written = KEYS;
        let refused = loop {
            match store.set(&key(written), &vec![written as u8; 4_000]) {
                Err(error) => break error.to_string(),
                Ok(()) => written += 1,
            }
            assert!(written < 60_000, "{engine}: it is never full");
        };
        assert!(!refused.is_empty() && store.stats().tier_failure.is_none(), "{engine}: {refused}");
        let why = store.stats().tiers.pop().unwrap().cramped.unwrap_or_default();
        assert!(why.to_lowercase().contains("space"), "{engine}: {why:?}, {refused}");
        assert!(store.delete(&key(1)).unwrap(), "{engine}");
        store.close().unwrap();

        let report = terrace::check(&dir, &CheckOptions::default());
        // Without room for the place of its memory a store on both is not found by its directory.
        match report {
            Ok(report) => {
                assert!(report.is_clean() && report.counts.keys == u64::from(written) - 1, "{report}");
            }
            Err(error) => assert!(pmem && error.to_string().contains("pmem-place"), "{error}"),
        }
        let store = terrace::open(options()).unwrap();
        assert_eq!(store.len(0), u64::from(written) - 1, "{engine}");
        assert!(fs::metadata(dir.join("superblock")).is_ok());
        store.close().unwrap();
        // There is room again: what could not be written is written.
        fs::remove_file(disk.join("filler")).unwrap();
        let store = terrace::open(options()).unwrap();
        assert!(dir.join("formatted").exists() && dir.join("clock").exists(), "{engine}");
        store.set(&key(written), b"value").unwrap();
        store.close().unwrap();
        assert!(Command::new("umount").arg(disk).status().unwrap().success());
    }
}
