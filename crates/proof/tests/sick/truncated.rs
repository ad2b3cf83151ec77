//! Files cut short: the store does not open, and says why. No file's end may go unmissed, used or not.

#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

use std::fs::File;
use std::path::Path;

use terrace::{OpenStore, Options, Place, Tier};
use terrace_proof::subjects::{SUBJECTS, WITH_BLOCKS};

fn options(engine: &str, dir: &Path, byte: bool) -> Options {
    let place = byte.then(|| Place::Path(dir.into()));
    let tier = Some(Tier { bytes: 24 << 20, place });
    let options = Options {
        engine: engine.into(),
        dir: Some(dir.into()),
        dram_records: Some(2 << 20),
        ..Options::default()
    };
    if byte {
        Options { pmem: tier, profile: Some("dram".into()), ..options }
    } else {
        Options { ssd: tier, ..options }
    }
}

fn check(store: &OpenStore) {
    for i in 0..100u32 {
        let found = store.get(format!("key{i}").as_bytes()).unwrap();
        assert_eq!(found, Some(vec![i as u8; 100 + 300 * i as usize]), "key{i}");
    }
}

fn shortened(engine: &str, dir: &Path, byte: bool, closed: bool, names: &[&str]) {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let store = terrace::open(options(engine, dir.path(), byte)).unwrap();
    for i in 0..100u32 {
        store.set(format!("key{i}").as_bytes(), &vec![i as u8; 100 + 300 * i as usize]).unwrap();
    }
    if closed {
        store.close().unwrap()
    } else {
        store.kill()
    }
    let content = |name: &&str| std::fs::read(dir.path().join(name)).unwrap();
    let files: Vec<Vec<u8>> = names.iter().map(content).collect();
    for (name, whole) in names.iter().zip(&files) {
        let (path, len) = (dir.path().join(name), whole.len());
        for cut in [0, 1, 4096, len / 2, len - 4096, len - 1].into_iter().filter(|cut| *cut < len) {
            File::options().write(true).open(&path).unwrap().set_len(cut as u64).unwrap();
            let cut_to = format!("{name} cut to {cut} of {len} bytes, closed {closed}, engine {engine}");
            match terrace::open(options(engine, dir.path(), byte)) {
                Ok(store) => {
                    // A log's last block may end before its file does.
                    assert!(*name == "log" && cut + 4096 >= len, "{cut_to}: the store opened");
                    check(&store);
                    store.kill();
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.len() > 40, "{cut_to}: {text:?}");
                    assert!(content(name) == whole[..cut], "{cut_to}: a refused opening writes nothing");
                }
            }
            names.iter().zip(&files).for_each(|(name, bytes)| {
                std::fs::write(dir.path().join(name), bytes).unwrap();
            });
        }
    }
    let store = terrace::open(options(engine, dir.path(), byte)).unwrap();
    check(&store);
    store.close().unwrap();
}

#[test]
fn a_file_of_block_media_cut_short_is_missed() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (engine, _) in WITH_BLOCKS {
        for closed in [true, false] {
            shortened(engine, dir, false, closed, &["superblock", "log", "data"]);
        }
    }
}

#[test]
fn a_file_of_byte_media_cut_short_is_missed() {
    let dir = Path::new("/dev/shm");
    if !dir.exists() {
        return;
    }
    for (engine, _) in SUBJECTS {
        for closed in [true, false] {
            shortened(engine, dir, true, closed, &["pmem"]);
        }
    }
}
