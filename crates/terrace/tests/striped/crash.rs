//! Power loss while a store is made on several devices, each simulated: whatever is left of it opens.

use std::io;
use std::path::Path;

use parking_lot::Mutex;
use terrace::engine::Durability;
use terrace::media_source::{FoundBlock, FoundRegion, MediaSource};
use terrace::{OpenStore, Options, Place, Tier};
use terrace_media::{BlockFileOptions, MapError, MapOptions, Survives};
use terrace_media_sim::{Explorer, Model, PointKind, Recorder, SimRegion};

/// Of two devices: the least that a store takes, and a superblock.
const EACH: u64 = (12 << 20) + 4096;
const NAMES: [&str; 2] = ["one", "two"];

/// At the end of a making: writes of the store's superblock, which is in strips, and of the devices', and their fences.
const SUPERBLOCK_EVENTS: usize = 40;

/// Simulated devices behind files that only have their names.
struct Devices(Mutex<Vec<SimRegion>>);

impl Devices {
    fn find(&self, path: &Path) -> FoundRegion {
        let which = NAMES.iter().position(|name| path.ends_with(Path::new(name).join("pmem"))).unwrap();
        FoundRegion::new(self.0.lock()[which].clone().into(), "simulated".into(), Survives::Power)
    }
}

impl MediaSource for Devices {
    fn create_region(&self, path: &Path, _: u64, _: &MapOptions) -> Result<FoundRegion, MapError> {
        std::fs::write(path, [0; 4096]).unwrap();
        Ok(self.find(path))
    }
    fn open_region(&self, path: &Path, _: &MapOptions) -> Result<FoundRegion, MapError> {
        Ok(self.find(path))
    }
    fn create_block(&self, _: &Path, _: u64, _: &BlockFileOptions) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn open_block(&self, _: &Path, _: &BlockFileOptions) -> io::Result<FoundBlock> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn open(home: &Path, devices: Vec<SimRegion>) -> Result<OpenStore, String> {
    let paths = NAMES.map(|name| home.join(name)).to_vec();
    let options = Options {
        engine: "bonsai".into(),
        dram: Some(16 << 20),
        pmem: Some(Tier { bytes: 2 * EACH, place: Some(Place::Striped(paths)) }),
        durability: Durability::Sync,
        background_threads: 0,
        recovery_threads: 1,
        ..Options::default()
    };
    terrace::open_on(options, &Devices(Mutex::new(devices))).map_err(|error| error.to_string())
}

#[test]
fn a_crash_while_it_is_made_leaves_a_whole_store_or_none() {
    let home = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let devices = NAMES.map(|_| recorder.region(vec![0; EACH as usize])).to_vec();
    open(home.path(), devices).unwrap().kill();
    let end = recorder.position();
    let trace = recorder.finish();
    let (mut new, mut whole) = (0, 0);
    // Superblocks are last: all of their events, and some of what the engine makes of its memory before.
    let at_end = end - SUPERBLOCK_EVENTS..end + 1;
    let within = |range| Explorer::new(1).within([range].into());
    let last = || within(at_end.clone()).store_sample(2);
    let before = within(0..at_end.start).store_sample(0).point_sample(60);
    for (explorer, model) in [(last(), Model::Prefix), (last(), Model::Strict), (before, Model::Strict)] {
        let explorer = explorer.model(model).images_per_point(6);
        let explored = explorer.explore(&trace, |point, image| {
            let devices = || vec![image.region(0), image.region(1)];
            let store = open(home.path(), devices())?;
            let is_new = store.description[0].contains("a new store");
            if store.len_all() > 0 {
                return Err("a key that nobody wrote".to_owned());
            }
            if point.kind == PointKind::End && is_new {
                return Err("the store was opened, and is gone".to_owned());
            }
            *(if is_new { &mut new } else { &mut whole }) += 1;
            store.set(b"key", b"value").map_err(|error| error.to_string())?;
            store.kill();
            // What was opened after a crash is as any other.
            let store = open(home.path(), devices())?;
            let found = store.get(b"key").map_err(|error| error.to_string())?;
            store.kill();
            if found.is_some() { Ok(()) } else { Err("a key was lost".to_owned()) }
        });
        let statistics = explored.unwrap_or_else(|failure| panic!("{failure}"));
        println!("{model:?}: {statistics}");
    }
    assert!(new > 10 && whole > 2, "{new} new stores, {whole} whole ones");
}
