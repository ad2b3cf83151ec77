//! `terrace check` as a command: what it prints last, and how it exits.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Exit status, standard output, standard error.
fn check(path: &Path, repair: bool) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    let output = command.arg("check").arg(path).args(repair.then_some("--repair")).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn exit_statuses_tell_clean_from_damaged_from_not_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = terrace::Options {
        dir: Some(path.clone()),
        dram_records: Some(4 << 20),
        ssd: Some(terrace::Tier { bytes: 32 << 20, place: None }),
        engine: "hetermm".into(),
        ..terrace::Options::default()
    };
    let store = terrace::open(options).unwrap();
    store.set(b"key", b"value").unwrap();
    let (status, _, error) = check(&path, false);
    assert!(status == Some(2) && error.contains("in use by process"), "{status:?}: {error}");
    store.close().unwrap();

    let (status, text, error) = check(&path, false);
    assert!(status == Some(0) && text.ends_with("\nclean\n"), "{status:?}: {text}{error}");
    assert!(
        error.contains("checking ") && error.contains("MiB"),
        "without a terminal the log tells: {error}"
    );

    // The header of the first block, which a new store's first page went to.
    let data = std::fs::File::options().read(true).write(true).open(path.join("data")).unwrap();
    data.write_all_at(&[0xff], 4096 + 18).unwrap();
    let (status, text, _) = check(&path, false);
    assert!(status == Some(1) && text.ends_with("\n1 problem\n"), "{status:?}: {text}");
    let (status, text, _) = check(&path, true);
    assert!(status == Some(0) && text.contains("repaired: block 0") && text.ends_with("clean\n"), "{text}");

    let (status, text, error) = check(dir.path(), false);
    assert!(status == Some(2) && text.is_empty() && error.contains("no store is here"), "{error}");
    assert!(!error.contains("nothing was repaired"));
    let (status, _, error) = check(dir.path(), true);
    assert!(status == Some(2) && error.contains("nothing was repaired. --repair makes"), "{error}");

    // A directory that only remembers where its store is.
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("tiers"), format!("ssd = \"32MiB@{}\"\n", path.display())).unwrap();
    let (status, text, error) = check(home.path(), false);
    assert!(status == Some(0) && text.ends_with("\nclean\n"), "{status:?}: {text}{error}");
    assert!(error.contains("has its store at"), "{error}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn a_store_on_several_devices_is_checked_by_all_of_them() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let paths = ["one", "two"].map(|name| memory.path().join(name));
    let options = terrace::Options {
        dir: Some(memory.path().join("dir")),
        dram_records: Some(4 << 20),
        pmem: Some(terrace::Tier { bytes: 48 << 20, place: Some(terrace::Place::Striped(paths.to_vec())) }),
        profile: Some("dram".into()),
        engine: "bonsai".into(),
        ..terrace::Options::default()
    };
    let store = terrace::open(options).unwrap();
    store.set(b"key", b"value").unwrap();
    store.close().unwrap();
    let check = |places: &[&Path]| {
        let output = Command::new(env!("CARGO_BIN_EXE_terrace")).arg("check").args(places).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, text, error) = check(&[&paths[1], &paths[0]]);
    assert!(status == Some(0) && text.ends_with("\nclean\n"), "{status:?}: {text}{error}");
    let (status, _, error) = check(&[&paths[1]]);
    assert!(status == Some(2) && error.contains("is device 2 of the 2"), "{status:?}: {error}");
    // A directory that only remembers where its store is.
    let home = tempfile::tempdir().unwrap();
    let places = format!("24MiB@{},24MiB@{}", paths[0].display(), paths[1].display());
    std::fs::write(home.path().join("tiers"), format!("pmem = \"{places}\"\n")).unwrap();
    let (status, text, error) = check(&[home.path()]);
    assert!(status == Some(0) && text.ends_with("\nclean\n"), "{status:?}: {text}{error}");
}
