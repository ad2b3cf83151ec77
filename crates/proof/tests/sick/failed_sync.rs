//! A whole store on real files, of which one refuses a sync once: from then on nothing is acknowledged, `close` says why, and
//! what was acknowledged before is there when the store is opened again.
//!
//! Under `sync` the file is also taken back to its last sync that succeeded: so a kernel may give up pages that it could not
//! write.

#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;
use terrace::media_source::{FoundBlock, FoundRegion};
use terrace::{CallError, MediaSource, Options, SystemMedia, Tier};
use terrace_engine::{Durability, OpError};
use terrace_media::{
    AlignedBuf, BlockDevice, BlockFile, BlockFileOptions, Counters, IO_ALIGN, MapError, MapOptions,
};
use terrace_proof::subjects::WITH_BLOCKS;

/// A file that refuses one sync when told to, and takes back what it had not synced. Later syncs would succeed.
pub(super) struct Failing {
    file: BlockFile,
    no_queues: Arc<AtomicBool>,
    fail: Arc<AtomicBool>,
    /// Pages as they were at the last sync, if they are to be taken back.
    durable: Option<Mutex<BTreeMap<u64, AlignedBuf>>>,
}

impl BlockDevice for Failing {
    type Queue = <BlockFile as BlockDevice>::Queue;

    fn len(&self) -> u64 {
        self.file.len()
    }
    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
        self.file.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        let Some(durable) = &self.durable else { return self.file.write_at(offset, buf) };
        let mut durable = durable.lock();
        for at in (offset..offset + buf.len() as u64).step_by(IO_ALIGN) {
            let mut old = AlignedBuf::zeroed(IO_ALIGN);
            self.file.read_at(at, &mut old)?;
            durable.entry(at).or_insert(old);
        }
        self.file.write_at(offset, buf)
    }
    fn sync(&self) -> io::Result<()> {
        let mut durable = self.durable.as_ref().map(Mutex::lock);
        let failed = self.fail.swap(false, SeqCst);
        for (at, old) in durable.iter_mut().flat_map(|durable| std::mem::take(&mut **durable)) {
            if failed {
                self.file.write_at(at, &old)?;
            }
        }
        if failed { Err(io::Error::other("planted: the device is sick")) } else { self.file.sync() }
    }
    fn queue(&self, depth: usize) -> io::Result<Self::Queue> {
        if self.no_queues.load(SeqCst) {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, "planted: no memory for a queue"));
        }
        self.file.queue(depth)
    }
    fn counters(&self) -> &Counters {
        self.file.counters()
    }
}

/// The system's media, with one file that fails.
#[derive(Default)]
pub(super) struct Media {
    /// The file that fails, and whether its next sync does.
    pub sick: &'static str,
    pub fail: Arc<AtomicBool>,
    pub takes_back: bool,
    /// No file makes another queue.
    pub no_queues: Arc<AtomicBool>,
}

impl MediaSource for Media {
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
        let sick = path.ends_with(self.sick);
        let fail = if sick { self.fail.clone() } else { Arc::default() };
        let durable = (sick && self.takes_back).then(Mutex::default);
        let description = file.describe();
        let failing = Failing { file, fail, durable, no_queues: self.no_queues.clone() };
        Ok(FoundBlock::new(failing, description))
    }
}

pub(super) fn options(engine: &str, dir: &Path, durability: Durability) -> Options {
    Options {
        engine: engine.into(),
        dir: Some(dir.into()),
        dram_records: Some(2 << 20),
        ssd: Some(Tier { bytes: 24 << 20, place: None }),
        durability,
        ..Options::default()
    }
}

/// Small values go to the log alone, some large ones to the lower tier.
fn key_value(i: u32) -> (Vec<u8>, Vec<u8>) {
    let copies = if [3, 10, 17, 24].contains(&i) { 40_000 } else { 5 };
    (format!("key{i}").into_bytes(), format!("value{i}.").into_bytes().repeat(copies))
}

fn log_failed<T: std::fmt::Debug>(result: Result<T, CallError>) {
    assert!(
        matches!(result, Err(CallError::Op(OpError::LogFailed(why))) if why.contains("planted: the device is sick")),
        "{result:?}"
    );
}

fn a_sync_fails(engine: &str, durability: &str, sick: &'static str, takes_back: bool) {
    let durability: Durability = durability.parse().unwrap();
    // Not on tmpfs, where there is nothing to sync.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let media = Media { sick, takes_back, ..Media::default() };
    let store = terrace::open_on(options(engine, dir.path(), durability), &media).unwrap();
    let set = |i| {
        let (key, value) = key_value(i);
        store.set(&key, &value)
    };
    (0..20).for_each(|i| set(i).unwrap());
    media.fail.store(true, SeqCst);
    // Under `batch` answers go on until the sync is due.
    let refused = (20..1_000_000).find(|&i| set(i).is_err()).unwrap();
    assert!(!media.fail.load(SeqCst), "a sync failed");
    for i in 0..30 {
        log_failed(set(refused + 1 + i));
        log_failed(store.get(&key_value(i % 20).0));
        log_failed(store.delete(&key_value(i % 20).0));
        store.step();
    }
    let error = store.close().unwrap_err().to_string();
    assert!(error.contains("sync") && error.contains("planted: the device is sick"), "{error}");

    // The device was repaired.
    let store = terrace::open(options(engine, dir.path(), durability)).unwrap();
    for i in 0..refused + 31 {
        let (key, value) = key_value(i);
        let found = store.get(&key).unwrap();
        if i < refused {
            assert_eq!(found, Some(value), "{i} of {refused} that were acknowledged");
        } else if i > refused {
            assert_eq!(found, None, "{i} was refused after {refused}");
        } else {
            assert!(found.is_none_or(|found| found == value), "{refused} happened or not");
        }
    }
    store.set(b"after", b"all").unwrap();
    store.close().unwrap();
}

#[test]
fn after_a_failed_sync_of_the_log_nothing_is_acknowledged() {
    for (engine, _) in WITH_BLOCKS {
        a_sync_fails(engine, "sync", "log", true);
        a_sync_fails(engine, "batch:5", "log", false);
    }
}

#[test]
fn after_a_failed_sync_of_large_values_nothing_is_acknowledged() {
    for (engine, _) in WITH_BLOCKS {
        a_sync_fails(engine, "sync", "data", true);
        a_sync_fails(engine, "batch:5", "data", false);
    }
}
