//! `clht` gives back what it no longer needs, a bounded number of buckets at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{address, is, key, scan_owners};
use terrace_index::{Change, Clht, Index, Lookup};

fn insert(index: &Clht, number: u64) {
    index.update(&key(number), is(number), |lookup| {
        assert_eq!(lookup, Lookup::Absent);
        (Change::Set(address(number, 0)), ())
    });
}

#[test]
fn the_table_follows_its_entries_down_in_bounded_steps() {
    const ENTRIES: u64 = 300_000;
    let index = Clht::with_min_buckets(64);
    (1..=ENTRIES).for_each(|number| insert(&index, number));
    let (full, full_bytes) = (index.buckets(), index.memory_bytes());
    for number in 1..=ENTRIES {
        let before = index.buckets();
        assert!(index.remove(&key(number), address(number, 0)));
        let now = index.buckets();
        assert!(before - now <= 4, "{before} buckets, then {now}");
        let left = ENTRIES - number;
        assert!(now <= 64 || (now * 20) < left * 10 + 1_000, "{now} buckets for {left} entries");
        if number.is_multiple_of(1 << 15) {
            assert_eq!(scan_owners(&index), (number + 1..=ENTRIES).collect::<Vec<_>>());
        }
    }
    println!("{full} buckets and {full_bytes} bytes, then {} and {}", index.buckets(), index.memory_bytes());
    assert_eq!((index.buckets(), index.overflow_buckets()), (64, 0));
    assert!(index.memory_bytes() < full_bytes / 5);
}

/// Changes many keys at once, so that many buckets are due.
fn at_once(index: &Clht, numbers: &[u64], change: impl Fn(u64) -> Change) {
    let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
    index.update_many(
        &keys,
        |i, address| is(numbers[i])(address),
        |_, changes| changes.iter_mut().zip(numbers).for_each(|(to, &number)| *to = change(number)),
    );
}

#[test]
fn one_operation_moves_a_bounded_number_of_buckets() {
    let index = Clht::with_min_buckets(1);
    let numbers: Vec<u64> = (1..=600).collect();
    at_once(&index, &numbers, |number| Change::Set(address(number, 0)));
    assert_eq!((index.len(), index.buckets()), (600, 5), "four of many that are due");
    // The next ones go on.
    let mut before = index.buckets();
    for number in 601..=700 {
        insert(&index, number);
        assert!(index.buckets() - before <= 4, "{before} buckets, then {}", index.buckets());
        before = index.buckets();
    }
    assert!(before > 100, "{before}");
    at_once(&index, &numbers, |_| Change::Remove);
    assert_eq!((index.len(), index.buckets()), (100, before - 4));
    for number in 601..=700 {
        let before = index.buckets();
        assert!(index.remove(&key(number), address(number, 0)));
        assert!(before - index.buckets() <= 4, "{before} buckets, then {}", index.buckets());
    }
    assert_eq!((index.len(), index.buckets()), (0, 1));
}

#[test]
fn a_few_operations_make_it_neither_grow_nor_shrink() {
    let index = Clht::with_min_buckets(1);
    (1..=20_000).for_each(|number| insert(&index, number));
    let buckets = index.buckets();
    for _ in 0..3 {
        // A third goes and comes back.
        for number in 1..=6_000 {
            assert!(index.remove(&key(number), address(number, 0)));
        }
        (1..=6_000).for_each(|number| insert(&index, number));
        assert_eq!(index.buckets(), buckets);
    }
}

#[test]
fn readers_miss_nothing_while_the_table_breathes() {
    const STAY: u64 = 500;
    const COME_AND_GO: u64 = 40_000;
    let index = Clht::with_min_buckets(1);
    (1..=STAY).for_each(|number| insert(&index, number));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (index, done) = (&index, &done);
        let writers: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    let mine =
                        move || (STAY + 1..STAY + COME_AND_GO).filter(move |number| number % 2 == thread);
                    for _ in 0..4 {
                        mine().for_each(|number| insert(index, number));
                        for number in mine() {
                            assert!(index.remove(&key(number), address(number, 0)), "key {number} was lost");
                        }
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                for number in 1..=STAY {
                    assert_eq!(index.get(&key(number), is(number)), Lookup::Found(address(number, 0)));
                    let absent = 1_000_000 + number;
                    assert_eq!(index.get(&key(absent), is(absent)), Lookup::Absent);
                }
                let seen = scan_owners(index);
                assert!((1..=STAY).all(|number| seen.binary_search(&number).is_ok()), "a scan missed a key");
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(scan_owners(&index), (1..=STAY).collect::<Vec<_>>());
    // A removal that finds somebody else at work leaves merging to later ones: every eighth of a thread in a row looks whether
    // there is something to do.
    let more: Vec<u64> = (STAY + 1..STAY + COME_AND_GO).collect();
    for some in more.chunks(64) {
        if index.buckets() < 2 * STAY {
            break;
        }
        some.iter().for_each(|&number| insert(&index, number));
        assert!(some.iter().all(|&number| index.remove(&key(number), address(number, 0))));
    }
    assert!(index.buckets() < 2 * STAY, "{index:?}");
}
