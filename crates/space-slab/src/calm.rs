//! A machine for tests of background steps: everything is durable and trusted at once, and no session is inside an operation.

use terrace_engine::Barrier;
use terrace_engine::hash::KeyHasher;
use terrace_engine::record::Kind;
use terrace_engine::space::{Context, Replaced};

use crate::open::SlabOptions;
use crate::placement::Placement;

pub(crate) struct Calm;

impl Context for Calm {
    fn advance_epoch(&self) -> u64 {
        0
    }
    fn epoch_passed(&self, _epoch: u64) -> bool {
        true
    }
    fn barrier(&self) -> Barrier {
        Barrier::default()
    }
    fn barrier_passed(&self, _barrier: &Barrier) -> bool {
        true
    }
    fn settled(&self, _version: u64) -> bool {
        true
    }
    fn logged(&self) -> bool {
        true
    }
    fn trusts(&self, _seq: u64) -> bool {
        true
    }
    fn log_floor(&self) -> u64 {
        0
    }
    fn flush_wanted(&self) -> u64 {
        0
    }
    fn flush_version(&self, _db: u8) -> u64 {
        0
    }
    fn now_ms(&self) -> u64 {
        1
    }
    fn raise_version_floor(&self, _version: u64) {}
    fn forgotten(&self, _kind: Kind) {}
    fn poisoned(&self, _kind: Kind, _db: u8, _expires: bool) {}
    fn recount(&self, _db: u8, _version: u64, _found: Option<Replaced>) {}
    fn tombstones_and_keys(&self) -> (u64, u64) {
        (0, 1)
    }
    fn hasher(&self) -> KeyHasher {
        KeyHasher::new(7)
    }
}

impl SlabOptions {
    /// Of a small store: slabs and pages of 64 KiB.
    pub(crate) fn of_tests() -> Self {
        Self {
            block_bytes: 64 << 10,
            dram_bytes: 1 << 20,
            dram_budget: None,
            store_id: 1,
            placement: Placement::Tac,
            eviction: Default::default(),
            swap: Default::default(),
            partitions: 1,
        }
    }
}
