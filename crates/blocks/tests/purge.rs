//! What is due on blocks: what expires is read as little as can be; what can't be read for once is found later.
#![cfg(not(shuttle))]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use terrace_blocks::{
    BLOCK_HEADER_BYTES, Block, BlockTier, Blocks, Copies, FooterEntry, Image, Lower, State,
};
use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{ALONE, Kind, NewRecord};
use terrace_engine::space::{Context, Replaced};
use terrace_engine::{Barrier, Progress};
use terrace_index::{Address, AnyIndex, Change, Clht, Index, Key, Verdict};
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};

const BLOCK_BYTES: usize = 64 << 10;
const DUE: u64 = 12_000;
const RECORDS: u64 = 60;
const VALUE_BYTES: usize = 900;

type Tier = Blocks<BlockTier<SimBlock>>;

/// Blocks alone: nothing is in DRAM.
struct Alone<'a>(&'a Tier);

fn address(slot: u32, offset: u32) -> Address {
    Address::new(1 << 40 | u64::from(slot) << 24 | u64::from(offset))
}

impl Copies for Alone<'_> {
    fn address(&self, slot: u32, entry: &FooterEntry, _words: u32) -> Address {
        address(slot, entry.offset)
    }
    fn load(&self, slot: u32, _context: &dyn Context) -> Option<Block> {
        self.0.read_block(slot)
    }
    fn not_yet_in_blocks(
        &self,
        _from: u32,
        _context: &dyn Context,
        _show: &mut dyn FnMut(&[FooterEntry]),
    ) -> Option<u32> {
        unreachable!()
    }
}

/// The time, and up to which version the database was flushed.
#[derive(Default)]
struct Told {
    now: Cell<u64>,
    flushed: Cell<u64>,
    /// Keys that left unread.
    expired: Cell<u64>,
    /// Whether somebody wants to hear of each.
    told: Cell<bool>,
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
    fn raise_version_floor(&self, _version: u64) {}
    fn expired(&self, _db: u8) {
        self.expired.set(self.expired.get() + 1);
    }
    fn tells_expired(&self) -> bool {
        self.told.get()
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

const HASHER: u64 = 1;

/// One block of so many records, each with its deadline, and an index that has them. It is as after an opening that had a
/// snapshot: nothing is listed.
fn with_records(device: &SimBlock, count: u64, life: (bool, &dyn Fn(u64) -> u64)) -> (Tier, Clht) {
    let tier = BlockTier::new(Arc::new(device.clone()), 0, String::new());
    let blocks = Blocks::new(tier, BLOCK_BYTES, 1).unwrap();
    let index = Clht::with_min_buckets(64);
    seal(&blocks, &index, 0, count, life);
    (blocks, index)
}

/// Writes the next block, of so many records with keys of their own.
fn seal(
    blocks: &Tier,
    index: &Clht,
    number: u32,
    count: u64,
    (alone, expire_at): (bool, &dyn Fn(u64) -> u64),
) {
    let slot = &blocks.slots[number as usize];
    slot.begin(State::Mutable, 1 + u64::from(number), None, 0);
    let (mut bytes, value) = (Vec::new(), vec![7; VALUE_BYTES]);
    for i in u64::from(number) * count..(u64::from(number) + 1) * count {
        let (key, state) = (key(i), if alone { ALONE } else { 0 });
        let hashed = Key { bytes: &key, ..KeyHasher::new(HASHER).key(0, &key) };
        let at = address(number, (BLOCK_HEADER_BYTES + bytes.len()) as u32);
        index.update(&hashed, |_| Verdict::Differs, |_| (Change::Set(at), ()));
        let kind = Kind::Value;
        let record = NewRecord {
            version: 1 + i,
            kind,
            db: 0,
            flags: 0,
            state,
            expire_at: expire_at(i),
            token: 0,
            key: &key,
            value: &value,
        };
        record.encode(&mut bytes);
    }
    slot.used_bytes.store((BLOCK_HEADER_BYTES + bytes.len()) as u32, Release);
    slot.live_bytes.store(bytes.len() as i64, Release);
    slot.count.store(count as u32, Release);
    let mut image = Image::default();
    blocks.draw(number, KeyHasher::new(HASHER), &mut image, |_, out| out.extend_from_slice(&bytes)).unwrap();
    blocks.lower.write(blocks.block_offset(number), image.bytes()).unwrap();
    slot.set_state(State::Sealed);
}

fn key(i: u64) -> Vec<u8> {
    format!("key{i:04}").into_bytes()
}

fn dead(blocks: &Tier, index: &Clht, told: &Told) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let cursor = AtomicU64::new(0);
    while blocks
        .find_dead(&Alone(blocks), AnyIndex::of(index), told, &cursor, &mut |_, key| found.push(key.to_vec()))
        == Progress::Worked
    {}
    found
}

fn read_bytes(blocks: &Tier) -> u64 {
    blocks.lower.counters().read_bytes
}

fn device() -> SimBlock {
    SimBlock::from_image(vec![0; 6 * BLOCK_BYTES])
}

#[test]
fn records_that_are_alone_leave_at_their_time_unread() {
    let (told, device) = (Told::default(), device());
    let (blocks, index) = with_records(&device, RECORDS, (true, &|i| DUE + 1000 * i));
    let before = read_bytes(&blocks);
    for second in 0..RECORDS {
        told.now.set(DUE + 1000 * second);
        assert!(dead(&blocks, &index, &told).is_empty());
        assert_eq!(told.expired.get(), second + 1);
    }
    assert_eq!((blocks.slots[0].live_bytes.load(Acquire), read_bytes(&blocks) - before), (0, 0));
    assert!(!blocks.has_dead(&told));
}

#[test]
fn a_block_that_is_not_listed_has_its_footer_read_once() {
    let (told, device) = (Told::default(), device());
    let (blocks, index) = with_records(&device, RECORDS, (true, &|i| DUE + 1000 * i));
    // As after an opening from a snapshot, which knows the earliest deadline alone.
    blocks.forget_deadlines(0);
    blocks.slots[0].min_expire.store(DUE, Release);
    let before = read_bytes(&blocks);
    for second in 0..RECORDS {
        told.now.set(DUE + 1000 * second);
        assert!(dead(&blocks, &index, &told).is_empty());
        assert_eq!(told.expired.get(), second + 1);
    }
    let read = read_bytes(&blocks) - before;
    assert!(read <= BLOCK_BYTES as u64 / 8, "{read} bytes read of a block of {BLOCK_BYTES}");
}

#[test]
fn records_with_older_versions_are_reported_some_at_a_time() {
    let (told, device) = (Told::default(), device());
    let (blocks, index) = with_records(&device, RECORDS, (false, &|i| DUE + 250 * i));
    let (before, mut seen) = (read_bytes(&blocks), 0);
    for second in 0..=RECORDS / 4 + 4 {
        told.now.set(DUE + 1000 * second);
        let found = dead(&blocks, &index, &told);
        for key in &found {
            let hashed = Key { bytes: key, ..KeyHasher::new(HASHER).key(0, key) };
            let at = (0..RECORDS).position(|i| self::key(i) == *key).unwrap() as u64;
            assert!(DUE + 250 * at <= told.now.get(), "before its time");
            index.candidates(&hashed, |_| {});
            seen += 1;
        }
        assert!(seen + 24 > ((second + 1) * 4).min(RECORDS) as usize, "{seen} in second {second}");
    }
    assert_eq!((seen, told.expired.get()), (RECORDS as usize, 0));
    let read = read_bytes(&blocks) - before;
    assert!(read <= 5 * BLOCK_BYTES as u64, "{read} bytes read of a block of {BLOCK_BYTES}");
}

#[test]
fn what_has_expired_takes_no_room_where_writes_would_be_refused() {
    let (told, device) = (Told::default(), device());
    let (blocks, index) = with_records(&device, RECORDS, (false, &|i| DUE + 20 * i));
    // Half of them: as they must be read, they would wait for the others of their block.
    told.now.set(DUE + 10 * RECORDS);
    let due = dead(&blocks, &index, &told).len();
    assert!(due < RECORDS as usize / 4, "{due} are due");
    blocks.hurry_expiry(true);
    assert!(blocks.has_dead(&told));
    let found = due + dead(&blocks, &index, &told).len();
    assert!(found.abs_diff(RECORDS as usize / 2) <= 1, "{found} have expired");
    assert!(!blocks.has_dead(&told), "the rest lives");
}

#[test]
fn who_wants_to_hear_of_each_key_hears_of_it() {
    let (told, device) = (Told::default(), device());
    let (blocks, index) = with_records(&device, RECORDS, (true, &|_| DUE));
    told.now.set(DUE);
    told.told.set(true);
    assert_eq!(dead(&blocks, &index, &told).len(), RECORDS as usize);
    assert_eq!(told.expired.get(), 0);
}

#[test]
fn one_block_is_read_in_a_step_however_many_are_due() {
    let (told, device) = (Told::default(), device());
    let (blocks, index) = with_records(&device, RECORDS, (false, &|_| DUE));
    for number in 1..4 {
        seal(&blocks, &index, number, RECORDS, (false, &|_| DUE));
    }
    told.now.set(DUE);
    let (cursor, mut found) = (AtomicU64::new(0), 0);
    for step in 1..=4 {
        let before = read_bytes(&blocks);
        blocks.find_dead(&Alone(&blocks), AnyIndex::of(&index), &told, &cursor, &mut |_, _| found += 1);
        assert_eq!(found, step * RECORDS);
        let read = read_bytes(&blocks) - before;
        assert!(read <= BLOCK_BYTES as u64, "{read} bytes read, of blocks of {BLOCK_BYTES}");
    }
    assert!(!blocks.has_dead(&told));
}

/// The first search fails to read. The next one comes not at once, but soon, and finds the key, once.
fn found_after_a_failed_read(expire_at: u64, told: &Told) {
    let device = device();
    let (blocks, index) = with_records(&device, 1, (false, &|_| expire_at));
    device.inject(Fault::new(Access::Read, FaultKind::Io));
    assert!(dead(&blocks, &index, told).is_empty());
    assert!(!blocks.has_dead(told), "a block that can't be read is not tried without a pause");
    told.now.set(told.now.get() + 2000);
    assert!(blocks.has_dead(told));
    assert_eq!(dead(&blocks, &index, told), [key(0)]);
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
fn a_failed_read_of_a_footer_forgets_no_expired_key() {
    let (told, device) = (Told::default(), device());
    let (blocks, index) = with_records(&device, 1, (true, &|_| DUE));
    blocks.forget_deadlines(0);
    blocks.slots[0].min_expire.store(DUE, Release);
    told.now.set(DUE);
    device.inject(Fault::new(Access::Read, FaultKind::Io));
    assert!(dead(&blocks, &index, &told).is_empty() && told.expired.get() == 0 && !blocks.has_dead(&told));
    told.now.set(DUE + 2000);
    assert!(dead(&blocks, &index, &told).is_empty() && told.expired.get() == 1);
}

#[test]
fn a_failed_read_forgets_no_flushed_key() {
    let told = Told::default();
    told.now.set(DUE);
    told.flushed.set(5);
    found_after_a_failed_read(0, &told);
}
