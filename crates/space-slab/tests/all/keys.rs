//! Numbered keys, for tests that must know what happens when.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use terrace_engine::{Batch, Condition, Expiry, OpKind, Reply, Session};

/// A set that need not know what it replaces.
pub fn set(batch: &mut Batch, key: u64, value: &[u8]) {
    let value = batch.bytes(value);
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    let set = OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false };
    batch.push(0, &key.to_be_bytes(), set);
}

/// Has a session execute a batch of writes.
pub fn write(session: &mut dyn Session, fill: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    fill(&mut batch);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    for i in 0..batch.len() {
        assert!(matches!(batch.reply(i, &proof), Reply::Stored { .. } | Reply::Done));
    }
}

pub fn get(session: &mut dyn Session, key: u64) -> Option<Vec<u8>> {
    let mut batch = Batch::new();
    batch.push(0, &key.to_be_bytes(), OpKind::Get { value: true });
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    match batch.reply(0, &proof) {
        Reply::Hit { value, .. } => Some(batch.output(value.unwrap()).to_vec()),
        Reply::Miss => None,
        other => panic!("{other:?}"),
    }
}
