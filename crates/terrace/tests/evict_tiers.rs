//! What a full store over a lower tier does when keys keep coming: it evicts in their order, and writes little more than them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use terrace::engine::{Batch, Condition, Durability, Expiry, OpKind, Progress, Reply, Session};
use terrace::{OpenStore, Options, Tier, WhenFull, open};

const PMEM_BYTES: u64 = 48 << 20;
const VALUE_BYTES: usize = 300;
/// Three times what fits.
const KEYS: u64 = 360_000;
const BATCH: u64 = 16;
const STEPS: usize = 4;

fn cache(engine: &str) -> OpenStore {
    open(Options {
        engine: engine.into(),
        durability: Durability::Sync,
        dram_records: Some(6 << 20),
        pmem: Some(Tier { bytes: PMEM_BYTES, place: None }),
        profile: Some("dram".into()),
        when_full: WhenFull::Evict,
        background_threads: 0,
        hash_seed: Some(1),
        ..Options::default()
    })
    .unwrap()
}

/// Background work after a batch.
fn step(store: &OpenStore) {
    (0..STEPS).take_while(|_| store.step() == Progress::Worked).for_each(drop);
}

fn detail(store: &OpenStore, name: &str) -> u64 {
    let details = store.stats().engine_details;
    details.iter().find(|(named, _)| *named == name).unwrap_or_else(|| panic!("no {name}")).1
}

fn run(session: &mut dyn Session, push: impl FnOnce(&mut Batch)) -> Vec<Reply> {
    let mut batch = Batch::new();
    push(&mut batch);
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    (0..batch.len()).map(|i| batch.reply(i, &proof)).collect()
}

fn set(batch: &mut Batch, key: u64, bytes: usize) {
    let value = batch.bytes(&vec![b'v'; bytes]);
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    let kind = OpKind::Set { value, condition, expiry, flags: None, old_value: false };
    batch.push(0, &key.to_be_bytes(), kind);
}

fn is_there(session: &mut dyn Session, key: u64) -> bool {
    let get = |batch: &mut Batch| _ = batch.push(0, &key.to_be_bytes(), OpKind::Get { value: true });
    let replies = run(session, get);
    matches!(replies[..], [Reply::Hit { .. }])
}

/// Sets keys in ascending order; `also` after each so many.
fn fill(store: &OpenStore, session: &mut dyn Session, mut also: impl FnMut(&mut Batch, u64)) {
    for first in (0..KEYS).step_by(BATCH as usize) {
        let replies = run(session, |batch| {
            for key in first..first + BATCH {
                set(batch, key, VALUE_BYTES);
                also(batch, key);
            }
        });
        for reply in replies {
            assert!(matches!(reply, Reply::Stored { .. }), "after key {first}: {reply:?}");
        }
        step(store);
    }
}

/// A full cache moved nine records for each that came, and wrote twenty bytes for one of the client's.
#[test]
fn new_keys_push_old_ones_out_and_little_is_moved() {
    // What `tac` moves counts as new again.
    for (engine, most, part) in [("hetermm", KEYS / 20, 20), ("tac", KEYS / 2, 10)] {
        let store = cache(engine);
        let mut session = store.session().unwrap();
        fill(&store, &mut *session, |_, _| {});
        let (moved, evicted) = (detail(&store, "records_moved"), store.stats().evicted);
        assert!(evicted > KEYS / 2, "{engine}: {evicted} evicted");
        assert!(moved < most, "{engine}: {moved} moved");
        // A tombstone stays until what it is above has gone: they must not take the place of keys.
        let there: Vec<u64> = (0..KEYS).filter(|&key| is_there(&mut *session, key)).collect();
        let fits = PMEM_BYTES / (VALUE_BYTES as u64 + 80);
        assert!(there.len() as u64 > fits * 6 / 10, "{engine}: {} of {fits}", there.len());
        let newest = KEYS - there.len() as u64;
        let older = there.iter().filter(|&&key| key < newest).count();
        assert!(older < there.len() / part, "{engine}: {older} of {} are not the newest", there.len());
        drop(session);
        store.close().unwrap();
    }
}

/// The same where half of what comes replaces what came not long before: blocks that have lost most of what they held are
/// packed, and others are not for the little that they would give.
#[test]
fn where_keys_are_replaced_too_little_is_moved() {
    let store = cache("hetermm");
    let mut session = store.session().unwrap();
    let mut drawn = 7_u64;
    fill(&store, &mut *session, |batch, key| {
        drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        set(batch, key - (drawn >> 33) % (key + 1).min(50_000), VALUE_BYTES);
    });
    let moved = detail(&store, "records_moved");
    assert!(moved < 2 * KEYS, "{moved} moved for {} sets", 2 * KEYS);
    drop(session);
    store.close().unwrap();
}

/// A step evicted 256 values of whatever length.
#[test]
fn a_large_value_costs_about_as_many_bytes_of_others() {
    for engine in ["hetermm", "tac"] {
        let store = cache(engine);
        let mut session = store.session().unwrap();
        let mut fewest = u64::MAX;
        for key in 0..400 {
            let replies = run(&mut *session, |batch| set(batch, key, 512 << 10));
            assert!(matches!(replies[..], [Reply::Stored { .. }]), "{engine}: value {key}: {replies:?}");
            step(&store);
            if key >= 100 {
                fewest = fewest.min((0..=key).filter(|&key| is_there(&mut *session, key)).count() as u64);
            }
        }
        assert!(fewest * (512 << 10) > PMEM_BYTES / 2, "{engine}: {fewest} values left");
        drop(session);
        store.close().unwrap();
    }
}
