//! What is due on a block that can't be read for once is found later.
#![cfg(not(shuttle))]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use terrace_blocks::{
    BLOCK_HEADER_BYTES, Block, BlockTier, Blocks, Copies, FooterEntry, Image, Lower, State,
};
use terrace_engine::Barrier;
use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{Kind, NewRecord};
use terrace_engine::space::{Context, Replaced};
use terrace_index::Address;
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};

const BLOCK_BYTES: usize = 64 << 10;
const DUE: u64 = 10_000;

type Tier = Blocks<BlockTier<SimBlock>>;

/// Blocks alone: nothing is in DRAM.
struct Alone<'a>(&'a Tier);

impl Copies for Alone<'_> {
    fn address(&self, _slot: u32, _entry: &FooterEntry, _words: u32) -> Address {
        unreachable!()
    }
    fn load(&self, slot: u32, _context: &dyn Context) -> Option<Block> {
        self.0.read_block(slot)
    }
    fn not_yet_in_blocks(&self, _context: &dyn Context, _show: &mut dyn FnMut(&[FooterEntry])) {
        unreachable!()
    }
}

/// The time, and up to which version the database was flushed.
#[derive(Default)]
struct Told {
    now: Cell<u64>,
    flushed: Cell<u64>,
}

impl Context for Told {
    fn flush_version(&self, _db: u8) -> u64 {
        self.flushed.get()
    }
    fn now_ms(&self) -> u64 {
        self.now.get()
    }
    fn advance_epoch(&self) -> u64 {
        unreachable!()
    }
    fn epoch_passed(&self, _epoch: u64) -> bool {
        unreachable!()
    }
    fn barrier(&self) -> Barrier {
        unreachable!()
    }
    fn barrier_passed(&self, _barrier: &Barrier) -> bool {
        unreachable!()
    }
    fn settled(&self, _version: u64) -> bool {
        unreachable!()
    }
    fn logged(&self) -> bool {
        unreachable!()
    }
    fn trusts(&self, _seq: u64) -> bool {
        unreachable!()
    }
    fn log_floor(&self) -> u64 {
        unreachable!()
    }
    fn flush_wanted(&self) -> u64 {
        unreachable!()
    }
    fn raise_version_floor(&self, _version: u64) {
        unreachable!()
    }
    fn forgotten(&self, _kind: Kind) {
        unreachable!()
    }
    fn poisoned(&self, _kind: Kind, _db: u8, _expires: bool) {
        unreachable!()
    }
    fn recount(&self, _db: u8, _version: u64, _found: Option<Replaced>) {
        unreachable!()
    }
    fn tombstones_and_keys(&self) -> (u64, u64) {
        unreachable!()
    }
    fn hasher(&self) -> KeyHasher {
        unreachable!()
    }
}

/// One block with one record of this deadline.
fn with_a_record(device: &SimBlock, expire_at: u64) -> Tier {
    let tier = BlockTier::new(Arc::new(device.clone()), 0, String::new());
    let blocks = Blocks::new(tier, BLOCK_BYTES, 1).unwrap();
    let slot = &blocks.slots[0];
    slot.begin(State::Mutable, 1, None, 0);
    let (mut bytes, key, value) = (Vec::new(), b"key".as_slice(), b"value".as_slice());
    NewRecord { version: 1, kind: Kind::Value, db: 0, flags: 0, state: 0, expire_at, key, value }
        .encode(&mut bytes);
    slot.used_bytes.store((BLOCK_HEADER_BYTES + bytes.len()) as u32, Release);
    slot.live_bytes.store(bytes.len() as i64, Release);
    let mut image = Image::default();
    blocks.draw(0, KeyHasher::new(1), &mut image, |_, out| out.extend_from_slice(&bytes));
    blocks.lower.write(blocks.block_offset(0), image.bytes()).unwrap();
    slot.min_expire.store(if expire_at == 0 { u64::MAX } else { expire_at }, Release);
    slot.set_state(State::Sealed);
    blocks
}

fn dead(blocks: &Tier, told: &Told) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let cursor = AtomicU64::new(0);
    blocks.find_dead(&Alone(blocks), told, &cursor, &mut |_, key| found.push(key.to_vec()));
    found
}

/// The first search fails to read. The next one comes not at once, but soon, and finds the key, once.
fn found_after_a_failed_read(expire_at: u64, told: &Told) {
    let device = SimBlock::from_image(vec![0; 6 * BLOCK_BYTES]);
    let blocks = with_a_record(&device, expire_at);
    device.inject(Fault::new(Access::Read, FaultKind::Io));
    assert!(dead(&blocks, told).is_empty());
    assert!(!blocks.has_dead(told), "a block that can't be read is not tried without a pause");
    told.now.set(told.now.get() + 2000);
    assert!(blocks.has_dead(told));
    assert_eq!(dead(&blocks, told), [b"key"]);
    told.now.set(told.now.get() + 2000);
    assert!(!blocks.has_dead(told));
}

#[test]
fn a_failed_read_forgets_no_expired_key() {
    let told = Told::default();
    told.now.set(DUE);
    found_after_a_failed_read(DUE, &told);
}

#[test]
fn a_failed_read_forgets_no_flushed_key() {
    let told = Told::default();
    told.now.set(DUE);
    told.flushed.set(5);
    found_after_a_failed_read(0, &told);
}
