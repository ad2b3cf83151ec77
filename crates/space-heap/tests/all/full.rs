//! A full heap lets keys go, and has room again for records of any length.

use terrace_engine::{Batch, Condition, Expiry, OpError, OpKind, Reply, Session};
use terrace_media::HeapRegion;
use terrace_space_heap::Granularity;

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

/// Lines are free here and there, and no record of the next length finds enough of them together: those of a page come together.
#[test]
fn a_heap_that_is_half_free_takes_records_of_any_length() {
    let kind = (Granularity::Object, None);
    let store = store(HeapRegion::new(512 << 10).unwrap(), (16 << 10, kind), true);
    let mut session = store.session().unwrap();
    let is_full = |reply: &Reply| matches!(reply, Reply::Error(OpError::Full));
    // Each length between records of the one before, so that none fits where those were.
    let (mut next, mut keys) = (0u32, Vec::new());
    for value_bytes in [20, 150, 400, 1000, 2500, 3900] {
        let mut fresh = Vec::new();
        while !is_full(&run(&mut *session, next, Some(&vec![3; value_bytes]))) {
            fresh.push(next);
            next += 1;
        }
        next += 1;
        assert!(fresh.len() * (value_bytes + 64) > (512 << 10) / 4, "{} of {value_bytes} bytes", fresh.len());
        keys.extend(fresh);
        let gone: Vec<u32> = keys.iter().copied().step_by(2).collect();
        for key in &gone {
            assert!(matches!(run(&mut *session, *key, None), Reply::Deleted { .. }), "key {key}");
        }
        keys.retain(|key| !gone.contains(key));
    }
    let stats = store.stats();
    let detail = |name: &str| stats.engine_details.iter().find(|(of, _)| *of == name).unwrap().1;
    assert!(
        detail("heap_pages_emptied") > 0 && detail("heap_free_together") > 0,
        "{:?}",
        stats.engine_details
    );
}

/// What a burst costs: as many of them as in pages of a class.
#[test]
fn a_set_is_one_burst_and_a_hundredth() {
    for kind in [ALL[0], ALL[1]] {
        let store = store(HeapRegion::new(4 << 20).unwrap(), (64 << 10, kind), true);
        let mut session = store.session().unwrap();
        let fences = || store.stats().tiers[0].media.fences;
        let mut counted = |keys: std::ops::Range<u32>, value: Option<&[u8]>| {
            let (count, before) = (u64::from(keys.end - keys.start), fences());
            for key in keys {
                run(&mut *session, key, value);
            }
            (fences() - before, count)
        };
        let (fresh, count) = counted(0..640, Some(&[7; 64]));
        assert!((count..=count + count / 7).contains(&fresh), "{kind:?}: {fresh} for {count} new keys");
        let (again, count) = counted(0..640, Some(&[8; 64]));
        assert!((2 * count..=2 * count + count / 7).contains(&again), "{kind:?}: {again} for {count} again");
        let (gone, count) = counted(0..640, None);
        assert_eq!(gone, count, "{kind:?}: deletes");
        println!("{kind:?}: {fresh} {again} {gone} of {count}");
    }
}
