//! DRAM that grows and shrinks while the store is used: nothing is lost, and the tier keeps to what it was given.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use terrace::engine::Durability;
use terrace::{OpenStore, Options, Tier, open};

const MIB: u64 = 1 << 20;
const RECORDS: u32 = 12_000;

fn options(dir: &Path, engine: &str) -> Options {
    Options {
        engine: engine.into(),
        dir: Some(dir.into()),
        ssd: Some(Tier { bytes: 256 * MIB, place: None }),
        durability: Durability::None,
        ..Options::default()
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

fn value(number: u32, round: u8) -> Vec<u8> {
    let mut value = vec![round; 700 + (number % 7) as usize * 50];
    value[..4].copy_from_slice(&number.to_le_bytes());
    value
}

fn fill(store: &OpenStore, round: u8) {
    for number in 0..RECORDS {
        store.set(&key(number), &value(number, round)).unwrap();
    }
}

fn assert_all(store: &OpenStore, round: u8) {
    for number in 0..RECORDS {
        assert!(store.get(&key(number)).unwrap().as_deref() == Some(&value(number, round)[..]), "{number}");
    }
}

fn dram_used(store: &OpenStore) -> (u64, u64) {
    let stats = store.stats();
    let dram = stats.tiers.iter().find(|tier| tier.tier == "dram").unwrap();
    (dram.used_bytes, dram.capacity_bytes)
}

/// Waits until the tier has shrunk to its capacity.
fn settle(store: &OpenStore) {
    let begun = Instant::now();
    loop {
        let (used, capacity) = dram_used(store);
        if used <= capacity {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{used} bytes of {capacity} are in use for a minute"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn dram_shrinks_and_grows_and_nothing_is_lost() {
    for engine in ["tac", "hetermm"] {
        for with_index in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let mut options = options(dir.path(), engine);
            *(if with_index { &mut options.dram } else { &mut options.dram_records }) = Some(8 * MIB);
            let store = open(options).unwrap();
            fill(&store, 1);
            store.resize_dram(4 * MIB).unwrap();
            settle(&store);
            let (_, capacity) = dram_used(&store);
            assert!(capacity <= 4 * MIB && capacity > 2 * MIB, "{engine}: {capacity}");
            assert_all(&store, 1);
            fill(&store, 2);
            settle(&store);

            store.resize_dram(24 * MIB).unwrap();
            fill(&store, 3);
            let (used, capacity) = dram_used(&store);
            assert!(capacity > 16 * MIB && used > 6 * MIB, "{engine}: {used} of {capacity}");
            assert_all(&store, 3);

            for bytes in [MIB / 16, 100 * MIB] {
                let text = store.resize_dram(bytes).unwrap_err().to_string();
                assert!(text.contains("can have") && text.contains("bytes of DRAM"), "{text}");
            }
            assert_eq!(dram_used(&store).1, capacity, "a refusal changes nothing");
            store.close().unwrap();
        }
    }
}

#[test]
fn writers_and_readers_go_on_while_dram_changes() {
    for engine in ["tac", "hetermm"] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(Options { dram_records: Some(8 * MIB), ..options(dir.path(), engine) }).unwrap();
        fill(&store, 0);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|half| {
                    let (store, done) = (&store, &done);
                    scope.spawn(move || {
                        let mut written = vec![0u8; RECORDS as usize];
                        let mut number = half;
                        while !done.load(SeqCst) {
                            let at = number as usize;
                            let found = store.get(&key(number)).unwrap().unwrap();
                            assert!(found == value(number, written[at]), "{engine}: {number}");
                            written[at] = written[at].wrapping_add(1);
                            store.set(&key(number), &value(number, written[at])).unwrap();
                            number = (number + 2 * 7) % RECORDS / 2 * 2 + half;
                        }
                    })
                })
                .collect();
            let resized = [4, 20, 3, 8, 30, 4, 15].map(|megabytes| {
                std::thread::sleep(Duration::from_millis(40));
                store.resize_dram(megabytes * MIB)
            });
            done.store(true, SeqCst);
            resized.into_iter().for_each(Result::unwrap);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        });
        store.resize_dram(4 * MIB).unwrap();
        settle(&store);
        store.close().unwrap();
    }
}

#[test]
fn an_engine_without_a_tier_below_says_that_it_cannot() {
    let store = open(Options { engine: "dram".into(), dram: Some(64 * MIB), ..Options::default() }).unwrap();
    let text = store.resize_dram(32 * MIB).unwrap_err().to_string();
    assert!(text.contains("open the store with another size"), "{text}");
}
