//! A file of a store that is lost or damaged never makes a start put a new store over the data: the start heals what it can and
//! refuses the rest, with what to do, and the file put back the store is as it was.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use terrace::{Options, Place, Tier};

const KEYS: u32 = 3_000;
/// Where the copies of the manifest are on block media.
const MANIFESTS: [u64; 2] = [0, 4096 + (4 << 20)];

/// Where a store is: its directory, and its memory's.
struct Bed {
    _homes: Vec<tempfile::TempDir>,
    options: Options,
    /// Directories with files of it.
    dirs: Vec<PathBuf>,
    name: String,
}

/// A store of an engine with these tiers, the memory in a directory of its own or with the rest; `None` without tmpfs.
fn bed(engine: &str, (pmem, ssd): (bool, bool), apart: bool) -> Option<Bed> {
    let memory = tempfile::tempdir_in("/dev/shm").ok()?;
    let home =
        if apart || ssd { tempfile::tempdir().unwrap() } else { tempfile::tempdir_in("/dev/shm").ok()? };
    let place = if apart || ssd { memory.path() } else { home.path() };
    let options = Options {
        engine: engine.into(),
        dir: Some(home.path().into()),
        dram_records: Some(4 << 20),
        pmem: pmem.then(|| Tier { bytes: 28 << 20, place: Some(Place::Path(place.into())) }),
        ssd: ssd.then_some(Tier { bytes: 48 << 20, place: None }),
        profile: pmem.then(|| "dram".into()),
        ..Options::default()
    };
    let mut dirs = vec![home.path().to_path_buf()];
    if pmem && place != home.path() {
        dirs.push(place.to_path_buf());
    }
    let name = format!("{engine}, pmem {pmem}, ssd {ssd}, apart {apart}");
    Some(Bed { _homes: vec![memory, home], options, dirs, name })
}

fn beds() -> Vec<Bed> {
    let all = [
        ("tac", (false, true), false),
        ("tac", (true, true), true),
        ("tac", (true, false), true),
        ("hetermm", (true, false), false),
        ("hetermm", (true, false), true),
        ("hetermm", (false, true), false),
    ];
    all.into_iter().filter_map(|(engine, tiers, apart)| bed(engine, tiers, apart)).collect()
}

fn key(i: u32) -> Vec<u8> {
    format!("key:{i}").into_bytes()
}

fn value(i: u32) -> Vec<u8> {
    vec![i as u8; 1000]
}

impl Bed {
    fn fill(&self) {
        self.filled().close().unwrap();
    }
    fn filled(&self) -> terrace::OpenStore {
        let store = terrace::open(self.options.clone()).unwrap();
        for i in 0..KEYS {
            store.set(&key(i), &value(i)).unwrap();
        }
        store
    }
    fn holds_all(&self, what: &str) {
        let store = terrace::open(self.options.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
        for i in 0..KEYS {
            assert!(store.get(&key(i)).unwrap() == Some(value(i)), "{what}: key {i} is gone");
        }
        store.close().unwrap();
    }
    fn files(&self) -> Vec<PathBuf> {
        let entries = self.dirs.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

/// What happens to a file.
#[derive(Clone, Copy, Debug)]
enum Slip {
    Gone,
    Cut,
    Blank,
}

fn slip(file: &Path, how: Slip) {
    match how {
        Slip::Gone => fs::remove_file(file).unwrap(),
        Slip::Cut => fs::write(file, b"").unwrap(),
        Slip::Blank => {
            let len = file.metadata().unwrap().len().min(4096) as usize;
            fs::File::options().write(true).open(file).unwrap().write_all_at(&vec![0; len], 0).unwrap();
        }
    }
}

/// Without these a start heals: nothing in them is needed to read the data.
const HEALS: [&str; 4] = ["formatted", "clock", "pmem-place", "LOCK"];

#[test]
fn no_slip_with_one_file_makes_a_new_store() {
    for bed in beds() {
        bed.fill();
        let files = bed.files();
        assert!(files.len() >= 3, "{files:?}");
        for file in &files {
            for how in [Slip::Gone, Slip::Cut, Slip::Blank] {
                // Each opening writes.
                let saved = fs::read(file).unwrap();
                let what = format!("{}: {} {how:?}", bed.name, file.display());
                let name = file.file_name().unwrap().to_string_lossy().into_owned();
                slip(file, how);
                // The first page of the blocks is one of two copies of the manifest.
                let heals = HEALS.contains(&name.as_str()) || matches!((&*name, how), ("data", Slip::Blank));
                if heals {
                    bed.holds_all(&what);
                    assert!(file.exists(), "{what}: it is written again");
                } else {
                    let refused = terrace::open(bed.options.clone()).map(drop).unwrap_err().to_string();
                    let dir = file.parent().unwrap().display().to_string();
                    let named = refused.contains(&dir) || name == "log" && refused.contains("the log");
                    assert!(named && refused.contains("back"), "{what}: {refused}");
                    let there = file.metadata().map(|m| m.len()).unwrap_or(0);
                    assert!(!matches!(how, Slip::Gone) || there == 0, "{what}: something was made there");
                    fs::write(file, &saved).unwrap();
                }
                bed.holds_all(&what);
            }
        }
    }
}

#[test]
fn a_killed_store_without_its_marker_is_recovered() {
    for bed in beds() {
        bed.filled().kill();
        let marker = bed.dirs[0].join("formatted");
        // What was written last is in the log alone.
        let has_marker = fs::remove_file(&marker).is_ok();
        assert_eq!(has_marker, bed.options.ssd.is_some(), "{}", bed.name);
        bed.holds_all(&bed.name);
        assert_eq!(marker.exists(), has_marker, "{}", bed.name);
    }
}

#[test]
fn a_marker_that_is_gone_with_the_manifest_is_refused() {
    for bed in beds().into_iter().filter(|bed| bed.options.ssd.is_some()) {
        bed.fill();
        let at = |name: &str| bed.dirs[0].join(name);
        let data = fs::read(at("data")).unwrap();
        fs::remove_file(at("formatted")).unwrap();
        let file = fs::File::options().write(true).open(at("data")).unwrap();
        for at in MANIFESTS {
            file.write_all_at(&[0; 4096], at).unwrap();
        }
        for _ in 0..2 {
            let refused = terrace::open(bed.options.clone()).map(drop).unwrap_err().to_string();
            assert!(!at("formatted").exists(), "{refused}");
            assert!(refused.contains("manifest"), "{}: {refused}", bed.name);
        }
        fs::write(at("data"), data).unwrap();
        bed.holds_all(&bed.name);
    }
}

#[test]
fn a_store_that_died_while_it_was_made_is_made_again() {
    for bed in beds().into_iter().filter(|bed| bed.options.ssd.is_some()) {
        terrace::open(bed.options.clone()).unwrap().close().unwrap();
        let at = |name: &str| bed.dirs[0].join(name);
        // As before the first manifest: blocks that read as zeros, and a log with its superblock alone.
        fs::remove_file(at("formatted")).unwrap();
        let len = at("data").metadata().unwrap().len();
        fs::File::create(at("data")).unwrap().set_len(len).unwrap();
        if bed.options.pmem.is_some() {
            let memory = fs::File::options().write(true).open(bed.dirs[1].join("pmem")).unwrap();
            memory.write_all_at(b"TERRMAKE", 0).unwrap();
        } else {
            let len = at("log").metadata().unwrap().len();
            fs::File::create(at("log")).unwrap().set_len(len).unwrap();
        }
        let store =
            terrace::open(bed.options.clone()).unwrap_or_else(|error| panic!("{}: {error}", bed.name));
        store.set(b"key", b"value").unwrap();
        store.close().unwrap();
        assert!(at("formatted").exists());
    }
}

#[test]
fn notes_without_tiers_are_refused() {
    for bed in beds() {
        bed.fill();
        // As where a disk is not mounted: the directory's own notes alone are there.
        let away = tempfile::tempdir().unwrap();
        let keep = ["clock", "LOCK"];
        for file in bed.files() {
            if !keep.contains(&file.file_name().unwrap().to_str().unwrap()) {
                fs::copy(&file, away.path().join(file.file_name().unwrap())).unwrap();
                fs::remove_file(&file).unwrap();
            }
        }
        let refused = terrace::open(bed.options.clone()).map(drop).unwrap_err().to_string();
        assert!(refused.contains("clock") && refused.contains("not mounted"), "{}: {refused}", bed.name);
        let left = bed.files();
        assert!(
            left.iter().all(|file| keep.contains(&file.file_name().unwrap().to_str().unwrap())),
            "{left:?}"
        );
    }
}

#[test]
fn memory_that_went_with_the_machine_is_made_anew() {
    let Some(bed) = bed("hetermm", (true, false), true) else { return };
    bed.fill();
    fs::remove_file(bed.dirs[1].join("pmem")).unwrap();
    assert!(terrace::open(bed.options.clone()).is_err(), "the machine did not stop");
    let clock = bed.dirs[0].join("clock");
    let text = fs::read_to_string(&clock).unwrap();
    let mut words: Vec<_> = text.split(' ').collect();
    words[3] = "00000000000000ab";
    fs::write(&clock, words.join(" ")).unwrap();
    // As after a restart of the machine, which takes all that is on tmpfs.
    let store = terrace::open(bed.options.clone()).unwrap();
    assert_eq!(store.len(0), 0);
    store.close().unwrap();
}

#[test]
fn a_name_of_another_part_is_no_memory() {
    let Some(bed) = bed("tac", (false, true), false) else { return };
    bed.fill();
    let dir = &bed.dirs[0];
    for name in ["log", "data", "superblock", "formatted", "clock"] {
        for engine in ["tac", "hetermm"] {
            let options = Options {
                engine: engine.into(),
                dir: None,
                ssd: None,
                pmem: Some(Tier { bytes: 28 << 20, place: Some(Place::Path(dir.join(name))) }),
                profile: Some("dram".into()),
                ..bed.options.clone()
            };
            let refused = terrace::open(options).map(drop).unwrap_err().to_string();
            assert!(refused.contains("of the store in") && refused.contains(name), "{name}: {refused}");
        }
    }
    // As a directory for blocks.
    let place = Some(Place::Path(dir.join("log")));
    let options = Options { ssd: Some(Tier { bytes: 48 << 20, place }), ..bed.options.clone() };
    let refused = terrace::open(options).map(drop).unwrap_err().to_string();
    assert!(refused.contains("the log of the store in"), "{refused}");
    bed.holds_all("after");
    // A name that a part will have.
    let home = tempfile::tempdir().unwrap();
    let options = Options {
        dir: Some(home.path().into()),
        pmem: Some(Tier { bytes: 28 << 20, place: Some(Place::Path(home.path().join("log"))) }),
        profile: Some("dram".into()),
        ..bed.options.clone()
    };
    let refused = terrace::open(options).map(drop).unwrap_err().to_string();
    assert!(refused.contains("a part of the store on --ssd"), "{refused}");
    // What is nobody's.
    let other = home.path().join("picture");
    fs::write(&other, vec![7; 10_000]).unwrap();
    let options = Options {
        dir: None,
        ssd: None,
        pmem: Some(Tier { bytes: 28 << 20, place: Some(Place::Path(other.clone())) }),
        profile: Some("dram".into()),
        ..bed.options.clone()
    };
    let refused = terrace::open(options).map(drop).unwrap_err().to_string();
    assert!(refused.contains("something else") && refused.contains("07"), "{refused}");
    assert_eq!(fs::read(&other).unwrap(), vec![7; 10_000]);
}

#[test]
fn memory_that_lost_its_first_page_is_refused_before_anything_is_written() {
    let Some(bed) = bed("hetermm", (true, false), true) else { return };
    bed.fill();
    // No directory that would tell of the store.
    let options = Options { dir: None, ..bed.options.clone() };
    let file = bed.dirs[1].join("pmem");
    let page = fs::read(&file).unwrap()[..4096].to_vec();
    slip(&file, Slip::Blank);
    let before = fs::read(&file).unwrap();
    let refused = terrace::open(options.clone()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("is blank, and data begin at byte "), "{refused}");
    assert!(refused.contains("back from a copy") && refused.contains("terrace check"), "{refused}");
    assert!(fs::read(&file).unwrap() == before, "something was written");
    fs::File::options().write(true).open(&file).unwrap().write_all_at(&page, 0).unwrap();
    bed.holds_all("put back");
}
