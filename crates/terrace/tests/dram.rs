//! The engine without a lower tier, through the public library.

use terrace::engine::{Batch, Condition, Delta, Durability, Expiry, OpKind, Reply};
use terrace::{Options, open};

fn set(value: terrace::engine::Span) -> OpKind {
    OpKind::Set {
        value,
        condition: Condition::Always,
        expiry: Expiry::Clear,
        flags: Some(7),
        old_value: false,
    }
}

#[test]
fn a_batch_is_answered_in_order() {
    let options = Options {
        engine: "dram".into(),
        durability: Durability::None,
        dram: Some(64 << 20),
        ..Options::default()
    };
    let store = open(options).unwrap();
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    let small = batch.bytes(b"41");
    let large_bytes = vec![3u8; 100_000];
    let large = batch.bytes(&large_bytes);
    batch.push(0, b"n", set(small));
    batch.push(0, b"n", OpKind::Incr { by: Delta::Signed(1) });
    batch.push(0, b"n", OpKind::Get { value: true });
    batch.push(1, b"n", OpKind::Get { value: true });
    batch.push(0, b"large", set(large));
    batch.push(0, b"large", OpKind::Get { value: true });
    batch.push(
        0,
        b"large",
        OpKind::Append {
            value: small,
            front: false,
            create: false,
            condition: Condition::Always,
            value_bytes_max: u32::MAX,
        },
    );
    batch.push(0, b"", OpKind::Scan { cursor: 0, count: 100 });
    batch.push(0, b"n", OpKind::Delete { condition: Condition::Always, old_value: true });
    batch.push(0, b"n", OpKind::Get { value: true });
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    let reply = |i| batch.reply(i, &proof);
    assert!(matches!(reply(0), Reply::Stored { .. }));
    assert_eq!(reply(1), Reply::Number(42));
    let Reply::Hit { meta, value: Some(value) } = reply(2) else { panic!("{:?}", reply(2)) };
    assert_eq!((meta.flags, batch.output(value)), (7, &b"42"[..]));
    assert_eq!(reply(3), Reply::Miss);
    let Reply::Hit { value: Some(value), .. } = reply(5) else { panic!("{:?}", reply(5)) };
    assert_eq!(batch.output(value), large_bytes);
    assert_eq!(reply(6), Reply::Length(100_002));
    assert!(matches!(reply(7), Reply::Scanned { .. }));
    let Reply::Deleted { old: Some(old) } = reply(8) else { panic!("{:?}", reply(8)) };
    assert_eq!(batch.output(old), b"42");
    assert_eq!(reply(9), Reply::Miss);
    assert_eq!(store.len(0), 1);
    drop(session);
    store.close().unwrap();
}

#[test]
fn a_record_that_is_replaced_is_given_back() {
    let options = Options { engine: "dram".into(), dram: Some(64 << 20), ..Options::default() };
    let store = open(options).unwrap();
    for i in 0..200 {
        store.set(b"key", &vec![7; 10 + i % 8 * 300]).unwrap();
    }
    assert_eq!(store.stats().tiers[0].records, 1);
    store.close().unwrap();
}
