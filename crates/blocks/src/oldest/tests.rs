//! The oldest keys, and what finding them costs, in slots looked at.

use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_engine::record::NewRecord;
use terrace_index::{Address, Change, Clht, Index, Key, Verdict};
use terrace_media::HeapRegion;

use super::*;
use crate::byte_tier::ByteTier;
use crate::gather::tests::Come;
use crate::image::{Block, Image};
use crate::layout::BLOCK_HEADER_BYTES;

const BLOCK_BYTES: usize = 1024;

struct Tier {
    blocks: Blocks<ByteTier<HeapRegion>>,
    index: Clht,
}

fn address(slot: u32, offset: u32) -> Address {
    Address::new(1 << 40 | u64::from(slot) << 11 | u64::from(offset))
}

impl Copies for Tier {
    fn address(&self, slot: u32, entry: &FooterEntry, _words: u32) -> Address {
        address(slot, entry.offset)
    }
    fn load(&self, slot: u32, _context: &dyn Context) -> Option<Block> {
        self.blocks.read_block(slot)
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

impl Tier {
    fn new(blocks: usize) -> Self {
        let bytes = (blocks + 16) as u64 * BLOCK_BYTES as u64;
        let lower = ByteTier::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes, String::new());
        let blocks = Blocks::new(lower, BLOCK_BYTES, 1).unwrap();
        Self { blocks, index: Clht::with_min_buckets(64) }
    }
    /// The next block begins in this slot, as a page without records.
    fn begin(&self, number: u32) {
        let seq = self.blocks.last_seq.fetch_add(1, SeqCst) + 1;
        self.blocks.slots[number as usize].begin(State::Mutable, seq, None, BLOCK_HEADER_BYTES as u32);
        self.blocks.has_begun(number);
    }
    /// One record goes to it, and it is sealed.
    fn seal(&self, number: u32, key: u64, kind: Kind) {
        let (slot, mut bytes) = (&self.blocks.slots[number as usize], Vec::new());
        let bytes_of_key = key.to_le_bytes();
        let record = NewRecord {
            version: key + 1,
            kind,
            db: 0,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: &bytes_of_key,
            value: &[],
        };
        record.encode(&mut bytes);
        let at = address(number, BLOCK_HEADER_BYTES as u32);
        self.index.update(&hashed(&bytes_of_key), |_| Verdict::Differs, |_| (Change::Set(at), ()));
        slot.used_bytes.store((BLOCK_HEADER_BYTES + bytes.len()) as u32, Release);
        slot.live_bytes.store(bytes.len() as i64, Release);
        slot.count.store(1, Release);
        let mut image = Image::default();
        let draw = |_, out: &mut Vec<u8>| out.extend_from_slice(&bytes);
        self.blocks.draw(number, KeyHasher::new(1), &mut image, draw).unwrap();
        self.blocks.lower.write(self.blocks.block_offset(number), image.bytes()).unwrap();
        slot.set_state(State::Sealed);
    }
    /// The oldest key, which goes.
    fn evict(&self) -> Option<u64> {
        let mut found = None;
        let any = self.blocks.oldest_keys(self, AnyIndex::of(&self.index), &Come, 1, &mut |_, key| {
            found = Some(key.to_vec());
        });
        assert_eq!(any, found.is_some());
        let key = found?;
        self.index.update(&hashed(&key), |_| Verdict::Match, |_| (Change::Remove, ()));
        Some(u64::from_le_bytes(key.try_into().unwrap()))
    }
    fn looked_at(&self) -> u64 {
        self.blocks.counts.looked_at.load(Relaxed)
    }
}

fn hashed(key: &[u8]) -> Key<'_> {
    Key { bytes: key, ..KeyHasher::new(1).key(0, key) }
}

#[test]
fn keys_go_in_the_order_of_their_blocks_and_none_is_missed() {
    let tier = Tier::new(8);
    for (number, key) in [(5, 50), (2, 20), (7, 70)] {
        tier.begin(number);
        tier.seal(number, key, Kind::Value);
    }
    // Pages that nobody has written to yet, before and after the blocks are put in order.
    tier.begin(0);
    assert_eq!(tier.evict(), Some(50));
    tier.begin(1);
    assert_eq!((tier.evict(), tier.evict(), tier.evict()), (Some(20), Some(70), None));
    tier.seal(1, 10, Kind::Value);
    tier.seal(0, 1, Kind::Value);
    // What was put off comes again.
    let mut left = [tier.evict(), tier.evict()];
    left.sort_unstable();
    assert_eq!((left, tier.evict()), ([Some(1), Some(10)], None));
    // A slot that is used again is where its new block belongs.
    tier.begin(3);
    tier.seal(3, 30, Kind::Value);
    tier.begin(5);
    tier.seal(5, 51, Kind::Value);
    assert_eq!((tier.evict(), tier.evict(), tier.evict()), (Some(30), Some(51), None));
}

#[test]
fn a_block_that_can_not_be_read_for_once_has_its_turn_later() {
    let tier = Tier::new(8);
    for (number, key) in [(1, 10), (2, 20), (3, 30)] {
        tier.begin(number);
        tier.seal(number, key, Kind::Value);
    }
    // The footer is not the one that is looked for.
    let seq = tier.blocks.slots[1].seq.swap(99, AcqRel);
    assert_eq!(tier.evict(), Some(20));
    tier.blocks.slots[1].seq.store(seq, Release);
    let mut left = [tier.evict(), tier.evict()];
    left.sort_unstable();
    assert_eq!((left, tier.evict()), ([Some(10), Some(30)], None));
}

/// A million blocks, the oldest of which hold a tombstone each and the next ones a key: the others are there in the
/// table alone.
#[test]
fn the_oldest_of_a_million_blocks_is_found_without_a_walk() {
    const BLOCKS: u32 = 1_000_000;
    const TOMBSTONES: u64 = 500;
    const KEYS: u64 = 500;
    let tier = Tier::new(BLOCKS as usize);
    // All over the table.
    let place = |i: u64| (i * 611_953 % u64::from(BLOCKS)) as u32;
    for i in 0..TOMBSTONES + KEYS {
        tier.begin(place(i));
        tier.seal(place(i), i, if i < TOMBSTONES { Kind::Tombstone } else { Kind::Value });
    }
    for slot in tier.blocks.slots.iter().filter(|slot| slot.state() == State::Free) {
        let seq = tier.blocks.last_seq.fetch_add(1, SeqCst) + 1;
        slot.begin(State::Sealed, seq, None, BLOCK_BYTES as u32);
        slot.live_bytes.store(500, Relaxed);
    }
    assert_eq!(tier.evict(), Some(TOMBSTONES));
    let first = tier.looked_at();
    assert!(first <= tier.blocks.slots.len() as u64 + TOMBSTONES + 1, "{first} slots to put them in order");
    for i in TOMBSTONES + 1..TOMBSTONES + KEYS {
        assert_eq!(tier.evict(), Some(i));
        // What it held goes somewhere else, as in a full store.
        tier.begin(place(i - 1));
    }
    let more = tier.looked_at() - first;
    assert!(more <= 2 * KEYS, "{more} slots looked at for {KEYS} keys");
    let bytes = tier.blocks.oldest.bytes();
    assert!(bytes <= 9 * u64::from(BLOCKS) && tier.blocks.limit_lists(0) >= bytes, "{bytes} bytes");
}
