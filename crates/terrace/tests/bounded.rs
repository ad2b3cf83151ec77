//! What the answers of one batch may take: `Batch::bound`.

use terrace::engine::{Batch, Condition, Durability, Expiry, OpKind, Reply, Session};
use terrace::{Options, Tier, open};

const VALUE_BYTES: usize = 4 << 20;
const BOUND: usize = 8 << 20;

fn set(session: &mut dyn Session, key: &[u8]) {
    let mut batch = Batch::new();
    let value = batch.bytes(&vec![b'v'; VALUE_BYTES]);
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    batch.push(0, key, OpKind::Set { value, condition, expiry, flags: None, old_value: false });
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    assert!(matches!(batch.reply(0, &proof), Reply::Stored { .. }), "{:?}", batch.reply(0, &proof));
}

/// Reads of one key waited behind the first of them, and were not counted: a pipeline brought all of them at once.
#[test]
fn reads_of_one_large_value_are_answered_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        engine: "tac".into(),
        durability: Durability::None,
        dram: Some(32 << 20),
        dir: Some(dir.path().into()),
        ssd: Some(Tier { bytes: 256 << 20, place: None }),
        ..Options::default()
    };
    let store = open(options).unwrap();
    let mut session = store.session().unwrap();
    set(&mut *session, b"k");
    let mut batch = Batch::new();
    (0..32).for_each(|_| {
        batch.push(0, b"k", OpKind::Get { value: true });
    });
    batch.bound(BOUND, usize::MAX);
    let (mut parts, mut answered) = (0, 0);
    loop {
        session.execute(&mut batch);
        let proof = session.wait(&mut batch);
        let values = (answered..batch.executed()).map(|i| match batch.reply(i, &proof) {
            Reply::Hit { value: Some(value), .. } => batch.output(value).len(),
            other => panic!("{other:?}"),
        });
        assert!(values.sum::<usize>() <= BOUND + VALUE_BYTES, "part {parts}");
        (parts, answered) = (parts + 1, batch.executed());
        if batch.is_whole() {
            break;
        }
        batch.forget_answers();
    }
    assert_eq!(answered, 32);
    drop(session);
    store.close().unwrap();
}
