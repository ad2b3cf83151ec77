//! Cas tokens of a client's choosing: they lie in the record, wherever that goes, and through restarts.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use terrace::engine::{
    Batch, Condition, Durability, Edit, ExpireIf, Expiry, Meta, NewBytes, OpKind, Outcome, Put, Reply,
    Session,
};
use terrace::{Options, Place, Tier, open};

const KEYS: u32 = 2000;
/// What lies in between has them leave DRAM.
const OTHERS: u32 = 24_000;

/// Writes a record of 300 bytes with the token that is the argument.
fn tokened(edit: &mut Edit<'_>) -> Outcome {
    let token = u64::from_le_bytes(edit.argument.try_into().unwrap_or_default());
    edit.value.extend_from_slice(&[token as u8; 300]);
    let expire_at = if token.is_multiple_of(2) { 0 } else { edit.now_ms + 1_000_000 };
    Outcome::Tokened(Put { bytes: NewBytes::Value, flags: 7, expire_at, state: 1 }, token)
}

fn token(i: u32) -> u64 {
    (u64::from(i) << 33) | (u64::from(i) + 1)
}

fn run(session: &mut dyn Session, key: &[u8], kind: impl FnOnce(&mut Batch) -> OpKind) -> Reply {
    let mut batch = Batch::new();
    let kind = kind(&mut batch);
    batch.push(0, key, kind);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    batch.reply(0, &proof)
}

fn meta(session: &mut dyn Session, i: u32) -> Meta {
    match run(session, &i.to_be_bytes(), |_| OpKind::Get { value: false }) {
        Reply::Hit { meta, .. } => meta,
        other => panic!("key {i}: {other:?}"),
    }
}

fn set_if(session: &mut dyn Session, i: u32, condition: Condition) -> Reply {
    run(session, &i.to_be_bytes(), |batch| {
        let value = batch.bytes(&[1; 300]);
        OpKind::Set { value, condition, expiry: Expiry::Clear, flags: None, old_value: false }
    })
}

fn all_have_theirs(session: &mut dyn Session) {
    for i in 0..KEYS {
        let meta = meta(session, i);
        assert_eq!((meta.token, meta.cas(), meta.flags, meta.state), (token(i), token(i), 7, 1), "key {i}");
    }
}

fn lasts(options: Options, keeps: bool) {
    let name = format!("{} pmem={}", options.engine, options.pmem.is_some());
    let store = open(options.clone()).unwrap();
    let mut session = store.session().unwrap();
    for i in 0..KEYS {
        let argument = token(i).to_le_bytes();
        let reply = run(&mut *session, &i.to_be_bytes(), |batch| OpKind::Edit {
            edit: tokened,
            argument: batch.bytes(&argument),
        });
        assert!(matches!(reply, Reply::Edited { meta, .. } if meta.cas() == token(i)), "{name}: {reply:?}");
    }
    for i in KEYS..KEYS + if keeps { OTHERS } else { 0 } {
        set_if(&mut *session, i, Condition::Always);
    }
    all_have_theirs(&mut *session);
    drop(session);
    let store = if keeps {
        store.close().unwrap();
        open(options).unwrap()
    } else {
        store
    };
    let mut session = store.session().unwrap();
    all_have_theirs(&mut *session);

    // It is what `cas` compares, and the version is not; a new expiry leaves it, any other write ends it.
    let version = meta(&mut *session, 0).version;
    let refused = set_if(&mut *session, 0, Condition::Version(version));
    assert!(matches!(refused, Reply::NotStored { present: true, .. }), "{name}: {refused:?}");
    let expiry = Expiry::At(store.time().now_ms + 2_000_000);
    run(&mut *session, &1u32.to_be_bytes(), |_| OpKind::Expire {
        expiry,
        condition: ExpireIf::Always,
        value: false,
    });
    assert_eq!(meta(&mut *session, 1).token, token(1), "{name}");
    for i in 0..2 {
        let stored = set_if(&mut *session, i, Condition::Version(token(i)));
        assert!(matches!(stored, Reply::Stored { .. }), "{name}: {stored:?}");
        let after = meta(&mut *session, i);
        assert_eq!((after.token, after.cas()), (0, after.version), "{name}");
    }
    drop(session);
    store.close().unwrap();
}

fn options(engine: &str, dir: &std::path::Path) -> Options {
    Options {
        engine: engine.into(),
        dir: Some(dir.into()),
        durability: Durability::None,
        dram_records: Some(4 << 20),
        ssd: Some(Tier { bytes: 64 << 20, place: None }),
        ..Options::default()
    }
}

#[test]
fn they_last_over_an_ssd() {
    for engine in ["tac", "hetermm"] {
        let dir = tempfile::tempdir().unwrap();
        lasts(options(engine, dir.path()), true);
    }
}

#[test]
fn they_last_over_memory_and_an_ssd() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let dir = tempfile::tempdir().unwrap();
    let pmem = Tier { bytes: 16 << 20, place: Some(Place::Path(memory.path().to_path_buf())) };
    let options = Options {
        pmem: Some(pmem),
        profile: Some("dram".into()),
        ..options("tac", &dir.path().join("store"))
    };
    lasts(options, true);
}

#[test]
fn they_last_in_dram() {
    lasts(Options { engine: "dram".into(), dram_records: Some(16 << 20), ..Options::default() }, false);
}
