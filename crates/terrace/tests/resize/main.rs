//! Tiers that grow and shrink while the store is used: nothing is lost, and each keeps to what it was given.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod grown;
mod pmem;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use terrace::check::CheckOptions;
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
fn an_engine_without_a_tier_below_has_only_dram_to_resize() {
    let store = open(Options { engine: "dram".into(), dram: Some(64 * MIB), ..Options::default() }).unwrap();
    store.resize_dram(32 * MIB).unwrap();
    // What a budget of 32 MiB leaves to records and index.
    assert!((23 * MIB..=24 * MIB).contains(&store.stats().tiers[0].capacity_bytes));
    assert!(store.resize_ssd(64 * MIB).is_err() && store.resize_pmem(64 * MIB).is_err());
    store.close().unwrap();
}

/// A store of so many bytes on an SSD.
fn with_ssd(dir: &Path, bytes: u64, durability: Durability) -> OpenStore {
    let ssd = Some(Tier { bytes, place: None });
    let dram_records = Some(4 * MIB);
    open(Options { ssd, dram_records, durability, ..options(dir, "tac") }).unwrap()
}

fn large(number: u32) -> Vec<u8> {
    (0..60_000 + number * 997).map(|at| (at / 7 + number) as u8).collect()
}

fn detail(store: &OpenStore, name: &str) -> u64 {
    let stats = store.stats();
    stats.engine_details.iter().find(|(other, _)| *other == name).unwrap().1
}

fn data_bytes(dir: &Path) -> u64 {
    dir.join("data").metadata().unwrap().len()
}

/// Waits until nothing lies behind the end any more, and the file ends there.
fn ends_at(store: &OpenStore, dir: &Path, bytes: u64) {
    let begun = Instant::now();
    while data_bytes(dir) > bytes {
        let left = detail(store, "pages_to_move");
        assert!(begun.elapsed() < Duration::from_secs(60), "{left} pages are left to move after a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Longer records than the others: they fill a store soon.
fn long(number: u32, round: u8) -> Vec<u8> {
    let mut value = value(number, round);
    value.resize(7_000 + (number % 5) as usize * 400, round);
    value
}

/// How often each record was written, and how many large values there are.
fn assert_written(store: &OpenStore, rounds: &[u8], larges: u32) {
    for (number, round) in (0u32..).zip(rounds) {
        let found = store.get(&key(number)).unwrap();
        assert!(found.as_deref() == Some(&long(number, *round)[..]), "{number}");
    }
    for number in 0..larges {
        let found = store.get(format!("large:{number}").as_bytes()).unwrap();
        assert!(found == Some(large(number)), "large {number}");
    }
}

#[test]
fn a_full_store_takes_writes_again_once_its_ssd_has_grown_and_keeps_its_size() {
    for durability in [Durability::None, Durability::default()] {
        let dir = tempfile::tempdir().unwrap();
        let store = with_ssd(dir.path(), 24 * MIB, durability);
        let mut written = 0;
        while store.set(&key(written), &long(written, 1)).is_ok() {
            written += 1;
            assert!(written < 6_000, "it is never full");
        }
        let text = store.resize_ssd(1 << 50).unwrap_err().to_string();
        assert!(text.contains("free"), "{text}");
        store.resize_ssd(48 * MIB).unwrap();
        assert_eq!(store.ssd_bytes(), Some(48 * MIB));
        let begun = Instant::now();
        for number in written..written + 1_000 {
            // Steps must have seen that there is room.
            while store.set(&key(number), &long(number, 1)).is_err() {
                assert!(begun.elapsed() < Duration::from_secs(60), "it stays full");
            }
        }
        let all = vec![1; written as usize + 1_000];
        let len = data_bytes(dir.path());
        assert!(len > 36 * MIB, "{len}");
        assert_written(&store, &all, 0);
        store.close().unwrap();
        // What is asked for of a store that is there already does not count.
        let store = with_ssd(dir.path(), 24 * MIB, durability);
        assert_eq!((store.ssd_bytes().map(|bytes| bytes / MIB), data_bytes(dir.path())), (Some(47), len));
        assert!(store.description.iter().any(|line| line.contains("keeps its size")));
        assert_written(&store, &all, 0);
        store.kill();
        let store = with_ssd(dir.path(), 24 * MIB, durability);
        assert_written(&store, &all, 0);
        store.close().unwrap();
    }
}

#[test]
fn an_ssd_shrinks_under_writers_and_readers_and_nothing_is_lost() {
    const LARGES: u32 = 30;
    const KEPT: u32 = 1_200;
    for durability in [Durability::None, Durability::default()] {
        let dir = tempfile::tempdir().unwrap();
        let store = with_ssd(dir.path(), 64 * MIB, durability);
        // Most go again, so that what stays lies far behind.
        for number in 0..4_000 {
            store.set(&key(number), &long(number, 1)).unwrap();
        }
        for number in 0..LARGES {
            store.set(format!("large:{number}").as_bytes(), &large(number)).unwrap();
        }
        for number in KEPT..4_000 {
            store.delete(&key(number)).unwrap();
        }
        let mut rounds = vec![1u8; KEPT as usize];
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (store, done, rounds) = (&store, &done, &mut rounds);
            let writer = scope.spawn(move || {
                let mut number = 0;
                while !done.load(SeqCst) {
                    let at = number as usize;
                    assert!(
                        store.get(&key(number)).unwrap().unwrap() == long(number, rounds[at]),
                        "{number}"
                    );
                    rounds[at] = rounds[at].wrapping_add(1);
                    store.set(&key(number), &long(number, rounds[at])).unwrap();
                    number = (number + 13) % KEPT;
                }
            });
            let reader = scope.spawn(move || {
                while !done.load(SeqCst) {
                    for number in 0..LARGES {
                        let found = store.get(format!("large:{number}").as_bytes()).unwrap();
                        assert!(found == Some(large(number)), "large {number}");
                    }
                }
            });
            // The second is overtaken by the third.
            for (megabytes, waits) in [(48, true), (40, false), (56, true), (36, true)] {
                store.resize_ssd(megabytes * MIB).unwrap();
                if waits {
                    ends_at(store, dir.path(), megabytes * MIB);
                }
            }
            done.store(true, SeqCst);
            writer.join().unwrap();
            reader.join().unwrap();
        });
        assert_written(&store, &rounds, LARGES);
        assert!(detail(&store, "extents_moved") > 0, "some of them lay behind the end");
        let text = store.resize_ssd(22 * MIB).unwrap_err().to_string();
        assert!(text.contains("what it holds needs"), "{text}");
        assert_eq!(detail(&store, "pages_to_move"), 0, "a refusal changes nothing");
        assert_written(&store, &rounds, LARGES);
        let len = data_bytes(dir.path());
        assert!(len <= 36 * MIB);
        store.close().unwrap();
        let store = with_ssd(dir.path(), 64 * MIB, durability);
        assert_eq!(data_bytes(dir.path()), len);
        assert_written(&store, &rounds, LARGES);
        store.kill();
        let report = terrace::check(dir.path(), &CheckOptions::default()).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
        let store = with_ssd(dir.path(), 64 * MIB, durability);
        assert_eq!(data_bytes(dir.path()), len);
        assert_written(&store, &rounds, LARGES);
        store.resize_ssd(48 * MIB).unwrap();
        for number in 0..LARGES {
            store.set(format!("other:{number}").as_bytes(), &large(number)).unwrap();
        }
        assert_written(&store, &rounds, LARGES);
        store.close().unwrap();
    }
}

/// All that is free lies behind the new end, and every page before it is half garbage: whoever makes room there needs room for that.
/// It stood still for ever.
#[test]
fn an_ssd_shrinks_though_all_that_is_free_lies_behind_its_end() {
    const KEYS: u32 = 3_600;
    for shorter in [6, 8, 10] {
        let dir = tempfile::tempdir().unwrap();
        let store = with_ssd(dir.path(), 64 * MIB, Durability::Batch(Duration::from_millis(20)));
        let write =
            |store: &OpenStore, number: u32, round| store.set(&key(number), &long(number, round)).unwrap();
        let mut rounds = vec![1; KEYS as usize];
        (0..KEYS).for_each(|number| write(&store, number, 1));
        // In no order, so that no page becomes empty by itself.
        let mut drawn = u64::from(shorter as u32);
        let mut overwrite = move |store: &OpenStore, rounds: &mut [u8]| {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (drawn >> 33) as u32 % KEYS;
            rounds[number as usize] += 1;
            write(store, number, rounds[number as usize]);
        };
        // Pages are taken in ascending order as long as there are such that nobody had.
        let used = || store.stats().tiers.iter().find(|tier| tier.tier == "ssd").unwrap().used_bytes;
        let before = data_bytes(dir.path());
        while used() < before - shorter * MIB - MIB / 2 {
            overwrite(&store, &mut rounds);
        }
        store.resize_ssd((64 - shorter) * MIB).unwrap();
        let (done, finished) = std::sync::mpsc::channel();
        let writer = store.clone();
        std::thread::spawn(move || {
            (0..2 * KEYS).for_each(|_| overwrite(&writer, &mut rounds));
            done.send(rounds).unwrap();
        });
        let finished = finished.recv_timeout(Duration::from_secs(60));
        let left = detail(&store, "pages_to_move");
        let rounds = finished
            .unwrap_or_else(|_| panic!("{shorter} MiB less: writes wait for ever, {left} pages left"));
        ends_at(&store, dir.path(), before - shorter * MIB);
        assert_written(&store, &rounds, 0);
        store.close().unwrap();
    }
}

#[test]
fn an_engine_or_a_store_without_such_a_tier_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(options(dir.path(), "hetermm")).unwrap();
    let text = store.resize_ssd(128 * MIB).unwrap_err().to_string();
    assert!(text.contains("can't be resized while this engine runs"), "{text}");
    store.close().unwrap();
    let store = open(Options { engine: "dram".into(), dram: Some(64 * MIB), ..Options::default() }).unwrap();
    assert!(store.resize_ssd(128 * MIB).is_err() && store.ssd_bytes().is_none());
}
