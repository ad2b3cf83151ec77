//! Many keys in nodes of eight and of forty: ranges both ways and single look-ups, while keys come, change and go, and after restarts.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{
    Batch, Condition, Direction, Durability, Expiry, MachineOptions, OpKind, RangeStart, Reply, Session,
    Store,
};
use terrace_media::{AnyRegion, HeapRegion};
use terrace_space_scm_log::{Geometry, Opening, open_ordered};
use terrace_testkit::rng::Rng;

use super::support::{START_MS, detail, rest};

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

const REGION_BYTES: u64 = 32 << 20;
const AT_ONCE: usize = 64;
const ROUNDS: u64 = 6;

fn open_store(region: &Arc<AnyRegion>, page_bytes: usize, fresh: bool) -> Box<dyn Store> {
    let opening = Opening {
        geometry: Geometry { page_bytes, buckets: 0, bytes: REGION_BYTES },
        wanted_bytes: 0,
        dram_bytes: 1 << 20,
        store_id: 3,
        fresh,
        machine: MachineOptions {
            engine: "bonsai",
            durability: Durability::Sync,
            immediate: true,
            evict: false,
            sessions: 4,
            hasher: KeyHasher::new(7),
            clock: Arc::new(ManualClock::new(START_MS * 1000)),
            threads: 1,
            recovery_keys: usize::MAX,
        },
        description: String::new(),
        progress: &|_, _| {},
        far: None,
    };
    open_ordered(region, 0, opening).unwrap()
}

/// Keys of 0 to 8 bytes, of some more, and such as share so much that a fence between them takes slots of its own.
fn key(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(3000);
    match number % 5 {
        0 => number.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect(),
        1 | 2 => (number << 40).to_be_bytes().to_vec(),
        3 => format!("user:{number:06}:name").into_bytes(),
        _ => [&[b'p'; 1200][..], format!("{number}").as_bytes()].concat(),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let length = [0, 3, 8, 8, 8, 9, 40, 300][rng.below(8) as usize];
    (0..length).map(|_| rng.below(256) as u8).collect()
}

/// Runs a batch, with background work as long as it waits for room.
pub fn run(store: &dyn Store, session: &mut Box<dyn Session>, batch: &mut Batch) -> terrace_engine::Settled {
    session.execute(batch);
    for _ in 0..100_000 {
        if let Some(proof) = session.settled(batch) {
            return proof;
        }
        store.step();
        session.poll(batch);
    }
    panic!("the batch is never answered");
}

fn change(store: &dyn Store, content: &mut Content, rng: &mut Rng) {
    let mut session = store.session().unwrap();
    for _ in 0..20 {
        let mut batch = Batch::new();
        for _ in 0..AT_ONCE {
            let key = key(rng);
            // Now and then most go, so that nodes merge.
            let goes = rng.below(100) < if content.len() > 1500 { 80 } else { 15 };
            let kind = if goes {
                content.remove(&key);
                OpKind::Delete { condition: Condition::Always, old_value: false }
            } else {
                let text = value(rng);
                let value = batch.bytes(&text);
                content.insert(key.clone(), text);
                let (condition, expiry) = (Condition::Always, Expiry::Clear);
                OpKind::Set { value, condition, expiry, flags: Some(0), old_value: false }
            };
            batch.push(0, &key, kind);
        }
        let proof = run(store, &mut session, &mut batch);
        for i in 0..AT_ONCE {
            let reply = batch.reply(i, &proof);
            let is_done = matches!(reply, Reply::Stored { .. } | Reply::Deleted { .. } | Reply::Miss);
            assert!(is_done, "{reply:?}");
        }
        for _ in 0..rng.below(12) {
            store.step();
        }
    }
}

fn range(store: &dyn Store, direction: Direction, count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut session = store.session().unwrap();
    let (mut all, mut from, mut start) = (Vec::new(), RangeStart::Edge, Vec::new());
    loop {
        let mut batch = Batch::new();
        batch.push(0, &start, OpKind::Range { from, direction, count, values: true });
        let proof = run(store, &mut session, &mut batch);
        for row in batch.ranged(0, &proof) {
            all.push((batch.output(row.key).to_vec(), batch.output(row.value.unwrap()).to_vec()));
        }
        match batch.reply(0, &proof) {
            Reply::Ranged { next: Some(next) } => {
                (from, start) = (RangeStart::After, batch.output(next).to_vec())
            }
            Reply::Ranged { next: None } => return all,
            other => panic!("{other:?}"),
        }
    }
}

fn compare(store: &dyn Store, content: &Content, count: u32) {
    let expected: Vec<_> = content.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let forward = range(store, Direction::Forward, count);
    assert!(forward == expected, "forward: {} of {}", forward.len(), expected.len());
    let mut backward = range(store, Direction::Backward, count);
    backward.reverse();
    assert!(backward == expected, "backward: {} of {}", backward.len(), expected.len());
    assert_eq!(store.len(0), content.len() as u64);
    let mut session = store.session().unwrap();
    for (key, value) in content {
        let mut batch = Batch::new();
        batch.push(0, key, OpKind::Get { value: true });
        let proof = run(store, &mut session, &mut batch);
        match batch.reply(0, &proof) {
            Reply::Hit { value: found, .. } => assert_eq!(batch.output(found.unwrap()), value, "{key:?}"),
            other => panic!("{key:?}: {other:?}"),
        }
    }
}

fn live(page_bytes: usize, seed: u64) {
    let region = Arc::new(AnyRegion::new(Arc::new(HeapRegion::new(REGION_BYTES).unwrap())));
    let mut store = open_store(&region, page_bytes, true);
    let (mut content, mut rng) = (Content::new(), Rng::new(seed));
    for round in 0..ROUNDS {
        change(&*store, &mut content, &mut rng);
        compare(&*store, &content, 7 + 100 * (round % 2) as u32);
        if round % 3 == 1 {
            rest(&*store);
            compare(&*store, &content, 50);
        }
        if round % 2 == 1 {
            if round % 4 == 3 {
                store.close().unwrap();
            }
            drop(store);
            store = open_store(&region, page_bytes, false);
            compare(&*store, &content, 30);
        }
    }
    rest(&*store);
    let nodes = detail(&*store, "bonsai_nodes");
    println!("{} keys in {nodes} nodes", content.len());
    assert!(nodes > content.len() as u64 / 40, "there is more than one");
    // Nodes have them still.
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    batch.push(0, b"", OpKind::Flush { db: Some(0) });
    let _ = run(&*store, &mut session, &mut batch);
    assert_eq!(range(&*store, Direction::Forward, 50), []);
}

#[test]
fn ranges_over_nodes_of_eight_are_in_order() {
    (1..=3).for_each(|seed| live(16 << 10, seed));
}

#[test]
fn ranges_over_nodes_of_forty_are_in_order() {
    (1..=3).for_each(|seed| live(64 << 10, seed));
}
