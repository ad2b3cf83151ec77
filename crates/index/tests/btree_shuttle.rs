//! Explores schedules of the small races in `btree`, whose nodes are tiny here: get, update, split, merge, range, scan,
//! several keys.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p terrace-index --test btree_shuttle`; `SHUTTLE_ITERATIONS` sets the schedules for
//! each test, half of them random and half by priorities (PCT). A failure prints a schedule to replay.
#![cfg(shuttle)]

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use shuttle::thread;
use terrace_index::{Address, BTree, Change, Direction, Index, Key, Lookup, OrderedIndex, Verdict};

/// Explores `test` with two schedulers.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    let iterations =
        std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    shuttle::check_random(test, iterations / 2);
    shuttle::check_pct(test, iterations / 2, 3);
}

fn key(bytes: &[u8]) -> Key<'_> {
    Key { hash: 0, db: 0, bytes }
}

/// Keys of one byte, some that need the heap and end alike, and some that need an overflow node and don't.
fn bytes(number: u64) -> Vec<u8> {
    let mut bytes = vec![number as u8];
    let (more, end) = [(0, 0), (0, 0), (12, 7), (30, number as u8)][number as usize % 4];
    bytes.resize(1 + more, end);
    bytes
}

fn address(number: u64, version: u64) -> Address {
    Address::new(number << 8 | version)
}

fn set(tree: &BTree, number: u64, version: u64) {
    tree.update(&key(&bytes(number)), is(number), |_| (Change::Set(address(number, version)), ()));
}

fn remove(tree: &BTree, number: u64, version: u64) -> bool {
    tree.remove(&key(&bytes(number)), address(number, version))
}

/// Verifies by the number in the address.
fn is(number: u64) -> impl Fn(Address) -> Verdict {
    move |address| {
        assert_eq!(address.raw() >> 8, number, "{address:?} was never this key's address");
        Verdict::Match
    }
}

fn get(tree: &BTree, number: u64) -> Lookup {
    tree.get(&key(&bytes(number)), is(number))
}

fn range(tree: &BTree, direction: Direction) -> Vec<u64> {
    let mut seen = Vec::new();
    tree.range(0, Bound::Unbounded, direction, &mut |key, address| {
        assert_eq!(key, bytes(address.raw() >> 8));
        seen.push(address.raw() >> 8);
        ControlFlow::Continue(())
    });
    seen
}

/// All addresses.
fn scan(tree: &BTree) -> Vec<Address> {
    let (mut cursor, mut seen) = (0, Vec::new());
    for _ in 0..100 {
        cursor = tree.scan(cursor, &mut seen).unwrap();
        if cursor == 0 {
            return seen;
        }
    }
    panic!("a scan without end");
}

#[test]
fn a_get_finds_what_stays_while_leaves_split_and_merge() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        (1..=4).for_each(|number| set(&tree, number * 10, 0));
        let writer = {
            let tree = tree.clone();
            thread::spawn(move || {
                (11..=19).for_each(|number| set(&tree, number, 0));
                (11..=19).for_each(|number| assert!(remove(&tree, number, 0)));
            })
        };
        for number in [10, 20, 30, 40, 10, 40] {
            assert_eq!(get(&tree, number), Lookup::Found(address(number, 0)));
        }
        assert_eq!(get(&tree, 25), Lookup::Absent);
        writer.join().unwrap();
        assert_eq!(tree.len(), 4);
        assert_eq!(range(&tree, Direction::Forward), [10, 20, 30, 40]);
    });
}

#[test]
fn a_range_sees_what_stays_exactly_once() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        (1..=7).for_each(|number| set(&tree, number * 10, 0));
        let writer = {
            let tree = tree.clone();
            thread::spawn(move || {
                (21..=26).for_each(|number| set(&tree, number, 0));
                (21..=26).for_each(|number| assert!(remove(&tree, number, 0)));
                assert!(remove(&tree, 30, 0) && remove(&tree, 40, 0));
            })
        };
        for direction in [Direction::Forward, Direction::Backward] {
            let mut seen = range(&tree, direction);
            if direction == Direction::Backward {
                seen.reverse();
            }
            assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
            seen.retain(|number| [10, 20, 50, 60, 70].contains(number));
            assert_eq!(seen, [10, 20, 50, 60, 70]);
        }
        let scanned = scan(&tree);
        for number in [10, 20, 50, 60, 70] {
            assert_eq!(scanned.iter().filter(|&&a| a == address(number, 0)).count(), 1);
        }
        writer.join().unwrap();
    });
}

#[test]
fn updates_are_not_lost_while_leaves_split() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let tree = tree.clone();
                thread::spawn(move || {
                    for round in 0..4 {
                        set(&tree, 20 + thread * 4 + round, 0);
                        tree.update(&key(&bytes(13)), is(13), |lookup| match lookup {
                            Lookup::Found(old) => (Change::Set(address(13, (old.raw() & 255) + 1)), ()),
                            _ => (Change::Set(address(13, 1)), ()),
                        });
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let Lookup::Found(found) = get(&tree, 13) else { panic!("it was set") };
        assert_eq!(found.raw() & 255, 8);
        assert_eq!(tree.len(), 9);
        assert_eq!(range(&tree, Direction::Forward), [13, 20, 21, 22, 23, 24, 25, 26, 27]);
    });
}

#[test]
fn removes_are_not_undone_by_splits_and_merges() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        (1..=6).for_each(|number| set(&tree, number, 0));
        let remover = {
            let tree = tree.clone();
            thread::spawn(move || {
                for number in 1..=6 {
                    let bytes = bytes(number);
                    assert!(tree.replace(&key(&bytes), address(number, 0), address(number, 1)));
                    assert!(remove(&tree, number, 1));
                    assert_eq!(get(&tree, number), Lookup::Absent, "key {number} is back");
                }
            })
        };
        (7..=12).for_each(|number| set(&tree, number, 0));
        remover.join().unwrap();
        assert_eq!(range(&tree, Direction::Backward), (7..=12).rev().collect::<Vec<_>>());
        assert_eq!(tree.len(), 6);
    });
}

#[test]
fn a_node_that_is_used_again_leads_nobody_astray() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        (1..=8).for_each(|number| set(&tree, number * 10, 0));
        let remover = {
            let tree = tree.clone();
            thread::spawn(move || {
                // Merges, so that nodes are given back ...
                for number in [30, 40, 20, 70] {
                    assert!(remove(&tree, number, 0), "key {number} was lost");
                    assert_eq!(get(&tree, number), Lookup::Absent, "key {number} is back");
                }
            })
        };
        let inserter = {
            let tree = tree.clone();
            thread::spawn(move || {
                // ... and splits, which take them for other keys.
                for number in [81, 84, 85, 88, 11, 12] {
                    set(&tree, number, 0);
                    assert_eq!(
                        get(&tree, number),
                        Lookup::Found(address(number, 0)),
                        "key {number} was lost"
                    );
                }
            })
        };
        for version in 1..=3 {
            for number in [60, 50] {
                set(&tree, number, version);
                assert_eq!(get(&tree, number), Lookup::Found(address(number, version)));
            }
        }
        remover.join().unwrap();
        inserter.join().unwrap();
        assert_eq!(range(&tree, Direction::Forward), [10, 11, 12, 50, 60, 80, 81, 84, 85, 88]);
        assert_eq!(tree.len(), 10);
    });
}

#[test]
fn splits_side_by_side_lose_nothing() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        (1..=8).for_each(|number| set(&tree, number * 10, 0));
        let add = |tree: &BTree, from: u64| {
            for number in from..from + 6 {
                set(tree, number, 0);
                assert_eq!(get(tree, number), Lookup::Found(address(number, 0)), "key {number} was lost");
            }
        };
        let other = {
            let tree = tree.clone();
            thread::spawn(move || add(&tree, 11))
        };
        add(&tree, 61);
        other.join().unwrap();
        let mut all: Vec<u64> = (1..=8).map(|n| n * 10).chain(11..17).chain(61..67).collect();
        all.sort_unstable();
        assert_eq!(range(&tree, Direction::Forward), all);
    });
}

#[test]
fn a_range_shows_no_key_with_the_bytes_of_another() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        [10, 20, 23, 40, 50, 60, 70].into_iter().for_each(|number| set(&tree, number, 0));
        // One long key goes, and another one takes its overflow node.
        let remover = {
            let tree = tree.clone();
            thread::spawn(move || assert!(remove(&tree, 23, 0)))
        };
        let inserter = {
            let tree = tree.clone();
            thread::spawn(move || set(&tree, 63, 0))
        };
        for direction in [Direction::Forward, Direction::Backward] {
            let mut seen = range(&tree, direction);
            if direction == Direction::Backward {
                seen.reverse();
            }
            seen.retain(|number| ![23, 63].contains(number));
            assert_eq!(seen, [10, 20, 40, 50, 60, 70]);
        }
        remover.join().unwrap();
        inserter.join().unwrap();
        assert_eq!(range(&tree, Direction::Forward), [10, 20, 40, 50, 60, 63, 70]);
    });
}

/// As small as the race it is about: the place of a long key, while that is removed, is taken by another one.
#[test]
fn a_long_key_is_shown_with_its_own_bytes_or_not_at_all() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        [10, 23, 50, 60, 66].into_iter().for_each(|number| set(&tree, number, 0));
        // Two leaves and the overflow node of key 23; the leaf of key 63 takes it as it is.
        assert_eq!(tree.nodes(), 4);
        let remover = {
            let tree = tree.clone();
            thread::spawn(move || assert!(remove(&tree, 23, 0)))
        };
        let inserter = {
            let tree = tree.clone();
            thread::spawn(move || set(&tree, 63, 0))
        };
        let mut first = None;
        tree.range(0, Bound::Included(&[20]), Direction::Forward, &mut |key, address| {
            assert_eq!(key, bytes(address.raw() >> 8));
            first = Some(address.raw() >> 8);
            ControlFlow::Break(())
        });
        assert!(matches!(first, Some(23 | 50)), "{first:?} after 20");
        remover.join().unwrap();
        inserter.join().unwrap();
        assert_eq!(range(&tree, Direction::Forward), [10, 50, 60, 63, 66]);
        assert_eq!(tree.nodes(), 4);
    });
}

/// As small as the race it is about: the node that a merge empties becomes an overflow node before readers know that it is
/// empty.
#[test]
fn a_get_finds_what_a_merge_moves_while_its_node_is_used_again() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        [10, 20, 40, 50, 60, 70, 78, 80].into_iter().for_each(|number| set(&tree, number, 0));
        [10, 20, 70].into_iter().for_each(|number| assert!(remove(&tree, number, 0)));
        // Three leaves; the last takes key 79 as it is, whose end goes to an overflow node.
        assert_eq!(tree.nodes(), 4);
        let remover = {
            let tree = tree.clone();
            thread::spawn(move || assert!(remove(&tree, 40, 0)))
        };
        let inserter = {
            let tree = tree.clone();
            thread::spawn(move || set(&tree, 79, 0))
        };
        assert_eq!(get(&tree, 60), Lookup::Found(address(60, 0)));
        remover.join().unwrap();
        inserter.join().unwrap();
        assert_eq!(tree.nodes(), 4);
        assert_eq!(range(&tree, Direction::Forward), [50, 60, 78, 79, 80]);
    });
}

/// As small as the race it is about: on the way back from the end, the last leaf is split once its number was read.
#[test]
fn a_range_begins_at_the_end_while_the_last_leaf_is_split() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        [10, 20, 40, 50, 60, 70, 80].into_iter().for_each(|number| set(&tree, number, 0));
        assert_eq!(tree.nodes(), 3);
        let splitter = {
            let tree = tree.clone();
            thread::spawn(move || set(&tree, 90, 0))
        };
        let mut seen = range(&tree, Direction::Backward);
        seen.retain(|&number| number != 90);
        assert_eq!(seen, [80, 70, 60, 50, 40, 20, 10]);
        splitter.join().unwrap();
        assert_eq!(tree.nodes(), 4);
    });
}

#[test]
fn several_keys_change_as_one() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        let numbers = [12, 1, 6];
        let swing = move |tree: &BTree, to: u64| {
            let names = numbers.map(bytes);
            let keys = [key(&names[0]), key(&names[1]), key(&names[2])];
            tree.update_many(
                &keys,
                |i, address| is(numbers[i])(address),
                |_, changes| {
                    for (change, number) in changes.iter_mut().zip(numbers) {
                        *change = Change::Set(address(number, to));
                    }
                },
            );
        };
        swing(&tree, 0);
        let writer = {
            let tree = tree.clone();
            thread::spawn(move || (1..=2).for_each(|to| swing(&tree, to)))
        };
        let splitter = {
            let tree = tree.clone();
            thread::spawn(move || {
                (2..=5).for_each(|number| set(&tree, number, 0));
                (7..=11).for_each(|number| set(&tree, number, 0));
            })
        };
        let mut before = 0;
        for number in [12, 6, 1, 12] {
            let Lookup::Found(found) = get(&tree, number) else { panic!("always there") };
            let now = found.raw() & 255;
            assert!(now >= before, "from {before} back to {now}");
            before = now;
        }
        writer.join().unwrap();
        splitter.join().unwrap();
        assert_eq!(tree.len(), 12);
    });
}

#[test]
fn overlapping_sets_of_keys_do_not_deadlock() {
    explore(|| {
        let tree = Arc::new(BTree::new());
        (20..=28).for_each(|number| set(&tree, number, 0));
        let threads: Vec<_> = [[1, 22, 27], [27, 22, 1]]
            .into_iter()
            .map(|numbers: [u64; 3]| {
                let tree = tree.clone();
                thread::spawn(move || {
                    let names = numbers.map(bytes);
                    let keys = [key(&names[0]), key(&names[1]), key(&names[2])];
                    tree.update_many(
                        &keys,
                        |i, address| is(numbers[i])(address),
                        |lookups, changes| {
                            for (i, lookup) in lookups.iter().enumerate() {
                                let old = if let Lookup::Found(a) = lookup { a.raw() & 255 } else { 0 };
                                changes[i] = Change::Set(address(numbers[i], old + 1));
                            }
                        },
                    );
                })
            })
            .collect();
        (21..=26).filter(|&n| n != 22).for_each(|number| assert!(remove(&tree, number, 0)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for number in [1, 22, 27] {
            assert_eq!(get(&tree, number), Lookup::Found(address(number, 2)));
        }
        assert_eq!(range(&tree, Direction::Forward), [1, 20, 22, 27, 28]);
    });
}
