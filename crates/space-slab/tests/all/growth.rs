//! Power goes while a tier between DRAM and an SSD grows for the first time: nothing on the media says how long it was when it was made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Durability, MachineOptions, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AnyDevice, AnyRegion, ByteRegion, Counters, HeapRegion};
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};
use terrace_space_slab::{Choices, Opening, Sizes, open_tiered};

use crate::keys::{get, set, write};

const SLAB: u64 = 16 << 10;
const SIZES: Sizes = Sizes {
    block_bytes: SLAB as usize,
    log_block_bytes: SLAB as usize,
    manifests_apart: 0,
    log_bytes: 1 << 20,
    dram_bytes: 8 * SLAB,
    dram_with_index: false,
    store_id: 1,
};
const DATA_BYTES: usize = 4 << 20;
/// Slabs of the tier, before it grows and then.
const FEW: u64 = 6;
const MORE: u64 = 10;
const MOST: u64 = 16;
/// DRAM and the tier hold a part of them.
const KEYS: u64 = 2000;

const fn region_bytes(slabs: u64) -> u64 {
    SIZES.log_bytes + slabs * SLAB
}

/// Memory that has a length of its own, as a file has, and that power leaves at once.
struct Powered {
    memory: HeapRegion,
    len: AtomicU64,
    /// Power goes when it has become longer.
    goes: AtomicBool,
    is_off: AtomicBool,
}

impl Powered {
    fn new() -> Self {
        let memory = HeapRegion::new(region_bytes(MOST)).unwrap();
        let [goes, is_off] = [false, false].map(AtomicBool::new);
        Self { memory, len: region_bytes(FEW).into(), goes, is_off }
    }
    fn is_on(&self) -> bool {
        !self.is_off.load(SeqCst)
    }
}

impl ByteRegion for Powered {
    fn len(&self) -> u64 {
        self.len.load(SeqCst)
    }
    fn load_u64(&self, offset: u64) -> u64 {
        self.memory.load_u64(offset)
    }
    fn store_u64(&self, offset: u64, value: u64) {
        if self.is_on() {
            self.memory.store_u64(offset, value);
        }
    }
    fn read(&self, offset: u64, out: &mut [u8]) {
        self.memory.read(offset, out);
    }
    fn prefetch(&self, offset: u64, len: usize) {
        self.memory.prefetch(offset, len);
    }
    fn write(&self, offset: u64, bytes: &[u8]) {
        if self.is_on() {
            self.memory.write(offset, bytes);
        }
    }
    fn write_nt(&self, offset: u64, bytes: &[u8]) {
        self.write(offset, bytes);
    }
    fn flush(&self, offset: u64, len: usize) {
        self.memory.flush(offset, len);
    }
    fn fence(&self) {
        self.memory.fence();
    }
    fn len_max(&self) -> Option<u64> {
        Some(self.memory.len())
    }
    fn resize(&self, len: u64) -> io::Result<()> {
        if !self.is_on() {
            return Err(io::Error::other("the power is off"));
        }
        let before = self.len.swap(len, SeqCst);
        if len < before {
            self.memory.write(len, &vec![0; (before - len) as usize]);
        } else if len > before && self.goes.load(SeqCst) {
            self.is_off.store(true, SeqCst);
            return Err(io::Error::other("the power went"));
        }
        Ok(())
    }
    fn counters(&self) -> &Counters {
        self.memory.counters()
    }
}

fn open(region: &Arc<Powered>, data: &SimBlock, fresh: bool) -> Box<dyn Store> {
    let opening = Opening {
        sizes: SIZES,
        fresh,
        machine: MachineOptions {
            engine: "tac",
            durability: Durability::Sync,
            immediate: true,
            evict: false,
            sessions: 3,
            hasher: KeyHasher::new(7),
            clock: Arc::new(ManualClock::new(1_800_000_000_000_000)),
            threads: 1,
            recovery_keys: usize::MAX,
        },
        index: MakeIndex::Clht(&|| Clht::with_min_buckets(64)),
        description: String::new(),
        progress: &|_, _| {},
    };
    let data = AnyDevice::of(data.clone());
    open_tiered((&Arc::new(AnyRegion::new(region.clone())), 0), &data, "memory", Choices::default(), opening)
        .unwrap()
}

fn value(key: u64) -> Vec<u8> {
    key.to_be_bytes().repeat(16)
}

fn slabs(store: &dyn Store) -> u64 {
    store.stats().tiers.iter().find(|tier| tier.tier == "pmem").unwrap().capacity_bytes / SLAB
}

fn holds_all(store: &dyn Store) {
    let mut session = store.session().unwrap();
    (0..KEYS).for_each(|key| assert_eq!(get(&mut *session, key), Some(value(key)), "key {key}"));
}

/// Before its new part has headers, or when it has them and nothing says so.
#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Headers,
    Size,
}

#[test]
fn a_tier_whose_first_growth_was_cut_short_is_as_long_as_before() {
    for cut in [Cut::Headers, Cut::Size] {
        let region = Arc::new(Powered::new());
        let data = SimBlock::from_image(vec![0; DATA_BYTES]);
        let store = open(&region, &data, true);
        let mut session = store.session().unwrap();
        for first in (0..KEYS).step_by(16) {
            write(&mut *session, |batch| (first..first + 16).for_each(|key| set(batch, key, &value(key))));
            store.step();
        }
        assert_eq!(slabs(&*store), FEW);
        match cut {
            Cut::Headers => region.goes.store(true, SeqCst),
            // Two are those of the size that it has.
            Cut::Size => data.inject(Fault::new(Access::Write, FaultKind::Io).after(2).forever()),
        }
        assert!(store.resize_tier("pmem", MORE * SLAB).is_err());
        region.is_off.store(true, SeqCst);
        drop(session);
        drop(store);
        assert_eq!(region.len(), region_bytes(MORE));
        let header = region_bytes(FEW)..region_bytes(FEW) + 64;
        let has_headers = header.step_by(8).any(|word| region.load_u64(word) != 0);
        assert_eq!(has_headers, cut == Cut::Size);

        region.is_off.store(false, SeqCst);
        region.goes.store(false, SeqCst);
        let data = SimBlock::from_image(data.to_bytes());
        let store = open(&region, &data, false);
        assert_eq!(slabs(&*store), FEW);
        holds_all(&*store);
        (0..100).for_each(|_| _ = store.step());
        assert_eq!(region.len(), region_bytes(FEW), "what a crash left behind the end is cut off");
        store.resize_tier("pmem", MORE * SLAB).unwrap();
        assert_eq!((slabs(&*store), region.len()), (MORE, region_bytes(MORE)));
        drop(store);
        let store = open(&region, &data, false);
        assert_eq!(slabs(&*store), MORE);
        holds_all(&*store);
        store.close().unwrap();
    }
}
