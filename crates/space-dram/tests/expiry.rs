//! A full store that refuses takes writes again once something has expired, under a clock that stands still.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::Manifest;
use terrace_engine::{
    Batch, Condition, Durability, Expiry, Machine, MachineOptions, OpError, OpKind, Reply, Session, Store,
    StoreHandle,
};
use terrace_index::Clht;
use terrace_log::ByteLog;
use terrace_media::HeapRegion;
use terrace_space_dram::DramSpace;

const START_MS: u64 = 1_800_000_000_000;

fn open(clock: &Arc<ManualClock>) -> impl Store {
    let options = MachineOptions {
        engine: "dram",
        durability: Durability::None,
        immediate: true,
        evict: false,
        sessions: 2,
        hasher: KeyHasher::new(7),
        clock: clock.clone(),
        threads: 1,
        recovery_keys: usize::MAX,
    };
    let (index, space) = (Clht::with_min_buckets(4), DramSpace::new(4 << 20, false));
    let none = Manifest::default();
    let machine =
        Machine::<_, _, ByteLog<HeapRegion>>::open(options, index, space, None, none, &|_, _| {}).unwrap();
    StoreHandle(machine)
}

fn takes(session: &mut dyn Session, key: u64, (bytes, expiry): (usize, Expiry)) -> bool {
    let mut batch = Batch::new();
    let value = batch.bytes(&vec![b'v'; bytes]);
    let set = OpKind::Set { value, condition: Condition::Always, expiry, flags: None, old_value: false };
    batch.push(0, &key.to_be_bytes(), set);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    match batch.reply(0, &proof) {
        Reply::Stored { .. } => true,
        Reply::Error(OpError::Full) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_has_expired_makes_room_before_anything_is_refused() {
    for bytes in [500, 40_000] {
        let clock = Arc::new(ManualClock::new(START_MS * 1000));
        let store = open(&clock);
        let mut session = store.session().unwrap();
        // Every fourth key has a time, all of them the same one.
        let soon = Expiry::At(store.time().now_ms + 1000);
        let expiry = |key| if key % 4 == 0 { soon } else { Expiry::Clear };
        let keys = (0..).take_while(|&key| takes(&mut *session, key, (bytes, expiry(key)))).count() as u64;
        assert!(keys > 50, "{keys} keys");
        assert!(!takes(&mut *session, keys, (bytes, Expiry::Clear)), "all of them live");
        // Nobody works from here on but who writes.
        clock.advance_us(1_000_000);
        for key in keys..keys + keys / 4 {
            assert!(takes(&mut *session, key, (bytes, Expiry::Clear)), "{bytes}: {} of {keys}", key - keys);
        }
        let more = (0..keys).take_while(|&key| takes(&mut *session, 2 * keys + key, (bytes, Expiry::Clear)));
        assert!(more.count() < 3, "there was no more than that");
        assert_eq!(store.stats().expired, keys.div_ceil(4));
        // A whole-database flush makes room as well.
        let mut batch = Batch::new();
        batch.push(0, b"", OpKind::Flush { db: None });
        session.execute(&mut batch);
        drop(session.wait(&mut batch));
        for key in 0..keys {
            assert!(takes(&mut *session, key, (bytes, Expiry::Clear)), "{bytes}: {key} after a flush");
        }
    }
}
