//! What threads may see of each other.

use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::each;
use crate::keys::{address, hash, is, key, numbered, owner, version};
use terrace_index::catalogue::Visitor;
use terrace_index::{Change, Direction, Index, Lookup, Verdict};

/// Says that its owner has ended, or panicked.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn set<I: Index>(index: &I, number: usize, version: u64) -> Lookup {
    let bytes = numbered(number as u64);
    index.update(&key(0, &bytes), is(number), |found| (Change::Set(address(number, version)), found))
}

fn remove<I: Index>(index: &I, number: usize) {
    let bytes = numbered(number as u64);
    index.update(&key(0, &bytes), is(number), |found| {
        assert!(matches!(found, Lookup::Found(_)), "key {number}: {found:?}");
        (Change::Remove, ())
    });
}

fn get<I: Index>(index: &I, number: usize) -> Lookup {
    index.get(&key(0, &numbered(number as u64)), is(number))
}

/// Two threads count in one key while each makes the index grow.
pub fn count_up<I: Index>(index: &I) {
    const ROUNDS: usize = 10_000;
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    assert_eq!(set(index, 1 + thread * ROUNDS + round, 0), Lookup::Absent);
                    let bytes = numbered(0);
                    index.update(&key(0, &bytes), is(0), |found| match found {
                        Lookup::Absent => (Change::Set(address(0, 1)), ()),
                        Lookup::Found(old) => (Change::Set(address(0, version(old) + 1)), ()),
                        Lookup::Unread(_) => panic!("nothing needs a read"),
                    });
                }
            });
        }
    });
    assert_eq!(get(index, 0), Lookup::Found(address(0, 2 * ROUNDS as u64)));
    assert_eq!(index.len(), 2 * ROUNDS as u64 + 1);
}

/// What stays is found by every get, range, scan and visit, however much comes, goes and changes around it.
pub fn keep_in_sight<I: Index>(index: &I) {
    const STAY: usize = 600;
    const ROUNDS: u64 = 40;
    (0..STAY).for_each(|number| assert_eq!(set(index, number, 0), Lookup::Absent));
    let mut order: Vec<usize> = (0..STAY).collect();
    order.sort_by_key(|&number| numbered(number as u64));
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _done = Done(done);
            for round in 1..=ROUNDS {
                // Some come and go, others come to stay, so that the index grows.
                for number in STAY..2 * STAY {
                    set(index, number, round);
                }
                for number in 0..STAY {
                    match (number as u64 + round) % 3 {
                        0 => assert!(matches!(set(index, number, round), Lookup::Found(_))),
                        1 => swing(index, number, round),
                        _ => {}
                    }
                }
                (STAY..2 * STAY).for_each(|number| remove(index, number));
                for number in 0..STAY {
                    set(index, 2 * STAY + round as usize * STAY + number, 0);
                }
            }
        });
        let mut versions = vec![0; STAY];
        loop {
            let last = done.load(Ordering::Acquire);
            for (number, version_seen) in versions.iter_mut().enumerate() {
                let Lookup::Found(found) = get(index, number) else {
                    panic!("key {number} was always there")
                };
                assert!(version(found) >= *version_seen, "key {number} went back in time");
                *version_seen = version(found);
            }
            see_all(index, &order);
            if last {
                break;
            }
        }
    });
}

fn swing<I: Index>(index: &I, number: usize, round: u64) {
    let Lookup::Found(from) = get(index, number) else { panic!("key {number} was always there") };
    assert!(index.replace(&key(0, &numbered(number as u64)), from, address(number, round)));
}

fn see_all<I: Index>(index: &I, order: &[usize]) {
    let all = |mut seen: Vec<usize>, how: &str| {
        seen.sort_unstable();
        seen.dedup();
        let missed: Vec<_> = (0..order.len()).filter(|number| seen.binary_search(number).is_err()).collect();
        assert!(missed.is_empty(), "{how} missed {missed:?}");
    };
    let mut seen = Vec::new();
    index.for_each(&mut |address| seen.push(owner(address)));
    all(seen, "for_each");
    let (mut cursor, mut seen) = (0, Vec::new());
    while let Some(next) = index.scan(cursor, &mut seen) {
        cursor = next;
        if cursor == 0 {
            all(seen.into_iter().map(owner).collect(), "scan");
            break;
        }
    }
    let Some(ordered) = index.ordered() else { return };
    for direction in [Direction::Forward, Direction::Backward] {
        let mut seen = Vec::new();
        ordered.range(0, Bound::Unbounded, direction, &mut |bytes, address| {
            assert_eq!(bytes, numbered(owner(address) as u64));
            seen.push(owner(address));
            ControlFlow::Continue(())
        });
        if direction == Direction::Backward {
            seen.reverse();
        }
        let names: Vec<_> = seen.iter().map(|&number| numbered(number as u64)).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{direction:?}: in order, none twice");
        seen.retain(|&number| number < order.len());
        assert_eq!(seen, order, "{direction:?}: what stays, once each");
    }
}

/// Five keys swing together; whoever sees one in a version never sees another in an older one afterwards.
pub fn change_together<I: Index>(index: &I) {
    const ROUNDS: u64 = 5_000;
    let names: Vec<_> = (0..5).map(numbered).collect();
    let keys: Vec<_> = names.iter().map(|bytes| key(0, bytes)).collect();
    let swing = |to: u64| {
        index.update_many(
            &keys,
            |i, address| is(i)(address),
            |lookups, changes| {
                for (i, lookup) in lookups.iter().enumerate() {
                    assert_eq!(*lookup == Lookup::Absent, to == 0);
                    changes[i] = Change::Set(address(i, to));
                }
            },
        );
    };
    swing(0);
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swing = &swing;
        scope.spawn(move || {
            let _done = Done(done);
            for round in 1..=ROUNDS {
                swing(round);
                set(index, 10 + round as usize, 0);
            }
        });
        let read = |number| match get(index, number) {
            Lookup::Found(found) => version(found),
            other => panic!("key {number}: {other:?}"),
        };
        for order in 0.. {
            let last = done.load(Ordering::Acquire);
            let (first, second) = (order % 5, (order / 5 + 1 + order) % 5);
            let (before, after) = (read(first), read(second));
            assert!(after >= before, "key {first} was at {before}, then key {second} at {after}");
            if last {
                break;
            }
        }
    });
    assert_eq!(index.len(), ROUNDS + 5);
}

/// Steps over overlapping sets of keys, in any order, end and lose nothing.
pub fn overlap<I: Index>(index: &I) {
    let total = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            scope.spawn(move || {
                for round in 0..2_000u64 {
                    let mix = |i: u64| hash(0, &(round * 31 + thread * 7 + i).to_le_bytes());
                    let mut numbers: Vec<usize> = (0..4).map(|i| (mix(i) % 16) as usize).collect();
                    numbers.sort_unstable_by_key(|&number| hash(thread as u8, &number.to_le_bytes()));
                    numbers.dedup();
                    let names: Vec<_> = numbers.iter().map(|&number| numbered(number as u64)).collect();
                    let keys: Vec<_> = names.iter().map(|bytes| key(0, bytes)).collect();
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
    let sum: u64 = (0..16).map(|n| if let Lookup::Found(a) = get(index, n) { version(a) } else { 0 }).sum();
    assert_eq!(sum, total.load(Ordering::Relaxed), "no increment was lost");
}

/// A panic in `verify` or `decide` unlocks with nothing changed.
pub fn panic_inside<I: Index>(index: &I) {
    set(index, 0, 0);
    let names = [numbered(0), numbered(1)];
    let keys = [key(0, &names[0]), key(0, &names[1])];
    let verify = |i: usize, address| is(i)(address);
    let attempts: [(&str, &dyn Fn()); 5] = [
        ("decide", &|| index.update(&keys[0], is(0), |_| panic!("decide"))),
        ("verify", &|| index.update(&keys[0], |_| panic!("verify"), |_| (Change::Keep, ()))),
        ("remove of nothing", &|| index.update(&keys[1], is(1), |_| (Change::Remove, ()))),
        ("decide of many", &|| index.update_many(&keys, verify, |_, _| panic!("decide"))),
        ("remove of nothing of many", &|| {
            index.update_many(&keys, verify, |_, changes| changes.fill(Change::Remove));
        }),
    ];
    for (i, (name, attempt)) in attempts.into_iter().enumerate() {
        assert!(catch_unwind(AssertUnwindSafe(attempt)).is_err(), "{name} panics");
        assert_eq!(get(index, 0), Lookup::Found(address(0, i as u64)), "{name}: nothing changed");
        set(index, 0, i as u64 + 1);
    }
    assert_eq!(index.len(), 1);
    // A record that is another's (damaged, say) counts as absent, and what is set is found.
    let found = index.update(&keys[0], |_| Verdict::Differs, |l| (Change::Set(address(0, 9)), l));
    assert_eq!(found, Lookup::Absent);
    let only_new = |a| if version(a) == 9 { Verdict::Match } else { Verdict::Differs };
    assert_eq!(index.get(&keys[0], only_new), Lookup::Found(address(0, 9)));
    assert_eq!(index.get(&keys[0], |_| Verdict::Differs), Lookup::Absent);
}

macro_rules! every_index {
    ($($test:ident, $visitor:ident, $run:ident;)*) => {$(
        #[derive(Clone)]
        struct $visitor;
        impl Visitor for $visitor {
            type Out = ();
            fn visit<I: Index>(self, new: fn(u64) -> I) {
                $run(&new(0));
            }
        }
        #[test]
        fn $test() {
            each($visitor);
        }
    )*};
}

every_index! {
    updates_of_a_key_exclude_each_other, CountUp, count_up;
    what_stays_is_always_seen, KeepInSight, keep_in_sight;
    several_keys_change_as_one, ChangeTogether, change_together;
    overlapping_sets_of_keys_do_not_deadlock, Overlap, overlap;
    a_panic_releases_the_locks, PanicInside, panic_inside;
}
