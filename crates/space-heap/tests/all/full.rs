//! A full heap lets keys go, and has room again for records of any length.

use terrace_engine::{Batch, Condition, Expiry, OpError, OpKind, Reply, Session};
use terrace_media::HeapRegion;

use super::{ALL, Kind, store};

fn run(session: &mut dyn Session, key: u32, value: Option<&[u8]>) -> Reply {
    let mut batch = Batch::new();
    let (condition, old_value) = (Condition::Always, false);
    let kind = match value {
        Some(value) => {
            let value = batch.bytes(value);
            OpKind::Set { value, condition, expiry: Expiry::Clear, flags: Some(0), old_value }
        }
        None => OpKind::Delete { condition, old_value },
    };
    batch.push(0, &key.to_le_bytes(), kind);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    batch.reply(0, &proof)
}

#[test]
fn a_full_heap_lets_keys_go() {
    ALL.into_iter().for_each(fill_and_delete);
}

fn fill_and_delete(kind: Kind) {
    let store = store(HeapRegion::new(512 << 10).unwrap(), (16 << 10, kind), true);
    let mut session = store.session().unwrap();
    let full = |reply: &Reply| matches!(reply, Reply::Error(OpError::Full));
    let mut last = 0;
    while !full(&run(&mut *session, last, Some(&[1; 64]))) {
        last += 1;
    }
    assert!(last > 3000, "{last} records fill 512 KiB");
    // Of no page all: what is left of them moves together for a longer record.
    for key in (0..last).filter(|key| key % 3 != 0) {
        let reply = run(&mut *session, key, None);
        assert!(matches!(reply, Reply::Deleted { .. }), "key {key}: {reply:?}");
    }
    for key in last..last + 100 {
        let reply = run(&mut *session, key, Some(&[2; 1000]));
        assert!(matches!(reply, Reply::Stored { .. }), "key {key}: {reply:?}");
    }
}
