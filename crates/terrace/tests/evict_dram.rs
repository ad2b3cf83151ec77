//! What leaves a full store in DRAM alone that evicts, and when.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use terrace::engine::{Batch, Condition, Durability, Expiry, OpError, OpKind, Reply, Session};
use terrace::{OpenStore, Options, WhenFull, open};

const DRAM_BYTES: u64 = 4 << 20;

fn cache() -> OpenStore {
    let options = Options {
        engine: "dram".into(),
        durability: Durability::None,
        dram_records: Some(DRAM_BYTES),
        when_full: WhenFull::Evict,
        ..Options::default()
    };
    open(options).unwrap()
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
