use std::sync::Arc;

use terrace_blocks::{ByteTier, Place};
use terrace_engine::record::NewRecord;
use terrace_index::Clht;
use terrace_media::HeapRegion;

use super::*;
use crate::calm::Calm;
use crate::open::SlabOptions;
use terrace_policy::Count;

/// A get that read the older version, and then wants it in DRAM.
#[test]
fn nothing_comes_up_beside_a_newer_version() {
    let (region, bytes) = (Arc::new(HeapRegion::new(4 << 20).unwrap()), 4 << 20);
    let options = SlabOptions::of_tests();
    let space = SlabSpace::new(ByteTier::new(region, 0, bytes, String::new()), None, options).unwrap();
    let index = Clht::with_min_buckets(4);
    let key = |bytes: &'static [u8]| Key { bytes, ..Calm.hasher().key(0, bytes) };
    let put = |bytes: &'static [u8], debt| {
        let (version, kind, db) = (5, Kind::Value, 0);
        let record = NewRecord {
            version,
            kind,
            db,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: bytes,
            value: b"value",
        };
        let offset = space.slabs.take(space.slabs.classes.of(record.words()).unwrap(), 0).unwrap();
        let slot = space.slabs.slot(offset);
        slot.record().write(&record);
        slot.publish_owing(None, 1, space.policy.entering(Count::ONE, space.temperature.now()), debt);
        space.locations.dram(offset)
    };
    // Two keys of one hash: of the first a newer version lies beside what is on the page.
    let (first, second) = (key(b"first"), Key { bytes: b"second", ..key(b"first") });
    let from = space.locations.page(Place { slot: 3, offset: 64 }, Kind::Value, 4);
    let newer = put(b"first", Debt::UNREAD);
    for at in [from, newer] {
        index.update(&first, |_| Verdict::Differs, |_| (Change::Insert(at), ()));
    }
    assert!(!space.lift(AnyIndex::of(&index), &first, from, put(b"first", Debt::default())));
    assert!(index.contains(&first, from) && index.contains(&first, newer));
    let up = put(b"second", Debt::default());
    assert!(space.lift(AnyIndex::of(&index), &second, from, up), "it is the second one's");
    assert!(index.contains(&second, up) && !index.contains(&second, from));
}

/// By its page alone its turn would come last: more wait for any other one.
#[test]
fn what_keeps_a_slab_from_being_emptied_is_settled_first() {
    let (region, bytes) = (Arc::new(HeapRegion::new(4 << 20).unwrap()), 4 << 20);
    let options = SlabOptions::of_tests();
    let space = SlabSpace::new(ByteTier::new(region, 0, bytes, String::new()), None, options).unwrap();
    let index = Clht::with_min_buckets(4096);
    let put = |number: u64, page| {
        let bytes = number.to_le_bytes();
        let (version, kind, db) = (5, Kind::Value, 0);
        let record = NewRecord {
            version,
            kind,
            db,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: &bytes,
            value: b"value",
        };
        let offset = space.slabs.take(space.slabs.classes.of(record.words()).unwrap(), 0).unwrap();
        let slot = space.slabs.slot(offset);
        slot.record().write(&record);
        let access = space.policy.entering(Count::ONE, space.temperature.now());
        slot.publish_owing(None, 1, access, Debt::UNREAD);
        let key = Key { bytes: &bytes, ..Calm.hasher().key(0, &bytes) };
        index.update(&key, |_| Verdict::Differs, |_| (Change::Insert(space.locations.dram(offset)), ()));
        space.debts.unsettled.fetch_add(1, Relaxed);
        Owed { page, offset, version }
    };
    let (mut settling, mut others) = (Settling::default(), Vec::new());
    let first = put(0, 0);
    others.push(first);
    let last = loop {
        let number = others.len() as u64;
        let owed = put(number, (number / 2) as u32);
        if space.slabs.slab_of(owed.offset) != space.slabs.slab_of(first.offset) {
            break Owed { page: u32::MAX - 1, ..owed };
        }
        others.push(owed);
    };
    others.iter().chain([&last]).for_each(|owed| settling.add(*owed));
    space.slabs.drain(space.slabs.slab_of(last.offset));
    space.is_draining.store(true, SeqCst);
    assert!(space.settle_step(&mut settling, Haste::Urgent, AnyIndex::of(&index), &Calm) == Progress::Worked);
    let owes = |owed: &Owed| space.slabs.slot(owed.offset).debt().is_owed();
    assert!(!owes(&last) && others.iter().all(owes));
    space.is_draining.store(false, SeqCst);
    while settling.owing > 0 {
        space.settle_step(&mut settling, Haste::Urgent, AnyIndex::of(&index), &Calm);
    }
    assert!(!others.iter().any(owes));
}
