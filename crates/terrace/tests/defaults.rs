//! What the library opens where nobody says.

use std::path::Path;

use terrace::{Options, defaults, open};

#[test]
fn without_sizes_a_directory_is_enough() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    std::fs::create_dir(&dir).unwrap();
    // As a start before this one chose it, and small, so that the test is.
    std::fs::write(dir.join(defaults::REMEMBERED), format!("{}\n", 256 << 20)).unwrap();
    let options = || Options { dir: Some(dir.clone()), ..Options::default() };
    let store = open(options()).unwrap();
    store.set(b"k", b"v").unwrap();
    let stats = store.stats();
    assert_eq!((stats.engine, stats.tiers.len()), (defaults::ENGINE, 2));
    assert_eq!(store.ssd_bytes(), Some(256 << 20));
    store.close().unwrap();
    // A full disk would leave no room to choose from, or to remember: the store that is there has its size.
    std::fs::remove_file(dir.join(defaults::REMEMBERED)).unwrap();
    let store = open(options()).unwrap();
    assert_eq!(store.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(store.ssd_bytes(), Some(256 << 20));
    store.close().unwrap();
    assert_eq!(defaults::ssd(&dir, 1).unwrap().bytes, 256 << 20);
    assert!(!dir.join(defaults::REMEMBERED).exists(), "nothing is written");
}

#[test]
fn sizes_are_of_the_machine() {
    let home = tempfile::tempdir().unwrap();
    let dram = defaults::dram_bytes().unwrap();
    assert!(dram > 0 && dram <= terrace::usable_memory_bytes() / 2);
    let chosen = defaults::ssd(home.path(), dram).unwrap();
    assert!(chosen.bytes > 0 && chosen.bytes <= dram * 16 && chosen.place.is_none());
    assert_eq!(defaults::ssd(home.path(), 1).unwrap(), chosen, "what was chosen stays");
    assert!(defaults::ssd(Path::new("/dev/null/x"), dram).is_err());
}
