//! Explores schedules of the small races in `lockfree`: get, update, growth, removal, nodes used again, scan, several keys.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p terrace-index --test shuttle_lockfree`; see `shuttle.rs`.
#![cfg(shuttle)]

mod schedules;

use std::sync::Arc;

use schedules::{address, explore, get, is, key, scan, set};
use shuttle::thread;
use terrace_index::{Change, Index, LockFree, Lookup, Verdict};

fn table() -> Arc<LockFree> {
    Arc::new(LockFree::with_min_buckets(1))
}

fn remove(index: &LockFree, number: u64) {
    assert!(index.remove(&key(number), address(number, 0)), "key {number} was lost");
}

#[test]
fn a_get_finds_what_stays_while_the_table_grows() {
    explore(|| {
        let index = table();
        (1..=3).for_each(|number| set(&*index, number, number, 0));
        let writer = {
            let index = index.clone();
            thread::spawn(move || (4..=9).for_each(|number| set(&*index, number, number, 0)))
        };
        for number in [3, 1, 2, 3] {
            assert_eq!(get(&*index, number, number), Lookup::Found(address(number, 0)));
        }
        assert!(index.contains(&key(2), address(2, 0)));
        assert_eq!(get(&*index, 99, 99), Lookup::Absent);
        writer.join().unwrap();
        assert!(index.buckets() > 4, "it grew");
        assert_eq!(scan(&*index), (1..=9).map(|number| address(number, 0)).collect::<Vec<_>>());
    });
}

#[test]
fn several_threads_put_the_same_anchors_in() {
    explore(|| {
        // All buckets but the first are unused; every thread wants them at once, beside inserts and removals.
        let index = Arc::new(LockFree::with_min_buckets(4));
        set(&*index, 0, 1, 0);
        let threads: Vec<_> = (0..3u64)
            .map(|thread| {
                let index = index.clone();
                thread::spawn(move || {
                    // Hashes 3, 7, 11: one bucket, whose parent is unused, too.
                    let (hash, number) = (3 + 4 * thread, 10 + thread);
                    set(&*index, hash, number, 0);
                    assert_eq!(get(&*index, hash, number), Lookup::Found(address(number, 0)));
                    if thread == 1 {
                        assert!(index.remove(&key(hash), address(number, 0)));
                        set(&*index, 1, 20, 0);
                    }
                })
            })
            .collect();
        assert_eq!(get(&*index, 2, 99), Lookup::Absent);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(scan(&*index), [1, 10, 12, 20].map(|number| address(number, 0)));
        assert_eq!(get(&*index, 11, 12), Lookup::Found(address(12, 0)));
    });
}

#[test]
fn an_anchor_comes_in_before_all_that_belongs_behind_it() {
    explore(|| {
        let index = table();
        set(&*index, 0, 1, 0);
        // In one bucket still, when this one begins, or in two already.
        let inserter = {
            let index = index.clone();
            thread::spawn(move || set(&*index, 1, 11, 0))
        };
        set(&*index, 2, 2, 0);
        // There are two now, and both threads want the second one's anchor.
        let other = {
            let index = index.clone();
            thread::spawn(move || assert_eq!(get(&*index, 3, 99), Lookup::Absent))
        };
        assert_eq!(get(&*index, 3, 99), Lookup::Absent);
        [inserter, other].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(get(&*index, 1, 11), Lookup::Found(address(11, 0)));
        assert_eq!(scan(&*index), [1, 2, 11].map(|number| address(number, 0)));
    });
}

#[test]
fn neighbours_come_and_go_without_harm() {
    explore(|| {
        let index = table();
        (1..=4).for_each(|number| set(&*index, number, number, 0));
        // Each thread takes out and puts in beside the other's, so that links change under it and nodes are used again.
        let threads: Vec<_> = [[1, 11], [2, 12]]
            .into_iter()
            .map(|[old, new]| {
                let index = index.clone();
                thread::spawn(move || {
                    remove(&index, old);
                    set(&*index, new, new, 0);
                    remove(&index, new);
                    set(&*index, old, old, 0);
                    assert_eq!(get(&*index, old, old), Lookup::Found(address(old, 0)));
                    assert_eq!(get(&*index, new, new), Lookup::Absent, "key {new} is back");
                })
            })
            .collect();
        for number in [3, 4, 3] {
            assert_eq!(get(&*index, number, number), Lookup::Found(address(number, 0)));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(scan(&*index), (1..=4).map(|number| address(number, 0)).collect::<Vec<_>>());
        assert_eq!(index.len(), 4);
    });
}

/// A hash whose entries stay in bucket 0 of a small table, each in a stripe of its own.
fn crowded(number: u64) -> u64 {
    number << 4
}

#[test]
fn a_node_that_is_used_again_leads_nobody_astray() {
    explore(|| {
        let index = table();
        // In the list: 4, 2, 6, 1, 3 (bits read backwards).
        for number in [1, 2, 3, 4, 6] {
            set(&*index, crowded(number), number, 0);
        }
        let threads: Vec<_> = [[2, 7], [1, 5]]
            .into_iter()
            .map(|[old, new]| {
                let index = index.clone();
                thread::spawn(move || {
                    // The node goes to another place, behind what readers look for.
                    assert!(index.remove(&key(crowded(old)), address(old, 0)));
                    set(&*index, crowded(new), new, 0);
                    assert_eq!(get(&*index, crowded(old), old), Lookup::Absent, "key {old} is back");
                })
            })
            .collect();
        for number in [3, 6, 3, 6] {
            assert_eq!(get(&*index, crowded(number), number), Lookup::Found(address(number, 0)));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(scan(&*index), (3..=7).map(|number| address(number, 0)).collect::<Vec<_>>());
        assert_eq!(index.len(), 5);
    });
}

#[test]
fn a_node_is_taken_by_one_alone() {
    explore(|| {
        let index = table();
        [1, 2].into_iter().for_each(|number| set(&*index, number, number, 0));
        // Free nodes: 2 before 1.
        [1, 2].into_iter().for_each(|number| remove(&index, number));
        let other = {
            let index = index.clone();
            thread::spawn(move || {
                // Both are taken, and 2 comes back.
                [11, 12].into_iter().for_each(|number| set(&*index, number, number, 0));
                remove(&index, 11);
            })
        };
        // Sees 2 before 1 as well, perhaps for the second time; then 1 is not free.
        [10, 13].into_iter().for_each(|number| set(&*index, number, number, 0));
        other.join().unwrap();
        assert_eq!(scan(&*index), [10, 12, 13].map(|number| address(number, 0)));
        assert_eq!(index.len(), 3);
    });
}

#[test]
fn a_key_that_moves_by_chaining_and_settling_is_never_absent() {
    explore(|| {
        let index = table();
        // Others of the same hash before and behind it.
        (1..=3).for_each(|number| set(&*index, 0, number, 0));
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
        assert_eq!(index.len(), 2);
    });
}

#[test]
fn updates_are_not_lost_while_the_table_grows() {
    explore(|| {
        let index = table();
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let index = index.clone();
                thread::spawn(move || {
                    for round in 0..3 {
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
        assert_eq!(get(&*index, 5, 5), Lookup::Found(address(5, 6)));
        assert_eq!(scan(&*index).len(), 7);
        assert_eq!(index.len(), 7);
    });
}

#[test]
fn a_scan_sees_what_stays_once_while_others_come_and_go() {
    explore(|| {
        let index = table();
        (1..=4).for_each(|number| set(&*index, number, number, 0));
        let writer = {
            let index = index.clone();
            thread::spawn(move || {
                for number in 5..=10 {
                    set(&*index, number, number, 0);
                    if number % 2 == 0 {
                        remove(&index, number);
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
        let index = table();
        let swing = |index: &LockFree, to: u64| {
            let numbers = [1, 2, 3];
            index.update_many(
                &numbers.map(key),
                |i, address| is(numbers[i])(address),
                |_, changes| (0..3).for_each(|i| changes[i] = Change::Set(address(numbers[i], to))),
            );
        };
        swing(&index, 0);
        let writer = {
            let index = index.clone();
            thread::spawn(move || (1..=2).for_each(|to| swing(&index, to)))
        };
        let other = {
            let index = index.clone();
            thread::spawn(move || (10..=13).for_each(|number| set(&*index, number, number, 0)))
        };
        let mut before = 0;
        for number in [1, 3, 2, 1] {
            let Lookup::Found(found) = get(&*index, number, number) else { panic!("always there") };
            let now = found.raw() & 255;
            assert!(now >= before, "from {before} back to {now}");
            before = now;
        }
        writer.join().unwrap();
        other.join().unwrap();
        assert_eq!(index.len(), 7);
    });
}

#[test]
fn overlapping_sets_of_keys_do_not_deadlock() {
    explore(|| {
        let index = table();
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
