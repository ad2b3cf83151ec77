//! Crashes around an opening, and batches of one session that wait for each other.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use parking_lot::Mutex;
use terrace_engine::clock::Clock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::Manifest;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Reply, Session, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AnyDevice, AnyRegion, BlockFile, BlockFileOptions, ByteRegion, HeapRegion};
use terrace_space_hybrid_log::{Opening, Sizes, open_block, open_byte};

const BLOCK: usize = 256 << 10;
const LOG_BYTES: u64 = 16 << 20;
const REGION_BYTES: u64 = 64 << 20;
const PAGE: usize = 256;

fn sizes(frames: u64) -> Sizes {
    Sizes {
        block_bytes: BLOCK,
        log_block_bytes: BLOCK,
        manifests_apart: 0,
        log_bytes: LOG_BYTES,
        dram_bytes: frames * BLOCK as u64,
        dram_with_index: false,
        store_id: 1,
    }
}

/// A clock that moves on at each look and, while it is armed, looks at the stored manifests: the first time that the log floor
/// has risen it keeps an image of the region, as a crash at that moment would.
struct Watch {
    now_us: AtomicU64,
    region: Arc<HeapRegion>,
    armed: AtomicBool,
    image: Mutex<Option<Vec<u8>>>,
}

impl Watch {
    fn new(region: &Arc<HeapRegion>) -> Arc<Self> {
        let now_us = AtomicU64::new(1_800_000_000_000_000);
        Arc::new(Self { now_us, region: region.clone(), armed: false.into(), image: Mutex::default() })
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("now_us", &self.now_us).finish_non_exhaustive()
    }
}

impl Clock for Watch {
    fn now_us(&self) -> u64 {
        let mut image = self.image.lock();
        if self.armed.load(SeqCst)
            && image.is_none()
            && manifests(&self.region).iter().flatten().any(|m| m.log_floor > 0)
        {
            let mut bytes = vec![0; REGION_BYTES as usize];
            self.region.read(0, &mut bytes);
            *image = Some(bytes);
        }
        self.now_us.fetch_add(1, SeqCst)
    }
}

/// Both copies, as they are stored.
fn manifests(region: &HeapRegion) -> [Option<Manifest>; 2] {
    [0, 1].map(|copy| {
        let mut bytes = [0; PAGE];
        region.read(LOG_BYTES + copy * PAGE as u64, &mut bytes);
        Manifest::decode(&bytes)
    })
}

fn opening<'a>(clock: &Arc<Watch>, frames: u64, fresh: bool) -> Opening<'a> {
    Opening {
        sizes: sizes(frames),
        fresh,
        machine: MachineOptions {
            engine: "hetermm",
            durability: Durability::default(),
            immediate: true,
            evict: false,
            sessions: 4,
            hasher: KeyHasher::new(7),
            clock: clock.clone(),
            threads: 1,
            recovery_keys: usize::MAX,
        },
        index: MakeIndex::Clht(&|| Clht::with_min_buckets(64)),
        description: String::new(),
        progress: &|_, _| {},
    }
}

fn open(region: &Arc<HeapRegion>, clock: &Arc<Watch>, frames: u64, fresh: bool) -> Box<dyn Store> {
    open_byte(&Arc::new(AnyRegion::new(region.clone())), 0, opening(clock, frames, fresh)).unwrap()
}

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

fn set(batch: &mut Batch, i: u32, value: &[u8]) {
    let value = batch.bytes(value);
    let kind = OpKind::Set {
        value,
        condition: Condition::Always,
        expiry: Expiry::Clear,
        flags: None,
        old_value: false,
    };
    batch.push(0, &key(i), kind);
}

fn fill(session: &mut dyn Session, keys: u32, value_bytes: usize) {
    let mut batch = Batch::new();
    for i in 0..keys {
        batch.clear();
        set(&mut batch, i, &vec![i as u8; value_bytes]);
        session.execute(&mut batch);
        let settled = session.wait(&mut batch);
        assert!(matches!(batch.reply(0, &settled), Reply::Stored { .. }), "key {i}");
    }
}

fn check(session: &mut dyn Session, keys: u32, value_bytes: usize) {
    let mut batch = Batch::new();
    for i in 0..keys {
        batch.clear();
        batch.push(0, &key(i), OpKind::Get { value: true });
        session.execute(&mut batch);
        let settled = session.wait(&mut batch);
        match batch.reply(0, &settled) {
            Reply::Hit { value: Some(value), .. } => {
                assert!(batch.output(value) == vec![i as u8; value_bytes], "the value of key {i}");
            }
            other => panic!("key {i}: {other:?}"),
        }
    }
}

#[test]
fn a_crash_while_the_log_is_restored_loses_nothing_of_it() {
    const KEYS: u32 = 700;
    const VALUE_BYTES: usize = 12_000;
    let region = Arc::new(HeapRegion::new(REGION_BYTES).unwrap());
    let clock = Watch::new(&region);
    let store = open(&region, &clock, 64, true);
    fill(&mut *store.session().unwrap(), KEYS, VALUE_BYTES);
    drop(store);
    assert!(manifests(&region).iter().flatten().all(|m| m.log_floor == 0), "all of it is in the log alone");

    // DRAM holds a small part of it: pages are flushed, and background steps run, while the log is restored.
    clock.armed.store(true, SeqCst);
    let store = open(&region, &clock, 6, false);
    clock.armed.store(false, SeqCst);
    let sealed = store.stats().engine_details.iter().find(|(name, _)| *name == "blocks_sealed").unwrap().1;
    assert!(sealed > 10, "{sealed} pages were flushed meanwhile");
    check(&mut *store.session().unwrap(), KEYS, VALUE_BYTES);
    drop(store);

    if let Some(image) = clock.image.lock().take() {
        let region = Arc::new(HeapRegion::new(REGION_BYTES).unwrap());
        region.write_nt(0, &image);
        let store = open(&region, &Watch::new(&region), 64, false);
        check(&mut *store.session().unwrap(), KEYS, VALUE_BYTES);
    }
    let store = open(&region, &Watch::new(&region), 64, false);
    check(&mut *store.session().unwrap(), KEYS, VALUE_BYTES);
}

#[test]
fn rot_in_a_copy_of_the_manifest_brings_no_older_one_back() {
    let region = Arc::new(HeapRegion::new(REGION_BYTES).unwrap());
    let clock = Watch::new(&region);
    drop(open(&region, &clock, 8, true));
    for opening in 0..5 {
        let before = manifests(&region).into_iter().flatten().max_by_key(|m| m.sequence).unwrap();
        // The newest copy, whichever it is, and none of the older ones is left to fall back to.
        let copy = opening % 2;
        let at = LOG_BYTES + copy * PAGE as u64 + 16;
        region.write_nt(at, &[0xff]);
        assert!(manifests(&region)[copy as usize].is_none());
        drop(open(&region, &clock, 8, false));
        let [a, b] = manifests(&region);
        assert!(a.is_some() && a == b, "both are whole again: {a:?} {b:?}");
        assert!(a.unwrap().sequence > before.sequence, "opening {opening} stored one");
    }
}

/// A store in files whose records, one of each key, are all on the device, so that gets are pending.
fn cold(dir: &std::path::Path, keys: u32) -> Box<dyn Store> {
    let clock = Watch::new(&Arc::new(HeapRegion::new(4096).unwrap()));
    let open = |fresh| -> Box<dyn Store> {
        let file = |name, bytes, direct| {
            let (path, options) = (dir.join(name), BlockFileOptions { direct, ring: true, prewrite: false });
            AnyDevice::of(match fresh {
                true => BlockFile::create(&path, bytes, &options).unwrap(),
                false => BlockFile::open(&path, &options).unwrap(),
            })
        };
        let (log, data) = (file("log", LOG_BYTES, false), file("data", REGION_BYTES, true));
        open_block(&log, &data, opening(&clock, 8, fresh)).unwrap()
    };
    let store = open(true);
    fill(&mut *store.session().unwrap(), keys, 100);
    store.close().unwrap();
    drop(store);
    open(false)
}

#[test]
fn a_flush_behind_another_batch_of_its_session_does_not_wait_for_ever() {
    const KEYS: u32 = 64;
    let dir = tempfile::tempdir().unwrap();
    let store = cold(dir.path(), KEYS);
    let mut session = store.session().unwrap();
    let (mut first, mut second) = (Batch::new(), Batch::new());
    for i in 0..KEYS {
        first.push(0, &key(i), OpKind::Get { value: true });
        second.push(0, &key(i), OpKind::Get { value: true });
    }
    second.push(0, b"", OpKind::Flush { db: None });
    second.push(0, &key(0), OpKind::Get { value: true });
    set(&mut second, 1, b"new");
    second.push(0, &key(1), OpKind::Get { value: true });
    session.execute(&mut first);
    session.execute(&mut second);
    let settled = session.wait(&mut first);
    assert!((0..KEYS as usize).all(|i| matches!(first.reply(i, &settled), Reply::Hit { .. })));
    let settled = session.wait(&mut second);
    let reply = |i| second.reply(KEYS as usize + i, &settled);
    assert!((0..KEYS as usize).all(|i| matches!(second.reply(i, &settled), Reply::Hit { .. })));
    assert!(
        matches!(reply(0), Reply::Done) && matches!(reply(1), Reply::Miss),
        "{:?} {:?}",
        reply(0),
        reply(1)
    );
    assert!(matches!(reply(2), Reply::Stored { .. }) && matches!(reply(3), Reply::Hit { .. }));
    assert_eq!(store.len_all(), 1);
}

/// The queue is full of one batch's reads, so none of the other's is under way: no device will ever call for it.
#[test]
fn a_batch_that_found_the_queue_full_is_called_once_there_is_room() {
    const QUEUE: u32 = 64;
    let dir = tempfile::tempdir().unwrap();
    let store = cold(dir.path(), QUEUE + 1);
    let mut session = store.session().unwrap();
    let events = session.event_fds();
    let (mut first, mut second) = (Batch::new(), Batch::new());
    for i in 0..QUEUE {
        first.push(0, &key(i), OpKind::Get { value: true });
    }
    second.push(0, &key(QUEUE), OpKind::Get { value: true });
    session.execute(&mut first);
    session.execute(&mut second);
    // As an event loop does that looks at the second before the first.
    let mut called = loop {
        session.acknowledge_events();
        let done = session.poll(&mut second);
        if session.poll(&mut first) {
            break done;
        }
        assert!(is_readable(&events));
    };
    while !called {
        assert!(is_readable(&events), "the session asks to be polled again, or a read is under way");
        session.acknowledge_events();
        called = session.poll(&mut second);
    }
    let settled = session.wait(&mut second);
    assert!(matches!(second.reply(0, &settled), Reply::Hit { .. }));
}

/// Whether one of the descriptors becomes readable before long.
fn is_readable(fds: &[std::os::fd::RawFd]) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    // SAFETY: they belong to the session, which outlives this call.
    let fds: Vec<_> = fds.iter().map(|fd| unsafe { std::os::fd::BorrowedFd::borrow_raw(*fd) }).collect();
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    poll(&mut polled, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).unwrap() > 0
}

/// Freeing clears a word of the header and one of the trailer; a crash may keep either alone.
#[test]
fn a_block_freed_by_half_is_freed_whole_by_the_next_opening() {
    let region = Arc::new(HeapRegion::new(REGION_BYTES).unwrap());
    let clock = Watch::new(&region);
    let store = open(&region, &clock, 8, true);
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    set(&mut batch, 1, b"value");
    session.execute(&mut batch);
    let _ = session.wait(&mut batch);
    drop(session);
    store.close().unwrap();
    drop(store);
    let blocks = LOG_BYTES + 2 * PAGE as u64;
    let mut header = [0; 8];
    let block = (0..8).map(|slot| blocks + slot * BLOCK as u64).find(|&at| {
        region.read(at, &mut header);
        header != [0; 8]
    });
    let block = block.expect("a block was written");
    // The header's word arrived, the trailer's did not.
    region.store_u64(block, 0);
    drop(open(&region, &clock, 8, false));
    // A later flush to this block is torn after its first word.
    region.store_u64(block, u64::from_le_bytes(header));
    region.store_u64(block + 16, u64::MAX);
    drop(open(&region, &clock, 8, false));
}
