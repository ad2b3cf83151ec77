//! A store of three tiers in the process's memory, for what is counted: the same on every machine and in every run.
//!
//! Nothing in it depends on time: the clock moves with the accesses, reads of the "SSD" are done when they are handed over, and
//! hashes come from the seed.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use anyhow::Context;
use terrace::engine::clock::ManualClock;
use terrace::engine::hash::KeyHasher;
use terrace::engine::{Durability, MachineOptions, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{
    AlignedBuf, AnyDevice, AnyRegion, BlockDevice, BlockQueue, ByteRegion, Completion, Counters, HeapRegion,
};
use terrace_space_slab::{Choices, Opening, Sizes, open_tiered};

/// Small pages and slabs, so that a per cent of few records is a DRAM.
const SIZES: Sizes = Sizes {
    block_bytes: 32 << 10,
    log_block_bytes: 64 << 10,
    manifests_apart: 0,
    log_bytes: 8 << 20,
    dram_bytes: 4 << 20,
    dram_with_index: false,
    store_id: 1,
};
/// The least DRAM that a store can be opened with: five slabs.
pub(super) const DRAM_MIN: u64 = 5 * SIZES.block_bytes as u64;
/// An access takes so long: in the 50 ms for which DRAM keeps slots free come fifty.
const ACCESS_US: u64 = 1000;

/// Block media that are memory.
struct Blocks {
    region: HeapRegion,
    counters: Counters,
}

/// Reads that are done when they are handed over.
struct Queue {
    of: Arc<Blocks>,
    depth: usize,
    done: Vec<Completion>,
}

/// The device, and what queues share.
struct Device(Arc<Blocks>);

impl Blocks {
    fn read(&self, offset: u64, buf: &mut AlignedBuf) {
        self.counters.reads(1);
        self.counters.read_bytes(buf.len() as u64);
        self.region.read(offset, buf);
    }
}

impl BlockDevice for Device {
    type Queue = Queue;
    fn len(&self) -> u64 {
        self.0.region.len()
    }
    fn read_at(&self, offset: u64, buf: &mut AlignedBuf) -> io::Result<()> {
        self.0.read(offset, buf);
        Ok(())
    }
    fn write_at(&self, offset: u64, buf: &AlignedBuf) -> io::Result<()> {
        self.0.counters.writes(1);
        self.0.counters.write_bytes(buf.len() as u64);
        self.0.region.write(offset, buf);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        self.0.counters.fences(1);
        Ok(())
    }
    fn queue(&self, depth: usize) -> io::Result<Queue> {
        Ok(Queue { of: self.0.clone(), depth, done: Vec::new() })
    }
    fn counters(&self) -> &Counters {
        &self.0.counters
    }
}

impl BlockQueue for Queue {
    fn submit(&mut self, token: u64, offset: u64, mut buf: AlignedBuf) -> Result<(), AlignedBuf> {
        if self.done.len() >= self.depth {
            return Err(buf);
        }
        self.of.read(offset, &mut buf);
        self.done.push(Completion { token, buf, result: Ok(()) });
        Ok(())
    }
    fn reap(&mut self, _wait: bool, out: &mut Vec<Completion>) {
        out.append(&mut self.done);
    }
    fn in_flight(&self) -> usize {
        self.done.len()
    }
    fn event_fd(&self) -> Option<RawFd> {
        None
    }
}

/// The store, and its clock.
pub(super) struct InMemory {
    store: Box<dyn Store>,
    clock: Arc<ManualClock>,
}

impl InMemory {
    /// A fresh store with so many bytes for records in DRAM, for slots of PMem and for pages.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(
        choices: Choices,
        [dram, pmem, ssd]: [u64; 3],
        records: u32,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let region =
            |bytes: u64| HeapRegion::new(bytes.next_multiple_of(1 << 20)).context("memory for a store");
        let clock = Arc::new(ManualClock::new(1_800_000_000_000_000));
        let buckets = u64::from(records) / 4;
        let opening = Opening {
            sizes: Sizes { dram_bytes: dram.max(DRAM_MIN), ..SIZES },
            fresh: true,
            machine: MachineOptions {
                engine: "tac",
                durability: Durability::default(),
                immediate: true,
                evict: false,
                sessions: 2,
                hasher: KeyHasher::new(seed),
                clock: clock.clone(),
                threads: 1,
                recovery_keys: usize::MAX,
            },
            index: MakeIndex::Clht(&|| Clht::with_min_buckets(buckets)),
            description: String::new(),
            progress: &|_, _| {},
        };
        let memory = AnyRegion::of(region(SIZES.log_bytes + pmem)?);
        let blocks = Blocks { region: region(ssd)?, counters: Counters::default() };
        let data = AnyDevice::of(Device(Arc::new(blocks)));
        let store = open_tiered((&memory, 0), &data, "", choices, opening)?;
        Ok(Self { store, clock })
    }
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }
    /// So many accesses were made.
    pub fn pass(&self, accesses: usize) {
        self.clock.advance_us(accesses as u64 * ACCESS_US);
    }
}
