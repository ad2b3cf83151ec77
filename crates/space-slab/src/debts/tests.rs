use std::sync::Arc;

use terrace_blocks::{ByteTier, Place};
use terrace_engine::record::NewRecord;
use terrace_index::Clht;
use terrace_media::HeapRegion;

use super::*;
use crate::calm::Calm;
use crate::open::SlabOptions;
use crate::policy::Count;

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
        let record =
            NewRecord { version, kind, db, flags: 0, state: 0, expire_at: 0, key: bytes, value: b"value" };
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
    assert!(!space.lift(&index, &first, from, put(b"first", Debt::default())));
    assert!(index.contains(&first, from) && index.contains(&first, newer));
    let up = put(b"second", Debt::default());
    assert!(space.lift(&index, &second, from, up), "it is the second one's");
    assert!(index.contains(&second, up) && !index.contains(&second, from));
}
