//! What leaves a full store in DRAM alone that evicts, and when.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use terrace::engine::{Batch, Condition, Durability, Expiry, OpError, OpKind, Reply, Session};
use terrace::{OpenStore, Options, WhenFull, open};

const DRAM_BYTES: u64 = 4 << 20;

fn options() -> Options {
    Options {
        engine: "dram".into(),
        durability: Durability::None,
        dram_records: Some(DRAM_BYTES),
        when_full: WhenFull::Evict,
        ..Options::default()
    }
}

fn cache() -> OpenStore {
    open(options()).unwrap()
}

fn run(session: &mut dyn Session, key: &[u8], kind: impl FnOnce(&mut Batch) -> OpKind) -> Reply {
    let mut batch = Batch::new();
    let kind = kind(&mut batch);
    batch.push(0, key, kind);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    batch.reply(0, &proof)
}

fn set(session: &mut dyn Session, key: &str, bytes: usize) -> Reply {
    run(session, key.as_bytes(), |batch| {
        let value = batch.bytes(&vec![b'v'; bytes]);
        let (condition, expiry) = (Condition::Always, Expiry::Clear);
        OpKind::Set { value, condition, expiry, flags: None, old_value: false }
    })
}

fn is_there(session: &mut dyn Session, key: &str) -> bool {
    matches!(run(session, key.as_bytes(), |_| OpKind::Get { value: true }), Reply::Hit { .. })
}

/// A store that was nearly full, but not so full that it evicted, refused what had no room, after minutes of looking for it.
#[test]
fn a_large_value_finds_room_in_a_store_that_is_nearly_full() {
    let store = cache();
    let mut session = store.session().unwrap();
    for length in [1 << 20, 1_048_000, 3 << 19, 100_000, 1 << 20] {
        for i in 0..40 {
            let reply = set(&mut *session, &format!("{length}-{i}"), length);
            assert!(matches!(reply, Reply::Stored { .. }), "value {i} of {length} bytes: {reply:?}");
            assert!(is_there(&mut *session, &format!("{length}-{i}")), "value {i} of {length} bytes");
        }
    }
    let used = store.stats().tiers[0].used_bytes;
    assert!(used <= DRAM_BYTES && used > DRAM_BYTES / 2, "{used}: no more left than had to");
    drop(session);
    store.close().unwrap();
}

#[test]
fn what_could_never_fit_evicts_nothing() {
    let store = cache();
    let mut session = store.session().unwrap();
    assert!(matches!(set(&mut *session, "k", 1000), Reply::Stored { .. }));
    let reply = set(&mut *session, "large", DRAM_BYTES as usize);
    assert!(matches!(reply, Reply::Error(OpError::ValueTooLong(_))), "{reply:?}");
    assert!(is_there(&mut *session, "k"));
    drop(session);
    store.close().unwrap();
}

/// What was read again and again went like everything else.
#[test]
fn what_is_read_stays() {
    let store = cache();
    let mut session = store.session().unwrap();
    for hot in 0..50 {
        set(&mut *session, &format!("hot{hot}"), 1000);
    }
    for round in 0..200 {
        for i in 0..100 {
            set(&mut *session, &format!("cold{round}-{i}"), 1000);
        }
        for hot in 0..50 {
            assert!(is_there(&mut *session, &format!("hot{hot}")), "key {hot} left in round {round}");
        }
    }
    assert!(store.stats().evicted > 10_000);
    drop(session);
    store.close().unwrap();
}

#[test]
fn a_smaller_budget_evicts_down_to_it() {
    let store = cache();
    let mut session = store.session().unwrap();
    for i in 0..3000 {
        set(&mut *session, &format!("key{i}"), 1000);
    }
    store.resize_dram(DRAM_BYTES / 4).unwrap();
    assert!(store.resize_dram(1).is_err());
    for i in 0..10 {
        assert!(matches!(set(&mut *session, &format!("new{i}"), 1000), Reply::Stored { .. }));
    }
    assert!(store.stats().tiers[0].used_bytes <= DRAM_BYTES / 4);
    drop(session);
    store.close().unwrap();
}

/// What a store that does not evict has found as victims stood in the way of what had expired: it stayed full for ever.
#[test]
fn a_full_store_that_refuses_lets_expired_keys_go() {
    let options = Options { when_full: WhenFull::Refuse, ..options() };
    let store = open(options).unwrap();
    let mut session = store.session().unwrap();
    let put = |session: &mut dyn Session, key: &str, expiry| {
        run(session, key.as_bytes(), |batch| {
            let value = batch.bytes(&[b'v'; 3000]);
            OpKind::Set { value, condition: Condition::Always, expiry, flags: None, old_value: false }
        })
    };
    let soon = Expiry::At(store.time().now_ms + 500);
    let mut keys = 0;
    while matches!(put(&mut *session, &format!("soon-{keys}"), soon), Reply::Stored { .. }) {
        keys += 1;
    }
    assert!(keys > 1000, "{keys} keys");
    let refused = |reply: &Reply| matches!(reply, Reply::Error(OpError::Full));
    // They expire, and the background has to find all of them. A refused write does a step of it; only what hangs is bounded.
    let begun = std::time::Instant::now();
    while refused(&put(&mut *session, "later", Expiry::Clear)) || store.stats().tiers[0].records >= 100 {
        let left = store.stats().tiers[0].records;
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{left} records are still there");
    }
}

/// A slot that was made for a long record was kept by every shorter one after it.
#[test]
fn a_record_that_becomes_short_gives_room_back() {
    let store = cache();
    let mut session = store.session().unwrap();
    for length in [8000, 400] {
        (0..100).for_each(|i| {
            assert!(matches!(set(&mut *session, &format!("{i}"), length), Reply::Stored { .. }))
        });
    }
    let used = store.stats().tiers[0].used_bytes;
    assert!(used < 100 * 600, "{used} bytes");
}
