//! A machine for tests of background steps: everything is durable and trusted at once, and no session is inside an operation.

use terrace_engine::Barrier;
use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{Kind, Lifetime};
use terrace_engine::space::{Context, Replaced};

use terrace_blocks::FooterEntry;

use crate::open::SlabOptions;
use crate::placement::Placement;

pub(crate) struct Calm;

/// The same, but for syncs: what was written is never safe from power loss.
pub(crate) struct Unsynced;

macro_rules! context {
    ($machine:ty, barriers pass: $passed:literal) => {
        impl Context for $machine {
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
                $passed
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
    };
}

context!(Calm, barriers pass: true);
context!(Unsynced, barriers pass: false);

/// What a footer says of a value of database 0 that never expires, at the start of its block.
pub(crate) fn entry_of(hash: u64, check: u32, version: u64) -> FooterEntry {
    FooterEntry { hash, version, check, offset: 0, kind: Kind::Value, db: 0, life: Lifetime::NEVER }
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
