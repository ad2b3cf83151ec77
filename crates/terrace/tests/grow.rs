//! A store begins small and takes room on its disk as it fills; a disk that is full refuses writes and loses nothing.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use terrace::engine::{Durability, TierStats};
use terrace::media_source::{FoundBlock, FoundRegion, MediaSource};
use terrace::{OpenStore, Options, SystemMedia, Tier, WhenFull};
use terrace_media::{
    AlignedBuf, BlockDevice, BlockFile, BlockFileOptions, Counters, FileQueue, MapError, MapOptions,
};

const MIB: u64 = 1 << 20;
const ENGINES: [&str; 2] = ["tac", "hetermm"];

fn options(dir: &Path, engine: &str, megabytes: u64) -> Options {
    Options {
        engine: engine.into(),
        dir: Some(dir.into()),
        dram_records: Some(16 * MIB),
        ssd: Some(Tier { bytes: megabytes * MIB, place: None }),
        durability: Durability::None,
        ..Options::default()
    }
}

/// Bytes that a directory's files take on the disk.
fn on_disk(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    files.map(|file| file.blocks() * 512).sum()
}

fn ssd(store: &OpenStore) -> TierStats {
    store.stats().tiers.pop().unwrap()
}

fn value(number: u32) -> Vec<u8> {
    let mut value = vec![number as u8; 12_000 + (number % 9) as usize * 500];
    value[..4].copy_from_slice(&number.to_le_bytes());
    value
}

fn key(number: u32) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

fn assert_all(store: &OpenStore, numbers: std::ops::Range<u32>) {
    for number in numbers {
        assert!(store.get(&key(number)).unwrap() == Some(value(number)), "{number}");
    }
}

#[test]
fn a_first_start_takes_and_reads_little_and_the_store_grows_as_it_fills() {
    const RECORDS: u32 = 10_000;
    for engine in ENGINES {
        let dir = tempfile::tempdir().unwrap();
        let store = terrace::open(options(dir.path(), engine, 1024)).unwrap();
        let data = dir.path().join("data").metadata().unwrap();
        assert_eq!(data.len() + dir.path().join("log").metadata().unwrap().len(), 1024 * MIB);
        let first = on_disk(dir.path());
        assert!(first < 160 * MIB, "{engine}: {first} bytes of a store that is to have 1 GiB");
        let tier = ssd(&store);
        assert!(tier.media.read_bytes < MIB, "{engine}: {} bytes read", tier.media.read_bytes);
        assert!((1..=64 * MIB + 8192).contains(&tier.taken_bytes), "{engine}: {}", tier.taken_bytes);
        assert!(tier.capacity_bytes > 900 * MIB && tier.cramped.is_none());
        let says = |store: &OpenStore| store.description.iter().any(|line| line.contains("as data come"));
        assert!(says(&store), "{:?}", store.description);

        for number in 0..RECORDS {
            store.set(&key(number), &value(number)).unwrap();
        }
        let (taken, grown) = (ssd(&store).taken_bytes, on_disk(dir.path()));
        assert!(grown > first + 50 * MIB && grown < 600 * MIB, "{engine}: {grown}");
        assert_all(&store, 0..RECORDS);
        store.close().unwrap();
        let closed = on_disk(dir.path());

        // What it takes it keeps, and it goes on from there.
        let store = terrace::open(options(dir.path(), engine, 1024)).unwrap();
        assert!(says(&store) && ssd(&store).taken_bytes + 64 * MIB >= taken);
        assert!(on_disk(dir.path()) + MIB >= closed);
        assert_all(&store, 0..RECORDS);
        for number in RECORDS..RECORDS + 6_000 {
            store.set(&key(number), &value(number)).unwrap();
        }
        assert!(ssd(&store).taken_bytes > taken);
        assert_eq!(ssd(&store).capacity_bytes, tier.capacity_bytes);
        store.kill();
        let store = terrace::open(options(dir.path(), engine, 1024)).unwrap();
        assert_all(&store, 0..RECORDS);
        store.close().unwrap();
    }
}

#[test]
fn a_store_that_is_given_more_takes_it_as_it_fills() {
    let dir = tempfile::tempdir().unwrap();
    let store = terrace::open(options(dir.path(), "tac", 64)).unwrap();
    let before = on_disk(dir.path());
    store.resize_ssd(1024 * MIB).unwrap();
    assert!(on_disk(dir.path()) < before + 160 * MIB, "{}", on_disk(dir.path()));
    for number in 0..10_000 {
        store.set(&key(number), &value(number)).unwrap();
    }
    assert!(on_disk(dir.path()) > 100 * MIB);
    assert_all(&store, 0..10_000);
    store.close().unwrap();
}

/// A disk on which files find room for so many bytes each.
#[derive(Clone)]
struct Disk(Arc<AtomicU64>);

struct OnDisk(BlockFile, Disk);

impl BlockDevice for OnDisk {
    type Queue = FileQueue;
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        if offset + buf.len() as u64 > self.1.0.load(SeqCst) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "a write found no room"));
        }
        self.0.write_at(offset, buf)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        if len > self.1.0.load(SeqCst) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device"));
        }
        self.0.reserve(len)
    }
    fn written_end(&self) -> u64 {
        self.0.written_end()
    }
    fn queue(&self, depth: usize) -> io::Result<FileQueue> {
        self.0.queue(depth)
    }
    fn counters(&self) -> &Counters {
        self.0.counters()
    }
}

impl MediaSource for Disk {
    fn create_region(&self, path: &Path, len: u64, options: &MapOptions) -> Result<FoundRegion, MapError> {
        SystemMedia.create_region(path, len, options)
    }
    fn open_region(&self, path: &Path, options: &MapOptions) -> Result<FoundRegion, MapError> {
        SystemMedia.open_region(path, options)
    }
    fn create_block(&self, path: &Path, len: u64, options: &BlockFileOptions) -> io::Result<()> {
        SystemMedia.create_block(path, len, options)
    }
    fn open_block(&self, path: &Path, options: &BlockFileOptions) -> io::Result<FoundBlock> {
        let file = BlockFile::open(path, options)?;
        let description = file.describe();
        Ok(FoundBlock::new(OnDisk(file, self.clone()), description))
    }
}

#[test]
fn a_full_disk_refuses_writes_loses_nothing_and_is_asked_again() {
    for engine in ENGINES {
        for durability in [Durability::None, Durability::default()] {
            let dir = tempfile::tempdir().unwrap();
            let disk = Disk(Arc::new(AtomicU64::new(100 * MIB)));
            let options = || Options { durability, ..options(dir.path(), engine, 512) };
            let store = terrace::open_on(options(), &disk).unwrap();
            let mut written = 0;
            while store.set(&key(written), &value(written)).is_ok() {
                written += 1;
                assert!(written < 20_000, "{engine}: it is never full");
            }
            assert!(written > 3_000, "{engine}: {written} records of 14 kB in 100 MiB");
            let tier = ssd(&store);
            assert!(tier.cramped.unwrap().contains("no space left") && tier.taken_bytes <= 100 * MIB);
            assert!(store.stats().tier_failure.is_none() && store.stats().refused > 0);
            for number in 0..100 {
                assert!(store.delete(&key(number)).unwrap(), "{engine}");
            }
            assert_all(&store, 100..written);
            store.close().unwrap();

            let store = terrace::open_on(options(), &disk).unwrap();
            assert!(store.description.iter().any(|line| line.contains("of its disk")), "{engine}");
            assert_all(&store, 100..written);
            disk.0.store(400 * MIB, SeqCst);
            let begun = Instant::now();
            for number in written..written + 3_000 {
                while store.set(&key(number), &value(number)).is_err() {
                    assert!(begun.elapsed() < Duration::from_secs(60), "{engine}: it stays full");
                }
            }
            assert!(ssd(&store).cramped.is_none());
            assert_all(&store, 100..written + 3_000);
            store.kill();
            let store = terrace::open_on(options(), &disk).unwrap();
            if durability != Durability::None {
                assert_all(&store, 100..written + 3_000);
            }
            store.close().unwrap();
        }
    }
}

#[test]
fn a_cache_on_a_full_disk_evicts() {
    for engine in ENGINES {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk(Arc::new(AtomicU64::new(100 * MIB)));
        let options = Options { when_full: WhenFull::Evict, ..options(dir.path(), engine, 512) };
        let store = terrace::open_on(options, &disk).unwrap();
        for number in 0..12_000 {
            store.set(&key(number), &value(number)).unwrap();
        }
        assert!(store.stats().evicted > 3_000 && store.stats().tier_failure.is_none(), "{engine}");
        assert_all(&store, 11_900..12_000);
        store.close().unwrap();
    }
}
