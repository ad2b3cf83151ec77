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

/// A write of so many bytes to a database.
#[derive(Clone, Copy)]
struct Write(u8, usize, Expiry);

fn takes(session: &mut dyn Session, key: u64, Write(db, bytes, expiry): Write) -> bool {
    let mut batch = Batch::new();
    let value = batch.bytes(&vec![b'v'; bytes]);
    let set = OpKind::Set { value, condition: Condition::Always, expiry, flags: None, old_value: false };
    batch.push(db, &key.to_be_bytes(), set);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    match batch.reply(0, &proof) {
        Reply::Stored { .. } => true,
        Reply::Error(OpError::Full) => false,
        other => panic!("{other:?}"),
    }
}

/// Few among many: a step of the search comes by few buckets, and is not likely to find one.
#[test]
fn what_has_expired_makes_room_before_anything_is_refused() {
    for (bytes, every) in [(60, 5000), (500, 2500), (40_000, 30)] {
        let clock = Arc::new(ManualClock::new(START_MS * 1000));
        let store = open(&clock);
        let mut session = store.session().unwrap();
        let soon = Expiry::At(store.time().now_ms + 1000);
        let write = |key: u64| match key % every {
            0 => Write(0, bytes, soon),
            1 => Write(1, bytes, Expiry::Clear),
            _ => Write(0, bytes, Expiry::Clear),
        };
        let keys = (0..).take_while(|&key| takes(&mut *session, key, write(key))).count() as u64;
        assert!(keys > 2 * every, "{keys} keys");
        let live = Write(0, bytes, Expiry::Clear);
        assert!(!takes(&mut *session, keys, live), "all of them live");
        // Nobody works from here on but who writes.
        clock.advance_us(1_000_000);
        let expired = (0..keys).filter(|key| key % every == 0).count() as u64;
        for key in keys..keys + expired {
            assert!(takes(&mut *session, key, live), "{bytes}: {} of {expired}", key - keys);
        }
        // A record with a time is a little longer.
        let more = (2 * keys..).take_while(|&key| takes(&mut *session, key, live)).count();
        assert!(more < 3, "{more} more than that");
        assert_eq!(store.stats().expired, expired);
        // What a flush forgets makes room as well.
        let mut batch = Batch::new();
        batch.push(1, b"", OpKind::Flush { db: Some(1) });
        session.execute(&mut batch);
        drop(session.wait(&mut batch));
        let flushed = (0..keys).filter(|key| key % every == 1).count() as u64;
        for key in 0..flushed {
            assert!(takes(&mut *session, 3 * keys + key, live), "{bytes}: {key} of {flushed} after a flush");
        }
    }
}
