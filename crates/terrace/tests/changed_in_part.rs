//! Large values that are changed in part: what that writes, and that nothing of them is lost, whatever else goes on.

use terrace::engine::{
    Batch, Condition, Durability, Edit, Expiry, NewBytes, OpKind, Outcome, Put, Reply, Session, Store,
};
use terrace::{Options, Tier, open};

const VALUE_BYTES: usize = 4 << 20;
const CHANGES: usize = 64;

fn options(engine: &str, dir: &std::path::Path) -> Options {
    Options {
        engine: engine.into(),
        durability: Durability::None,
        dram: Some(48 << 20),
        dir: Some(dir.into()),
        ssd: Some(Tier { bytes: 128 << 20, place: None }),
        ..Options::default()
    }
}

fn run(session: &mut dyn Session, key: &[u8], kind: impl FnOnce(&mut Batch) -> OpKind) -> Option<Vec<u8>> {
    let mut batch = Batch::new();
    let kind = kind(&mut batch);
    batch.push(0, key, kind);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    match batch.reply(0, &proof) {
        Reply::Hit { value, .. } => value.map(|value| batch.output(value).to_vec()),
        Reply::Stored { .. } | Reply::Edited { .. } | Reply::Length { .. } | Reply::Deleted { .. } => None,
        other => panic!("{other:?}"),
    }
}

fn set(session: &mut dyn Session, key: &[u8], value: &[u8]) {
    run(session, key, |batch| {
        let value = batch.bytes(value);
        let (condition, expiry) = (Condition::Always, Expiry::Clear);
        OpKind::Set { value, condition, expiry, flags: None, old_value: false }
    });
}

fn get(session: &mut dyn Session, key: &[u8]) -> Option<Vec<u8>> {
    run(session, key, |_| OpKind::Get { value: true })
}

/// As `SETRANGE`: eight bytes of where, then what.
fn overwrite(edit: &mut Edit<'_>) -> Outcome {
    let (Some(old), Some((at, bytes))) = (edit.old, edit.argument.split_first_chunk()) else {
        return Outcome::Keep;
    };
    let at = u64::from_le_bytes(*at) as usize;
    edit.value.extend_from_slice(old.value);
    edit.value.write_at(at, bytes);
    Outcome::Put(Put { bytes: NewBytes::Value, flags: 0, expire_at: 0, state: 0 })
}

fn set_range(session: &mut dyn Session, key: &[u8], value: &mut [u8], at: usize, bytes: &[u8]) {
    value[at..at + bytes.len()].copy_from_slice(bytes);
    let argument = [&(at as u64).to_le_bytes()[..], bytes].concat();
    run(session, key, |batch| OpKind::Edit { edit: overwrite, argument: batch.bytes(&argument) });
}

fn append(session: &mut dyn Session, key: &[u8], value: &mut Vec<u8>, bytes: &[u8], front: bool) {
    let at = if front { 0 } else { value.len() };
    value.splice(at..at, bytes.iter().copied());
    run(session, key, |batch| OpKind::Append {
        value: batch.bytes(bytes),
        front,
        create: false,
        condition: Condition::Always,
        value_bytes_max: u32::MAX,
    });
}

fn written(store: &dyn Store) -> u64 {
    store.stats().tiers.iter().map(|tier| tier.media.write_bytes).sum()
}

fn some_bytes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|i| (i / 7 * 31 + i * seed) as u8).collect()
}

/// Each of these wrote the whole value.
#[test]
fn a_change_writes_in_proportion_to_itself() {
    for engine in ["tac", "hetermm"] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(options(engine, dir.path())).unwrap();
        let mut session = store.session().unwrap();
        let mut value = some_bytes(VALUE_BYTES, 3);
        set(&mut *session, b"k", &value);
        let before = written(&*store);
        assert!(before >= VALUE_BYTES as u64, "{engine}: {before}");
        for i in 0..CHANGES {
            let at = i * 7_919_113 % (VALUE_BYTES - 100);
            set_range(&mut *session, b"k", &mut value, at, &[i as u8; 100]);
            append(&mut *session, b"k", &mut value, &[i as u8; 1000], i % 2 == 0);
        }
        let changed = written(&*store) - before;
        // A piece of 64 KiB each, two where a change lies in two; headers of blocks and pages of the background's beside.
        let most = (CHANGES * 2) as u64 * (96 << 10) + (8 << 20);
        assert!(
            changed <= most,
            "{engine}: {changed} bytes for {CHANGES} changes of each kind, {most} allowed"
        );
        assert!(get(&mut *session, b"k").as_deref() == Some(&value[..]), "{engine}");
        drop(session);
        store.close().unwrap();
        let store = open(options(engine, dir.path())).unwrap();
        assert!(get(&mut *store.session().unwrap(), b"k").as_deref() == Some(&value[..]), "{engine}, again");
    }
}

/// Changes beside overwrites and deletes of others, in a tier that they fill many times over, so that blocks are gathered and reused.
#[test]
fn what_is_shared_outlives_what_shared_it() {
    for engine in ["tac", "hetermm", "dram"] {
        let dir = tempfile::tempdir().unwrap();
        let store = if engine == "dram" {
            open(Options { ssd: None, dir: None, dram: Some(96 << 20), ..options(engine, dir.path()) })
                .unwrap()
        } else {
            open(options(engine, dir.path())).unwrap()
        };
        let mut session = store.session().unwrap();
        let mut kept: Vec<Vec<u8>> = (0..12).map(|n| some_bytes(300_000 + n * 150_000, n + 1)).collect();
        let name = |n: usize| format!("kept{n}").into_bytes();
        for (n, value) in kept.iter().enumerate() {
            set(&mut *session, &name(n), value);
        }
        for round in 0..240usize {
            let n = round * 5 % kept.len();
            let (key, value) = (name(n), &mut kept[n]);
            // A copy in DRAM, where one is kept, must not outlive the value.
            assert!(get(&mut *session, &key).as_deref() == Some(&value[..]), "{engine}, round {round}");
            match round % 4 {
                0 => append(&mut *session, &key, value, &some_bytes(900, round), false),
                1 => append(&mut *session, &key, value, &some_bytes(70_000, round), true),
                _ => {
                    let at = round * 104_729 % (value.len() - 5000);
                    set_range(&mut *session, &key, value, at, &some_bytes(5000, round));
                }
            }
            if round % 60 == 59 {
                *value = some_bytes(500_000, round);
                set(&mut *session, &key, value);
            }
            let other = format!("other{}", round * 7 % 40).into_bytes();
            set(&mut *session, &other, &some_bytes(200_000 + round * 1000, round));
            assert!(
                get(&mut *session, &key).as_deref() == Some(&value[..]),
                "{engine}, round {round}, changed"
            );
        }
        for (n, value) in kept.iter().enumerate() {
            assert!(get(&mut *session, &name(n)).as_deref() == Some(&value[..]), "{engine}, key {n}");
        }
        drop(session);
        store.close().unwrap();
    }
}
