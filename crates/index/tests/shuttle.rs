//! Explores schedules of the small races in `clht`: get, update, split, merge, remove, scan, several keys.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p terrace-index --test shuttle`; `SHUTTLE_ITERATIONS` sets the schedules for each
//! test, half of them random and half by priorities (PCT). A failure prints a schedule to replay.
#![cfg(shuttle)]

mod schedules;

use std::sync::Arc;

use schedules::{address, explore, get, is, key, scan, set};
use shuttle::thread;
use terrace_index::{Change, Clht, Index, Lookup, Verdict};

/// Entries of one hash, so in one bucket for ever.
fn crowd(index: &Clht, numbers: std::ops::RangeInclusive<u64>) {
    numbers.for_each(|number| set(index, 0, number, 0));
}

#[test]
fn a_get_finds_what_stays_while_its_bucket_splits() {
    explore(|| {
        let index = Arc::new(Clht::with_min_buckets(1));
        (1..=4).for_each(|number| set(&*index, number, number, 0));
        let writer = {
            let index = index.clone();
            thread::spawn(move || (5..=10).for_each(|number| set(&*index, number, number, 0)))
        };
        for number in 1..=4 {
            assert_eq!(get(&*index, number, number), Lookup::Found(address(number, 0)));
        }
        assert!(index.contains(&key(3), address(3, 0)));
        assert_eq!(get(&*index, 99, 99), Lookup::Absent);
        writer.join().unwrap();
        assert!(index.buckets() > 1, "it split");
        assert_eq!(scan(&*index), (1..=10).map(|number| address(number, 0)).collect::<Vec<_>>());
        assert_eq!(index.len(), 10);
    });
}

#[test]
fn a_get_finds_what_stays_while_its_chain_changes() {
    explore(|| {
        let index = Arc::new(Clht::with_min_buckets(2));
        crowd(&index, 1..=6);
        let writer = {
            let index = index.clone();
            thread::spawn(move || {
                // Links an overflow bucket (key 6 moves), empties it all, links it again for others.
                crowd(&index, 7..=8);
                for number in [7, 8, 1, 2, 3] {
                    assert!(index.remove(&key(0), address(number, 0)));
                }
                crowd(&index, 20..=24);
            })
        };
        for number in [6, 5, 6] {
            assert_eq!(get(&*index, 0, number), Lookup::Found(address(number, 0)));
        }
        writer.join().unwrap();
        assert_eq!(index.len(), 8);
    });
}

#[test]
fn slot_5_is_never_taken_for_what_it_was() {
    explore(|| {
        let index = Arc::new(Clht::with_min_buckets(2));
        crowd(&index, 1..=7);
        let writer = {
            let index = index.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    // The link goes, an entry comes in its place, then a link again.
                    assert!(index.remove(&key(0), address(6, 0)) && index.remove(&key(0), address(7, 0)));
                    crowd(&index, 6..=7);
                }
            })
        };
        for _ in 0..3 {
            assert_eq!(get(&*index, 0, 99), Lookup::Absent);
            index.candidates(&key(0), |candidate| {
                assert_ne!(candidate.raw() >> 8, 0, "{candidate:?} was never there")
            });
            assert!(index.contains(&key(0), address(5, 0)));
        }
        writer.join().unwrap();
        assert_eq!((index.len(), index.overflow_buckets()), (7, 1));
    });
}

/// A hash of bucket 0 that the line's tags tell from its neighbours'; the others here differ in the bits below the tags.
fn tagged(number: u64) -> u64 {
    number << 20
}

#[test]
fn an_entry_found_by_its_tag_moves_between_slot_5_and_an_overflow_bucket() {
    explore(|| {
        let index = Arc::new(Clht::with_min_buckets(2));
        (1..=6).for_each(|number| set(&*index, tagged(number), number, 0));
        let writer = {
            let index = index.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    // A link takes slot 5 and key 6 goes along; then the chain goes, and key 6 comes back to slot 5.
                    set(&*index, tagged(7), 7, 0);
                    for number in [7, 6] {
                        assert!(index.remove(&key(tagged(number)), address(number, 0)));
                    }
                    set(&*index, tagged(6), 6, 0);
                }
            })
        };
        for number in [6, 5, 7, 6] {
            let found = get(&*index, tagged(number), number);
            let possible =
                found == Lookup::Found(address(number, 0)) || (number > 5 && found == Lookup::Absent);
            assert!(possible, "key {number}: {found:?}");
            assert_eq!(get(&*index, tagged(9), 9), Lookup::Absent);
        }
        writer.join().unwrap();
        assert_eq!((index.len(), index.overflow_buckets()), (6, 0));
    });
}

#[test]
fn a_key_that_moves_by_chaining_and_settling_is_never_absent() {
    explore(|| {
        let index = Arc::new(Clht::with_min_buckets(1));
        crowd(&index, 1..=3);
        let writer = {
            let index = index.clone();
            thread::spawn(move || {
                assert!(index.remove(&key(0), address(1, 0)));
                for version in 0..3 {
                    let chained = Change::Insert(address(3, version + 1));
                    index.update(&key(0), |_| Verdict::NeedsRead, |_| (chained, ()));
                    assert!(index.remove(&key(0), address(3, version)));
                }
            })
        };
        for _ in 0..3 {
            assert!(matches!(get(&*index, 0, 3), Lookup::Found(_)));
        }
        writer.join().unwrap();
        assert_eq!(get(&*index, 0, 3), Lookup::Found(address(3, 3)));
    });
}

#[test]
fn updates_are_not_lost_while_buckets_split() {
    explore(|| {
        let index = Arc::new(Clht::with_min_buckets(1));
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let index = index.clone();
                thread::spawn(move || {
                    for round in 0..4 {
                        let filler = 10 + thread * 4 + round;
                        set(&*index, filler, filler, 0);
                        index.update(&key(5), is(5), |lookup| match lookup {
                            Lookup::Found(old) => (Change::Set(address(5, (old.raw() & 255) + 1)), ()),
                            _ => (Change::Set(address(5, 1)), ()),
                        });
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(get(&*index, 5, 5), Lookup::Found(address(5, 8)));
        assert_eq!(scan(&*index).len(), 9);
        assert_eq!(index.len(), 9);
    });
}

#[test]
fn removes_are_not_undone_by_splits() {
    explore(|| {
        let index = Arc::new(Clht::with_min_buckets(1));
        (1..=4).for_each(|number| set(&*index, number, number, 0));
        let remover = {
            let index = index.clone();
            thread::spawn(move || {
                for number in 1..=4 {
                    assert!(index.replace(&key(number), address(number, 0), address(number, 1)));
                    assert!(index.remove(&key(number), address(number, 1)));
                    assert_eq!(get(&*index, number, number), Lookup::Absent, "key {number} is back");
                }
            })
        };
        (5..=10).for_each(|number| set(&*index, number, number, 0));
        remover.join().unwrap();
        assert_eq!(scan(&*index), (5..=10).map(|number| address(number, 0)).collect::<Vec<_>>());
        assert_eq!(index.len(), 6);
    });
}

#[test]
fn a_scan_sees_what_stays_while_buckets_split() {
    explore(|| {
        let index = Arc::new(Clht::with_min_buckets(1));
        (1..=4).for_each(|number| set(&*index, number, number, 0));
        let writer = {
            let index = index.clone();
            thread::spawn(move || {
                for number in 5..=12 {
                    set(&*index, number, number, 0);
                    if number % 2 == 0 {
                        assert!(index.remove(&key(number), address(number, 0)));
                    }
                }
            })
        };
        let seen = scan(&*index);
        for number in 1..=4 {
            assert_eq!(seen.iter().filter(|&&a| a == address(number, 0)).count(), 1);
        }
        writer.join().unwrap();
    });
}

#[test]
fn several_keys_change_as_one() {
    explore(|| {
        let index = Arc::new(Clht::with_min_buckets(2));
        // Keys 1 and 2 share a bucket, key 3 has another, and splits part them.
        let hashes = [0, 2, 1];
        let swing = move |index: &Clht, to: u64| {
            let keys = hashes.map(key);
            index.update_many(
                &keys,
                |i, address| is(i as u64 + 1)(address),
                |_, changes| {
                    for (i, change) in changes.iter_mut().enumerate() {
                        *change = Change::Set(address(i as u64 + 1, to));
                    }
                },
            );
        };
        swing(&index, 0);
        let writer = {
            let index = index.clone();
            thread::spawn(move || (1..=2).for_each(|to| swing(&index, to)))
        };
        let splitter = {
            let index = index.clone();
            thread::spawn(move || (10..=18).for_each(|number| set(&*index, number, number, 0)))
        };
        let mut before = 0;
        for i in [0, 2, 1, 0] {
            let Lookup::Found(found) = get(&*index, hashes[i], i as u64 + 1) else { panic!("always there") };
            let now = found.raw() & 255;
            assert!(now >= before, "from {before} back to {now}");
            before = now;
        }
        writer.join().unwrap();
        splitter.join().unwrap();
        assert_eq!(index.len(), 12);
    });
}

#[test]
fn overlapping_sets_of_keys_do_not_deadlock() {
    explore(|| {
        let index = Arc::new(Clht::with_min_buckets(2));
        let threads: Vec<_> = [[1, 2, 3], [3, 2, 1]]
            .into_iter()
            .map(|numbers: [u64; 3]| {
                let index = index.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        index.update_many(
                            &numbers.map(key),
                            |i, address| is(numbers[i])(address),
                            |lookups, changes| {
                                for (i, lookup) in lookups.iter().enumerate() {
                                    let old = if let Lookup::Found(a) = lookup { a.raw() & 255 } else { 0 };
                                    changes[i] = Change::Set(address(numbers[i], old + 1));
                                }
                            },
                        );
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(scan(&*index), [1, 2, 3].map(|number| address(number, 4)));
    });
}

/// A table that merges as soon as entries go: more than one bucket, and few entries.
fn grown(numbers: std::ops::RangeInclusive<u64>) -> Arc<Clht> {
    let index = Arc::new(Clht::with_min_buckets(1));
    numbers.for_each(|number| set(&*index, number, number, 0));
    assert!(index.buckets() > 2);
    index
}

#[test]
fn a_get_finds_what_stays_while_buckets_merge_and_split_again() {
    explore(|| {
        let index = grown(1..=13);
        let writer = {
            let index = index.clone();
            thread::spawn(move || {
                let before = index.buckets();
                for number in 5..=13 {
                    assert!(index.remove(&key(number), address(number, 0)));
                }
                assert!(index.buckets() < before, "it merged");
                // Splits again where memory was given back.
                (20..=28).for_each(|number| set(&*index, number, number, 0));
            })
        };
        for number in [3, 2, 1, 4, 3, 2] {
            assert_eq!(get(&*index, number, number), Lookup::Found(address(number, 0)));
        }
        assert!(index.contains(&key(3), address(3, 0)));
        assert_eq!(get(&*index, 99, 99), Lookup::Absent);
        writer.join().unwrap();
        assert_eq!(index.len(), 13);
    });
}

#[test]
fn writers_lose_nothing_while_buckets_merge_and_split_again() {
    explore(|| {
        let index = grown(1..=12);
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let index = index.clone();
                thread::spawn(move || {
                    for number in (5..=12).filter(|number| number % 2 == thread) {
                        assert!(index.remove(&key(number), address(number, 0)), "key {number} was lost");
                    }
                    for round in 0..3 {
                        let filler = 20 + 2 * round + thread;
                        set(&*index, filler, filler, 0);
                        index.update(&key(3), is(3), |lookup| {
                            let Lookup::Found(old) = lookup else { panic!("key 3 was lost") };
                            (Change::Set(address(3, (old.raw() & 255) + 1)), ())
                        });
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(get(&*index, 3, 3), Lookup::Found(address(3, 6)));
        assert_eq!(scan(&*index).len(), 10);
        assert_eq!(index.len(), 10);
    });
}

#[test]
fn a_scan_sees_what_stays_while_buckets_merge() {
    explore(|| {
        let index = grown(1..=14);
        let writer = {
            let index = index.clone();
            thread::spawn(move || {
                for number in 5..=14 {
                    assert!(index.remove(&key(number), address(number, 0)));
                }
                (20..=24).for_each(|number| set(&*index, number, number, 0));
            })
        };
        let seen = scan(&*index);
        for number in 1..=4 {
            assert!(seen.contains(&address(number, 0)), "key {number} was missed");
        }
        writer.join().unwrap();
    });
}

#[test]
fn several_keys_change_as_one_while_buckets_merge() {
    explore(|| {
        let index = grown(1..=12);
        let swing = |index: &Clht, to: u64| {
            let numbers = [1, 2, 3];
            index.update_many(
                &numbers.map(key),
                |i, address| is(numbers[i])(address),
                |lookups, changes| {
                    for i in 0..3 {
                        assert!(matches!(lookups[i], Lookup::Found(_)), "key {} was lost", numbers[i]);
                        changes[i] = Change::Set(address(numbers[i], to));
                    }
                },
            );
        };
        let writer = {
            let index = index.clone();
            thread::spawn(move || (1..=2).for_each(|to| swing(&index, to)))
        };
        let remover = {
            let index = index.clone();
            thread::spawn(move || {
                for number in 5..=12 {
                    assert!(index.remove(&key(number), address(number, 0)));
                }
            })
        };
        let mut before = 0;
        for number in [3, 1, 2, 3] {
            let Lookup::Found(found) = get(&*index, number, number) else { panic!("always there") };
            let now = found.raw() & 255;
            assert!(now >= before, "from {before} back to {now}");
            before = now;
        }
        writer.join().unwrap();
        remover.join().unwrap();
        assert_eq!(index.len(), 4);
    });
}
