//! How fast slots are taken, and who is found when one is waited for.

use std::sync::Arc;

use terrace_blocks::ByteTier;
use terrace_engine::record::NewRecord;
use terrace_index::Clht;
use terrace_media::HeapRegion;

use super::*;
use crate::calm::Calm;
use crate::open::SlabOptions;
use crate::slot::Debt;
use terrace_policy::Count;

#[test]
fn slots_are_kept_for_the_next_50_ms() {
    let mut pace = Pace::default();
    assert_eq!(pace.ahead(0, 1_000_000), 0);
    assert_eq!(pace.ahead(70, 1_000_010), 70, "a burst counts at once");
    assert_eq!(pace.ahead(130, 1_000_100), 100, "200 in 100 ms");
    assert_eq!(pace.ahead(10, 1_000_110), 100);
    assert_eq!(pace.ahead(0, 1_000_200), 50);
    assert_eq!(pace.ahead(0, 1_000_250), 25);
}

fn record(key: &[u8]) -> NewRecord<'_> {
    let (version, kind, db) = (5, Kind::Value, 0);
    NewRecord { version, kind, db, flags: 0, state: 0, expire_at: 0, token: 0, key, value: b"value" }
}

/// What was put last can't leave yet, and lies together: a search that saw nothing else took many steps to get past it.
#[test]
fn whoever_is_waited_for_is_found_in_one_step_wherever_it_lies() {
    let (region, bytes) = (Arc::new(HeapRegion::new(16 << 20).unwrap()), 16 << 20);
    let options = SlabOptions::of_tests();
    let space = SlabSpace::new(ByteTier::new(region, 0, bytes, String::new()), None, options).unwrap();
    let index = Clht::with_min_buckets(4096);
    let key = |number: usize| number.to_le_bytes();
    let class = space.slabs.classes.of(record(&key(0)).words()).unwrap();
    let mut offsets = Vec::new();
    while let Some(offset) = space.slabs.take(class, 0) {
        offsets.push(offset);
    }
    assert!(offsets.len() > 2000, "{}", offsets.len());
    offsets.sort_unstable();
    for (number, &offset) in offsets.iter().enumerate() {
        let debt = if number + 1 < offsets.len() { Debt::UNREAD } else { Debt::default() };
        let slot = space.slabs.slot(offset);
        slot.record().write(&record(&key(number)));
        slot.publish_owing(None, 1, space.policy.entering(Count::ONE, space.temperature.now()), debt);
        let key = Key { bytes: &key(number), ..Calm.hasher().key(0, &key(number)) };
        index.update(&key, |_| Verdict::Differs, |_| (Change::Insert(space.locations.dram(offset)), ()));
    }
    space.slabs.wanting.store(class as u32, SeqCst);
    let (mut evicting, mut draining) =
        (Evicting::new(&space.policy, space.slabs.classes.count()), Draining::default());
    let mut stage = Stage::default();
    let progress =
        space.evict_step((&mut evicting, &mut draining), &mut stage, false, AnyIndex::of(&index), &Calm);
    assert!(progress == Progress::Worked && space.slabs.slot(*offsets.last().unwrap()).is_staged());
}
