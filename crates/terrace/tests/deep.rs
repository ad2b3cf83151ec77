//! Batches that log more than one block holds.

use terrace::engine::{Batch, Condition, Expiry, OpKind, Reply};
use terrace::{Options, Tier, open};

/// What a block of the log holds, several times.
const RECORDS: u32 = 2000;
const VALUE_BYTES: usize = 1000;

fn sets(batch: &mut Batch, round: u8) {
    batch.clear();
    for n in 0..RECORDS {
        let value = batch.bytes(&[round; VALUE_BYTES]);
        let kind = OpKind::Set {
            value,
            condition: Condition::Always,
            expiry: Expiry::Clear,
            flags: Some(0),
            old_value: false,
        };
        batch.push(0, format!("key{n}").as_bytes(), kind);
    }
}

#[test]
fn a_deep_batch_of_writes_waits_for_no_background_work() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options {
        engine: "tac".into(),
        dir: Some(dir.path().into()),
        dram_records: Some(32 << 20),
        ssd: Some(Tier { bytes: 256 << 20, place: None }),
        ..Options::default()
    };
    let store = open(options()).unwrap();
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    // The first time records may have to wait for slots.
    sets(&mut batch, 0);
    session.execute(&mut batch);
    let _ = session.wait(&mut batch);
    let stalls = store.stats().stalls;
    let log = store.stats().log.expect("there is a log");
    assert!(
        u64::from(RECORDS) * VALUE_BYTES as u64 > 4 * (256 << 10) && log.capacity_bytes >= 8 << 20,
        "{log:?}"
    );

    sets(&mut batch, 1);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    assert!((0..RECORDS as usize).all(|i| matches!(batch.reply(i, &proof), Reply::Stored { .. })));
    assert_eq!(store.stats().stalls, stalls);
    // All that was logged is found again.
    drop(session);
    store.kill();
    let again = open(options()).unwrap();
    for n in 0..RECORDS {
        let value = again.get(format!("key{n}").as_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&[1; VALUE_BYTES][..]), "key{n}");
    }
    again.close().unwrap();
}
