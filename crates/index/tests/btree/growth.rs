//! Growth and shrinking: bytes an entry, memory given back, every order in which keys may come.

use std::ops::Bound;

use crate::common::{collect, get, mix, scan, set};
use terrace_index::{Address, BTree, Change, Direction, Index, Lookup, Verdict};

fn address(number: u64) -> Address {
    Address::new(number + 1)
}

#[test]
fn a_million_random_keys_take_few_bytes_and_give_their_nodes_back() {
    const ENTRIES: u64 = 1_000_000;
    let tree = BTree::new();
    let before = tree.nodes();
    for number in 0..ENTRIES {
        set(&tree, &mix(number).to_be_bytes(), address(number));
    }
    assert_eq!(tree.len(), ENTRIES);
    for number in 0..ENTRIES {
        assert_eq!(get(&tree, &mix(number).to_be_bytes()), Lookup::Found(address(number)));
        assert_eq!(get(&tree, &mix(number + ENTRIES).to_be_bytes()), Lookup::Absent);
    }
    let bytes = (tree.nodes() * 1024) as f64 / ENTRIES as f64;
    println!("{bytes:.2} bytes an entry in nodes, {} in all", tree.memory_bytes());
    assert!(bytes <= 24.0, "{bytes}");
    assert!(
        tree.memory_bytes() >= tree.nodes() * 1024 && tree.memory_bytes() < tree.nodes() * 1024 + (3 << 20)
    );

    let full = tree.nodes();
    for number in 0..ENTRIES {
        let key = mix(number).to_be_bytes();
        assert!(tree.remove(&crate::common::key(0, &key), address(number)));
        if number == ENTRIES * 9 / 10 {
            assert!(tree.nodes() < full / 3, "{} of {full} nodes hold a tenth", tree.nodes());
        }
    }
    assert!(tree.is_empty());
    assert!(tree.nodes() < before + 64, "{} nodes hold nothing", tree.nodes());
}

#[test]
fn a_leaf_finds_its_entries_however_full_it_is() {
    let tree = BTree::new();
    let key = |number: u64| (1 << 48 | number).to_be_bytes()[1..].to_vec();
    // Addresses that look like heads smaller than these.
    let address = |number: u64| Address::new((number + 1) << 20);
    let nodes = tree.nodes();
    let mut count = 0;
    while tree.nodes() == nodes {
        set(&tree, &key(count), address(count));
        count += 1;
        for number in 0..count {
            assert_eq!(get(&tree, &key(number)), Lookup::Found(address(number)), "one of {count}");
        }
        assert_eq!(get(&tree, &key(count)), Lookup::Absent);
    }
    assert!(count > 60, "{count} entries split a leaf");
}

#[test]
fn ascending_keys_fill_their_leaves() {
    const ENTRIES: u64 = 200_000;
    let tree = BTree::new();
    for number in 0..ENTRIES {
        set(&tree, &number.to_be_bytes(), address(number));
    }
    let bytes = (tree.nodes() * 1024) as f64 / ENTRIES as f64;
    assert!(bytes <= 17.0, "{bytes}");
    let seen = collect(&tree, 0, Bound::Unbounded, Direction::Forward);
    assert!(seen.iter().map(|(_, address)| address.raw() - 1).eq(0..ENTRIES));
    let seen = collect(&tree, 0, Bound::Unbounded, Direction::Backward);
    assert!(seen.iter().map(|(_, address)| address.raw() - 1).eq((0..ENTRIES).rev()));
}

#[test]
fn keys_of_24_bytes() {
    const ENTRIES: u64 = 200_000;
    let tree = BTree::new();
    let key = |number: u64| format!("user{:020}", mix(number));
    for number in 0..ENTRIES {
        set(&tree, key(number).as_bytes(), address(number));
    }
    for number in 0..ENTRIES {
        assert_eq!(get(&tree, key(number).as_bytes()), Lookup::Found(address(number)));
    }
    let mut expected: Vec<(String, u64)> = (0..ENTRIES).map(|number| (key(number), number)).collect();
    expected.sort_unstable();
    assert!(scan(&tree).into_iter().eq(expected.iter().map(|&(_, number)| address(number))));
    println!("{:.2} bytes an entry in nodes", (tree.nodes() * 1024) as f64 / ENTRIES as f64);
}

#[test]
fn keys_that_end_alike_take_no_more_than_short_ones() {
    const ENTRIES: u64 = 200_000;
    let tree = BTree::new();
    let key = |number: u64| [&mix(number).to_be_bytes()[..], b":of-one-kind-all"].concat();
    for number in 0..ENTRIES {
        set(&tree, &key(number), address(number));
    }
    let bytes = (tree.nodes() * 1024) as f64 / ENTRIES as f64;
    assert!(bytes <= 24.0, "{bytes}");
    let mut expected: Vec<(Vec<u8>, Address)> = (0..ENTRIES).map(|n| (key(n), address(n))).collect();
    for (bytes, address) in &expected {
        assert_eq!(get(&tree, bytes), Lookup::Found(*address));
        for other in [&bytes[..8], &bytes[..23], &[bytes, &b"."[..]].concat()] {
            assert_eq!(get(&tree, other), Lookup::Absent);
        }
        assert_eq!(get(&tree, &[&bytes[..22], &b"am"[..]].concat()), Lookup::Absent);
    }
    expected.sort_unstable();
    assert!(collect(&tree, 0, Bound::Unbounded, Direction::Forward) == expected);
    expected.reverse();
    assert!(collect(&tree, 0, Bound::Unbounded, Direction::Backward) == expected);
}

#[test]
fn a_panic_in_decide_changes_nothing() {
    let tree = BTree::new();
    for number in 0..200u64 {
        set(&tree, &number.to_be_bytes(), address(number));
    }
    for number in [7u64, 1000] {
        let before = get(&tree, &number.to_be_bytes());
        let update = || {
            let key = number.to_be_bytes();
            tree.update(
                &crate::common::key(0, &key),
                |_| Verdict::Match,
                |_| -> (Change, ()) { panic!("planned") },
            );
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(update)).is_err());
        let many = || {
            let key = number.to_be_bytes();
            tree.update_many(
                &[crate::common::key(0, &key)],
                |_, _| Verdict::Match,
                |_, changes| {
                    changes[0] = Change::Set(Address::new(5));
                    panic!("planned")
                },
            );
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(many)).is_err());
        assert_eq!(get(&tree, &number.to_be_bytes()), before);
        assert_eq!(tree.len(), 200);
        set(&tree, &number.to_be_bytes(), address(number));
        assert_eq!(get(&tree, &number.to_be_bytes()), Lookup::Found(address(number)), "nothing stays locked");
        tree.remove(&crate::common::key(0, &1000u64.to_be_bytes()), address(1000));
    }
}

#[test]
fn a_cursor_may_be_used_twice_and_a_strange_one_starts_over() {
    let tree = BTree::new();
    for number in 0..1000u64 {
        set(&tree, &number.to_be_bytes(), address(number));
    }
    let (mut first, mut again, mut other) = (Vec::new(), Vec::new(), Vec::new());
    let cursor = tree.scan(0, &mut first).unwrap();
    assert!(cursor != 0 && first[0] == address(0));
    first.clear();
    assert!(tree.scan(cursor, &mut first).is_some_and(|next| next != cursor));
    tree.scan(cursor, &mut again);
    assert_eq!(first, again);
    tree.scan(1 << 60, &mut other);
    assert_eq!(other[0], address(0));
}

#[test]
fn a_key_of_another_end_splits_a_leaf_of_keys_that_end_alike_as_often_as_needed() {
    // After what all share, keys of up to 48 bytes have all of it in the leaf: in a plain leaf once, in another one each.
    for length in [16, 24, 40, 45, 48] {
        let key = |number: u64, end: &[u8]| {
            [&mix(number).to_be_bytes()[..], &vec![b'.'; length - 8 - end.len()], end].concat()
        };
        for count in 1..160 {
            let tree = BTree::new();
            for number in 0..count {
                set(&tree, &key(number, b""), address(number));
            }
            set(&tree, &key(1000 + count, b"other"), address(1000));
            assert_eq!(get(&tree, &key(1000 + count, b"other")), Lookup::Found(address(1000)));
            for number in 0..count {
                assert_eq!(get(&tree, &key(number, b"")), Lookup::Found(address(number)), "{length} {count}");
            }
        }
    }
}
