//! A record that is whole, and stands where another one did: lines that a device has swapped.

use terrace_engine::{Batch, Condition, Expiry, OpKind, Reply};
use terrace_media::ByteRegion;
use terrace_testkit::conformance::Harness;

use super::conformance::Made;
use super::ranges::run;

/// Bytes in front of a record's key: its entry's head, and its own.
const HEAD_BYTES: u64 = 16 + 24;
const KEY_BYTES: usize = 4;
const VALUE_BYTES: usize = 28;

fn set(made: &mut Made, key: &[u8; KEY_BYTES], byte: u8) {
    let store = made.store();
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    let value = batch.bytes(&[byte; VALUE_BYTES]);
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    batch.push(0, key, OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false });
    let proof = run(store, &mut session, &mut batch);
    assert!(matches!(batch.reply(0, &proof), Reply::Stored { .. }));
    drop(session);
    for _ in 0..1000 {
        made.store().step();
    }
}

/// Where the entry starts of the record with this value.
fn entry_of(made: &Made, byte: u8) -> u64 {
    let mut all = vec![0; made.region.len() as usize];
    made.region.read(0, &mut all);
    let found: Vec<_> =
        all.windows(VALUE_BYTES).enumerate().filter(|(_, is)| is.iter().all(|b| *b == byte)).collect();
    assert_eq!(found.len(), 1, "values {byte}");
    found[0].0 as u64 - KEY_BYTES as u64 - HEAD_BYTES
}

fn is_told(made: &mut Made, key: &[u8; KEY_BYTES]) -> bool {
    let store = made.store();
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    batch.push(0, key, OpKind::Get { value: true });
    let proof = run(store, &mut session, &mut batch);
    match batch.reply(0, &proof) {
        Reply::Error(_) => true,
        Reply::Hit { .. } | Reply::Miss => false,
        other => panic!("{other:?}"),
    }
}

/// It was taken for a miss, or for an older value.
#[test]
fn a_whole_record_that_nothing_leads_to_is_told_as_damage() {
    for (is_ordered, keys) in
        [(true, [b"key1", b"key2"]), (false, [b"key1", b"key2"]), (true, [b"key1", b"key1"])]
    {
        let mut made = Made::of(8 << 20, 64 << 10, is_ordered);
        set(&mut made, keys[0], b'a');
        set(&mut made, keys[1], b'b');
        made.restart(true);
        let (from, to) = (entry_of(&made, b'a'), entry_of(&made, b'b'));
        let mut entry = vec![0; (HEAD_BYTES as usize + KEY_BYTES + VALUE_BYTES).next_multiple_of(8)];
        made.region.read(from, &mut entry);
        made.region.write(to, &entry);
        made.restart(false);
        assert!(is_told(&mut made, keys[1]), "{keys:?}, ordered: {is_ordered}");
    }
}
