//! Growing and shrinking: nothing is lost, scans miss nothing, and the memory stays within its promise.

use crate::common::{Subject, address, is, key, owner, scan_all};
use crate::on_every_index;
use terrace_index::{Change, Clht, Index, Key, Lookup};

on_every_index!(
    a_scan_misses_nothing_while_the_table_grows,
    a_scan_beside_growing_and_shrinking_threads_sees_what_stays,
    one_bucket_grows_too,
    equal_hashes_never_lose_each_other,
    a_scan_misses_nothing_while_entries_go,
    a_table_empties_and_fills_again,
);

fn insert(index: &impl Index, number: u64) {
    index.update(&key(number), is(number), |lookup| {
        assert_eq!(lookup, Lookup::Absent);
        (Change::Set(address(number, 0)), ())
    });
}

/// Mean entries of a bucket.
fn load(index: &Clht) -> f64 {
    index.len() as f64 / index.buckets() as f64
}

#[test]
fn from_64_buckets_to_a_million_entries() {
    const ENTRIES: u64 = 1_000_000;
    let index = Clht::with_min_buckets(64);
    let (mut bytes_sum, mut samples, mut wrong, mut candidates) = (0.0, 0, 0u64, 0u64);
    for number in 1..=ENTRIES {
        insert(&index, number);
        if number.is_multiple_of(1 << 12) || number < 1 << 12 {
            assert!(load(&index) < 5.0, "{index:?}");
        }
        if number >= ENTRIES / 2 && number.is_multiple_of(1 << 12) {
            bytes_sum += 64.0 * (index.buckets() + index.overflow_buckets()) as f64 / number as f64;
            samples += 1;
        }
    }
    assert_eq!(index.len(), ENTRIES);
    for number in 1..=ENTRIES {
        assert_eq!(index.get(&key(number), is(number)), Lookup::Found(address(number, 0)));
        index.candidates(&key(number), |candidate| {
            candidates += 1;
            wrong += u64::from(owner(candidate) != number);
        });
    }
    assert_eq!(candidates, ENTRIES + wrong);
    assert!(wrong < ENTRIES / 10_000, "{wrong} of {ENTRIES} candidates belong to another key");

    let mut seen: Vec<u64> = scan_all(&index, || {}).into_iter().map(owner).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(1..=ENTRIES), "a scan returns every entry once");

    let bytes = index.memory_bytes() as f64 / ENTRIES as f64;
    let average = bytes_sum / f64::from(samples);
    println!(
        "{bytes:.2} bytes an entry at {ENTRIES}; in buckets alone {average:.2} on average from half of that; load {:.2}, {} buckets, \
         {} overflow buckets, {wrong} wrong candidates",
        load(&index),
        index.buckets(),
        index.overflow_buckets()
    );
    assert!(bytes <= 18.0 && average <= 17.5);
}

fn a_scan_misses_nothing_while_the_table_grows<I: Subject>() {
    for start in [1, 100, 1000, 5000] {
        let index = I::with_buckets(8);
        (1..=start).for_each(|number| insert(&index, number));
        let mut next = start;
        let mut seen: Vec<u64> = scan_all(&index, || {
            // Stops after a while: a table that grows for ever by more than a scan returns would be scanned for ever.
            for _ in 0..(20 * start).saturating_sub(next).min(7) {
                next += 1;
                insert(&index, next);
            }
        })
        .into_iter()
        .map(owner)
        .collect();
        seen.sort_unstable();
        let count = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), count, "splits alone repeat nothing");
        assert!((1..=start).all(|number| seen.binary_search(&number).is_ok()), "{start}: a key was missed");
    }
}

fn a_scan_beside_growing_and_shrinking_threads_sees_what_stays<I: Subject>() {
    const STAY: u64 = 2_000;
    let index = I::with_buckets(8);
    (1..=STAY).for_each(|number| insert(&index, number));
    std::thread::scope(|scope| {
        let index = &index;
        let writer = scope.spawn(move || {
            for number in STAY + 1..STAY + 60_000 {
                insert(index, number);
                if number % 3 == 0 {
                    assert!(index.remove(&key(number), address(number, 0)));
                }
            }
        });
        loop {
            let last = writer.is_finished();
            let mut seen: Vec<u64> = scan_all(index, || {}).into_iter().map(owner).collect();
            seen.sort_unstable();
            assert!((1..=STAY).all(|number| seen.binary_search(&number).is_ok()));
            if last {
                break;
            }
        }
    });
}

#[test]
fn a_tiny_table_is_small() {
    let index = Clht::with_min_buckets(64);
    println!("an empty table of 64 buckets: {} bytes", index.memory_bytes());
    assert!(index.memory_bytes() <= 8 << 10);
    assert_eq!(index.buckets(), 64);
    assert_eq!(Clht::with_min_buckets(0).buckets(), 1);
    assert_eq!(Clht::with_min_buckets(65).buckets(), 128);
    assert_eq!(index.name(), "clht");
}

fn one_bucket_grows_too<I: Subject>() {
    let index = I::with_buckets(1);
    (1..=10_000).for_each(|number| insert(&index, number));
    for number in 1..=10_000 {
        assert_eq!(index.get(&key(number), is(number)), Lookup::Found(address(number, 0)));
    }
    for number in 10_001..=20_000 {
        assert_eq!(index.get(&key(number), is(number)), Lookup::Absent);
    }
}

fn equal_hashes_never_lose_each_other<I: Subject>() {
    // No split can tell these apart: all stay in one chain while others make the table grow.
    let index = I::with_buckets(2);
    let same = Key { hash: 0, db: 3, bytes: b"" };
    for number in 1..=100u64 {
        index.update(&same, is(number), |_| (Change::Set(address(number, 0)), ()));
        insert_many(&index, number);
    }
    for number in 1..=100u64 {
        assert_eq!(index.get(&same, is(number)), Lookup::Found(address(number, 0)));
    }
}

fn insert_many(index: &impl Index, seed: u64) {
    (1_000 * seed..1_000 * seed + 100).for_each(|number| insert(index, number));
}

fn a_scan_misses_nothing_while_entries_go<I: Subject>() {
    for start in [100, 1000, 20_000] {
        let index = I::with_buckets(1);
        (1..=start).for_each(|number| insert(&index, number));
        // Every tenth stays; the others go while the scan is on its way, and some come back.
        let mut next = 0;
        let mut seen: Vec<u64> = scan_all(&index, || {
            for _ in 0..7 {
                next += 1;
                if next <= start && !next.is_multiple_of(10) {
                    assert!(index.remove(&key(next), address(next, 0)));
                }
            }
            if next.is_multiple_of(1 << 12) && next < start {
                (1..next)
                    .filter(|number| !number.is_multiple_of(10))
                    .for_each(|number| insert(&index, number));
                next = 0;
            }
        })
        .into_iter()
        .map(owner)
        .collect();
        seen.sort_unstable();
        assert!(
            (1..=start / 10).all(|number| seen.binary_search(&(10 * number)).is_ok()),
            "{start}: a key was missed"
        );
    }
}

fn a_table_empties_and_fills_again<I: Subject>() {
    const ENTRIES: u64 = 60_000;
    let index = I::with_buckets(1);
    let mut bytes = Vec::new();
    for _ in 0..3 {
        (1..=ENTRIES).for_each(|number| insert(&index, number));
        bytes.push(index.memory_bytes());
        for number in 1..=ENTRIES {
            assert!(index.remove(&key(number), address(number, 0)));
            let (gone, left) = (number / 2 + 1, number + (ENTRIES - number) / 2 + 1);
            assert_eq!(index.get(&key(gone), is(gone)), Lookup::Absent);
            if left <= ENTRIES {
                assert_eq!(index.get(&key(left), is(left)), Lookup::Found(address(left, 0)));
            }
        }
        assert!(index.is_empty() && scan_all(&index, || {}).is_empty());
    }
    assert!(bytes[2] <= bytes[0] + bytes[0] / 50, "memory is used again: {bytes:?}");
}
