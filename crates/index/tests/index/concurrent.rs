//! Threads against each other: nothing is lost or doubled, updates exclude each other, several keys change as one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{Subject, address, is, key, mix, scan_owners, version};
use crate::on_every_index;
use terrace_index::{Change, Key, Lookup, Verdict};

const THREADS: u64 = 4;

on_every_index!(
    nothing_is_lost_or_doubled_while_the_table_grows,
    a_key_that_is_always_there_is_always_found,
    a_key_is_found_while_its_bucket_comes_and_goes,
    updates_of_a_key_exclude_each_other,
    several_keys_change_as_one,
    overlapping_sets_of_keys_do_not_deadlock,
    a_panic_releases_the_locks,
);

fn nothing_is_lost_or_doubled_while_the_table_grows<I: Subject>() {
    const EACH: u64 = 30_000;
    let index = I::with_buckets(1);
    let stays = |number: u64| !number.is_multiple_of(4);
    let start = Barrier::new(THREADS as usize + 1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (index, start, done) = (&index, &start, &done);
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    start.wait();
                    // Keys of different threads share buckets all the time.
                    for number in (1..=EACH * THREADS).filter(|number| number % THREADS == thread) {
                        let absent = |lookup| {
                            assert_eq!(lookup, Lookup::Absent);
                            (Change::Set(address(number, 0)), ())
                        };
                        index.update(&key(number), is(number), absent);
                        assert_eq!(index.get(&key(number), is(number)), Lookup::Found(address(number, 0)));
                        let earlier = number.saturating_sub(THREADS * 50);
                        if earlier > 0 && stays(earlier) {
                            let found = index.get(&key(earlier), is(earlier));
                            assert_eq!(found, Lookup::Found(address(earlier, 0)), "key {earlier}");
                        }
                        if !stays(number) {
                            index.update(&key(number), is(number), |lookup| {
                                assert_eq!(lookup, Lookup::Found(address(number, 0)));
                                (Change::Remove, ())
                            });
                            assert_eq!(index.get(&key(number), is(number)), Lookup::Absent);
                        }
                    }
                })
            })
            .collect();
        let reader = scope.spawn(move || {
            start.wait();
            while !done.load(Ordering::Relaxed) {
                for number in EACH * THREADS + 1..EACH * THREADS + 1000 {
                    assert_eq!(index.get(&key(number), is(number)), Lookup::Absent);
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    let expected: Vec<u64> = (1..=EACH * THREADS).filter(|&number| stays(number)).collect();
    assert_eq!(index.len(), expected.len() as u64);
    assert_eq!(scan_owners(&index), expected);
}

fn a_key_that_is_always_there_is_always_found<I: Subject>() {
    // The writer makes the reader's key move: it chains, unchains, chains beside and settles.
    let index = I::with_buckets(1);
    let same = Key { hash: 7, db: 0, bytes: b"" };
    index.update(&same, is(1), |_| (Change::Set(address(1, 0)), ()));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (index, done) = (&index, &done);
        scope.spawn(move || {
            for round in 0..3_000u64 {
                for other in 2..=14 {
                    index.update(&same, is(other), |_| (Change::Set(address(other, 0)), ()));
                }
                // A new version beside the old one, which then goes: the key moves to another slot.
                let (old, new) = (address(1, round), address(1, round + 1));
                index.update(&same, |_| Verdict::NeedsRead, |_| (Change::Insert(new), ()));
                assert!(index.remove(&same, old));
                for other in 2..=14 {
                    assert!(index.remove(&same, address(other, 0)));
                }
            }
            done.store(true, Ordering::Release);
        });
        let mut last = 0;
        while !done.load(Ordering::Acquire) {
            let Lookup::Found(found) = index.get(&same, is(1)) else { panic!("the key was always there") };
            assert!(version(found) + 1 >= last, "back from version {last} to {}", version(found));
            last = last.max(version(found));
        }
    });
    assert_eq!(index.len(), 1);
}

/// With four and five entries by turns the smallest table has one bucket and two: the second is merged away and split off all
/// the time, with all of these entries.
fn a_key_is_found_while_its_bucket_comes_and_goes<I: Subject>() {
    let index = I::with_buckets(1);
    let same = Key { hash: 7, db: 0, bytes: b"" };
    let insert = |number| index.update(&same, is(number), |_| (Change::Set(address(number, 0)), ()));
    (1..=4).for_each(insert);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (index, done) = (&index, &done);
        scope.spawn(move || {
            for _ in 0..100_000 {
                insert(5);
                assert!(index.remove(&same, address(5, 0)));
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            assert_eq!(index.get(&same, is(1)), Lookup::Found(address(1, 0)));
            assert!(index.contains(&same, address(2, 0)));
        }
    });
    assert_eq!(index.len(), 4);
}

fn updates_of_a_key_exclude_each_other<I: Subject>() {
    const ROUNDS: u64 = 20_000;
    let index = I::with_buckets(1);
    std::thread::scope(|scope| {
        let index = &index;
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    // Others make the table grow meanwhile.
                    let filler = 100 + thread * ROUNDS + round;
                    index.update(&key(filler), is(filler), |_| (Change::Set(address(filler, 0)), ()));
                    index.update(&key(1), is(1), |lookup| match lookup {
                        Lookup::Absent => (Change::Set(address(1, 1)), ()),
                        Lookup::Found(old) => (Change::Set(address(1, version(old) + 1)), ()),
                        Lookup::Unread(_) => panic!("nothing needs a read"),
                    });
                }
            });
        }
    });
    assert_eq!(index.get(&key(1), is(1)), Lookup::Found(address(1, THREADS * ROUNDS)));
    assert_eq!(index.len(), THREADS * ROUNDS + 1);
}

fn several_keys_change_as_one<I: Subject>() {
    const ROUNDS: u64 = 20_000;
    let index = I::with_buckets(1);
    let keys: Vec<_> = (1..=5).map(key).collect();
    let swing = |to: u64| {
        index.update_many(
            &keys,
            |i, address| is(i as u64 + 1)(address),
            |lookups, changes| {
                for (i, lookup) in lookups.iter().enumerate() {
                    assert_eq!(*lookup == Lookup::Absent, to == 0);
                    changes[i] = Change::Set(address(i as u64 + 1, to));
                }
            },
        );
    };
    swing(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (index, done, swing) = (&index, &done, &swing);
        scope.spawn(move || {
            (1..=ROUNDS).for_each(swing);
            done.store(true, Ordering::Release);
        });
        scope.spawn(move || {
            // Splits and moves between the steps.
            for number in 100..30_100 {
                index.update(&key(number), is(number), |_| (Change::Set(address(number, 0)), ()));
            }
        });
        let read = |number: u64| match index.get(&key(number), is(number)) {
            Lookup::Found(found) => version(found),
            other => panic!("key {number}: {other:?}"),
        };
        for order in 0u64.. {
            if done.load(Ordering::Acquire) {
                break;
            }
            let (first, second) = (1 + order % 5, 1 + (order / 5 + 1 + order) % 5);
            let (before, after) = (read(first), read(second));
            assert!(after >= before, "key {first} was at {before}, then key {second} at {after}");
        }
    });
    assert_eq!(index.len(), 30_005);
}

fn overlapping_sets_of_keys_do_not_deadlock<I: Subject>() {
    let index = I::with_buckets(4);
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (index, total) = (&index, &total);
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..3_000u64 {
                    let mut numbers: Vec<u64> =
                        (0..4).map(|i| 1 + mix(round * 31 + thread * 7 + i) % 16).collect();
                    numbers.sort_unstable_by_key(|&number| mix(number ^ thread));
                    numbers.dedup();
                    let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
                    index.update_many(
                        &keys,
                        |i, address| is(numbers[i])(address),
                        |lookups, changes| {
                            for (i, lookup) in lookups.iter().enumerate() {
                                let old = if let Lookup::Found(old) = lookup { version(*old) } else { 0 };
                                changes[i] = Change::Set(address(numbers[i], old + 1));
                            }
                        },
                    );
                    total.fetch_add(keys.len() as u64, Ordering::Relaxed);
                }
            });
        }
    });
    let sum: u64 = (1..=16)
        .map(|number| match index.get(&key(number), is(number)) {
            Lookup::Found(found) => version(found),
            _ => 0,
        })
        .sum();
    assert_eq!(sum, total.into_inner(), "no increment was lost");
}

fn a_panic_releases_the_locks<I: Subject>() {
    let index = I::with_buckets(1);
    let set = |version: u64| {
        index.update(&key(1), is(1), |lookup| (Change::Set(address(1, version)), lookup));
    };
    set(0);
    let keys = [key(1), key(2)];
    let verify = |i: usize, address| is(i as u64 + 1)(address);
    let attempts: [(&str, &dyn Fn()); 5] = [
        ("decide", &|| index.update(&key(1), is(1), |_| panic!("decide"))),
        ("verify", &|| index.update(&key(1), |_| panic!("verify"), |_| (Change::Keep, ()))),
        ("remove of nothing", &|| index.update(&key(2), is(2), |_| (Change::Remove, ()))),
        ("decide of many", &|| index.update_many(&keys, verify, |_, _| panic!("decide"))),
        ("remove of nothing of many", &|| {
            index.update_many(&keys, verify, |_, changes| changes.fill(Change::Remove));
        }),
    ];
    for (i, (name, attempt)) in attempts.into_iter().enumerate() {
        assert!(catch_unwind(AssertUnwindSafe(attempt)).is_err(), "{name} panics");
        let now = Lookup::Found(address(1, i as u64));
        assert_eq!(index.get(&key(1), is(1)), now, "{name}: readers don't wait, nothing changed");
        set(i as u64 + 1);
    }
    assert_eq!(index.len(), 1);
}
