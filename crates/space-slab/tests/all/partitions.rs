//! Background steps that run at once, each on a partition of its own, beside sessions and each other.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use terrace_engine::clock::ManualClock;
use terrace_engine::{Batch, Condition, Durability, Expiry, OpKind, Progress, Reply, Session, Store};
use terrace_space_slab::Choices;
use terrace_testkit::rng::Rng;

use crate::conformance::Media;

const START_US: u64 = 1_800_000_000_000_000;
/// More partitions than threads that step: some are stolen from.
const PARTITIONS: usize = 4;
const STEPPING: usize = 3;
const WRITERS: u64 = 3;
/// In all some five times DRAM.
const KEYS: u64 = 6000;
const OPERATIONS: u64 = 15_000;
/// Rounds of them, at most, until steps have run at once often enough.
const ROUNDS_MAX: u64 = 20;

/// What a writer put last: the byte that the value consists of, and its length.
type Known = HashMap<u64, (u8, usize)>;

fn key_of(writer: u64, key: u64) -> [u8; 9] {
    let mut bytes = [writer as u8; 9];
    bytes[1..].copy_from_slice(&key.to_be_bytes());
    bytes
}

fn ask(session: &mut dyn Session, key: &[u8], kind: impl FnOnce(&mut Batch) -> OpKind) -> Option<Vec<u8>> {
    let mut batch = Batch::new();
    let kind = kind(&mut batch);
    batch.push(0, key, kind);
    session.execute(&mut batch);
    let settled = session.wait(&mut batch);
    match batch.reply(0, &settled) {
        Reply::Stored { .. } | Reply::Deleted { .. } | Reply::Miss => None,
        Reply::Hit { value: Some(value), .. } => Some(batch.output(value).to_vec()),
        other => panic!("{other:?}"),
    }
}

fn check(session: &mut dyn Session, writer: u64, known: &Known, key: u64) {
    let found = ask(session, &key_of(writer, key), |_| OpKind::Get { value: true });
    let found = found.map(|value| {
        assert!(value.windows(2).all(|pair| pair[0] == pair[1]), "writer {writer}, key {key}: it is torn");
        (value[0], value.len())
    });
    assert_eq!(found, known.get(&key).copied(), "writer {writer}, key {key}");
}

fn write(store: &dyn Store, writer: u64, round: u64, known: &mut Known) {
    let mut rng = Rng::new(writer * 100 + round);
    let mut session = store.session().unwrap();
    for _ in 0..OPERATIONS {
        // Some are hot, and come up and go down again.
        let key = if rng.below(4) == 0 { rng.below(KEYS / 50) } else { rng.below(KEYS) };
        match rng.below(10) {
            0 => {
                ask(session.as_mut(), &key_of(writer, key), |_| OpKind::Delete {
                    condition: Condition::Always,
                    old_value: false,
                });
                known.remove(&key);
            }
            1..=4 => check(session.as_mut(), writer, known, key),
            _ => {
                let (byte, bytes) = (rng.below(256) as u8, 200 + rng.below(1500) as usize);
                ask(session.as_mut(), &key_of(writer, key), |batch| {
                    let (value, condition) = (batch.bytes(&vec![byte; bytes]), Condition::Always);
                    OpKind::Set { value, condition, expiry: Expiry::Clear, flags: Some(0), old_value: false }
                });
                known.insert(key, (byte, bytes));
            }
        }
    }
}

fn steps_at_once_lose_nothing(media: impl Fn(Choices) -> Media, eviction: &str, durability: Durability) {
    let eviction = eviction.parse().unwrap();
    let media = media(Choices { partitions: PARTITIONS, eviction, ..Choices::default() });
    let clock = Arc::new(ManualClock::new(START_US));
    let store = media.open(&clock, durability, true, false);
    let detail = |name: &str| {
        let details = store.stats().engine_details;
        details.iter().find(|(known, _)| *known == name).unwrap().1
    };
    let mut known: Vec<Known> = vec![Known::new(); WRITERS as usize];
    for round in 0..ROUNDS_MAX {
        let done = AtomicBool::new(false);
        let (store, done) = (&*store, &done);
        std::thread::scope(|scope| {
            for _ in 0..STEPPING {
                scope.spawn(move || {
                    while !done.load(SeqCst) {
                        if store.step() != Progress::Worked {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let writers: Vec<_> = (0u64..)
                .zip(&mut known)
                .map(|(writer, known)| scope.spawn(move || write(store, writer, round, known)))
                .collect();
            let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            done.store(true, SeqCst);
            for result in ended {
                result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
        if detail("steps_aside") > 500 {
            break;
        }
    }
    assert!(detail("steps_aside") > 500, "no two steps ran at once");
    assert!(detail("records_evicted") > 5000, "{:?}", store.stats().engine_details);
    let verify = |store: &dyn Store| {
        let mut session = store.session().unwrap();
        for (writer, known) in (0u64..).zip(&known) {
            (0..KEYS).for_each(|key| check(session.as_mut(), writer, known, key));
        }
        drop(session);
        while store.step() == Progress::Worked {}
        assert_eq!(store.len(0), known.iter().map(|known| known.len() as u64).sum::<u64>());
    };
    verify(&*store);
    store.close().unwrap();
    drop(store);
    let store = media.open(&clock, durability, false, false);
    verify(&*store);
    store.close().unwrap();
}

#[test]
fn steps_at_once_lose_nothing_over_pages() {
    steps_at_once_lose_nothing(Media::block_chosen, "clock/beats", Durability::default());
}

#[test]
fn steps_at_once_lose_nothing_with_a_middle_tier() {
    steps_at_once_lose_nothing(Media::chosen, "clock/beats", Durability::Sync);
}

#[test]
fn steps_at_once_lose_nothing_without_a_log() {
    steps_at_once_lose_nothing(Media::chosen, "s3-fifo/all", Durability::None);
}

/// Slabs of all partitions are emptied, by steps that nobody drives but this thread.
#[test]
fn dram_shrinks_whatever_waits_in_pages_of_partitions() {
    let media = Media::block_chosen(Choices { partitions: PARTITIONS, ..Choices::default() });
    let clock = Arc::new(ManualClock::new(START_US));
    let store = media.open(&clock, Durability::Sync, true, false);
    let mut known = Known::new();
    write(&*store, 0, 0, &mut known);
    let used = || store.stats().tiers[0].used_bytes;
    let (before, wanted) = (used(), 2 << 20);
    assert!(before > 3 << 20, "DRAM is full: {before}");
    store.resize_dram(wanted).unwrap();
    for _ in 0..5000 {
        store.step();
    }
    assert!(used() <= wanted, "{} bytes are in use", used());
    let mut session = store.session().unwrap();
    (0..KEYS).for_each(|key| check(session.as_mut(), 0, &known, key));
}
