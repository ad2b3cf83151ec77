//! What it costs to choose what is reclaimed, in a store of more blocks than a choice looks at.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{Batch, Condition, Durability, Expiry, MachineOptions, OpKind, Reply, Session, Store};
use terrace_index::{Clht, MakeIndex};
use terrace_media::{AnyRegion, HeapRegion};
use terrace_space_hybrid_log::{Opening, Sizes, open_byte};

const BLOCK_BYTES: usize = 1024;
const BLOCKS: u64 = 10_000;
const LOG_BYTES: u64 = 1 << 20;
const VALUE_BYTES: usize = 150;

fn open() -> Box<dyn Store> {
    let region = HeapRegion::new(LOG_BYTES + (BLOCKS + 64) * BLOCK_BYTES as u64).unwrap();
    let opening = Opening {
        sizes: Sizes {
            manifests_apart: 0,
            block_bytes: BLOCK_BYTES,
            log_block_bytes: 64 << 10,
            log_bytes: LOG_BYTES,
            dram_bytes: 64 << 10,
            dram_with_index: false,
            store_id: 3,
        },
        fresh: true,
        machine: MachineOptions {
            engine: "hetermm",
            durability: Durability::Sync,
            immediate: true,
            evict: false,
            sessions: 2,
            hasher: KeyHasher::new(7),
            clock: Arc::new(ManualClock::new(1_800_000_000_000_000)),
            threads: 1,
            recovery_keys: usize::MAX,
        },
        index: MakeIndex::Clht(&|| Clht::with_min_buckets(64)),
        description: String::new(),
        progress: &|_, _| {},
    };
    open_byte(&Arc::new(AnyRegion::new(Arc::new(region))), 0, opening).unwrap()
}

fn set(session: &mut dyn Session, key: u64) {
    let mut batch = Batch::new();
    let value = batch.bytes(&[b'v'; VALUE_BYTES]);
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    batch.push(
        0,
        &key.to_le_bytes(),
        OpKind::Set { value, condition, expiry, flags: None, old_value: false },
    );
    session.execute(&mut batch);
    let proof = session.wait(&mut batch);
    assert!(matches!(batch.reply(0, &proof), Reply::Stored { .. }), "{key}: {:?}", batch.reply(0, &proof));
}

fn detail(store: &dyn Store, name: &str) -> u64 {
    let details = store.stats().engine_details;
    details.iter().find(|(of, _)| *of == name).unwrap().1
}

#[test]
fn a_store_of_more_blocks_than_a_choice_looks_at_moves_little() {
    const KEYS: u64 = 22_000;
    const SETS: u64 = 60_000;
    let store = open();
    let mut session = store.session().unwrap();
    (0..KEYS).for_each(|key| set(&mut *session, key));
    let names = ["records_moved", "blocks_reclaimed", "blocks_looked_at", "blocks_sealed"];
    let before = names.map(|name| detail(&*store, name));
    let mut state = 7u64;
    for _ in 0..SETS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = (state >> 33) % KEYS;
        set(&mut *session, key);
        store.step();
    }
    let after = names.map(|name| detail(&*store, name));
    let [moved, reclaimed, looks, sealed] = std::array::from_fn(|i| after[i] - before[i]);
    println!(
        "{moved} moves for {SETS} writes, {reclaimed} blocks reclaimed and {sealed} sealed, {looks} looks"
    );
    assert!(reclaimed > SETS / 20, "{reclaimed} blocks were reclaimed");
    // A walk over all looks at twice as many at least.
    assert!(looks < reclaimed * BLOCKS / 2, "{looks} slots looked at to choose {reclaimed} blocks");
    // With all looked at for each choice it was one record for six writes, and a block for three.
    assert!(moved * 5 < SETS, "{moved} records were moved for {SETS} writes");
    assert!(sealed * 5 < SETS * 2, "{sealed} blocks were written for {SETS} writes");
    drop(session);
    store.close().unwrap();
}
