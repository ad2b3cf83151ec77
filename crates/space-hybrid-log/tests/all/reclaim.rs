//! What it costs to reclaim space.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::{Batch, Condition, Expiry, OpKind, Reply, Session, Store};
use terrace_media_sim::SimBlock;
use terrace_testkit::expiry::{BLOCK_BYTES, LOG_BYTES, Media};

const BLOCKS: usize = 160;
/// In pages, so that reclamation may fill some while a session fills one.
const DRAM: usize = 40;
const VALUE_BYTES: usize = 1000;
/// A record, its key and its entry in a footer, at least.
const RECORD_BYTES: u64 = 1040;
/// Seven tenths of what the tier holds beside the pages that DRAM may have for it.
const KEYS: u64 = (BLOCKS - DRAM) as u64 * BLOCK_BYTES as u64 / RECORD_BYTES * 7 / 10;

fn set(session: &mut dyn Session, key: u64) {
    let batch = begin(session, key);
    is_stored(session, batch, key);
}

/// Sets a key, and waits for no answer.
fn begin(session: &mut dyn Session, key: u64) -> Batch {
    let mut batch = Batch::new();
    let value = batch.bytes(&[b'v'; VALUE_BYTES]);
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    batch.push(
        0,
        &key.to_le_bytes(),
        OpKind::Set { value, condition, expiry, flags: None, old_value: false },
    );
    session.execute(&mut batch);
    batch
}

/// Waits for the answer.
fn is_stored(session: &mut dyn Session, mut batch: Batch, key: u64) {
    let proof = session.wait(&mut batch);
    assert!(matches!(batch.reply(0, &proof), Reply::Stored { .. }), "{key}: {:?}", batch.reply(0, &proof));
}

fn detail(store: &dyn Store, name: &str) -> u64 {
    let details = store.stats().engine_details;
    details.iter().find(|(of, _)| *of == name).unwrap().1
}

fn new_store() -> Box<dyn Store> {
    let media = Media {
        log: SimBlock::from_image(vec![0; LOG_BYTES + BLOCK_BYTES]),
        data: SimBlock::from_image(vec![0; (BLOCKS + 1) * BLOCK_BYTES]),
    };
    let clock = Arc::new(ManualClock::new(1_800_000_000_000_000));
    super::expiry::open_with(&media, &clock, true, (DRAM * BLOCK_BYTES) as u64)
}

#[test]
fn pages_are_full_when_they_go_though_reclamation_waits_for_them() {
    let store = new_store();
    let mut session = store.session().unwrap();
    (0..KEYS).for_each(|key| set(&mut *session, key));
    let before = ["blocks_sealed", "records_moved"].map(|name| detail(&*store, name));
    let (mut state, sets) = (7u64, 4 * KEYS);
    for _ in 0..sets {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        set(&mut *session, (state >> 33) % KEYS);
        store.step();
    }
    let after = ["blocks_sealed", "records_moved"].map(|name| detail(&*store, name));
    let (sealed, moved) = (after[0] - before[0], after[1] - before[1]);
    let full = (sets + moved) * RECORD_BYTES / BLOCK_BYTES as u64;
    println!("{sealed} pages went for {sets} writes and {moved} moves, {full} full ones");
    assert!(moved > sets / 4, "{moved} records were moved");
    assert!(sealed * 10 < full * 11, "{sealed} pages went, {full} would have done");
    drop(session);
    store.close().unwrap();
}

/// The paper's alarm (section 5.4): its page is flushed in its turn, and its block is used again, whatever it does.
#[test]
fn a_session_that_rests_holds_up_neither_flushing_nor_reuse() {
    let store = new_store();
    let (mut resting, mut busy) = (store.session().unwrap(), store.session().unwrap());
    // One write that it has heard of, and one that it has not, on a page that it goes on filling.
    set(&mut *resting, KEYS);
    let unheard = begin(&mut *resting, KEYS + 1);
    for i in 0..10 * (DRAM * BLOCK_BYTES) as u64 / RECORD_BYTES {
        set(&mut *busy, i % KEYS);
        store.step();
    }
    let [sealed, reused] = ["blocks_sealed", "blocks_reused"].map(|name| detail(&*store, name));
    assert!(sealed > 9 * DRAM as u64, "{sealed} pages were flushed");
    assert!(reused > BLOCKS as u64, "{reused} blocks were used again");
    is_stored(&mut *resting, unheard, KEYS + 1);
    (KEYS..KEYS + 3).for_each(|key| set(&mut *resting, key));
    drop((resting, busy));
    assert_eq!(store.len(0), KEYS + 3);
    store.close().unwrap();
}
