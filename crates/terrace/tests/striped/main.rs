//! Memory that is striped over several devices: what belongs together is found together in whatever order, and nothing else is opened,
//! made or written over.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod crash;
mod nodes;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use terrace::check::CheckOptions;
use terrace::engine::StoreError;
use terrace::{OpenStore, Options, Place, Tier};

const ENGINES: [&str; 6] = ["hetermm", "tac", "heap-hybrid", "heap-persistent", "scmkv", "bonsai"];
const EACH: u64 = 24 << 20;
/// Entries of a store, so many that all devices have some.
const KEYS: u32 = 2000;

struct Home(tempfile::TempDir);

impl Home {
    /// `None` where the machine has no memory to share.
    fn new() -> Option<Self> {
        tempfile::tempdir_in("/dev/shm").ok().map(Self)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name).join("pmem")
    }
    fn options(&self, engine: &str, names: &[&str]) -> Options {
        let paths = names.iter().map(|name| self.0.path().join(name)).collect();
        Options {
            engine: engine.into(),
            dram: Some(16 << 20),
            dir: Some(self.0.path().join("dir")),
            pmem: Some(Tier { bytes: EACH * names.len() as u64, place: Some(Place::Striped(paths)) }),
            profile: Some("dram".into()),
            ..Options::default()
        }
    }
    fn open(&self, engine: &str, names: &[&str]) -> Result<OpenStore, StoreError> {
        terrace::open(self.options(engine, names))
    }
    /// A store at these places, closed, in a directory that knows nothing of it.
    fn make(&self, engine: &str, names: &[&str]) {
        let store = self.open(engine, names).unwrap();
        fill(&store);
        store.close().unwrap();
        self.forget();
    }
    /// Notes that a store left in its directory are another test's.
    fn forget(&self) {
        // Who was refused left none.
        let _ = std::fs::remove_dir_all(self.0.path().join("dir"));
    }
    /// Why a store at these places isn't opened; nothing is changed by that.
    fn refused(&self, engine: &str, names: &[&str]) -> String {
        let before = self.contents();
        let error = self.open(engine, names).err().unwrap().to_string();
        assert!(self.contents() == before, "files changed: {error}");
        error
    }
    /// Files of memory and what is in them.
    fn contents(&self) -> Vec<(PathBuf, u32)> {
        let mut all: Vec<_> = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().path().join("pmem"))
            .filter_map(|file| std::fs::read(&file).ok().map(|bytes| (file, crc32c::crc32c(&bytes))))
            .collect();
        all.sort();
        all
    }
    fn check(&self, names: &[&str]) -> Result<String, String> {
        let paths: Vec<_> = names.iter().map(|name| self.0.path().join(name)).collect();
        let check = |repair| {
            let options = CheckOptions { repair, ..CheckOptions::default() };
            terrace::check_all(&paths, &options).map_err(|error| error.to_string())
        };
        let report = check(false)?;
        assert!(report.is_clean(), "{report}");
        let repaired = check(true)?;
        assert!(repaired.is_clean() && repaired.repairs.is_empty(), "{repaired}");
        Ok(report.to_string())
    }
}

fn key(i: u32) -> Vec<u8> {
    format!("key:{i}").into_bytes()
}

fn value(i: u32) -> Vec<u8> {
    format!("[{i}]").into_bytes().repeat(1 + i as usize % 100)
}

fn fill(store: &OpenStore) {
    (0..KEYS).for_each(|i| store.set(&key(i), &value(i)).unwrap());
    store.set(b"large", &value(7).repeat(300)).unwrap();
}

fn verify(store: &OpenStore) {
    for i in 0..KEYS {
        assert_eq!(store.get(&key(i)).unwrap(), Some(value(i)), "{i}");
    }
    assert_eq!(store.get(b"large").unwrap(), Some(value(7).repeat(300)));
}

fn overwrite(file: &Path, at: u64, bytes: &[u8]) {
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn every_engine_finds_what_it_wrote() {
    for engine in ENGINES {
        let Some(home) = Home::new() else { return };
        let store = home.open(engine, &["a", "b", "c"]).unwrap();
        let told = store.description.join("\n");
        assert!(told.contains("3 devices in strips of 256 bytes, each emulated dram"), "{told}");
        fill(&store);
        verify(&store);
        store.kill();
        let store = home.open(engine, &["a", "b", "c"]).unwrap();
        verify(&store);
        store.set(b"later", b"on").unwrap();
        store.close().unwrap();
        let report = home.check(&["a", "b", "c"]).unwrap();
        assert!(report.contains(&format!("engine {engine}")), "{report}");
        let store = home.open(engine, &["a", "b", "c"]).unwrap();
        verify(&store);
        assert_eq!(store.get(b"later").unwrap().as_deref(), Some(&b"on"[..]));
        store.close().unwrap();
        // All devices have their share of what is there.
        for name in ["a", "b", "c"] {
            let bytes = std::fs::read(home.file(name)).unwrap();
            assert_eq!(bytes.len() as u64, EACH);
            let used = bytes.chunks(256).filter(|strip| strip.iter().any(|byte| *byte != 0)).count();
            assert!(used > 1000, "{engine}: {used} strips on {name}");
        }
    }
}

#[test]
fn another_order_is_put_right() {
    let Some(home) = Home::new() else { return };
    home.make("bonsai", &["a", "b", "c"]);
    for order in [["a", "c", "b"], ["c", "a", "b"], ["c", "b", "a"]] {
        let store = home.open("bonsai", &order).unwrap();
        let told = store.description.join("\n");
        let right = format!(
            "given in another order: they are {}, {}, {}",
            home.file("a").display(),
            home.file("b").display(),
            home.file("c").display()
        );
        assert!(told.contains(&right), "{told}");
        verify(&store);
        store.close().unwrap();
        let report = home.check(&order).unwrap();
        assert!(report.contains(&home.file("a").display().to_string()), "{report}");
    }
    // What was moved is where it is given.
    std::fs::rename(home.0.path().join("b"), home.0.path().join("moved")).unwrap();
    let store = home.open("bonsai", &["a", "moved", "c"]).unwrap();
    assert!(!store.description.join("\n").contains("another order"));
    verify(&store);
}

#[test]
fn devices_that_are_not_one_store_are_refused() {
    let Some(home) = Home::new() else { return };
    home.make("bonsai", &["a", "b", "c"]);
    home.make("bonsai", &["x", "y", "z"]);
    let missing = home.refused("bonsai", &["a", "b"]);
    assert!(missing.contains("striped over 3 devices, and these are not they (2 given)"), "{missing}");
    assert!(missing.contains("Missing of the store") && missing.contains(": device 3."), "{missing}");
    let nowhere = home.refused("bonsai", &["a", "b", "nowhere"]);
    assert!(nowhere.contains("nothing is at ") && nowhere.contains("nowhere"), "{nowhere}");
    assert!(!home.0.path().join("nowhere").exists(), "nothing was made");
    let foreign = home.refused("bonsai", &["a", "y", "c"]);
    assert!(
        foreign.contains("device 2 of 3 of the bonsai store") && foreign.contains(": device 2."),
        "{foreign}"
    );
    let extra = home.refused("bonsai", &["a", "b", "c", "y"]);
    assert!(extra.contains("(4 given)") && extra.contains("Leave out what is not of this store"), "{extra}");
    let twice = home.refused("bonsai", &["a", "b", "a"]);
    assert!(twice.contains("twice"), "{twice}");
    std::fs::create_dir(home.0.path().join("copy")).unwrap();
    std::fs::copy(home.file("a"), home.file("copy")).unwrap();
    let copied = home.refused("bonsai", &["a", "b", "copy"]);
    assert!(copied.contains("device 1 of 3") && copied.contains("once more"), "{copied}");
    // By itself a device is no store, for the server and for the check.
    let mut alone = home.options("bonsai", &["a"]);
    alone.pmem = Some(Tier { bytes: EACH, place: Some(Place::Path(home.file("a"))) });
    let told = terrace::open(alone).err().unwrap().to_string();
    assert!(told.contains("is device 1 of the 3 that memory is striped over: give all of them"), "{told}");
    for places in [&["a"][..], &["a", "b"], &["a", "b", "z"]] {
        let told = home.check(places).unwrap_err();
        assert!(told.contains("device"), "{told}");
    }
    let other_engine = home.refused("scmkv", &["a", "b", "c"]);
    assert!(other_engine.contains("made by engine \"bonsai\""), "{other_engine}");
    // A disk that is blank where one of the store's is expected.
    home.forget();
    std::fs::create_dir(home.0.path().join("blank")).unwrap();
    std::fs::File::create(home.file("blank")).unwrap().set_len(EACH).unwrap();
    let blank = home.refused("bonsai", &["a", "blank", "c"]);
    assert!(blank.contains("blank/pmem is blank.") && blank.contains(": device 2."), "{blank}");
    // A store of one device, and one that is none.
    let mut single = home.options("bonsai", &["a"]);
    single.pmem = Some(Tier { bytes: EACH, place: Some(Place::Path(home.0.path().join("single"))) });
    terrace::open(single).unwrap().close().unwrap();
    home.forget();
    let single = home.refused("bonsai", &["single", "new"]);
    assert!(single.contains("holds a bonsai store by itself"), "{single}");
    overwrite(&home.file("x"), 100, b"x");
    let damaged = home.refused("bonsai", &["x", "y", "z"]);
    assert!(damaged.contains("superblock damaged") && damaged.contains("x/pmem"), "{damaged}");
    overwrite(&home.file("y"), 4096, &[0; 4096]);
    verify(&home.open("bonsai", &["b", "a", "c"]).unwrap());
}

#[test]
fn a_store_that_was_not_finished_is_made_again_or_finished() {
    let Some(home) = Home::new() else { return };
    home.make("bonsai", &["a", "b"]);
    // The second device's magic was not there yet: the store is whole.
    overwrite(&home.file("b"), 0, b"TERRMAKE");
    let store = home.open("bonsai", &["b", "a"]).unwrap();
    verify(&store);
    store.close().unwrap();
    let magic = std::fs::read(home.file("b")).unwrap()[..8].to_vec();
    assert_eq!(magic, b"TERRACE1");
    // It is of another store, which was never finished, or of none.
    home.forget();
    home.make("bonsai", &["x", "y"]);
    overwrite(&home.file("y"), 0, b"TERRMAKE");
    let other = home.refused("bonsai", &["a", "y"]);
    assert!(other.contains(": device 2."), "{other}");
    overwrite(&home.file("b"), 8, &[0; 4088]);
    overwrite(&home.file("b"), 0, b"TERRMAKE");
    let never = home.refused("bonsai", &["a", "b"]);
    assert!(never.contains("of a store that was never finished"), "{never}");
    // None was finished: nobody was answered.
    overwrite(&home.file("a"), 0, b"TERRMAKE");
    let store = home.open("bonsai", &["a", "b"]).unwrap();
    assert_eq!(store.get(&key(1)).unwrap(), None);
    fill(&store);
    store.kill();
    verify(&home.open("bonsai", &["a", "b"]).unwrap());
}

#[test]
fn devices_of_a_new_store_have_one_size_and_hold_nothing() {
    let Some(home) = Home::new() else { return };
    for (name, bytes) in [("a", EACH), ("b", EACH + 4096)] {
        std::fs::create_dir(home.0.path().join(name)).unwrap();
        std::fs::File::create(home.file(name)).unwrap().set_len(bytes).unwrap();
    }
    let unequal = home.refused("bonsai", &["a", "b"]);
    assert!(unequal.contains("devices of one size") && unequal.contains("give all the same"), "{unequal}");
    overwrite(&home.file("a"), 1 << 20, b"something");
    let used = home.refused("bonsai", &["a", "b"]);
    assert!(used.contains("data begin at byte 1048576"), "{used}");
    // What else takes one place says so.
    let mut both = home.options("tac", &["c", "d"]);
    both.ssd = Some(Tier { bytes: 64 << 20, place: None });
    let told = terrace::open(both).err().unwrap().to_string();
    assert!(told.contains("with --ssd, --pmem has one place, and 2 are given"), "{told}");
    let mut ssd = home.options("tac", &["c", "d"]);
    ssd.ssd = ssd.pmem.take();
    let told = terrace::open(ssd).err().unwrap().to_string();
    assert!(told.contains("--ssd has one place"), "{told}");
}

#[test]
fn it_keeps_its_size() {
    let Some(home) = Home::new() else { return };
    let store = home.open("tac", &["a", "b"]).unwrap();
    let told = store.resize_pmem(4 * EACH).unwrap_err().to_string();
    assert!(told.contains("size"), "{told}");
    store.close().unwrap();
    let mut larger = home.options("tac", &["a", "b"]);
    larger.pmem.as_mut().unwrap().bytes *= 2;
    let store = terrace::open(larger).unwrap();
    let told = store.description.join("\n");
    assert!(told.contains("the store keeps its size, 48 MiB, where 96 MiB was asked for: striped"), "{told}");
}

#[test]
fn memory_stays_interleaved() {
    let Some(home) = Home::new() else { return };
    let names = ["a", "b", "c"];
    let options = Options { pmem_interleaved: true, ..home.options("bonsai", &names) };
    let store = terrace::open(options).unwrap();
    fill(&store);
    store.close().unwrap();
    home.forget();
    let store = home.open("bonsai", &["b", "c", "a"]).unwrap();
    assert!(
        store.stats().tiers.iter().any(|tier| tier.medium.contains("interleaved in pages of 4096 bytes"))
    );
    (0..KEYS).for_each(|i| assert!(store.get(&key(i)).unwrap().is_some(), "key {i}"));
    store.close().unwrap();
    home.check(&names).unwrap();
}
